"""Optima at an end of the margins that a link takes, against SciPy's solver with constraints."""

import functools
import math
import warnings
from typing import NamedTuple

import dask.array as da
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import xlogy

import daskglm
from daskglm.core.outcome import Reason
from daskglm.fitting.edges import SLACK
from daskglm.losses.table import find
from tests.covering import each_choice, first_by_default
from tests.integration.unproved_problems import Objective, problem

PROVED = [
    ("binomial", "log"),
    ("binomial", "identity"),
    ("poisson", "identity"),
    ("poisson", "sqrt"),
]
ENDS = {"identity": (0.0, np.inf), "sqrt": (0.0, np.inf), "log": (-np.inf, 0.0)}
TINY = 1e-150


def losses(key, y, z):
    """Half unit deviances and their slopes, of margins that may be at an end."""

    def part(share, mean):
        return np.where(
            share > 0, xlogy(share, share) - share * np.log(np.maximum(mean, TINY)), 0.0
        )

    def over(share, mean):
        return np.where(share > 0, share / np.maximum(mean, TINY), 0.0)

    if key == ("poisson", "identity"):
        return part(y, z) - y + z, 1.0 - over(y, z)
    if key == ("poisson", "sqrt"):
        return part(y, z * z) - y + z * z, 2.0 * z - 2.0 * over(y, z)
    if key == ("binomial", "identity"):
        return part(y, z) + part(1.0 - y, 1.0 - z), over(1.0 - y, 1.0 - z) - over(y, z)
    mean = np.exp(np.minimum(z, 0.0))
    rest = -np.expm1(np.minimum(z, 0.0))
    return part(y, mean) + part(1.0 - y, rest), mean * over(1.0 - y, rest) - y


