"""Points of least squares that are predicted by a Hessian: within their bounds of the truth."""

import copy

import numpy as np
import pytest

from daskglm.core import requests as core
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import find
from daskglm.objectives.primal import Objective
from daskglm.objectives.quadratic_model import LossSums, predicted
from daskglm.penalties.builtin import penalty_of
from daskglm.penalties.config import PenaltyConfig
from daskglm.penalties.descent import minimise
from daskglm.penalties.penalty import Penalty
from tests.covering import each_choice
from tests.oracle.problem import LONG, Reference

PENALTIES = [
    {"l1_ratio": 1.0},
    {"l1_ratio": 0.4},
    {"l1_ratio": 0.0},
    {"l1_ratio": 0.5, "lower_bounds": -0.1, "upper_bounds": 0.2},
    {"l1_ratio": 0.5, "groups": [0, 1, 0, 1, 2]},
    {"l1_ratio": 0.5, "P2": np.diag([1.0, 0.0, 2.0, 3.0, 0.0])},
]


def drawn(seed, *, dtype="float32", center=0.0, n=400):
    """Rows with noise of 1e-3 to 10 beside a signal of about 1, and a penalty."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5)) * 10.0 ** rng.uniform(-1, 1, 5)
    y = X @ (rng.standard_normal(5) / X.std(axis=0)) + 10.0 ** rng.uniform(
        -3, 1
    ) * rng.standard_normal(n)
    X = (X + center * rng.choice([-1.0, 1.0], 5)).astype(dtype)
    penalty = PenaltyConfig(**PENALTIES[seed % len(PENALTIES)])
    C = 10.0 ** rng.uniform(-3, 1)
    return X, y, C, penalty


def objective(X, y, C, penalty):
    loss = find("squared")
    engine = Local([to_block(X, y, place=Place(), classify=False)], 1)
    return Objective(
        engine, core.Problem(loss.ref), loss, C=C, fit_intercept=True,
        intercept_radius=loss.intercept_radius_of(engine.facts, len(y), 0.0),
        penalty=penalty_of(penalty.for_features(5, None), np.ones(5), 6), any_penalty=True,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("center", [0.0, 100.0, 1e4])
def test_values_and_gradients_are_within_their_bounds(dtype, center):
    rng = np.random.default_rng(0)
    for seed in range(12):
        X, y, C, penalty = drawn(seed, dtype=dtype, center=center)
        made = objective(X, y, C, penalty)
        problem = Reference("squared", X, y, C, True, penalty=penalty)
        point = made.at(made.origin, gram=True)
        best = minimise(point.hessian, point.gradient, point.w, made.penalty.kinks, 1e-8).w
        for w in (best, made.penalty.kinks.clip(best + 0.1 * rng.standard_normal(6)), point.w):
            found = predicted(point, w)
            value = problem.value(w[:5], w[5])
            assert abs(found.value - value) <= found.prediction.value_error
            X1 = np.column_stack([problem.dense, np.ones(len(y), LONG)])
            slope = LONG(C) * X1.T @ (X1 @ w.astype(LONG) - y)
            slope[:5] += problem.Q @ w[:5]
            off = np.abs(found.gradient - slope).astype(float)
            error, radius = found.error, made.rounding.radius
            assert off[5] <= error.slopes + error.adding
            norm = np.linalg.norm(off[:5])
            assert norm <= (error.slopes + error.adding) * radius + error.penalty
        made.engine.close()


def sums_at(made):
    """The point at zero as it follows from sums of the losses alone."""
    bare = copy.copy(made)
    bare.C, bare.penalty = 1.0, Penalty.ridge(5, 6, 0.0)
    point = bare.at(np.zeros(6), gram=True, exact=True)
    return LossSums(point.value, point.gradient, point.hessian).point(made)


@each_choice
@pytest.mark.parametrize("exact", [False, True, "sums"])
@pytest.mark.parametrize("center", [0.0, 100.0])
def test_the_gap_of_a_predicted_point_is_not_below_the_truth(center, exact):
    gaps, shared = [], 0
    for seed in range(24):
        X, y, C, penalty = drawn(seed, center=center)
        made = objective(X, y, C, penalty)
        problem = Reference("squared", X, y, C, True, penalty=penalty)
        point = sums_at(made) if exact == "sums" else made.at(made.origin, gram=True, exact=exact)
        shared += "factor" in vars(point)
        start = made.penalty.kinks.clip(point.w)
        slope = point.gradient + point.hessian @ (start - point.w)
        best = minimise(point.hessian, slope, start, made.penalty.kinks, 1e-8).w
        value, least = problem.value(best[:5], best[5]), problem.least(best[:5], best[5])
        gap = predicted(point, best).relative_gap
        assert value - least <= gap * least * (1 + 1e-6) + problem.noise(best[:5], best[5])
        gaps.append(gap)
        made.engine.close()
    if center == 0.0:
        assert np.median(gaps) <= 1e-4
        assert np.mean(np.array(gaps) <= 1e-6) >= 0.25
        assert shared == (24 if exact == "sums" else 0)


def test_a_value_that_cancels_is_not_believed():
    """Targets of 1,000 with a noise of 0.001, from zero."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 5)) * 1e-5
    y = 1e3 + 0.001 * rng.standard_normal(80)
    made = objective(X, y, 1e7, PenaltyConfig(l1_ratio=1.0))
    point = made.at(np.zeros(6), gram=True)
    best = minimise(point.hessian, point.gradient, point.w, made.penalty.kinks, 1e-8).w
    found = predicted(point, best)
    assert found.prediction.value_error > 1e-3 * found.value
    assert found.relative_gap == np.inf
    assert made.at(best, gram=True).relative_gap < 1e-6
    made.engine.close()
