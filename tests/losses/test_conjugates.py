"""The losses as the dual sees them: steps of one coordinate, conjugates and their derivatives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from daskglm.kernels import coordinate_ascent
from daskglm.losses import conjugates as duals
from daskglm.losses.dispatch import tile
from daskglm.losses.table import find, law_of
from daskglm.worker.schedule import ALL_ROWS
from tests.covering import each_choice

NAMES = [
    *("logistic", "hinge", "squared_hinge", "smoothed_hinge", "squared", "huber", "quantile"),
    *("quantile(0.9)", "epsilon_insensitive", "epsilon_insensitive(0.0)"),
    "squared_epsilon_insensitive",
    *("poisson", "gamma", "negative_binomial(0.5)", "binomial"),
]
# Targets that stand for the labels -1 and 1, where those are none.
TARGETS = {
    "poisson": (0.0, 3.0),
    "gamma": (0.2, 5.0),
    "negative_binomial(0.5)": (0.0, 3.0),
    "binomial": (0.0, 0.3),
}
# Those that take the step of the logistic loss.
INEXACT = ("logistic", "negative_binomial(0.5)", "binomial")
ENDLESS = 200.0  # stands for the end of a domain that has none


def of_rows(values, dtype=np.float64):
    """Numbers of rows of a block: not to be written to, which kernels are compiled for."""
    values = np.array(values, dtype)
    values.flags.writeable = False
    return values


ONE = of_rows([1.0])
NO_FEATURE = of_rows([[0.0]])


def law(name):
    return law_of(find(name).ref)


def target(name, label):
    return TARGETS.get(name, (-1.0, 1.0))[int(label > 0.0)]


def targets(name, values):
    return of_rows(values, np.int8 if find(name).classifies else np.float64)


def into_domain(name, y, a):
    a = np.array([a])
    coordinate_ascent.clip(law(name), targets(name, [y]), a, 0, 1)
    return float(a[0])


def step(name, y, z, a, q):
    """The dual variable of one row, by a sweep over it: no feature, a squared norm of q, an offset of z."""
    a = np.array([a])
    coordinate_ascent.sweep(
        law(name),
        (NO_FEATURE, targets(name, [y]), ONE),
        np.zeros(2),
        (1.0, 0.0, z, 1.0, None),
        (a, np.array([q]), np.empty(0), np.empty(0, np.uint8)),
        (-np.inf, np.inf),
        (ALL_ROWS, 0, 1, 1, 0, 0, 1),
    )
    return float(a[0])


def domain(name, y):
    """Ends of the dual variable's domain, or what stands for them."""
    ends = [into_domain(name, y, end) for end in (-ENDLESS, ENDLESS)]
    return min(ends), max(ends)


def within(name, y, share):
    """A dual variable that far from one end to the other; of labels from zero."""
    low, high = domain(name, y)
    if find(name).classifies:
        return y * share
    return min(max(low + share * (high - low), low), high)


def is_endless(name, y):
    return ENDLESS in np.abs(domain(name, y))


def value_of(loss, y, z):
    return duals.losses(law(loss), targets(loss, [y]), np.array([z]), ONE)


def conjugate_of(loss, y, a):
    return duals.conjugates(law(loss), targets(loss, [y]), np.array([a]), ONE)


@pytest.mark.parametrize("loss", NAMES)
@given(
    st.floats(-30, 30),
    st.floats(0, 1),
    st.sampled_from([-1.0, 1.0]),
    st.sampled_from([1e-9, 1e-3, 0.3, 1.0, 30.0, 1e6]),
)
@settings(max_examples=50, deadline=None)
def test_coordinate_step_maximises_the_dual_of_one_row(loss, z, p, y, q):
    """The step beats a bounded scalar minimiser, up to the tenth of the gain that an inexact logistic step may leave."""
    y = target(loss, y)
    a = within(loss, y, p)
    low, high = domain(loss, y)

    def dual(b):  # in units of the row's cost: -loss*(-b) - (b - a) z - q (b - a)^2 / 2
        return -conjugate_of(loss, y, b) - (b - a) * z - 0.5 * q * (b - a) ** 2

    new = step(loss, y, z, a, q)
    # not beyond the ends, where a conjugate's formula may go on
    found = minimize_scalar(
        lambda share: -dual(low + share * (high - low)),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": 1e-14},
    )
    best = max(-found.fun, dual(low), dual(high), dual(a))
    assert dual(new) >= dual(a) - 1e-9 * (1 + abs(dual(a)))
    slack = 0.1 * (best - dual(a)) if loss in INEXACT else 0.0
    assert dual(new) >= best - slack - 1e-8 * (1 + abs(best))


