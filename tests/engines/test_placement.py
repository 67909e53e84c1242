"""Partitions are divided among workers in proportion to their threads."""

import numpy as np
import pytest

from daskglm.data.blocks import Place, to_block
from daskglm.engines.placement import DataLost, assign, check_same_rows, plan_moves


def test_neighbours_go_to_one_worker_in_proportion_to_its_threads():
    parts = list("abcdefgh")
    assert assign(parts, {"one": 1, "two": 3}) == {"one": ["a", "b"], "two": list("cdefgh")}


@pytest.mark.parametrize("count", [0, 1, 3, 10, 101])
@pytest.mark.parametrize("threads", [{"a": 1}, {"a": 1, "b": 7, "c": 2}, {"a": 4, "b": 4}])
def test_every_part_is_assigned_once(count, threads):
    assigned = assign(range(count), threads)
    assert list(assigned) == list(threads)
    assert [part for own in assigned.values() for part in own] == list(range(count))


def test_workers_without_partitions_get_some():
    held = {"old": [f"p{k}" for k in range(8)]}
    moves = plan_moves(held, {"old": 2, "new": 2})
    assert set(moves.values()) == {"new"}
    assert len(moves) == 4


def test_nothing_moves_where_all_have_something():
    held = {"a": ["p0", "p1", "p2"], "b": ["p3"]}
    assert plan_moves(held, {"a": 1, "b": 1}) == {}


def test_no_worker_gives_more_than_it_can_spare():
    held = {"a": ["p0", "p1"], "b": ["p2", "p3"]}
    moves = plan_moves(held, {"a": 1, "b": 1, "c": 2})
    assert sorted(moves) == ["p1", "p3"]
    assert set(moves.values()) == {"c"}


def test_rows_that_came_back_have_the_counts_and_the_norms_that_they_had():
    def facts(X, y):
        return to_block(X, y, place=Place(), classify=True).facts

    X, y = np.arange(1.0, 9.0).reshape(4, 2), np.array([0.0, 1.0, 1.0, 1.0])
    check_same_rows(facts(X, y), facts(X[::-1], y[::-1]), ordered=False)
    for other in (facts(X, 1.0 - y), facts(X + 0.01, y)):
        with pytest.raises(DataLost, match="came back with other rows"):
            check_same_rows(facts(X, y), other, ordered=False)
