"""The proved gap of multinomial fits is never less than the truth, against optima in long double."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.certificates.constants import contrasts
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import find
from tests.objectives.several import softmax_objective
from tests.oracle.softmax import Reference


@pytest.mark.parametrize("K", [2, 3, 7])
def test_contrasts_are_an_orthonormal_basis(K):
    B = contrasts(K)
    np.testing.assert_allclose(B.T @ B, np.eye(K - 1), atol=1e-15)
    np.testing.assert_allclose(B.sum(axis=0), 0.0, atol=1e-15)


def hard(rng):
    """A problem that is hard in floating point."""
    n, d, K = int(rng.integers(20, 90)), int(rng.integers(1, 6)), int(rng.integers(3, 6))
    X = rng.normal(size=(n, d))
    codes = (X @ rng.normal(size=(d, K)) * 3 + rng.gumbel(size=(n, K))).argmax(axis=1)
    codes[:K] = np.arange(K)
    kind = rng.integers(5)
    if kind == 0 and d > 1:
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-6, -1) * rng.normal(size=n)
    elif kind == 1:
        X += 10.0 ** rng.uniform(1, 4)
    elif kind == 2:
        X *= 10.0 ** rng.uniform(-6, 6, size=d)
    elif kind == 3:
        X[:, 0] = codes * 10.0  # separable, but for order
    X = X.astype(rng.choice([np.float32, np.float64]))
    return X, codes, K, 10.0 ** rng.uniform(-3, 3), bool(rng.integers(2))


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
@pytest.mark.parametrize("seed", range(12))
def test_gaps_are_true_on_hard_problems(solver, seed):
    X, codes, K, C, intercept = hard(np.random.default_rng(seed))
    reference = Reference(X, codes, C, intercept=intercept)
    for tol, max_iter in ((1e-1, 3), (1e-6, 100), (1e-13, 60)):
        model = daskglm.LogisticRegression(
            C=C, solver=solver, fit_intercept=intercept, tol=tol, max_iter=max_iter
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, codes)
        W = np.column_stack([model.coef_, model.intercept_])[:, : reference.width]
        value = reference.value(W)
        truth = (value - reference.least(W)[1]) / value
        # long double itself tells no less
        assert float(truth) <= model.report_.relative_gap + 1e-15
        assert model.report_.objective == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("penalty", [{}, {"l1_ratio": 0.5}, {"l1_ratio": 1.0}])
@pytest.mark.parametrize("seed", range(8))
def test_so_they_are_with_offsets_of_all_margins(penalty, seed):
    rng = np.random.default_rng(100 + seed)
    X, codes, K, C, intercept = hard(rng)
    offset = 10.0 ** rng.uniform(-1, 1.5) * rng.standard_normal((len(codes), K))
    reference = Reference(X, codes, C, intercept=intercept, offset=offset, **penalty)
    for tol, max_iter in ((1e-1, 3), (1e-6, 100)):
        model = daskglm.LogisticRegression(
            C=C, fit_intercept=intercept, tol=tol, max_iter=max_iter, **penalty
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, codes, offset=offset)
        W = np.column_stack([model.coef_, model.intercept_])[:, : reference.width]
        value = reference.value(W)
        truth = (value - reference.least(W)[1]) / value
        assert float(truth) <= model.report_.relative_gap + 1e-13
        assert model.report_.objective == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_best_intercepts_may_be_as_far_as_offsets_are_large(seed):
    """At the log weights of the classes, which are best without offsets, and without features."""
    rng = np.random.default_rng(seed)
    n, K = 60, 4
    X, codes = 1e-3 * rng.standard_normal((n, 2)), rng.permutation(np.arange(n) % K)
    offset = 4.0 * rng.standard_normal((n, K)) + np.arange(K)
    engine = Local(partitions(X, codes, None, classify=True, offset=offset).load(), threads=1)
    loss, classes = find("multinomial"), tuple(range(K))
    objective = softmax_objective(
        engine,
        Problem(loss.ref, classes=classes),
        loss,
        classes=classes,
        weights=(n / K,) * K,
        fit_intercept=True,
        C=1.0,
    )
    point = objective.at(np.zeros(objective.size))
    reference = Reference(X, codes, 1.0, offset=offset)
    value = reference.value(np.zeros((K, 3)))
    assert point.value == pytest.approx(float(value), rel=1e-12)
    excess = float(value - reference.least()[1])
    bound = objective.rounding.convex(*point.vectors, point.value, point.error, 0.0)
    assert 0.01 * value < excess <= bound
    engine.close()


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_bounds_are_not_far_from_the_truth(C):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    codes = (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(300, 3))).argmax(axis=1)
    for solver in ("newton", "lbfgs", "tron"):
        report = daskglm.LogisticRegression(C=C, solver=solver, tol=1e-12).fit(X, codes).report_
        assert report.converged
        assert report.coefficient_error < 1e-3
