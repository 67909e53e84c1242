"""What constants add to bounds, where the answer is known."""

import math

import numpy as np
import pytest

from daskglm.certificates.ball import Ball
from daskglm.certificates.constants import Intercept, Intercepts, Thresholds, contrasts
from daskglm.certificates.hessian_factor import GradientError
from daskglm.certificates.rounding import EXACT, Rounding
from daskglm.core.facts import DataSummary
from daskglm.losses.ordinal import LOSS
from daskglm.losses.table import find

FACTS = DataSummary(n_rows=10, n_features=2, weight=10.0, largest_row_norm=3.0, target_sum=5.0)
W, G = np.array([0.3, -0.4, 0.2]), np.array([0.5, 1.2, -0.1])
ERROR = GradientError(0.0, 0.01, 0.02, 0.0)


def made(*, fit_intercept):
    return Rounding(
        FACTS, find("logistic"), Intercept.of(fit_intercept=fit_intercept), on_device=False
    )


def test_without_an_intercept_nothing_is_added():
    rounding = made(fit_intercept=False)
    features = rounding.features(G[:2], ERROR)
    assert rounding.steepest(G[:2], ERROR) == features
    assert rounding.convex(W[:2], G[:2], 7.0, ERROR, math.inf) == 0.5 * features**2


def test_an_intercept_whose_best_value_may_be_anywhere_has_no_bound_but_by_nearness():
    rounding, zero = made(fit_intercept=True), np.zeros(3)
    assert rounding.cost(W, zero[2:], 0.1, rounding.ball, math.inf) == (math.inf, 0.0)
    assert rounding.convex(W, zero, 7.0, ERROR, math.inf) == math.inf
    # where there is no slope, it is the best one
    assert rounding.convex(W, np.append(G[:2], 0.0), 7.0, EXACT, math.inf) == pytest.approx(0.845)
    assert rounding.convex(W, zero, 7.0, ERROR, math.inf, near=1e-3) < 0.1


def test_an_intercept_and_one_threshold_have_the_same_bounds():
    """A threshold is an intercept with the other sign, and a fit without features has it at zero."""
    one = made(fit_intercept=True)
    constants = Thresholds.of(np.ones(2), LOSS, 1.0, 0.0)
    ordered = Rounding(FACTS, LOSS, constants, on_device=False)
    sign = np.array([1.0, 1.0, -1.0])
    for ball in (one.ball, Ball(np.array([0.7, -0.2]), 2.5)):
        one.ball = ordered.ball = ball
        found = [
            each.convex(s * W, s * G, 0.4, ERROR, 0.0)
            for each, s in ((one, np.ones(3)), (ordered, sign))
        ]
        assert found[0] == pytest.approx(found[1], rel=1e-14)


def test_classes_without_weight_have_no_best_intercept():
    how = {"fit_intercept": True, "mass": 10.0, "offset": 0.0, "own_offsets": False}
    constants = Intercepts.of(contrasts(3), np.array([5.0, 5.0, 0.0]), **how)
    rounding = Rounding(FACTS, find("multinomial"), constants, on_device=False)
    assert rounding.n_features == 4
    w, g = np.full(6, 0.1), np.full(6, 0.2)
    assert rounding.steepest(g, ERROR) == math.inf
    assert rounding.convex(w, g, 7.0, ERROR, 0.0) == math.inf
