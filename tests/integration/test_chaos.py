"""Fifty workers killed during fits: each fit ends with the undisturbed answer, and nothing is left on the cluster."""

import itertools
import os
import random
import signal
import time

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import daskglm
from tests.conftest import make_problem
from tests.engines.test_worker_session import becomes, held, tasks
from tests.integration.test_faults import Processes

X, y = make_problem(2000, 8)
KILLS, WORKERS = 50, 3
SOLVERS, WAYS = (
    ("newton", "lbfgs", "tron", "gd", "sdca"),
    ("in memory", "out of core", "checkpoint"),
)
TOL = {"gd": 1e-5, "sdca": 1e-4}  # others 1e-8; these take hundreds of rounds for more


def rows():
    return da.from_array(X, chunks=(200, 8)), da.from_array(y, chunks=200)


class Interrupted(Exception):
    """Of the callback, to be resumed from the checkpoint."""


def all_alive(client):
    """Process numbers of the workers, once their nannies have brought all back."""
    found = []

    def come():
        found[:] = client.run(os.getpid, on_error="ignore").values()
        return len(found) == WORKERS

    assert becomes(600, come), found
    return found


@pytest.mark.nightly
@pytest.mark.timeout(4000)
def test_fifty_workers_killed_during_fits(tmp_path):
    """Seed 17: of each fit's three workers two are killed, at its first iterations; a fit with checkpoints is resumed."""
    chance, kills, repairs, fits = random.Random(17), [], 0, 0
    best = daskglm.fit(X, y, tol=1e-13)
    began = time.monotonic()
    with Processes(tmp_path, WORKERS) as running, Client(running.address, timeout=60) as client:
        for solver, way in itertools.cycle(itertools.product(SOLVERS, WAYS)):
            if len(kills) >= KILLS:
                break
            victims = chance.sample(sorted(all_alive(client)), 2)
            first = 1 if way == "checkpoint" else chance.randint(0, 1)
            due = {first: victims[0], 2: victims[1]}

            def strike(record, due=due, interrupt=way == "checkpoint"):
                if victim := due.pop(record["iteration"], None):
                    os.kill(victim, signal.SIGKILL)
                    kills.append(victim)
                    if interrupt and len(due) == 1:
                        raise Interrupted
                time.sleep(0.02)

            tol = TOL.get(solver, 1e-8)
            fit = {"solver": solver, "tol": tol, "random_state": fits, "callback": strike}
            if solver == "sdca":
                fit["solver_options"] = {"polish": False}
            if way == "checkpoint":
                folder = tmp_path / str(fits)
                with pytest.raises(Interrupted):
                    daskglm.fit(*rows(), checkpoint=folder, checkpoint_every=1, **fit)
                model = daskglm.fit(*rows(), resume=folder, **fit)
            else:
                model = daskglm.fit(*rows(), out_of_core=way == "out of core", **fit)
            report = model.report_
            assert report.converged, (fits, solver, way)
            assert report.objective == pytest.approx(best.report_.objective, rel=2 * tol), (
                fits,
                solver,
                way,
            )
            if tol == 1e-8:
                np.testing.assert_allclose(model.coef_, best.coef_, rtol=1e-3, atol=1e-6)
            assert becomes(15, lambda: tasks(client) == 0), (fits, solver, way)
            repairs, fits = repairs + report.repairs, fits + 1
            print(f"{fits}: {solver}, {way}, {len(kills)} killed, {report.repairs} repairs")
        all_alive(client)
        assert becomes(60, lambda: {found[:3] for found in held(client)} == {(0, 0, 0)})
    print(
        f"\n{fits} fits, {len(kills)} workers killed, {repairs} repairs in {time.monotonic() - began:.0f} s"
    )
