"""Bounds by one tangent are below the optimum, and as near to it as they should be."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from daskglm.certificates.lower_bound import Tangent, lower_bound
from daskglm.penalties.kinks import Kinks


class Case:
    """Rows with a loss, a ridge, kinks and bounds, and the optimum by L-BFGS-B on w = p - m."""

    def __init__(self, seed, loss, *, ridge=0.3, l1=2.0, bounded=False, d=4, n=30):
        rng = np.random.default_rng(seed)
        self.X, self.loss = rng.standard_normal((n, d)), loss
        z = self.X @ (rng.standard_normal(d) * (rng.random(d) < 0.7))
        self.y = z + rng.standard_normal(n)
        if loss == "logistic":
            self.y = np.sign(self.y)
        if loss == "poisson":
            self.y = rng.poisson(np.exp(np.minimum(z, 3.0))).astype(float)
        self.curvature = ridge * rng.random(d) * (rng.random(d) < 0.7)
        none = np.full(d, np.inf)
        lower = np.where(rng.random(d) < 0.5, -0.2, -np.inf) if bounded else -none
        upper = np.where(rng.random(d) < 0.5, 0.3, np.inf) if bounded else none
        self.terms = Kinks(l1 * (0.2 + rng.random(d)), lower, upper)

    def smooth(self, w):
        """Losses, which are not negative, and their gradient."""
        z, y = self.X @ w, self.y
        if self.loss == "squared":
            value, slope = 0.5 * (z - y) ** 2, z - y
        elif self.loss == "logistic":
            value, slope = np.logaddexp(0.0, -y * z), -y / (1.0 + np.exp(y * z))
        else:
            least = np.where(y > 0, y * np.log(np.maximum(y, 1.0)) - y, 0.0)
            value, slope = np.exp(z) - y * z + least, np.exp(z) - y
        return float(value.sum()), self.X.T @ slope

    def value(self, w):
        ridge = 0.5 * float(self.curvature @ w**2)
        return self.smooth(w)[0] + ridge + self.terms.value(w)

    def optimum(self):
        d = len(self.curvature)

        def whole(u):
            w = u[:d] - u[d:]
            value, slope = self.smooth(w)
            slope = slope + self.curvature * w
            value += 0.5 * float(self.curvature @ w**2) + float(
                self.terms.strengths @ (u[:d] + u[d:])
            )
            return value, np.append(slope + self.terms.strengths, -slope + self.terms.strengths)

        box = [(0.0, u) for u in self.terms.upper] + [(0.0, -low) for low in self.terms.lower]
        how = {"maxiter": 10**4, "ftol": 1e-15, "gtol": 1e-11}
        found = scipy.optimize.minimize(
            whole, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=box, options=how
        )
        return float(found.fun), found.x[:d] - found.x[d:]

    def tangent(self, w, *, loose=0.0, error=0.0):
        value, gradient = self.smooth(w)
        off = np.full(len(w), error)
        return Tangent(value, gradient, w, self.curvature, self.loss == "squared", loose, off)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_no_tangent_is_above_the_optimum(loss, bounded):
    rng = np.random.default_rng(0)
    for seed in range(15):
        case = Case(seed, loss, bounded=bounded)
        least, best = case.optimum()
        for size in (3.0, 1.0, 0.1, 1e-2, 1e-4, 0.0):
            w = case.terms.clip(best + size * rng.standard_normal(4))
            bound = lower_bound(case.tangent(w), case.terms)
            assert 0.0 <= bound <= least * (1 + 1e-8)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_it_closes_at_the_optimum(loss, bounded):
    for seed in range(10):
        case = Case(seed, loss, bounded=bounded)
        least, best = case.optimum()
        assert lower_bound(case.tangent(best), case.terms) == pytest.approx(least, rel=1e-4)


def test_of_least_squares_it_is_quadratic_in_the_distance_where_a_ridge_holds_all():
    case = Case(0, "squared", l1=0.0)
    case.curvature[:] = 1.0
    least, best = case.optimum()
    way = np.random.default_rng(1).standard_normal(4)
    gaps = []
    for size in (1e-2, 1e-3, 1e-4):
        w = best + size * way
        gaps.append(case.value(w) - lower_bound(case.tangent(w), case.terms))
        assert gaps[-1] >= (case.value(w) - least) * (1 - 1e-4)
    assert gaps[0] / gaps[1] == pytest.approx(100, rel=0.2)
    assert gaps[1] / gaps[2] == pytest.approx(100, rel=0.2)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_errors_within_their_bounds_are_allowed_for(loss):
    rng = np.random.default_rng(2)
    for seed in range(10):
        case = Case(seed, loss, bounded=bool(seed % 2))
        least, best = case.optimum()
        error, loose = 10.0 ** rng.uniform(-6, -1), 10.0 ** rng.uniform(-6, -1)
        w = case.terms.clip(best + 0.01 * rng.standard_normal(4))
        exact = case.tangent(w, error=error, loose=loose)
        sure = lower_bound(case.tangent(w), case.terms)
        for sign in rng.choice([-1.0, 1.0], (10, 4)):
            off = exact._replace(gradient=exact.gradient + error * sign, value=exact.value + loose)
            bound = lower_bound(off, case.terms)
            assert bound <= least * (1 + 1e-8)
        assert lower_bound(exact, case.terms) <= sure


def test_nothing_is_proved_where_a_feature_is_not_held():
    case = Case(0, "logistic", ridge=0.0)
    case.terms.strengths[1] = 0.0
    w = np.zeros(4)
    assert abs(case.tangent(w).gradient[1]) > 0.1
    assert lower_bound(case.tangent(w), case.terms) == 0.0
    lower, upper = case.terms.lower.copy(), case.terms.upper.copy()
    lower[1], upper[1] = -1.0, 1.0
    bounded = replace(case.terms, lower=lower, upper=upper)  # but where bounds hold it
    assert lower_bound(case.tangent(w), bounded) > 0.0


def test_groups():
    """Against random points: none of them is below, and the best of them is near."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    none = np.full(4, np.inf)
    groups, strengths = (np.array([0, 2]), np.array([1, 3])), np.array([3.0, 8.0])
    terms = Kinks(np.zeros(4), -none, none, groups, strengths)

    def value(w):
        return 0.5 * float(((X @ w - y) ** 2).sum()) + terms.value(w)

    w = np.zeros(4)
    top = np.linalg.eigvalsh(X.T @ X)[-1]
    for _ in range(5000):
        to = w - X.T @ (X @ w - y) / top
        for group, strength in zip(groups, strengths, strict=True):
            norm = max(float(np.linalg.norm(to[group])), 1e-300)
            to[group] *= max(1.0 - strength / top / norm, 0.0)
        w = to
    at = Tangent(
        value(w) - terms.value(w), X.T @ (X @ w - y), w, np.zeros(4), True, 0.0, np.zeros(4)
    )
    assert lower_bound(at, terms) == pytest.approx(value(w), rel=1e-9)
    for _ in range(50):
        v = w + rng.standard_normal(4)
        r = X @ v - y
        away = Tangent(0.5 * float(r @ r), X.T @ r, v, np.zeros(4), True, 0.0, np.zeros(4))
        assert lower_bound(away, terms) <= value(w) * (1 + 1e-9)


def test_what_is_known_too_loosely_proves_nothing():
    case = Case(0, "logistic")
    assert lower_bound(case.tangent(np.zeros(4), loose=1e6), case.terms) == 0.0
