"""Summaries of two sets of rows merge into that of both."""

from functools import reduce
from itertools import permutations

from daskglm.core.facts import DataSummary

PARTS = (
    DataSummary(
        10,
        3,
        12.0,
        2.0,
        20.0,
        5.0,
        30,
        240,
        classes=(("a", 4, 5.0), ("b", 6, 7.0)),
        order=2**64 - 1,
        row_products=6.0,
        n_used=8,
        target_squares=3.0,
    ),
    DataSummary(5, 3, 5.0, 9.0, 90.0, 1.0, 6, 80, sparse=True, classes=(("b", 5, 5.0),), order=3),
    DataSummary(),
)


def test_counts_add_up_and_the_largest_are_kept():
    both = PARTS[0].merge(PARTS[1])
    assert (both.n_rows, both.weight, both.nonzeros, both.nbytes) == (15, 17.0, 36, 320)
    assert (both.largest_row_norm, both.squared_norms, both.largest_target) == (9.0, 110.0, 5.0)
    assert both.sparse
    assert both.order == 2
    assert both.row_products == 6.0
    assert (both.n_used, both.target_squares) == (8, 3.0)
    assert both.per_row == 36 / 15


def test_rows_and_weights_of_classes():
    assert PARTS[0].merge(PARTS[1]).classes == (("a", 4, 5.0), ("b", 11, 12.0))


def test_the_order_of_merging_does_not_matter():
    merged = [reduce(DataSummary.merge, order) for order in permutations(PARTS)]
    assert len({(each.n_rows, each.order, frozenset(each.classes)) for each in merged}) == 1
    assert all(each.n_features == 3 for each in merged)


def test_no_rows():
    assert DataSummary().per_row == 0.0
