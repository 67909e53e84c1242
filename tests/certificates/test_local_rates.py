"""Gaps proved by rates of curvatures near a point: for families whose curvature has no other bound."""

import math

import dask.array as da
import numpy as np
import pytest
from scipy.special import xlogy

import daskglm
from daskglm.certificates.hessian_factor import HessianFactor, excess
from daskglm.certificates.local_rates import LARGEST_STEP, LEAST, LocalRates
from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import find, loss_of_family
from daskglm.objectives.primal import Objective
from tests.glm import sample
from tests.worker.test_rates import CASES

NONE = {"slopes": 0.0, "curvature": 0.0, "moved": 0.0, "changed": 0.0, "rate": 0.0}


def model_of(family, link, **options):
    options = {"tol": 1e-8, "solver": "newton"} | options
    return daskglm.GeneralizedLinearRegressor(family, link=link, **options)


@pytest.mark.parametrize(("family", "link", "centre"), CASES)
@pytest.mark.parametrize("alpha", [0.0, 0.01])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_newton_proves_its_answer(family, link, centre, alpha, dtype):
    X, y, weight, offset = sample(family, link, centre, n=1000)
    model = model_of(family, link, alpha=alpha)
    model.fit(X.astype(dtype), y, sample_weight=weight, offset=offset)
    report = model.report_
    assert report.converged
    assert 0.0 <= report.relative_gap <= 1e-8
    # one round a point, and no pass, beside those of Newton's method
    assert report.passes <= report.n_iter + 3.1


@pytest.mark.parametrize(("family", "link", "centre"), CASES[::2])
def test_two_workers_prove_what_one_process_does(family, link, centre, client):
    X, y, weight, offset = sample(family, link, centre, n=1000)
    alone = model_of(family, link, alpha=0.0).fit(X, y, sample_weight=weight, offset=offset)
    lazy = (da.from_array(values, chunks=(300,) + (-1,) * (values.ndim - 1)) for values in (X, y))
    beside = (da.from_array(values, chunks=300) for values in (weight, offset))
    there = model_of(family, link, alpha=0.0).fit(
        *lazy, **dict(zip(("sample_weight", "offset"), beside, strict=True))
    )
    assert there.report_.relative_gap <= 1e-8
    assert there.report_.relative_gap == pytest.approx(alone.report_.relative_gap, rel=0.1)


@pytest.mark.parametrize(("family", "link", "centre"), CASES)
def test_no_iteration_tells_less_than_the_truth(family, link, centre):
    X, y, _, _ = sample(family, link, centre)
    best = model_of(family, link, alpha=0.0, tol=1e-14).fit(X, y).report_.objective
    history = model_of(family, link, alpha=0.0, tol=1e-12).fit(X, y).report_.history
    told = [record for record in history if math.isfinite(record["relative_gap"])]
    assert len(told) >= 2
    for record in told:
        assert record["objective"] <= best * (1 + record["relative_gap"]) + 1e-13 * best


def test_columns_of_unlike_scales_cost_two_passes():
    X, y, _, _ = sample("gamma", "inverse", 3.0)
    X = X * [1e-5, 1.0, 1e5]
    model = model_of("gamma", "inverse", alpha=0.0, tol=1e-13).fit(X, y)
    assert model.report_.relative_gap <= 1e-13
    assert model.report_.passes <= model.report_.n_iter + 4.1


def test_empty_cells_of_identity_links_are_proved_by_targets_moved_inside():
    rng = np.random.default_rng(0)
    cell = (np.arange(400) % 4 == 0).astype(float)
    y = np.where(cell > 0, 0.0, rng.poisson(3.0, 400))
    report = model_of("poisson", "identity", alpha=0.0).fit(cell[:, None], y).report_
    rest = y[cell == 0]
    least = 2.0 * xlogy(rest, rest / rest.mean()).sum()
    assert least <= report.deviance <= least * (1.0 + report.relative_gap)
    assert report.reason == Reason.EDGE.value


@pytest.mark.parametrize(
    ("family", "link"), [("gamma", "inverse"), ("poisson", "sqrt"), ("inverse_gaussian", "1/mu^2")]
)
def test_targets_that_are_all_the_same_are_fitted(family, link):
    X = np.random.default_rng(0).normal(size=(200, 2))
    report = model_of(family, link, alpha=0.0).fit(X, np.full(200, 0.3)).report_
    assert report.converged
    assert report.relative_gap == 0.0


# ---- the pieces
def pieces(value):
    """A Rounding without roundings to speak of, and the factor of a Hessian."""
    objective = whole("gamma_inverse")
    factor = HessianFactor.of(np.diag([value, 2.0 * value]), 0.0)
    objective.engine.close()
    return objective.rounding, factor


def whole(loss, n=100):
    X, y, _, _ = sample("gamma", "inverse", 3.0, n=n)
    record = find(loss)
    engine = Local([to_block(X, y, place=Place(), classify=False)], 1)
    return Objective(engine, Problem(record.ref), record, C=math.inf, fit_intercept=True, start=3.0)


def test_the_excess_is_that_of_the_largest_rate():
    rounding, factor = pieces(4.0)
    rates = LocalRates.of(NONE | {"rate": 0.5**32}, 1.0)
    w = np.zeros(4)
    found = rates.excess(rounding, factor, w, 0.3)
    assert found == pytest.approx(excess(0.3, 0.5), rel=1e-6)
    assert found >= excess(0.3, 0.5)
    assert rates.excess(rounding, factor, w, 1.01 * LARGEST_STEP / 0.5) == math.inf


def test_roundings_that_change_curvatures_too_much_prove_nothing():
    rounding, factor = pieces(4.0)
    w = np.zeros(4)
    for changed in (0.3, math.inf, math.nan):
        rates = LocalRates.of(NONE | {"changed": changed**32}, 1.0)
        assert rates.excess(rounding, factor, w, 1e-3) == math.inf
    some = LocalRates.of(NONE | {"changed": 0.2**32}, 1.0).excess(rounding, factor, w, 1e-3)
    assert some >= math.exp(2 * 0.2) * 0.5e-6
    assert LocalRates.of(NONE, 1.0).changed == LEAST
    assert (
        LocalRates.of(NONE | {"rate": math.nan}, 1.0).excess(rounding, factor, w, 0.1) == math.inf
    )


def test_errors_of_margins_widen_the_bound():
    rounding, factor = pieces(4.0)
    rates = LocalRates.of(NONE | {"moved": 0.25}, 4.0)
    assert rates.excess(rounding, factor, np.zeros(4), 0.1) >= 0.5 * 1.1**2


def test_rates_are_asked_once_and_of_points_with_a_hessian():
    objective = whole("gamma_inverse")
    near = objective.at(np.array([0.3, -0.4, 0.2, 3.0]), gram=True)
    passes = objective.passes
    found = objective.bounds.with_rates(near)
    assert found.rates is not None
    assert objective.passes == passes
    assert objective.bounds.with_rates(found) is found
    bare = objective.at(np.array([0.3, -0.4, 0.2, 3.0]))
    assert objective.bounds.with_rates(bare) is bare
    assert math.isnan(objective.bounds.of(bare))
    objective.engine.close()


def test_which_objectives_are_local():
    for loss, expected in (("gamma_inverse", True), ("gamma", False)):
        objective = whole(loss)
        assert objective.bounds.is_local == expected
        objective.engine.close()
    assert loss_of_family("gamma", "identity").local_rate is None
