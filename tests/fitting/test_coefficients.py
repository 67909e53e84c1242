"""stop="coefficients": the proved bound on the coefficients' relative error, against references in long double."""

import math
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.fitting.coefficients import coefficient_error
from daskglm.penalties.penalty import Penalty
from tests.conftest import make_problem
from tests.covering import covering

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LOSSES = ("logistic", "squared_hinge", "smoothed_hinge", "squared")


def slopes(loss, y, z):
    """Derivatives of the losses by z, and their curvatures."""
    if loss == "squared":
        return z - y, np.ones_like(z)
    m = y * z
    if loss == "logistic":
        p = 1 / (1 + np.exp(m))
        return -y * p, p * (1 - p)
    if loss == "squared_hinge":
        return -2 * y * np.maximum(1 - m, 0), 2.0 * (m < 1)
    return -y * np.clip(1 - m, 0, 1), 1.0 * ((m > 0) & (m < 1))


def reference(X, y, C, loss, start, weight):
    """Coefficients and intercept to 1e-15 of their size: Newton's method with gradients in long double."""
    A = np.column_stack([X, np.ones(len(X))]).astype(np.longdouble)
    w, y, weight = (
        start.astype(np.longdouble),
        y.astype(np.longdouble),
        weight.astype(np.longdouble),
    )
    penalty = np.append(np.ones(X.shape[1]), 0.0)
    best, least = w, math.inf
    for _ in range(200):
        slope, curvature = slopes(loss, y, A @ w)
        g = C * (A.T @ (weight * slope)) + penalty * w
        radius = float(np.sqrt((A[:, :-1] ** 2).sum(axis=1)).max())
        error = float(np.linalg.norm(g[:-1].astype(float))) + radius * abs(float(g[-1]))
        if error < least:
            best, least = w, error
        H = C * (A.T @ ((weight * curvature)[:, None] * A)).astype(float) + np.diag(penalty)
        root = np.sqrt(np.maximum(np.diag(H), 1e-300))
        step = (
            np.linalg.lstsq(H / root[:, None] / root, -(g.astype(float) / root), rcond=None)[0]
            / root
        )
        w = w + step.astype(np.longdouble)
    return best[:-1], least


def hard(kind, rng, X):
    if kind == "collinear":
        X[:, 1] = X[:, 0] + 1e-4 * rng.standard_normal(len(X))
    if kind == "scaled":
        X *= np.logspace(-2, 2, X.shape[1])
    if kind == "offset":
        X += 30.0
    return X


@covering(
    1,
    solver=["newton", "tron", "lbfgs", "sdca"],
    loss=LOSSES,
    kind=["plain", "collinear", "scaled", "offset"],
)
def test_the_true_error_never_exceeds_the_bound(loss, solver, kind):
    for seed, tol in enumerate((1e-2, 1e-4, 1e-6, 1e-8)):
        rng = np.random.default_rng(seed + 100)
        X, y = make_problem(n=60 + 40 * seed, d=4, loss=loss, seed=seed)
        X, weight, C = (
            hard(kind, rng, X),
            rng.random(len(y)) + 0.1,
            float(10.0 ** rng.uniform(-2, 1.5)),
        )
        how = {
            "loss": loss,
            "C": C,
            "solver": solver,
            "sample_weight": weight,
            "random_state": seed,
            "max_iter": 300,
        }
        model = daskglm.fit(X, y, tol=tol, stop="coefficients", **how)
        w = np.ravel(model.coef_)
        exact, left = reference(X, y, C, loss, np.append(w, np.ravel(model.intercept_)), weight)
        if left > 1e-3 * tol * np.linalg.norm(w):
            continue  # Newton's method went round in circles, as it may on losses with corners
        error = float(np.linalg.norm((w - exact).astype(float)) / np.linalg.norm(w))
        report = model.report_
        assert error <= report.coefficient_error + left / np.linalg.norm(w)
        assert (report.coefficient_error <= tol) == report.converged
        if report.converged and "coefficients" in report.reason:
            assert error <= tol
        loose = daskglm.fit(X, y, tol=tol, **how)
        w = np.ravel(loose.coef_)
        error = float(np.linalg.norm((w - exact).astype(float)) / max(np.linalg.norm(w), 1e-300))
        assert error <= loose.report_.coefficient_error + left / max(np.linalg.norm(w), 1e-300)


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "sdca"])
def test_eight_digits_of_coefficients_are_had_by_asking_for_them(solver):
    X, y = make_problem(n=400, d=5)
    model = daskglm.LogisticRegression(tol=1e-8, stop="coefficients", solver=solver).fit(X, y)
    assert model.report_.converged
    assert model.report_.reason == "the bound on the relative error of the coefficients fell to tol"
    assert model.report_.coefficient_error <= 1e-8
    assert "coefficients" in repr(model.report_)
    exact = daskglm.LogisticRegression(tol=1e-15, max_iter=30).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-7)


def test_float32_rows_sparse_rows_classes_and_paths():
    X, y = make_problem(n=300, d=4, dtype=np.float32)
    assert daskglm.fit(X, y, tol=1e-6, stop="coefficients").report_.coefficient_error <= 1e-6
    S, y = make_problem(n=300, d=4, sparse=True)
    path = daskglm.fit(S, y, C=[0.1, 1.0], tol=1e-6, stop="coefficients")
    assert all(model.report_.coefficient_error <= 1e-6 for model in path)
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    model = daskglm.LinearSVC(tol=1e-5, stop="coefficients").fit(X, three)
    assert max(part.coefficient_error for part in model.report_.parts) <= 1e-5


def test_what_cannot_be_is_refused_or_told(recwarn):
    X, y = make_problem(n=100, d=3)
    with pytest.raises(ValueError, match="stop='coefficients' wants a penalty"):
        daskglm.fit(X, y, C=math.inf, stop="coefficients")
    with pytest.raises(ValueError, match="stop='never' is not one of"):
        daskglm.LogisticRegression(stop="never").fit(X, y)
    assert math.isnan(daskglm.fit(X, y, C=math.inf).report_.coefficient_error)
    with pytest.warns(Warning, match="relative error of the coefficients at most"):
        daskglm.fit(X, y, stop="coefficients", max_iter=1, solver="lbfgs")


def test_a_cluster_proves_the_same(client):
    X, y = make_problem(n=300, d=4)
    lazy = da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)
    for solver in ("newton", "sdca"):
        report = daskglm.fit(*lazy, tol=1e-7, stop="coefficients", solver=solver).report_
        assert report.coefficient_error <= 1e-7
        assert report.converged


def test_the_bound_by_a_duality_gap_is_by_strong_convexity():
    objective = SimpleNamespace(
        is_penalised=True,
        n_features=2,
        loss=SimpleNamespace(is_bounded=True),
        penalty=Penalty.ridge(2, 2, 0.5),
        rounding=SimpleNamespace(norm=np.linalg.norm),
    )
    point = SimpleNamespace(gap=0.16, vectors=(np.array([3.0, 4.0]), None))
    # F(w) - F* >= strong / 2 |w - w*|^2
    assert coefficient_error(objective, point) == pytest.approx(0.8 / 5.0, rel=1e-12)
