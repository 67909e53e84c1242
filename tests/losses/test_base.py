"""What a loss record says of itself."""

import math

import numpy as np
import pytest
import scipy.optimize

from daskglm.core.facts import DataSummary
from daskglm.data.blocks import Place, to_block
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
    ("name", "intercept_radius"),
    [("squared_hinge", 1.0), ("hinge", 1.0), ("logistic", math.log(3.0))],
)
def test_how_far_the_intercept_of_classes_can_lie(name, intercept_radius):
    assert LOSSES[name].largest_intercept_radius(3.0, 1.0, 0.0) == pytest.approx(intercept_radius)


def test_how_far_the_intercept_of_a_regression_can_lie():
    assert LOSSES["squared"].largest_intercept_radius(3.0, 0.0, 7.5) == 7.5


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


# ---- families
def facts(y, weight=None, offset=None):
    rows = to_block(
        np.ones((len(y), 1)), y, weight, offset, place=Place(), classify=False, domain=None
    )
    return rows.facts


@pytest.mark.parametrize(
    ("name", "y", "wanted"),
    [
        ("squared", [1.0, 5.0], 0.0),
        ("poisson", [1.0, 5.0], math.log(3.0)),
        ("poisson", [0.0, 0.0], math.log(1e-8)),
        ("gamma_inverse", [1.0, 3.0], 0.5),
        ("binomial", [1.0, 0.0, 0.0, 0.0], math.log(1 / 3)),
        ("binomial", [0.0, 0.0], math.log(0.25 / 0.75)),
        ("binomial", [1.0, 1.0], math.log(0.75 / 0.25)),
        ("binomial_probit", [0.5, 0.5], 0.0),
    ],
)
def test_solves_start_from_the_link_of_the_mean(name, y, wanted):
    assert LOSSES[name].start(facts(np.array(y))) == pytest.approx(wanted, abs=1e-12)


def test_the_start_allows_for_offsets_and_weights():
    y, weight, o = np.array([1.0, 4.0]), np.array([3.0, 1.0]), np.array([0.5, -1.0])
    rate = math.log(weight @ y / (weight @ np.exp(o)))
    assert LOSSES["poisson"].start(facts(y, weight, o)) == pytest.approx(rate)
    share = math.log(0.25 / 0.75) - float(o.mean())
    assert LOSSES["binomial"].start(facts(y / 10.0, None, o)) == pytest.approx(share)
    # margins stay above zero, whatever the offset
    assert LOSSES["poisson_identity"].start(facts(y, None, o)) == 2.5 + 1.0


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie", "negative_binomial", "binomial"])
def test_the_span_holds_the_best_intercept(name):
    loss = LOSSES[name]
    rng = np.random.default_rng(0)
    for scale in (1e-3, 0.5) if name == "binomial" else (1e-6, 1.0, 1e6):
        y, weight = scale * rng.random(50) + 1e-12, rng.random(50)
        m, o = rng.uniform(-2.0, 2.0, 50), rng.uniform(-1.0, 1.0, 50)

        def slope(b, y=y, weight=weight, z=m + o):
            rows = zip(y, weight, z, strict=True)
            return sum(s * loss.row(t, b + x, loss.p1, 0.0)[1] for t, s, x in rows)

        best = scipy.optimize.brentq(slope, -50.0, 50.0)
        summary = facts(y, weight, o)
        assert abs(best) <= np.abs(m).max() + loss.intercept_radius_of(summary, summary.weight, 0.0)


def test_curvatures_to_be_expected():
    assert LOSSES["logistic"].expected_curvature(0.0) == 0.25
    assert LOSSES["binomial"].expected_curvature(0.5) == 0.25
    assert LOSSES["poisson"].expected_curvature(7.0) == pytest.approx(7.0)
    assert LOSSES["gamma"].expected_curvature(7.0) == pytest.approx(1.0)
    assert LOSSES["poisson"].expected_curvature(0.0) == pytest.approx(1e-8)
    for loss in LOSSES.values():
        if loss.family is not None:
            for mean in (0.0, 1e-9, 0.5, 1.0):
                assert loss.expected_curvature(mean) > 0.0
    assert LOSSES["gaussian_log"].expected_curvature(-3.0) == 1.0


def test_which_losses_are_bounded():
    bounded = {name for name, loss in LOSSES.items() if loss.is_bounded}
    families = {"poisson", "gamma", "tweedie", "negative_binomial", "binomial", "binomial_probit"}
    assert families < bounded
    assert not bounded & {"hinge", "inverse_gaussian", "gaussian_log", "binomial_cloglog"}


def test_the_span_allows_for_offsets():
    y, o = np.array([1.0, 4.0]), np.array([0.5, -3.0])
    assert LOSSES["poisson"].intercept_radius_of(facts(y, None, o), 2.0, 0.0) == math.log(2.5) + 3.0