class Drawn(NamedTuple):
    key: tuple
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    offset: np.ndarray | None
    alpha: float
    ratio: float
    factor: np.ndarray

    def objective(self, coef, intercept):
        """The objective of a fit, over the sum of weights."""
        z = self.X @ np.ravel(coef) + intercept + (0.0 if self.offset is None else self.offset)
        used = self.weight > 0
        loss = self.weight[used] @ losses(self.key, self.y[used], z[used])[0] / self.weight.sum()
        size = self.factor @ (
            self.ratio * np.abs(coef) + 0.5 * (1.0 - self.ratio) * np.square(coef)
        )
        return loss + self.alpha * size

    def fit(self, solver, **settings):
        """A fit, with warnings as errors."""
        plain = (self.factor == 1.0).all()
        model = daskglm.GeneralizedLinearRegressor(
            self.key[0],
            link=self.key[1],
            alpha=self.alpha,
            l1_ratio=self.ratio,
            penalty_factor=None if plain else self.factor,
            solver=solver,
            **settings,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return model.fit(self.X, self.y, self.weight, offset=self.offset)


def draw(key, seed, *, kinks=False):
    """Cells, one of them with all targets at an end, or features that take means beyond one."""
    rng = np.random.default_rng([8, seed])
    family, link = key
    n, d = int(rng.choice([30, 100, 240])), int(rng.choice([2, 4, 7]))
    group = np.append(np.arange(d + 1), rng.integers(0, d + 1, n - d - 1))
    cells = rng.random() < 0.4
    X = np.eye(d + 1)[group][:, 1:] if cells else rng.standard_normal((n, d))
    z = X @ rng.standard_normal(d)
    if family == "poisson":
        mean = np.maximum(0.7 + z, 0.0)
        y = rng.poisson(mean if link == "identity" else mean * mean).astype(float)
        y[group == 1] *= not cells
        y[group == 0] += 1.0
    else:
        mean = (
            np.clip(0.5 + 0.5 * z, 0, 1) if link == "identity" else np.exp(np.minimum(z, 0.3) - 0.3)
        )
        y = (rng.random(n) < mean).astype(float)
        if rng.random() < 0.3:
            y = np.round(0.5 * (y + mean), 1)
        y[group == 1] = np.maximum(y[group == 1], float(cells))
        y[:2] = 0.0, 1.0
    weight = rng.integers(0, 3, n).astype(float) if rng.random() < 0.3 else np.ones(n)
    weight[: d + 1] = 1.0  # no column of zeros
    offset = None
    if rng.random() < 0.3:
        offset = rng.uniform(0.0, 0.1, n) * (-1.0 if link == "log" else 1.0)
    factor, ratio, alpha = np.ones(d), 0.0, 0.0
    if kinks or rng.random() < 0.3:
        alpha = float(10.0 ** rng.uniform(-4.0, -1.5))
    if kinks:
        factor[0], ratio = 0.0, float(rng.choice([0.5, 1.0]))
    return Drawn(key, X, y, weight, offset, alpha, ratio, factor)


@functools.cache
def least(key, seed, kinks=False):
    """The least objective that SLSQP finds from some constants: an upper bound on the optimum."""
    drawn = draw(key, seed, kinks=kinks)
    X, s, d = drawn.X, drawn.weight / drawn.weight.sum(), drawn.X.shape[1]
    offset = np.zeros(len(s)) if drawn.offset is None else drawn.offset
    used = s > 0
    # coefficients as differences, so that their sizes are linear
    A = np.column_stack([X, -X, np.ones(len(s))])[used]
    y, s, offset = drawn.y[used], s[used], offset[used]
    low, high = ENDS[drawn.key[1]]
    high = 1.0 if drawn.key == ("binomial", "identity") else high
    l1, l2 = (drawn.alpha * share * drawn.factor for share in (drawn.ratio, 1.0 - drawn.ratio))

    def objective(u):
        w = u[:d] - u[d:-1]
        value, slope = losses(drawn.key, y, A @ u + offset)
        smooth = A.T @ (s * slope) + np.concatenate([l2 * w, -l2 * w, [0.0]])
        total = s @ value + 0.5 * l2 @ (w * w) + l1 @ (u[:d] + u[d:-1])
        return total, smooth + np.concatenate([l1, l1, [0.0]])

    inside = [
        {
            "type": "ineq",
            "fun": functools.partial(lambda u, s, e: s * (A @ u + offset - e), s=sign, e=end),
            "jac": functools.partial(lambda u, s: s * A, s=sign),
        }
        for sign, end in ((1.0, low), (-1.0, high))
        if math.isfinite(end)
    ]
    mean = s @ y
    middle = {"identity": mean, "sqrt": math.sqrt(mean), "log": math.log(mean)}[drawn.key[1]]
    best = math.inf
    for intercept in (middle, middle - offset.min(), middle - offset.max()):
        u = np.append(np.zeros(2 * d), intercept)
        if not ((A @ u + offset > low).all() and (A @ u + offset < high).all()):
            continue
        for _ in range(3):
            with np.errstate(all="ignore"):
                found = minimize(
                    objective,
                    u,
                    jac=True,
                    method="SLSQP",
                    constraints=inside,
                    bounds=[(0.0, None)] * (2 * d) + [(None, None)],
                    options={"maxiter": 2000, "ftol": 1e-15},
                )
            u = found.x
            z = A @ u + offset
            if max((low - z).max(), (z - high).max()) < 1e-9:
                best = min(best, float(found.fun))
    return best


def check(drawn, model, optimum, tol):
    report = model.report_
    value = drawn.objective(model.coef_, model.intercept_)
    assert report.converged
    assert value <= optimum * (1.0 + max(tol, 1e-9))
    # a proof says that no other point is lower than this
    assert report.relative_gap <= tol
    assert value / (1.0 + report.relative_gap) <= optimum * (1.0 + 1e-9)
    assert report.deviance <= report.null_deviance * (1.0 + 1e-9)
    return report.reason == Reason.EDGE.value


@pytest.mark.parametrize("key", first_by_default(PROVED), ids=str)
def test_optima_at_an_end_are_proved_and_none_is_below_them(key):
    at_the_end = 0
    for seed in range(8):
        for solver, tol in (("newton", 1e-8), ("lbfgs", 1e-6), ("tron", 1e-4)):
            drawn = draw(key, seed)
            at_the_end += check(drawn, drawn.fit(solver, tol=tol), least(key, seed), tol)
    assert at_the_end >= 12


@pytest.mark.parametrize("key", PROVED, ids=str)
@pytest.mark.nightly
def test_penalties_with_kinks_and_free_features_come_to_an_end_too(key):
    at_the_end = 0
    for seed in range(5):
        for solver in ("auto", "owlqn"):
            drawn = draw(key, seed, kinks=True)
            at_the_end += check(drawn, drawn.fit(solver), least(key, seed, True), 1e-6)
    assert at_the_end >= 4


def cells():
    """Reported: counts of which one cell has none."""
    rng = np.random.default_rng(7)
    group = rng.integers(0, 6, 240)
    y = rng.poisson(2, 240).astype(float)
    y[group == 3] = 0.0
    return np.eye(6)[group][:, 1:], y


@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "gd"])
def test_means_of_cells_without_counts(solver):
    X, y = cells()
    model = daskglm.GeneralizedLinearRegressor("poisson", link="identity", alpha=0, solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    report = model.report_
    assert report.reason == Reason.EDGE.value
    assert report.relative_gap <= 1e-6
    assert report.deviance == pytest.approx(190.526358, rel=1e-8)
    assert report.objective == report.history[-1]["objective"] or solver in ("auto", "newton")
    assert np.ravel(model.predict(X[y == 0])).min() < 1e-6


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd"])
def test_square_roots_with_offsets(solver):
    """All solvers ended above the best constant, or near it; the value here is the proved one."""
    drawn = problem(40522253110)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = drawn.fit(solver=solver)
    objective = Objective(drawn)
    value = objective.value(objective.params(model.coef_, model.intercept_))
    assert value == pytest.approx(5.22184766, rel=1e-8)
    assert value < objective.value(objective.constant())
    assert model.report_.relative_gap <= 1e-8


def test_float32_rows_are_proved_by_a_hessian_in_float64():
    X, y = cells()
    model = daskglm.GeneralizedLinearRegressor("poisson", link="identity", alpha=0)
    model.fit(X.astype(np.float32), y)
    assert model.report_.relative_gap <= 1e-6


def test_columns_that_depend_on_each_other_are_told_and_nothing_is_proved():
    X, y = cells()
    model = daskglm.GeneralizedLinearRegressor("poisson", link="identity", alpha=0)
    with pytest.warns(match="linearly dependent"):
        model.fit(np.column_stack([X, X[:, 1]]), y)
    assert model.report_.reason == Reason.EDGE.value
    assert math.isnan(model.report_.relative_gap)
    assert model.deviance_ == pytest.approx(190.526358, rel=1e-6)


def test_tweedie_targets_of_zero_lead_to_an_end_without_a_proof():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 2))
    mean = np.maximum(0.7 + X @ [0.6, -0.4], 0.01)
    y = np.where(rng.random(100) < 0.4, 0.0, mean * rng.gamma(2.0, 0.5, 100))
    model = daskglm.GeneralizedLinearRegressor("tweedie(1.5)", link="power(0.5)", alpha=0)
    report = model.fit(X, y).report_
    assert report.reason == Reason.EDGE.value
    assert math.isnan(report.relative_gap)
    assert report.deviance < report.null_deviance


