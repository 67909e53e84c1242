"""Ends of fits of which nothing is proved: `converged` says what docs/certificates.md has."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm import GeneralizedLinearRegressor
from daskglm.core.outcome import Reason
from daskglm.fitting.other_starts import _is_lower
from daskglm.fitting.unproved import Unproved
from daskglm.solvers.linear_systems import expected_fall
from tests.covering import each_choice


def exposed(seed, decades, d=1):
    """Rows without effects, whose exposures are spread over twice as many decades."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((100, d)), rng.gamma(2.0, 0.5, 100)
    return X, y, 10.0 ** rng.uniform(-decades, decades, 100)


def report(family, X, y, exposure=None, **given):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model = GeneralizedLinearRegressor(family, **{"alpha": 0, **given})
        return model.fit(X, y, exposure=exposure).report_


@each_choice
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("family", "decades", "given"),
    [
        ("inverse_gaussian", 2.0, {}),
        ("inverse_gaussian", 2.0, {"alpha": 1e-4}),
        ("inverse_gaussian", 2.0, {"solver": "lbfgs"}),
        ("tweedie(2.5)", 1.5, {}),
        ("tweedie(2.5)", 1.5, {"solver": "tron"}),
        ("tweedie(1.5)", 5.0, {}),
        ("gamma", 5.0, {}),
        ("gamma", 3.0, {"tol": 1e-2}),
        ("gamma", 3.0, {"tol": 1e-2, "solver": "lbfgs"}),
        ("negative_binomial(1)", 3.0, {"tol": 1e-2}),
    ],
)
def test_no_fit_ends_above_the_best_constant(family, decades, given, seed):
    X, y, e = exposed(seed, decades)
    found = report(family, X, y, e, **given)
    alpha = given.get("alpha", 0.0)
    weight = 1.0 / (alpha * len(y)) if alpha else 1.0  # of the losses, beside the penalty
    assert found.objective <= 0.5 * weight * found.null_deviance * (1.0 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_gamma_with_exposures_converges_with_a_proof(seed):
    X, y, e = exposed(seed, 5.0)
    found = report("gamma", X, y, e)
    assert found.converged
    assert found.relative_gap <= 1e-6
    exact = report("gamma", X, y, e, tol=1e-12)
    assert found.deviance == pytest.approx(exact.deviance, rel=1e-6)


@pytest.mark.parametrize("seed", [5, 12, 19, 26])
def test_nothing_falls_for_ever_where_there_is_an_optimum(seed):
    X, y, e = exposed(seed, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = GeneralizedLinearRegressor("gamma", alpha=0, tol=1e-2).fit(X, y, exposure=e)
    assert found.report_.converged


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("loss", "C", "free", "l1_ratio"),
    [
        ("squared_hinge", 1e5, 3, 0.5),
        ("squared_hinge", 1e6, 2, 0.5),
        pytest.param("squared_epsilon_insensitive", 1e5, 7, 0.5, marks=pytest.mark.slow),
        ("squared_epsilon_insensitive", 1e5, 7, 0.0),
    ],
)
def test_no_proof_yet_ends_no_fit(loss, C, free, l1_ratio):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 30))
    y = X[:, 0] + rng.logistic(size=20)
    factor = np.ones(30)
    factor[:free] = 0.0
    target = (y > 0).astype(int) if loss == "squared_hinge" else y
    given = {"loss": loss, "C": C, "penalty_factor": factor, "l1_ratio": l1_ratio}
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        loose = daskglm.fit(X, target, **given).report_
        tight = daskglm.fit(X, target, tol=1e-9, **given).report_
    assert not loose.converged or loose.objective <= tight.objective * (1.0 + 1e-4)


@each_choice
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd"])
@pytest.mark.parametrize(
    "family", ["poisson", "gamma", "tweedie(1.5)", "negative_binomial(1)", "inverse_gaussian"]
)
@pytest.mark.parametrize("column", [1.0, 0.0])
def test_null_models_converge(family, solver, column):
    y = np.random.default_rng(7).poisson(3, 300) + 1.0
    found = report(family, np.full((300, 1), column), y, solver=solver)
    assert found.converged
    assert found.deviance == pytest.approx(found.null_deviance, rel=1e-9)


@pytest.mark.parametrize("family", ["poisson", "binomial", "gaussian"])
@pytest.mark.parametrize(
    ("weighted", "solver"), [(False, "auto"), (True, "auto"), (True, "lbfgs"), (False, "lbfgs")]
)
def test_means_balance_targets_at_the_default_tolerance(family, weighted, solver):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 10))
    mean = np.exp(0.3 * X[:, 0] - 0.2 * X[:, 1])
    y = rng.poisson(mean) / (20.0 if family == "binomial" else 1.0)
    weight = rng.uniform(0.5, 2.0, 100) if weighted else None
    y = np.minimum(y, 1.0) if family == "binomial" else y
    model = GeneralizedLinearRegressor(family, alpha=1.0, solver=solver).fit(X, y, weight)
    means = np.average(model.predict(X), weights=weight)
    assert means == pytest.approx(np.average(y, weights=weight), rel=1e-9)


