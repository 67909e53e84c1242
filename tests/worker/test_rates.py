"""Sums over curvatures: over blocks, threads and runs of rows, against NumPy over all rows."""

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.core.requests import Evaluate, Problem, RateSums
from daskglm.core.summation import MARGIN_ROUNDING, MOMENT
from daskglm.losses.table import loss_of_family
from daskglm.worker import rates
from tests.glm import sample
from tests.losses.formulas import reference
from tests.worker.test_residuals import W, shard

CASES = [
    ("poisson", "identity", 3.0),
    ("poisson", "sqrt", 3.0),
    ("gamma", "inverse", 3.0),
    ("inverse_gaussian", "1/mu^2", 3.0),
    ("binomial", "cloglog", 0.0),
    ("binomial", "probit", 0.0),
    ("binomial", "log", -2.5),
]


def ask(holder, family, link, centre, *, error=0.01, reach=1e9, token=1):
    at = np.add(W, [0, 0, 0, centre])
    problem = Problem(loss_of_family(family, link).ref)
    return holder.answer(problem, RateSums((token, at), error, reach, 2.0))


@pytest.mark.parametrize(("family", "link", "centre"), CASES)
@pytest.mark.parametrize("beside", [False, True])
def test_sums_are_those_of_all_rows(family, link, centre, beside):
    X, y, weight, offset = sample(family, link, centre)
    if not beside:
        weight = offset = None
    loss = loss_of_family(family, link)
    z = X @ W[:3] + W[3] + centre + (0.0 if offset is None else offset)
    s = np.ones(len(y)) if weight is None else weight
    _, slope, curvature = reference(loss.name, y, z)
    rate = loss.local_rate(y, z)
    room = loss.link.room(z)
    falling = rate
    if loss.link.is_bounded:
        falling = np.where(rate > 0.0, np.maximum(rate, 2.0 / room), 0.0)
    error = 0.01 + MARGIN_ROUNDING * (room if loss.link.is_bounded else 1.0 + np.abs(z))
    bent = curvature > 0.0
    own = (rate[bent] / np.sqrt(2.0 * (s * curvature)[bent])).max()
    for cuts in ((), (50, 50, 200)):
        found = ask(shard(X, y, weight, offset, cuts), family, link, centre)
        assert found["slopes"] == pytest.approx((s * np.abs(slope)).sum(), rel=1e-9)
        assert found["curvature"] == pytest.approx((s * curvature).sum(), rel=1e-9)
        assert found["moved"] == pytest.approx((s * curvature * error**2).sum(), rel=1e-9)
        assert 1.0 <= found["changed"] ** (1 / MOMENT) / (error * falling).max() * (1 + 1e-12) < 1.3
        assert 1.0 <= found["rate"] ** (1 / MOMENT) / own * (1 + 1e-12) < 1.3
    near = ask(shard(X, y, weight, offset, ()), family, link, centre, reach=1e-3)
    assert near["rate"] ** (1 / MOMENT) <= 1.3 * 1e-3 * rate.max()


def test_sums_do_not_depend_on_blocks_threads_or_runs(monkeypatch):
    X, y, weight, offset = sample("gamma", "inverse", 3.0)
    whole = ask(shard(X, y, weight, offset, ()), "gamma", "inverse", 3.0)
    monkeypatch.setattr("daskglm.worker.pieces.INLINE_WORK", 0)
    monkeypatch.setattr(rates, "ROWS", 17)
    parts = ask(shard(X, y, weight, offset, (100,), 3), "gamma", "inverse", 3.0)
    for name in rates.NAMES:
        assert parts[name] == pytest.approx(whole[name], rel=1e-12)


def test_margins_that_are_cached_cost_no_rows_and_others_are_computed():
    X, y, weight, offset = sample("gamma", "inverse", 3.0)
    holder = shard(X, y, weight, offset, (100,))
    problem = Problem(loss_of_family("gamma", "inverse").ref)
    assert ask(holder, "gamma", "inverse", 3.0, token=7)["rows"] == len(y)
    holder.answer(problem, Evaluate(np.add(W, [0, 0, 0, 3.0]), 8))
    assert ask(holder, "gamma", "inverse", 3.0, token=8)["rows"] == 0


def test_margins_that_may_be_outside_are_told_but_for_rows_without_weight():
    X, y, weight, _ = sample("gamma", "inverse", 3.0)
    X[0] = [-100.0, 0.0, 0.0]
    assert ask(shard(X, y, weight, None, ()), "gamma", "inverse", 3.0)["changed"] == np.inf
    weight[0] = 0.0
    assert np.isfinite(ask(shard(X, y, weight, None, ()), "gamma", "inverse", 3.0)["changed"])
    # within an error of zero, curvatures may be any
    error = 4.0
    told = ask(shard(X, y, weight, None, ()), "gamma", "inverse", 3.0, error=error)["changed"]
    assert told ** (1 / MOMENT) > 1.0


def test_rows_out_of_core_are_not_read_for_it(monkeypatch):
    X, y, _, _ = sample("gamma", "inverse", 3.0)
    lazy = (da.from_array(X, chunks=(60, -1)), da.from_array(y, chunks=60))
    monkeypatch.setattr("daskglm.engines.factory.memory_left", lambda: 10_000)
    options = {"family": "gamma", "link": "inverse", "alpha": 0.0, "tol": 1e-8}
    report = daskglm.fit(*lazy, solver="newton", out_of_core=True, **options).report_
    assert report.waiting > 0.0
    assert report.relative_gap <= 1e-8
    assert report.passes <= report.n_iter + 2.1
