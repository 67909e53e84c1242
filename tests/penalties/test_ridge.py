"""The squared penalty against its definition, with a strength for all features and one for each."""

import numpy as np
import pytest
import scipy.optimize

from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.penalty import Penalty
from daskglm.penalties.ridge import Ridge
from tests.conftest import make_problem

STRENGTHS = [1.0, 0.0, 2.5, np.array([1.0, 0.5, 3.0, 0.25])]


def direct(penalty, w):
    return 0.5 * float((np.broadcast_to(penalty.strength, 4) * w[:4] ** 2).sum())


@pytest.mark.parametrize("strength", STRENGTHS, ids=str)
@pytest.mark.parametrize("size", [4, 5])
def test_value_and_derivatives(strength, size):
    rng = np.random.default_rng(0)
    penalty, w, v = Ridge(4, strength), rng.standard_normal(size), rng.standard_normal(size)
    assert penalty.value(w) == pytest.approx(direct(penalty, w), rel=1e-14)
    gradient = scipy.optimize.approx_fprime(w, lambda at: direct(penalty, at), 1e-6)
    np.testing.assert_allclose(penalty.gradient(w), gradient, atol=1e-5)
    np.testing.assert_allclose(penalty.hessian_vector(v), penalty.diagonal(size) * v)
    assert size == 4 or penalty.gradient(w)[4] == penalty.diagonal(size)[4] == 0.0
    distance = float((w[:4] ** 2).sum())
    assert penalty.value(w) >= 0.5 * penalty.strong_convexity * distance * (1 - 1e-14)
    assert penalty.value(w) <= 0.5 * penalty.largest * distance * (1 + 1e-14)


@pytest.mark.parametrize("strength", [-1.0, np.inf, np.nan, np.ones(3), np.array([1.0, -1, 1, 1])])
def test_a_strength_that_makes_no_penalty_is_refused(strength):
    with pytest.raises(ValueError, match="strength"):
        Ridge(4, strength)


@pytest.mark.parametrize("strength", STRENGTHS[2:], ids=str)
@pytest.mark.parametrize("intercept", [False, True])
def test_an_objective_with_it_has_true_derivatives_and_bounds(strength, intercept):
    X, y = make_problem(300, 4)
    loss, size = LOSSES["logistic"], 4 + intercept
    engine = Local([to_block(X, y, place=Place(), classify=True)], 1)
    penalty, rng = Ridge(4, strength), np.random.default_rng(3)
    whole = Penalty(penalty, Kinks.nothing(size))
    intercept_radius = loss.largest_intercept_radius(1.0, 1.0, 1.0)
    objective = Objective(
        *(engine, Problem(loss.ref, 1.0), loss),
        **dict(C=0.3, fit_intercept=intercept, intercept_radius=intercept_radius, penalty=whole),
    )

    def f(w):
        z = y * (X @ w[:4] + (w[4] if intercept else 0.0))
        return 0.3 * np.logaddexp(0, -z).sum() + direct(penalty, w)

    w, v = rng.standard_normal(size), rng.standard_normal(size)
    point = objective.at(w, gram=True, diagonal=True)
    assert point.value == pytest.approx(f(w), rel=1e-12)
    np.testing.assert_allclose(point.gradient, scipy.optimize.approx_fprime(w, f, 1e-6), atol=1e-3)
    np.testing.assert_allclose(point.hessian_vector(v), point.hessian @ v, rtol=1e-9)
    np.testing.assert_allclose(point.diagonal, np.diag(point.hessian), rtol=1e-9)
    np.testing.assert_allclose(
        objective.between(point, objective.at(v), np.array([0.25])), f(0.75 * w + 0.25 * v)
    )
    best = scipy.optimize.minimize(f, np.zeros(size), method="BFGS", options={"gtol": 1e-7})
    for shrink in (1.0, 0.1, 1e-3):
        near = objective.at(best.x + shrink * w)
        assert objective.bounds.of(near) >= (near.value - best.fun) * (1 - 1e-6)
        assert near.relative_gap >= (near.value - best.fun) / best.fun * (1 - 1e-6)
    engine.close()
