"""Labels of clusters become codes, of any kind, and are never missing."""

import numpy as np
import pandas as pd
import pytest

from daskglm.core.view import Drawn
from daskglm.data.blocks import kind, merge, to_block, with_order
from daskglm.data.clusters import Clusters, clusters_of, joined
from daskglm.data.values import Place
from daskglm.worker.subsampling import draw


def labels(found):
    return found.labels[found.codes].tolist()


@pytest.mark.parametrize(
    "values",
    [
        np.array([5, 2, 5, 9]),
        np.array(["x", "y", "x", "x"]),
        np.array(["x", 1, "x", 2.5], object),
        np.array(["2026-01-01", "2026-01-02", "2026-01-01", "2026-01-01"], "M8[D]"),
        np.array([True, False, True, True]),
    ],
)
def test_codes_name_the_labels_of_the_rows(values):
    found = clusters_of(values, Place())
    assert labels(found) == values.tolist() or list(found.labels[found.codes]) == list(values)
    assert found.codes.dtype == np.int64
    assert len(set(found.labels)) == len(found.labels) == len(set(values.tolist()))


@pytest.mark.parametrize(
    "values",
    [np.array([1.0, np.nan]), np.array(["a", None], object), np.array(["a", pd.NA], object)],
)
def test_a_row_without_a_cluster_is_told(values):
    with pytest.raises(ValueError, match=r"clusters contains NaN or None: partition 3, row 1\b"):
        clusters_of(values, Place(3))


def test_labels_that_cannot_be_hashed_are_told():
    values = np.empty(2, object)
    values[:] = [[1], [2]]
    with pytest.raises(ValueError, match="partition 0, clusters has values that cannot be labels"):
        clusters_of(values, Place(0))


def test_joined_blocks_share_the_labels_that_both_have():
    a = clusters_of(np.array(["p", "q", "p"]), Place())
    b = clusters_of(np.array(["q", "r"]), Place())
    both = joined([a, b])
    assert labels(both) == ["p", "q", "p", "q", "r"]
    assert sorted(both.labels) == ["p", "q", "r"]
    assert joined([None, None]) is None


def block(first, clusters):
    X = np.arange(6.0).reshape(3, 2) + first
    return to_block(X, np.arange(3.0), clusters=clusters, place=Place(first), classify=False)


def test_blocks_carry_clusters_through_merges_samples_and_checksums():
    a, b = block(0, np.array([4, 4, 8])), block(1, np.array([8, 1, 1]))
    assert kind(a) == kind(b) != kind(block(2, None))
    assert labels(merge([a, b]).clusters) == [4, 4, 8, 8, 1, 1]
    assert labels(draw(a, Drawn(1.0, 0)).clusters) == [4, 4, 8]
    assert draw(block(2, None), Drawn(1.0, 0)).clusters is None
    assert with_order(a).clusters is a.clusters


def test_a_column_of_another_length_is_refused():
    with pytest.raises(ValueError, match="3 rows but clusters has 2"):
        block(0, np.array([1, 2]))


def test_rows_are_taken_with_all_labels():
    taken = Clusters(np.array([0, 1, 1]), np.array(["a", "b"])).take(np.array([2, 0]))
    assert labels(taken) == ["b", "a"]