@pytest.mark.parametrize("loss", NAMES)
@given(st.floats(-40, 40), st.floats(0, 1), st.sampled_from([-1.0, 1.0]))
@settings(max_examples=100, deadline=None)
def test_fenchel_young(loss, z, p, y):
    """Loss(z) + loss*(-a) + a z >= 0, with equality where a is minus the slope at z."""
    y = target(loss, y)
    a = within(loss, y, p)
    assert value_of(loss, y, z) + conjugate_of(loss, y, a) + a * z >= -1e-12 * (1 + abs(z))
    slope, curvature = np.empty(1), np.empty(1)
    tile(law(loss), np.array([y]), np.array([z]), np.ones(1), slope, curvature)
    at = -float(slope[0])
    assert abs(value_of(loss, y, z) + conjugate_of(loss, y, at) + at * z) <= 1e-12 * (
        1 + abs(value_of(loss, y, z))
    )


@each_choice
@pytest.mark.parametrize("loss", NAMES)
@pytest.mark.parametrize("z", [-1e30, -1e3, 0.0, 1e3, 1e30])
@pytest.mark.parametrize("q", [0.0, 1e-300, 1e-12, 1e12, 1e300])
def test_extreme_steps_stay_in_the_domain(loss, z, q):
    for y in (target(loss, -1.0), target(loss, 1.0)):
        for p in (0.0, 1e-300, 0.5, 1.0 - 1e-16, 1.0):
            new = step(loss, y, z, within(loss, y, p), q)
            assert np.isfinite(new)
            assert np.isfinite(conjugate_of(loss, y, new))
            assert into_domain(loss, y, new) == new


@pytest.mark.parametrize("loss", NAMES)
def test_derivatives_along_two_directions(loss):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(50) < 0.5, target(loss, 1.0), target(loss, -1.0))
    a = np.array([within(loss, *each) for each in zip(y, rng.uniform(0.2, 0.8, 50), strict=True)])
    if is_endless(loss, 1.0) and not find(loss).classifies:
        a /= 100.0
    d1, d2 = 0.05 * rng.standard_normal(50), 0.05 * rng.standard_normal(50)
    weight, y = of_rows(rng.exponential(size=50)), targets(loss, y)

    def f(c1, c2):
        slope, hessian = np.zeros(2), np.zeros((2, 2))
        return (
            duals.along(law(loss), y, weight, (a, d1, d2), (c1, c2), slope, hessian),
            slope,
            hessian,
        )

    value, slope, hessian = f(0.3, 0.2)
    assert value == pytest.approx(
        duals.conjugates(law(loss), y, a + 0.3 * d1 + 0.2 * d2, weight), rel=1e-12
    )
    h = 1e-5
    for k, (e1, e2) in enumerate([(h, 0), (0, h)]):
        up, down = f(0.3 + e1, 0.2 + e2), f(0.3 - e1, 0.2 - e2)
        assert slope[k] == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-5, abs=1e-7)
        np.testing.assert_allclose(hessian[k], (up[1] - down[1]) / (2 * h), rtol=1e-4, atol=1e-6)
    endless = is_endless(loss, 1.0) and is_endless(loss, -1.0) and not find(loss).classifies
    assert endless or f(100.0, 0.0)[0] == np.inf


@pytest.mark.parametrize("name", [name for name in NAMES if find(name).classifies])
@pytest.mark.parametrize(
    ("positive", "negative"), [(1.0, 1.0), (3.0, 1.0), (1.0, 40.0), (1e6, 1e-6)]
)
def test_the_best_intercept_of_no_coefficients(name, positive, negative):
    loss = find(name)

    def at(b):
        return duals.losses(
            law(name), np.array([1, -1], np.int8), np.full(2, b), np.array([positive, negative])
        )

    found = minimize_scalar(at, bounds=(-40, 40), method="bounded", options={"xatol": 1e-10})
    assert at(loss.best_constant(positive, negative)) <= found.fun * (1 + 1e-9)
