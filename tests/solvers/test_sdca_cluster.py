"""Dual coordinate ascent over the workers of a cluster: CoCoA rounds, lost workers, and what they leave behind."""

import importlib
import os
import signal

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import daskglm
from benchmarks.unseen.problems import raw_counts
from daskglm.core import sample_requests
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.integration.test_counts import text_like
from tests.solvers.ascents import PARAMS, rows


@each_choice
@pytest.mark.parametrize("aggregation", ["auto", "adaptive", "safe", "search"])
@pytest.mark.parametrize("intercept", [False, True])
def test_two_workers_reach_the_optimum(aggregation, intercept, client):
    X, y = make_problem(2000, 10, seed=1)
    options = {"aggregation": aggregation, "polish": False}
    params = {**PARAMS, "fit_intercept": intercept}
    model = daskglm.fit(*rows(X, y), tol=1e-7, solver_options=options, **params)
    best = daskglm.fit(X, y, C=0.05, fit_intercept=intercept, tol=1e-12).report_.objective
    report = model.report_
    assert report.converged
    assert report.workers == 2
    assert report.relative_gap <= 1e-7
    assert -1e-12 <= (report.objective - best) / best <= 1e-7


def test_the_same_bits_again(client):
    X, y = make_problem(1500, 8, seed=1)
    a, b = (
        daskglm.fit(X, y, client=client, tol=1e-6, **PARAMS) for _ in range(2)
    )  # dealt in order of address
    assert a.report_.workers == 2
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_an_ascent_whose_rows_have_come_is_resumed(client, tmp_path):
    X, y = text_like(n=6000, d=3000, per_row=60)
    chunks = [da.from_array(X[k : k + 750], chunks=-1, asarray=False) for k in range(0, 6000, 750)]
    lazy = da.concatenate(chunks), da.from_array(y, chunks=750)
    how = {"client": client, "l1_ratio": 0.5, "C": 16.0, "tol": 1e-6}
    how |= {"solver": "sdca", "random_state": 0}

    def stop(record):
        if record["iteration"] == 9:
            raise KeyboardInterrupt

    whole, again = (daskglm.fit(*lazy, **how) for _ in range(2))
    np.testing.assert_array_equal(whole.coef_, again.coef_)
    with pytest.raises(KeyboardInterrupt):
        daskglm.fit(*lazy, checkpoint=tmp_path / "c", checkpoint_every=1, callback=stop, **how)
    rest = daskglm.fit(*lazy, resume=tmp_path / "c", **how).report_
    assert rest.converged
    assert rest.objective == pytest.approx(whole.report_.objective, rel=2e-6)


def hinge_on(client, **how):
    X, y = raw_counts(3000, 0)
    chunks = [da.from_array(X[k : k + 500], chunks=-1, asarray=False) for k in range(0, 3000, 500)]
    lazy = da.concatenate(chunks), da.from_array(y, chunks=500)
    how = {"loss": "hinge", "fit_intercept": False, "random_state": 0, **how}
    return daskglm.fit(*(lazy if client else (X, y)), client=client, **how).report_


def test_rows_of_a_slow_hinge_come_to_one_process(client, tmp_path):
    there, here = hinge_on(client), hinge_on(None)
    assert there.converged
    assert there.solver == "sdca"
    assert there.rounds <= 10
    assert there.passes < 1.5 * here.passes
    assert there.objective == pytest.approx(here.objective, rel=2e-6)

    def stop(record):
        if record["iteration"] == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hinge_on(client, checkpoint=tmp_path / "c", checkpoint_every=1, callback=stop)
    rest = hinge_on(client, resume=tmp_path / "c")
    assert rest.converged
    assert rest.objective == pytest.approx(here.objective, rel=2e-6)


def test_workers_with_more_rows_than_travel_take_steps_together(client, monkeypatch):
    monkeypatch.setattr(sample_requests, "TRAVELLING_BYTES", 0)
    how = {"solver": "sdca", "solver_options": {"polish": False}, "tol": 1e-3, "max_iter": 3000}
    steps = hinge_on(client, **how)
    assert steps.converged
    solver = importlib.import_module("daskglm.solvers.sdca")
    monkeypatch.setattr(solver, "takes_steps", lambda dual: False)
    search = hinge_on(client, **how)
    assert steps.objective <= search.objective * (1.0 + 1e-3)
    assert steps.passes < 0.8 * search.passes
    assert steps.rounds < 0.6 * search.rounds


@pytest.mark.parametrize("how", ["SIGKILL", pytest.param("retire", marks=pytest.mark.slow)])
@pytest.mark.parametrize("at", [2, pytest.param(6, marks=pytest.mark.nightly)])
def test_a_worker_lost_in_mid_fit(how, at, monkeypatch):
    X, y = make_problem(3000, 10, seed=3)
    best = daskglm.fit(X, y, C=0.05, tol=1e-12).report_.objective
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        struck = []

        def strike(record):
            if record["iteration"] == at and not struck:
                address = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
                struck.append(address)
                if how == "retire":
                    client.retire_workers([address], close_workers=True, remove=True)
                else:
                    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)

        lazy, labels = rows(X, y)
        options = {"polish": False}
        model = daskglm.fit(
            lazy, labels, tol=1e-8, callback=strike, solver_options=options, **PARAMS
        )
        report = model.report_
        assert struck
        assert report.repairs >= 1
        assert report.converged
        assert -1e-12 <= (report.objective - best) / best <= 1e-8


def test_neither_tasks_nor_state_grow_with_rounds(client):
    X, y = make_problem(1000, 6, seed=3)
    lazy, labels = (part.persist() for part in rows(X, y))
    seen = []

    def count(record):
        if record["iteration"] in (3, 40):
            tasks = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
            seen.append(tasks)

    options = {"polish": False, "aggregation": "safe"}
    with pytest.warns(Warning, match="max_iter"):
        daskglm.fit(
            lazy, labels, tol=0.0, max_iter=45, callback=count, solver_options=options, **PARAMS
        )
    assert len(seen) == 2
    assert seen[0] == seen[1]
    from daskglm.engines import worker_session as sessions

    left = client.run(lambda: sum(len(found) for found in sessions._sessions.values()))
    assert set(left.values()) == {0}
