"""The proved gap of multinomial fits is never less than the truth, against optima in long double."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.objectives.output_bounds import contrasts
from tests.objectives.test_bounds import solve

LONG = np.longdouble


@pytest.mark.parametrize("K", [2, 3, 7])
def test_contrasts_are_an_orthonormal_basis(K):
    B = contrasts(K)
    np.testing.assert_allclose(B.T @ B, np.eye(K - 1), atol=1e-15)
    np.testing.assert_allclose(B.sum(axis=0), 0.0, atol=1e-15)


class Reference:
    """The objective in long double, and its least value by Newton's method on scaled columns."""

    def __init__(self, X, codes, K, C, *, intercept):
        self.X, self.codes, self.C = X.astype(LONG), codes, LONG(C)
        self.K, self.intercept = K, intercept
        self.basis = contrasts(K).astype(LONG)
        self.basis, _ = np.linalg.qr(contrasts(K))
        B = self.basis.astype(LONG)
        for a in range(K - 1):  # orthonormal in long double
            for b in range(a):
                B[:, a] -= (B[:, b] @ B[:, a]) * B[:, b]
            B[:, a] -= B[:, a].mean()
            B[:, a] /= np.sqrt(B[:, a] @ B[:, a])
        self.basis = B

    def value(self, W, b):
        z = self.X @ W.astype(LONG).T + b.astype(LONG)
        top = z.max(axis=1)
        own = np.arange(len(z)), self.codes
        losses = np.log(np.exp(z - top[:, None]).sum(axis=1)) + (top - z[own])
        return (W.astype(LONG) ** 2).sum() / 2 + self.C * losses.sum()

    def optimum(self, W, b):
        """The least value; W and b are near the best ones."""
        B, d = self.basis, self.X.shape[1]
        ones = np.concatenate([self.X, np.ones((len(self.X), 1), LONG)], axis=1)
        scale = np.maximum(np.abs(ones).max(axis=0), LONG(1e-30))
        V = B.T @ np.concatenate([W, b[:, None]], axis=1).astype(LONG)
        held = np.ones(d + 1, LONG)
        held[d] = 0
        free = np.ones(d + 1, bool)
        free[d] = self.intercept
        best = self.value(W, b)
        for _ in range(30):
            U = B @ V
            z = ones @ U.T
            p = np.exp(z - z.max(axis=1)[:, None])
            p /= p.sum(axis=1)[:, None]
            slopes = p.copy()
            slopes[np.arange(len(z)), self.codes] -= 1
            g = B.T @ (self.C * slopes.T @ ones) + held * V
            side = len(B.T)
            H = np.zeros((side, d + 1, side, d + 1), LONG)
            for a in range(side):
                for c in range(a + 1):
                    weight = p @ (B[:, a] * B[:, c]) - (p @ B[:, a]) * (p @ B[:, c])
                    block = self.C * (ones * weight[:, None]).T @ ones
                    H[a, :, c] = H[c, :, a] = block
                H[a, np.arange(d + 1), a, np.arange(d + 1)] += held
            H = H / scale[:, None, None] / scale
            kept = np.tile(free, side)
            system = H.reshape(kept.size, kept.size)[np.ix_(kept, kept)]
            step = np.zeros(kept.size, LONG)
            step[kept] = -solve(system, (g / scale).ravel()[kept])
            step = step.reshape(side, d + 1) / scale
            t = LONG(1)
            while t > 1e-6:
                moved = B @ (V + t * step)
                value = self.value(moved[:, :d], moved[:, d])
                if value <= best * (1 + LONG(1e-18)):
                    break
                t /= 2
            if t <= 1e-6 or not value < best * (1 - LONG(1e-17)):
                return min(best, value)
            V, best = V + t * step, value
        return best


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
    reference = Reference(X, codes, K, C, intercept=intercept)
    for tol, max_iter in ((1e-1, 3), (1e-6, 100), (1e-13, 60)):
        model = daskglm.LogisticRegression(
            C=C, solver=solver, fit_intercept=intercept, tol=tol, max_iter=max_iter
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, codes)
        value = reference.value(model.coef_, model.intercept_)
        truth = (value - reference.optimum(model.coef_, model.intercept_)) / value
        # long double itself tells no less
        assert float(truth) <= model.report_.relative_gap + 1e-15
        assert model.report_.objective == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_bounds_are_not_far_from_the_truth(C):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    codes = (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(300, 3))).argmax(axis=1)
    for solver in ("newton", "lbfgs", "tron"):
        report = daskglm.LogisticRegression(C=C, solver=solver, tol=1e-12).fit(X, codes).report_
        assert report.converged
        assert report.coefficient_error < 1e-3