@pytest.mark.parametrize("kind", ["logistic", "multinomial", "poisson", "gamma", "gaussian"])
def test_lbfgs_gives_the_digits_beyond_tol_too(kind):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((40, 3)), rng.integers(0, 2 + (kind == "multinomial"), 40)
    if kind in ("logistic", "multinomial"):
        model = daskglm.LogisticRegression(multi_class="ovr" if kind == "logistic" else kind)
    else:
        y = rng.gamma(2.0, 0.5, 40) if kind == "gamma" else y
        model = GeneralizedLinearRegressor(kind, alpha=0.5)
    found = clone(model).set_params(solver="lbfgs").fit(X, y)
    wanted = clone(model).set_params(solver="newton", tol=1e-13).fit(X, y)
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-6)


def test_ends_of_two_starts_that_differ_are_told():
    # two groups of rows, each with a basin of its own: seen by scanning the intercept
    y = np.array([1e-3] * 3 + [1e3] * 3)
    e = np.array([1e3] * 3 + [1e-3] * 3)
    X = np.zeros((6, 1))
    found = report("tweedie(3.5)", X, y, e)
    grid = np.linspace(-30, 30, 20001)
    mu = np.exp(grid)[:, None] * e
    p = 3.5
    parts = (
        y ** (2 - p) / ((1 - p) * (2 - p)) - y * mu ** (1 - p) / (1 - p) + mu ** (2 - p) / (2 - p)
    )
    best = 2.0 * parts.sum(axis=1).min()
    assert found.deviance <= best * (1.0 + 1e-6) or found.reason == Reason.SEVERAL_OPTIMA.value


def test_the_expected_fall_overlooks_no_flat_slope():
    H = np.diag([4.0, 0.0])
    assert expected_fall(H, np.array([2.0, 0.0])) == pytest.approx(0.5)
    assert expected_fall(H, np.array([2.0, 1e-3])) > 1e6
    assert expected_fall(np.full((2, 2), np.inf), np.ones(2)) == np.inf
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 4))
    g = A.T @ rng.standard_normal(20)
    wanted = 0.5 * g @ np.linalg.solve(A.T @ A, g)
    scale = np.array([1e-6, 1.0, 1e3, 1e8])  # of columns
    found = expected_fall((A.T @ A) * np.outer(scale, scale), g * scale)
    assert found == pytest.approx(wanted)


def test_one_look_among_short_steps_at_a_corner_ends_no_fit():
    loss = SimpleNamespace(
        is_quadratic=False, family=None, continuous_curvature=False, self_concordance=np.inf
    )
    loss.convex = loss.bends = True
    judge = Unproved(
        SimpleNamespace(loss=loss, penalty=SimpleNamespace(is_smooth=False), size=1), 1e-4
    )
    point = SimpleNamespace(value=1.0, gradient_norm=1.0, hessian=np.eye(1))
    ends = []
    for fall in (0.5, 0.5, 0.5, 0.5, 1e-9, 0.5, 1e-9, 1e-9):
        judge.may_be_enough(point)
        ends.append(judge.is_enough(point, fall))
    assert ends == [False] * 7 + [True]
    assert judge.is_enough(point, 1e-9, ended=True)
    assert not judge.is_enough(point, 0.5, ended=True)


@pytest.mark.parametrize(("gap", "enough"), [(np.nan, True), (1e-3, False), (1e-9, False)])
def test_a_gap_that_is_known_ends_a_fit_and_not_the_expected_fall(monkeypatch, gap, enough):
    loss = SimpleNamespace(
        is_quadratic=True, family=None, continuous_curvature=True, self_concordance=0.0, convex=True
    )
    judge = Unproved(SimpleNamespace(loss=loss, penalty=SimpleNamespace(is_smooth=True)), 1e-6)
    point = SimpleNamespace(value=1.0, gradient_norm=1e-9)
    seen = SimpleNamespace(value=1.0, gradient_norm=1e-9)
    monkeypatch.setattr(judge, "may_be_enough", lambda point: True)
    monkeypatch.setattr(judge, "look", lambda point: (seen, 1e-30))
    monkeypatch.setattr(judge, "is_enough", lambda point, fall, ended: True)
    assert judge.judge(point, lambda point: (point, gap), ended=True)[2] == enough


@pytest.mark.parametrize(
    ("above", "tol", "constant", "lower"),
    [
        (2e-6, 1e-6, 1.0, True),
        (5e-7, 1e-6, 1.0, False),
        (1e-12, 1e-14, 1.0, False),  # rounding of values
        (1e-9, 1e-14, 1.0, True),
        (1e-9, 1e-14, 1e3, False),
    ],
)
def test_an_end_is_lower_by_more_than_the_tolerance_and_rounding(above, tol, constant, lower):
    end, other = (SimpleNamespace(point=SimpleNamespace(value=v)) for v in (1.0, 1.0 + above))
    assert _is_lower(end, other, tol, constant) == lower
