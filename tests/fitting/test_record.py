"""The record of a fit: which rows it tells apart, and what it keeps of the settings."""

import math

import numpy as np
import pytest

from daskglm.core.facts import DataSummary
from daskglm.data.partitions import partitions
from daskglm.fitting.config import FitConfig
from daskglm.fitting.record import AVERAGED, RELAXED, RowsMark, record_of, several
from daskglm.penalties.config import PenaltyConfig

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((50, 2)), RNG.poisson(3.0, 50).astype(float)
WEIGHT, OFFSET = RNG.uniform(0.5, 2.0, 50), RNG.standard_normal(50)


def mark(y=Y, weight=None, offset=None, rows=X, *, classify=False):
    data = partitions(rows, y, weight, classify=classify, offset=offset)
    (block,) = data.load()
    return RowsMark.of(block.facts)


def test_rows_are_the_same_whatever_their_order_features_and_float_type():
    order = RNG.permutation(50)
    here = mark(Y, WEIGHT, OFFSET)
    assert not here.difference(mark(Y[order], WEIGHT[order], OFFSET[order], X[order, :1]))
    scaled = 0.1 * Y
    assert not mark(scaled).difference(mark(scaled.astype(np.float32)))
    assert not mark().difference(mark(weight=np.ones(50)))


def test_rows_of_weight_zero_do_not_count():
    weight = np.where(np.arange(50) < 10, 0.0, WEIGHT)
    assert not mark(Y, weight, OFFSET).difference(mark(Y[10:], WEIGHT[10:], OFFSET[10:], X[10:]))
    labels = Y > 3
    here = mark(labels, weight, classify=True)
    assert not here.difference(mark(labels[10:], WEIGHT[10:], rows=X[10:], classify=True))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: mark(Y[1:], rows=X[1:]), "50 rows of weight above zero and 49"),
        (lambda: mark(weight=2 * np.ones(50)), "sum of the weights 50 and 100"),
        (lambda: mark(Y + 1.0), "sum of the targets"),
        (lambda: mark(np.full(50, Y.mean())), "sum of the squared targets"),
        (lambda: mark(offset=OFFSET), "sum of the offsets"),
        (lambda: mark(Y > 3, classify=True), "sum of the targets|classes"),
    ],
)
def test_other_rows_are_told_in_words(other, words):
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(mark().difference(other()))


def test_other_classes_and_their_weights():
    a, b = mark(Y > 3, classify=True), mark(Y > 2, classify=True)
    assert "weight of the class" in a.difference(b)
    assert a.difference(mark(np.where(Y > 3, "x", "y"), classify=True)) == "other classes"


def test_a_record_is_a_problem_that_can_be_stated_again():
    given = FitConfig("multinomial", C=2.0, average=True, class_weight={1: 2.0}, tol=1e-3)
    facts = DataSummary(n_rows=4, n_used=4, weight=4.0, classes=((0, 2, 2.0), (1, 2, 2.0)))
    record = record_of(given, facts)
    assert record.loss == "logistic"  # of two classes
    again = record.settings(out_of_core=True)
    assert (again.C, again.average, again.class_weight) == (2.0, True, {1: 2.0})
    assert again.out_of_core
    given.class_weight[1] = 5.0
    assert record.class_weight == {1: 2.0}


def test_what_is_penalised():
    plain = record_of(FitConfig("squared", C=math.inf), DataSummary())
    assert not plain.is_penalised
    assert plain.chosen(1.0, 0.0).is_penalised
    assert plain.chosen(math.inf, 0.0, relaxed=True).kind == RELAXED
    assert plain.chosen(math.inf, 0.0, averaged=True).kind == AVERAGED
    assert plain.chosen(math.inf, 0.0, averaged=True).is_penalised
    bounds = PenaltyConfig(lower_bounds=0.0)
    assert record_of(FitConfig("squared", C=math.inf, penalty=bounds), DataSummary()).is_penalised
    assert several([plain]) is plain
    assert several([plain, plain]).parts == (plain, plain)


def test_classes_of_rows_without_weight_are_none():
    given = {"n_rows": 4, "n_used": 4, "weight": 4.0}
    two = RowsMark.of(DataSummary(**given, classes=((0, 2, 2.0), (1, 2, 2.0))))
    three = RowsMark.of(DataSummary(**given, classes=((0, 2, 2.0), (1, 2, 2.0), (2, 1, 0.0))))
    assert three == two
    assert three.difference(two) == ""