@pytest.mark.slow
def test_two_workers_and_one_process_end_alike(client):
    X, y = cells()
    lazy = da.from_array(X, chunks=(60, -1)), da.from_array(y, chunks=60)
    model = daskglm.GeneralizedLinearRegressor("poisson", link="identity", alpha=0, solver="lbfgs")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = model.fit(*lazy).report_
    assert report.workers == 2
    assert report.reason == Reason.EDGE.value
    assert report.relative_gap <= 1e-6
    assert report.deviance == pytest.approx(190.526358, rel=1e-8)


def test_optima_inside_and_iterations_that_were_asked_for_stay_as_they_are():
    X, y = cells()
    glm = functools.partial(daskglm.GeneralizedLinearRegressor, "poisson", link="identity", alpha=0)
    inside = glm().fit(X, y + 1.0).report_
    assert inside.reason == Reason.CONVERGED.value
    with pytest.warns(match="max_iter"):
        assert glm(solver="lbfgs", max_iter=3).fit(X, y).report_.n_iter == 3


# ---- what the proof rests on


@each_choice
@pytest.mark.parametrize("key", PROVED, ids="_".join)
@pytest.mark.parametrize("distance", [0.3, 1e-3, 1e-8])
def test_no_row_has_more_left_than_the_slack(key, distance):
    """l(z + v) >= l(z) + F'(z) v + q(v) - d (SLACK + l(z)), F the loss of the target moved by d."""
    loss = find("_".join(key))
    rng = np.random.default_rng(0)
    low, high = loss.link.low, loss.link.high
    top = loss.family.domain.high
    for _ in range(4000):
        scale = 10.0 ** rng.uniform(-12, 2)
        t = distance * rng.choice([0.0, 1.0, rng.random()])
        y = 1.0 - t if key[1] == "log" or (math.isfinite(top) and rng.random() < 0.5) else t
        inside = min(max(y, distance), top - distance)
        z = scale if math.isinf(high) else scale / (1.0 + scale)
        z = -scale if math.isinf(low) else z
        # to anywhere that the link takes, much nearer to an end and much farther
        way = 10.0 ** rng.uniform(-3, 3)
        to = (
            z * way
            if not (math.isfinite(low) and math.isfinite(high))
            else 1 / (1 + (1 / z - 1) * way)
        )
        if not (low < z < high and low < to < high):
            continue
        value, end = (loss.row(y, at, 0.0, 0.0)[0] for at in (z, to))
        _, slope, curvature = loss.row(inside, z, 0.0, 0.0)
        rate, v = float(loss.local_rate(inside, z)), abs(to - z)
        near = min(v, 1.6 / rate)
        x = rate * near
        share = (math.expm1(-x) + x) / x**2 if x > 1e-3 else 0.5 - x / 6.0 + x * x / 24.0
        bend = curvature * (near * near * share - math.expm1(-x) / rate * (v - near))
        left = value + slope * (to - z) + bend - end
        rounding = 1e-12 * (abs(value) + abs(end) + abs(slope * v) + bend)
        assert left <= distance * (SLACK + value) + rounding


def test_zero_counts_with_a_margin_of_zero_are_proved():
    """Their loss is z^2, of a constant curvature, and is least at the end of the margins."""
    drawn = draw(("poisson", "sqrt"), 7)
    model = drawn.fit("newton", tol=1e-8)
    z = drawn.X @ model.coef_ + model.intercept_
    # half a row of z^2 is what the gap allows
    assert abs(z[drawn.y == 0.0]).min() < 1e-3
    assert model.report_.relative_gap <= 1e-8
