"""The scale of Huber's regression: the least of a convex function of two parts, and its bound."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from daskglm.fitting.config import FitConfig
from daskglm.fitting.huber_scale import LEAST, JointScale
from daskglm.fitting.same_rows import same_rows

RNG = np.random.default_rng(1)
X = RNG.standard_normal((120, 2))
Y = X @ [1.0, -2.0] + RNG.standard_t(2, 120) + 1.0


def joint(on, settings, alpha=0.1):
    return JointScale(on, settings, 1.5, alpha)


def rows(settings, y=Y):
    return same_rows(X, y, settings, sample_weight=None, start=None, client=None)


def test_no_other_scale_is_better():
    settings = FitConfig("huber", tol=1e-12)
    with rows(settings) as on:
        found = joint(on, settings).solve(None, None, 50)

        def at(scale):
            fit = joint(on, settings).fit(scale)
            r = np.abs(Y - X @ fit.coef - fit.intercept) / scale
            each = np.where(r < 1.5, r * r, 3.0 * r - 2.25)
            return float((scale * (1 + each)).sum()) + 0.1 * float(fit.coef @ fit.coef)

        best = minimize_scalar(at, bounds=(0.1, 10.0), method="bounded", options={"xatol": 1e-9})
    assert found.scale == pytest.approx(best.x, rel=1e-5)
    assert found.report.objective == pytest.approx(best.fun, rel=1e-11)
    assert found.report.converged
    assert found.steps == found.report.n_iter > 0


def test_the_bound_holds_before_the_end():
    settings = FitConfig("huber", tol=1e-12)
    with rows(settings) as on:
        best = joint(on, settings).solve(None, None, 50).report.objective
        for most in range(4):
            report = joint(on, settings).solve(None, None, most).report
            assert report.n_iter == most
            assert not report.converged
            assert report.objective / (1 + report.relative_gap) <= best


def test_the_bound_counts_what_coefficients_gain():
    """At the scale that is best for them all that is left is that they are no optimum."""
    settings, rough = FitConfig("huber", tol=1e-12), FitConfig("huber", tol=10.0, solver="gd")
    with rows(settings) as on:
        least = joint(on, settings).solve(None, None, 50).report.objective
        low, high = 0.8, 1.2
        for _ in range(40):
            seen = joint(on, rough)._at(0.5 * (low + high), None)
            assert seen.value - seen.bound <= least * (1 + 1e-12)
            low, high = (seen.scale, high) if seen.pull > 0.0 else (low, seen.scale)
    assert seen.value > least * (1 + 1e-6)


def test_an_exact_fit_has_the_least_scale():
    settings = FitConfig("huber", tol=1e-6)
    with rows(settings, X @ [1.0, -2.0]) as on:
        found = joint(on, settings, alpha=0.0).solve(None, None, 200)
    assert LEAST <= found.scale <= 1e-6
    np.testing.assert_allclose(found.fit.coef, [1.0, -2.0], atol=1e-6)
