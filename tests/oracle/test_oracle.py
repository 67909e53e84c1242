"""The oracle's points meet the conditions of an optimum, which prove it for convex problems."""

import numpy as np
import pytest

from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.oracle import ordinal, softmax
from tests.oracle.descent import LONG
from tests.oracle.losses import PLAIN, loss_of
from tests.oracle.problem import Reference

PENALTIES = {
    "ridge": {},
    "lasso": {"l1_ratio": 1.0},
    "factors": {"l1_ratio": 0.5, "penalty_factor": [0.0, 1.0, 2.0, 0.3, 1.0, 5.0]},
    "P2": {"l1_ratio": 0.5, "P2": 2.0 * np.eye(6) - np.eye(6, k=1) - np.eye(6, k=-1)},
    "bounds": {"l1_ratio": 0.5, "lower_bounds": -0.1, "upper_bounds": 0.2},
    "groups": {"l1_ratio": 0.9, "groups": [0, 0, 1, 1, 1, 2]},
    "standardize": {"l1_ratio": 0.5, "standardize": True},
}


def assert_optimal(kinks, v, gradient, size):
    """The shortest subgradient at v is 1e-8 of sums of that size: of values its square is off."""
    down = gradient + np.where(v > 0, kinks.l1, -kinks.l1)
    up = gradient + np.where(v < 0, -kinks.l1, kinks.l1)
    short = np.maximum(np.where(v <= kinks.lower, 0, down), 0)
    short = np.maximum(short, np.where(v >= kinks.upper, 0, -up))
    for places, strength, sizes in kinks.groups:
        pull, norm = gradient[places], np.sqrt(((v[places] * sizes) ** 2).sum())
        if norm > 0:
            short[places] = np.abs(pull + strength * v[places] * sizes**2 / norm)
        else:
            length = np.sqrt(((pull / sizes) ** 2).sum())
            short[places] = np.maximum(length - strength, 0)
    assert (short <= 1e-8 * size).all(), short / size


@each_choice
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", list(PENALTIES))
@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", "poisson", "gamma", "binomial"])
def test_losses_of_one_margin(loss, penalty, intercept):
    X, y = make_problem(120, 6, loss=loss, seed=2)
    rng = np.random.default_rng(0)
    weight, offset = rng.exponential(size=120), 0.3 * rng.standard_normal(120)
    reference = Reference(
        loss, X, y, 0.1, intercept, weight, offset, PenaltyConfig(**PENALTIES[penalty])
    )
    w, b, value = reference.optimum()
    assert value == reference.least() == pytest.approx(float(reference.value(w, b)), rel=1e-17)
    slope = reference.s * reference.losses(reference.dense @ w + b)[1]
    gradient = reference.scale * slope @ reference.dense + reference.Q @ w
    size = reference.scale * np.abs(slope) @ np.abs(reference.dense)
    assert_optimal(reference.kinks, w, gradient, size)
    assert not intercept or abs(slope.sum()) <= 1e-8 * np.abs(slope).sum()


@pytest.mark.parametrize("loss", ["hinge", "quantile(0.8)", "epsilon_insensitive"])
def test_corners(loss):
    X, y = make_problem(60, 3, loss=loss, seed=2)
    reference = Reference(loss, X, y, 1.0, False)
    w, b, value = reference.optimum()
    for _ in range(200):  # no point near it is lower by more than the last rounding of corners
        moved = w + 10.0 ** np.random.default_rng(_).uniform(-8, -1) * np.eye(3, dtype=LONG)[_ % 3]
        assert reference.value(moved, b) >= value * (1 - LONG(1e-8))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"l1_ratio": 1.0},
        {"l1_ratio": 0.5, "lower_bounds": 0.0},
        {"l1_ratio": 0.5, "groups": [0, 0, 1, 1]},
        {"P2": 2.0 * np.eye(4) - np.eye(4, k=1) - np.eye(4, k=-1), "standardize": True},
    ],
    ids=str,
)
def test_ordered_classes(given):
    X, z = make_problem(150, 4, loss="squared", seed=1)
    y = np.digitize(z, [-1.0, 0.5, 2.0])
    reference = ordinal.Reference(X, y, 0.2, **given)
    start = np.append(np.zeros(4), [-1.0, 0.0, 1.0])
    v, value = reference.least(start)
    assert value == pytest.approx(float(reference.value(v)), rel=1e-17)
    assert_optimal(reference.kinks, v, reference.derivatives(v)[0], 10.0)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"l1_ratio": 1.0},
        {"l1_ratio": 0.5, "penalty_factor": [0.0, 1.0, 2.0, np.inf]},
        {"upper_bounds": 0.1},
        {"l1_ratio": 0.7, "groups": [0, 0, 1, 1]},
        {"P2": 2.0 * np.eye(4) - np.eye(4, k=1) - np.eye(4, k=-1), "standardize": True},
    ],
    ids=str,
)
def test_classes(given, intercept):
    X, z = make_problem(150, 4, loss="squared", seed=1)
    y = np.digitize(z, [-1.0, 1.0])
    reference = softmax.Reference(X, y, C=0.2, intercept=intercept, **given)
    W, value = reference.least()
    assert value == pytest.approx(float(reference.value(W)), rel=1e-16)
    assert_optimal(reference.kinks, W.ravel(), reference.gradient(W).ravel(), 10.0)


@pytest.mark.parametrize(
    "name",
    [
        *PLAIN,
        "quantile(0.8)",
        "poisson",
        "gamma",
        "tweedie(1.5)",
        "negative_binomial(0.5)",
        "binomial",
    ],
)
def test_slopes_and_curvatures_are_derivatives(name):
    loss, z, h = find(name), np.linspace(-1.9, 2.2, 40).astype(LONG), LONG(1e-6)
    y = np.where(np.arange(40) % 2, 1.0, -1.0 if loss.classifies else 0.25).astype(LONG)
    _, slope, curvature = loss_of(loss, y, z)
    up, down = loss_of(loss, y, z + h), loss_of(loss, y, z - h)
    np.testing.assert_allclose((up[0] - down[0]) / (2 * h), slope, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((up[1] - down[1]) / (2 * h), curvature, rtol=1e-9, atol=1e-9)
