"""What a loss record says of itself."""

import math

import pytest

from daskglm.core.facts import DataSummary
from daskglm.losses.base import OUTSIDE, Loss
from daskglm.losses.table import LOSSES


def row(y, z, p1, p2):
    return 0.5 * (z - y) ** 2, z - y, 1.0


def test_a_loss_from_outside_has_neither_a_dual_nor_cuda_code():
    loss = Loss("outside", row, classifies=False, smoothness=1.0)
    assert loss.code == OUTSIDE
    assert not loss.has_dual
    assert not loss.runs_on_gpu
    with pytest.raises(ValueError, match="best constant of the loss 'outside' is not known"):
        loss.best_constant(1.0, 1.0)


@pytest.mark.parametrize(
    ("name", "span"), [("squared_hinge", 1.0), ("hinge", 1.0), ("logistic", math.log(3.0))]
)
def test_how_far_the_intercept_of_classes_can_lie(name, span):
    assert LOSSES[name].intercept_span(3.0, 1.0, 0.0) == pytest.approx(span)


def test_how_far_the_intercept_of_a_regression_can_lie():
    assert LOSSES["squared"].intercept_span(3.0, 0.0, 7.5) == 7.5


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.classifies])
def test_the_best_constant_is_the_least_of_its_neighbours(name):
    loss = LOSSES[name]

    def value(z):
        return sum(
            weight * loss.row(y, z, loss.p1, loss.p2)[0] for y, weight in ((1.0, 3.0), (-1.0, 2.0))
        )

    best = loss.best_constant(3.0, 2.0)
    assert all(value(best) <= value(best + step) + 1e-12 for step in (-0.1, -1e-3, 1e-3, 0.1))


def test_classifiers_want_two_classes():
    one = DataSummary(classes=(("yes", 5, 5.0),))
    with pytest.raises(ValueError, match="all rows have one class, 'yes'"):
        LOSSES["logistic"].check_targets(one)
    LOSSES["squared"].check_targets(one)
