"""One partition becomes a block: rows as floats, codes of labels, weights, and a summary."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daskglm.data.blocks import kind, merge, to_block, with_order, with_values
from daskglm.data.values import Place
from daskglm.kernels import Pattern
from daskglm.losses.family import Domain

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
Y = np.array(["b", "a", "b", "a"])


def block(rows=X, y=Y, weight=None, partition=0, classify=True):
    return to_block(rows, y, weight, place=Place(partition), classify=classify)


def test_labels_become_codes_of_sorted_labels():
    found = block()
    assert found.labels == ("a", "b")
    np.testing.assert_array_equal(found.y, [1, 0, 1, 0])
    assert found.facts.classes == (("a", 2, 2.0), ("b", 2, 2.0))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix, pd.DataFrame])
def test_the_summary_is_that_of_the_rows(storage):
    facts = block(storage(X), weight=[1.0, 2.0, 3.0, 0.0]).facts
    assert (facts.n_rows, facts.n_features, facts.weight) == (4, 3, 6.0)
    assert facts.largest_row_norm == 5.0
    assert facts.squared_norms == 55.0
    assert facts.nonzeros == (5 if facts.sparse else 12)
    assert facts.longest_row == (2 if facts.sparse else 3)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("n", [80, 1000])
def test_products_of_rows_tell_the_norm_of_the_mean_row(storage, n):
    rows = np.random.default_rng(0).normal(0.5, 1.0, (n, 40)) * (np.arange(n)[:, None] % 3 > 0)
    facts = block(storage(rows), np.arange(n) % 2).facts
    mean = rows.mean(axis=0)
    assert facts.row_products / n == pytest.approx(mean @ mean, rel=0.5 if n == 1000 else 0.2)
    if n == 80:  # all pairs
        pairs = (rows.sum(axis=0) ** 2).sum() - (rows**2).sum()
        assert facts.row_products == pytest.approx(pairs / (n - 1), rel=1e-12)


def test_products_of_rows_that_there_are_not_or_that_overflow():
    assert block(X[:1], Y[:1]).facts.row_products == 0.0
    assert block(np.array([[1.0], [-1.0]]), Y[:2]).facts.row_products == 0.0
    facts = block(np.full((100, 2), 1e152), np.resize(Y, 100)).facts
    assert facts.row_products > 0.0


@pytest.mark.parametrize(
    ("given", "kept"),
    [(np.float32, np.float32), (np.float64, np.float64), (np.int8, np.float32), (bool, np.float32)],
)
def test_floats_are_kept_and_other_numbers_become_floats(given, kept):
    assert block(X.astype(given)).X.dtype == kept


def test_float32_rows_whose_squares_would_overflow_are_kept_as_float64():
    assert block(X.astype(np.float32) * np.float32(1e18)).X.dtype == np.float64


def test_equal_values_are_stored_once():
    rows = sp.csr_matrix((X > 0) * 0.5)
    found = block(rows)
    assert isinstance(found.X, Pattern)
    assert (with_values(found.X) != rows).nnz == 0


def test_blocks_of_one_kind_are_merged():
    both = merge([block(), block(partition=1, weight=np.ones(4))])
    assert both.facts.n_rows == 8
    assert len(both.spans) == 2
    np.testing.assert_array_equal(both.X, np.concatenate([X, X]))
    assert kind(block()) == kind(block(partition=3)) != kind(block(sp.csr_matrix(X)))


def test_a_checksum_tells_another_order():
    one, two = with_order(block()), with_order(block(X[::-1], Y[::-1]))
    assert one.facts.order == with_order(block()).facts.order != two.facts.order


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": np.where(X == 3.0, np.nan, X)}, "X contains NaN.*row 1.*column 1"),
        ({"rows": sp.csr_matrix(np.where(X == 3.0, np.inf, X))}, "infinity.*row 1.*column 1"),
        ({"rows": X * 1e200}, "squares overflow float64"),
        ({"rows": X[0]}, "X has 1 dimension"),
        ({"y": Y[:3]}, "X has 4 rows but y has 3"),
        ({"weight": [1.0, -2.0, 1.0, 1.0]}, "row 1.*sample_weight is negative"),
        ({"weight": [1.0, np.nan, 1.0, 1.0]}, "sample_weight contains NaN.*row 1"),
        ({"y": [0.5, np.inf, 1.0, 2.0], "classify": False}, "y contains infinity"),
        ({"y": np.zeros((4, 2))}, "y should be a 1d array"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(changes, said):
    with pytest.raises(ValueError, match=said):
        block(**changes)


def test_no_rows():
    found = block(X[:0], Y[:0])
    assert (found.facts.n_rows, found.facts.n_features, found.facts.classes) == (0, 3, ())


# ---- offsets
def test_offsets_and_logarithms_of_exposures_add_up():
    offset, exposure = np.array([0.5, -1.0, 0.0, 2.0]), np.array([1.0, 2.0, 0.5, 4.0])

    def found(**beside):
        return to_block(X, np.arange(4.0), place=Place(), classify=False, **beside)

    np.testing.assert_array_equal(found(offset=offset).offset, offset)
    np.testing.assert_allclose(found(exposure=exposure).offset, np.log(exposure))
    both = found(offset=offset, exposure=exposure, weight=[1.0, 1.0, 2.0, 0.0])
    np.testing.assert_allclose(both.offset, offset + np.log(exposure))
    assert found().offset is None
    facts = both.facts
    assert facts.largest_offset == np.abs(both.offset).max()
    assert facts.target_sum == 0.0 + 1.0 + 2 * 2.0
    assert facts.offset_sum == pytest.approx(both.offset @ [1.0, 1.0, 2.0, 0.0])
    assert facts.exposure_sum == pytest.approx(np.exp(both.offset) @ [1.0, 1.0, 2.0, 0.0])
    used = both.offset[:3]  # the last row has no weight
    assert (facts.least_offset, facts.most_offset) == (used.min(), used.max())
    assert found().facts.largest_offset == found().facts.exposure_sum == 0.0
    # exponentials that overflow in rows without weight are no reason for a warning
    beyond = found(offset=np.full(4, 1e4), weight=[1.0, 1.0, 2.0, 0.0]).facts
    assert not np.isfinite(beyond.exposure_sum)
    # rows without weight do not count: a sum that is nan would differ from that of a second reading
    facts = [found(offset=[0.0, 800.0, 1.0, 2.0], weight=[1.0, 0.0, 1.0, 1.0]).facts for _ in "ab"]
    assert facts[0].exposure_sum == pytest.approx(np.exp([0.0, 1.0, 2.0]).sum())
    assert facts[0] == facts[1]


def test_offsets_are_merged_counted_and_part_of_the_checksum():
    def found(offset, partition=0):
        return to_block(X, np.arange(4.0), offset=offset, place=Place(partition), classify=False)

    one, other = found(np.arange(4.0)), found(np.arange(4.0, 8.0), partition=1)
    both = merge([one, other])
    np.testing.assert_array_equal(both.offset, np.arange(8.0))
    assert both.facts.largest_offset == both.facts.most_offset == 7.0
    assert both.facts.least_offset == 0.0
    assert both.facts.offset_sum == 28.0
    assert kind(one) == kind(other) != kind(found(None))
    assert merge([found(None), found(None, partition=1)]).offset is None
    checksums = {
        with_order(each).facts.order for each in (one, found(-np.arange(4.0)), found(None))
    }
    assert len(checksums) == 3


def test_empty_partitions_have_no_offsets_to_check():
    empty = to_block(
        X[:0], [], offset=[], exposure=[], place=Place(), classify=False, domain=Domain(0.0)
    )
    assert empty.facts.largest_offset == 0.0


def test_the_checksum_of_the_order_is_of_all_that_a_row_has():
    weight, offset = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.4])
    turned = [1, 0, 2, 3]

    def order(rows=X, y=Y, weight=weight, offset=offset):
        made = to_block(rows, y, weight, place=Place(0), classify=True)
        return with_order(made._replace(offset=offset)).facts.order

    known = order()
    assert order() == known
    assert order(rows=X[turned]) != known
    assert order(y=Y[turned]) != known
    assert order(weight=weight[turned]) != known
    assert order(offset=offset[turned]) != known
