"""Soak: fits of random shape, loss, solver and storage with random faults, checked one by one, for
so many minutes.

    python -m benchmarks.soak --minutes 30

A scheduler and two workers under nannies run as processes of their own. Each fit ends with the
optimum, found again by NumPy, or with the error that its fault explains; between fits no task may
be left on the scheduler, and no session on a worker for longer than a minute. What client,
scheduler and workers take is sampled every few seconds; at the end the medians of the last third of
the time must not exceed those of the second by more than the tolerance in `record`. Written to the
folder: soak.jsonl (machine, versions, seed and commit first, the verdict last) and soak.png.
"""

from __future__ import annotations

import faulthandler
import itertools
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np

import daskglm
from benchmarks.soak.fits import LOSSES, SOLVERS, draw, fit
from benchmarks.soak.processes import FAULTS, Processes
from benchmarks.soak.record import Recorder, flatness, plot
from daskglm.core.requests import HessianVector, LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local

HANGING_SECONDS = (
    900.0  # after which a fit is held to hang: the stacks are written and the process ends
)
GIVEN_BACK_SECONDS = 60.0  # within which what a killed client left has to be gone
SETTLED_SECONDS = 15.0  # within which the scheduler has to have forgotten the tasks of a fit
OUT = Path(__file__).resolve().parents[1] / "results" / "soak"


@click.command(help=__doc__)
@click.option("--minutes", default=30.0, show_default=True)
@click.option("--seed", default=17, show_default=True)
@click.option("--sample", default=5.0, show_default=True, help="Seconds between two samples.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=OUT, show_default="benchmarks/results/soak"
)
def main(minutes: float, seed: int, sample: float, out: Path) -> None:
    """Run."""
    from benchmarks.suites.runner import commit
    from benchmarks.suites.single_run import surroundings

    out.mkdir(parents=True, exist_ok=True)
    file = out / "soak.jsonl"
    file.unlink(missing_ok=True)
    about = {**surroundings(), "commit": commit(), "seed": seed, "minutes": minutes}
    with tempfile.TemporaryDirectory() as folder:
        warm_up()
        running = Processes(Path(folder))
        try:
            with Recorder(file, running, sample) as recorder:
                recorder.write("about", **about)
                soak(running, recorder, minutes * 60, np.random.default_rng(seed))
        finally:
            running.close()
    records = recorder.records
    fits = [record for record in records if record["kind"] == "fit"]
    rows = flatness(records)
    ends = dict(
        Counter(
            f"{record['fault']}: {record['end'].partition(',')[0]}" for record in fits
        ).most_common()
    )
    recorder.write("verdict", fits=len(fits), ends=ends, flatness=rows)
    took = records[-1]["t"] / 60
    title = (
        f"{len(fits)} fits in {took:.1f} minutes, seed {seed}, commit {about['commit']}, "
        f"{about['machine']['cpu']}"
    )
    plot(records, title, out / "soak.png")
    for row in rows:
        click.echo(
            f"{row['process']:10}{row['measure']:8} {row['second']:8.1f} -> {row['last']:8.1f}  "
            f"{row['flat']}"
        )
    click.echo(f"{len(fits)} fits; {ends}")
    failed = [record for record in fits if record["end"].startswith("WRONG")]
    failed += [row for row in rows if not row["flat"]]
    if failed:
        raise SystemExit("\n".join(map(str, ["wrong, or not flat:", *failed])))


def warm_up() -> None:
    """Compile the kernels into numba's cache.

    Compiling one within a worker leaves it 10 to 40 MB larger for good.
    """
    import dask.array as da

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.where(rng.random(200) < 0.5, -1.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in ("float64", "float32"):
            rows = X.astype(dtype)
            for loss, solver in itertools.product(LOSSES, SOLVERS):
                daskglm.fit(rows, y, loss=loss, solver=solver, tol=1e-2)
            lazy = da.from_array(rows, chunks=(50, 3)), da.from_array(y, chunks=50)
            daskglm.fit(*lazy, solver="tron", out_of_core=True, client=None)
            daskglm.LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(*lazy)
            after_loss = Local(
                partitions(rows, y, classify=True).load()
            )  # margins that a lost worker had are made anew
            after_loss.total(
                Problem(LossRef("logistic"), 1.0), HessianVector(np.ones(4), (1, np.ones(4)))
            )
            after_loss.close()


def soak(running: Processes, recorder: Recorder, seconds: float, rng: np.random.Generator) -> None:
    """Fit until the time is over, and then wait until nothing is left.

    Raises AssertionError if something stays.
    """
    from distributed import Client

    number, left = 0, Left()
    enough = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: enough.set())  # it ends after the fit under way
    with Client(running.address, timeout=60) as client:
        while time.monotonic() < recorder.began + seconds and not enough.is_set():
            running.ensure(client)
            case = draw(number, rng, FAULTS)

            def callback(record: dict[str, Any], case: Any = case) -> None:
                if record["iteration"] == case.iteration:
                    running.strike(case.fault, client)

            began = time.monotonic()
            faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True)
            under_way = None
            if case.fault == "kill client":
                under_way = running.killed_client(number)
            elif case.storage in ("path", "cross-validation"):  # which take no callback
                threading.Timer(rng.uniform(0.0, 0.5), running.strike, (case.fault, client)).start()
            try:
                end = fit(case, client, callback)
                counts = left.look(client)
            except AssertionError as error:
                end = f"WRONG: {error}, caused by {error.__cause__!r}"
                counts = {}
                click.echo(end)
            faulthandler.cancel_dump_traceback_later()
            took = round(time.monotonic() - began, 2)
            about = {
                key: getattr(case, key)
                for key in ("number", "rows", "columns", "loss", "solver", "storage")
            }
            about |= {} if under_way is None else {"client_was_under_way": under_way}
            recorder.write("fit", **about, fault=case.fault, end=end, seconds=took, **counts)
            number += 1
        deadline = time.monotonic() + GIVEN_BACK_SECONDS
        while (found := left.look(client))["sessions"] and time.monotonic() < deadline:
            time.sleep(1.0)
        assert found == {"tasks": 0, "sessions": 0}, found


class Left:
    """What is on the cluster while no fit is under way, and since when."""

    def __init__(self) -> None:
        self.since: dict[str, float] = {}

    def look(self, client: Any) -> dict[str, int]:
        """Counts; raises AssertionError where a session or a task is there for too long."""
        deadline = time.monotonic() + SETTLED_SECONDS
        while (tasks := client.run_on_scheduler(_tasks)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not tasks, f"{tasks} tasks are left on the scheduler"
        there = {
            f"{address} {name}"
            for address, names in client.run(_sessions, on_error="ignore").items()
            for name in names or ()
        }
        now = time.monotonic()
        self.since = {name: self.since.get(name, now) for name in there}
        old = [name for name, at in self.since.items() if now > at + GIVEN_BACK_SECONDS]
        assert not old, f"sessions are left on workers: {old}"
        return {"tasks": tasks, "sessions": len(there)}


def _tasks(dask_scheduler: Any = None) -> int:
    return len(dask_scheduler.tasks)


def _sessions(dask_worker: Any = None) -> list[str]:
    """On a worker: the sessions that it has."""
    import sys

    module = sys.modules.get("daskglm.engines.worker_session")
    return [] if module is None else list(module._sessions.get(dask_worker, {}))


if __name__ == "__main__":
    main()
