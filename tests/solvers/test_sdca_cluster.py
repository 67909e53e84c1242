"""Dual coordinate ascent over the workers of a cluster: CoCoA rounds, lost workers, and what they leave behind."""

import importlib
import os
import signal

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import daskglm
from daskglm.objectives import dual as dual_module
from tests.conftest import make_problem

PARAMS = {"solver": "sdca", "random_state": 0, "C": 0.05}


def rows(X, y, blocks=6):
    size = -(-len(y) // blocks)
    return da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)


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


def test_hinge_and_local_epochs(client):
    X, y = make_problem(2000, 10, seed=1, sparse=True)
    one = daskglm.fit(X, y, loss="hinge", C=0.05, tol=1e-5, random_state=0, max_iter=3000)
    options = {"local_epochs": 3}
    many = daskglm.fit(
        *rows(X.toarray(), y),
        loss="hinge",
        tol=1e-5,
        solver_options=options,
        max_iter=3000,
        **PARAMS,
    )
    assert many.report_.objective == pytest.approx(one.report_.objective, rel=1e-5)
    assert many.report_.passes > 2.9 * many.report_.n_iter


def test_the_same_bits_again(client):
    X, y = make_problem(1500, 8, seed=1)
    a, b = (
        daskglm.fit(X, y, client=client, tol=1e-6, **PARAMS) for _ in range(2)
    )  # dealt in order of address
    assert a.report_.workers == 2
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_every_dual_request_asked_twice_changes_nothing():
    """A repeated request (a reply was lost) finds the same state and gives the same totals, bit by bit."""
    from daskglm.core.requests import Problem, SDCAConfig
    from daskglm.data.partitions import partitions
    from daskglm.engines.local import Local
    from daskglm.losses.table import LOSSES
    from daskglm.objectives.primal import Objective

    class Twice(Local):
        def total(self, problem, request):
            first = super().total(problem, request)
            kept = {name: np.array(value, copy=True) for name, value in first.items()}
            again = super().total(problem, request)
            for name in set(kept) - {"rows", "rebuilt"}:
                np.testing.assert_array_equal(kept[name], again[name])
            return again

    def run(engine):
        loss = LOSSES["logistic"]
        objective = Objective(engine, Problem(loss.ref, 1.0), loss, C=0.05, fit_intercept=True)
        dual = dual_module.Dual(objective, np.zeros(objective.size), SDCAConfig(partitions=2), 0)
        for k in range(8):
            dual.round(1.0, 2.0)
            if k > 2:
                dual.line(np.array([[1.0, 0.0], [0.5, 0.1]]))
            dual.commit(0.9, 0.05 if k > 2 else 0.0, keep=k > 1)
        return dual.certificate()

    X, y = make_problem(800, 6, seed=1)
    blocks = partitions(X, y, None, classify=True).load
    once, twice = run(Local(blocks(), 2)), run(Twice(blocks(), 2))
    np.testing.assert_array_equal(once.w, twice.w)
    assert once.dual == twice.dual


@pytest.mark.parametrize("forget", ["round", "line", "certificate"])
def test_forgotten_dual_variables_are_rebuilt(forget, monkeypatch):
    """Whatever a block remembered may vanish before any request: v stays what the rows say, the optimum the same."""
    from daskglm.worker import dual_state as ascent

    X, y = make_problem(1500, 8, seed=2)
    params = {**PARAMS, "tol": 1e-8}
    options = {"polish": False, "aggregation": "search"}
    best = daskglm.fit(X, y, C=0.05, tol=1e-12).report_.objective
    calls = {"n": 0}
    answer = ascent.DualWorker.answer
    kinds = {"round": "DualRound", "line": "DualLine", "certificate": "DualTotals"}

    def forgetful(self, law, request, caches):
        if type(request).__name__ == kinds[forget]:
            calls["n"] += 1
            if calls["n"] in ((1,) if forget == "certificate" else (4, 7)):
                for cache in caches[::2]:
                    cache.dual = None
        return answer(self, law, request, caches)

    watch = importlib.import_module("daskglm.solvers.sdca")._Watch
    again, before = [], watch.start_again
    monkeypatch.setattr(watch, "start_again", lambda self: again.append(self.least) or before(self))
    monkeypatch.setattr(ascent.DualWorker, "answer", forgetful)
    lazy, labels = rows(X, y)
    model = daskglm.fit(lazy, labels, solver_options=options, **params)
    assert calls["n"] >= (1 if forget == "certificate" else 7)
    if forget != "certificate":  # which may prove enough even so
        assert again, "what was reached before is no measure of progress any more"
    assert (model.report_.objective - best) / best <= 1e-8
    assert model.report_.relative_gap <= 1e-8


@pytest.mark.parametrize("how", ["SIGKILL", "retire"])
@pytest.mark.parametrize("at", [2, pytest.param(6, marks=pytest.mark.slow)])
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
