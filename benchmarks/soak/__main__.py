"""Soak: random jobs of fits, paths, cross-validation and inference with random faults, checked one
by one, for so many minutes.

    python -m benchmarks.soak --minutes 30

A scheduler and two workers under nannies run as processes of their own. Each job ends with what
NumPy and SciPy find, too, or with the error that its fault explains; between jobs no task may be
left on the scheduler, and no session on a worker for longer than a minute. `PHASES` are: workers
with a lifetime of 14 s, which come again; a scheduler that is killed at times, after which all is
started anew; and one cluster to the end. What client, scheduler and workers take is sampled every
few seconds; at the end the medians of the last third of the last phase must not exceed those of its
second third by more than the tolerance in `record`. Written to the folder: soak.jsonl (machine,
versions, seed and commit first, the verdict last) and soak.png.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import signal
import tempfile
import threading
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from benchmarks.soak.cases import Answer, Asked, Case
from benchmarks.soak.jobs import INPUT, KILL_SCHEDULER, KINDS, draw, judge, run_job, without_end
from benchmarks.soak.processes import FAULTS, Processes
from benchmarks.soak.record import Recorder, flatness, plot
from benchmarks.soak.warm_up import warm_up

# After which a job is held to hang: the stacks are written and the process ends.
HANGING_SECONDS = 900.0
# After which a job gets a worker that stays, where the others come and go: on a busy machine their
# imports and first kernels may take most of their 14 s.
PATIENCE_SECONDS = 100.0
# Within which what a killed client left has to be gone.
GIVEN_BACK_SECONDS = 60.0
# Within which the scheduler has to have forgotten the tasks of a job.
SETTLED_SECONDS = 15.0
# For which Dask's client tries to reach a scheduler that is gone, and within which the job has to
# end: the rest is for a machine that is busy otherwise.
CONNECT_SECONDS, LOST_SECONDS = 20.0, 45.0
# A folder for each day is written to.
OUT = Path(__file__).resolve().parents[1] / "results" / "soak"


class Phase(NamedTuple):
    """A part of the time, with a cluster of its own.

    Parameters
    ----------
    name : str
    until : float
        Share of the time at which it ends.
    faults : tuple of str
        Among which one is drawn for each job.
    lifetimes : bool
        Whether workers end after 14 s, and come again.
    """

    name: str
    until: float
    faults: tuple[str, ...]
    lifetimes: bool = False


PHASES = (
    Phase("lifetimes", 0.2, FAULTS, lifetimes=True),
    Phase("schedulers", 0.4, ("none", INPUT, "kill", *[KILL_SCHEDULER] * 3)),
    Phase("steady", 1.0, FAULTS),
)


@click.command(help=__doc__)
@click.option("--minutes", default=30.0, show_default=True)
@click.option("--seed", default=17, show_default=True)
@click.option("--sample", default=5.0, show_default=True, help="Seconds between two samples.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder; default: that of today in benchmarks/results/soak.",
)
def main(minutes: float, seed: int, sample: float, out: Path | None) -> None:
    """Run."""
    from benchmarks.suites.runner import commit
    from benchmarks.suites.single_run import surroundings

    out = out or OUT / datetime.datetime.now(datetime.UTC).date().isoformat()
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
                Soak(running, recorder, np.random.default_rng(seed)).run(minutes * 60)
        finally:
            running.close()
    records = recorder.records
    fits = [record for record in records if record["kind"] == "fit"]
    rows = flatness(records)
    ends = dict(
        Counter(
            f"{record['fault']}: {record['end'].partition(':')[0]}" for record in fits
        ).most_common()
    )
    recorder.write("verdict", fits=len(fits), ends=ends, flatness=rows)
    took = records[-1]["t"] / 60
    title = (
        f"{len(fits)} jobs in {took:.1f} minutes, seed {seed}, commit {about['commit']}, "
        f"{about['machine']['cpu']}"
    )
    plot(records, title, out / "soak.png")
    for row in rows:
        click.echo(
            f"{row['process']:10}{row['measure']:8} {row['second']:8.1f} -> {row['last']:8.1f}  "
            f"{row['flat']}"
        )
    click.echo(f"{len(fits)} jobs; {ends}")
    failed = [record for record in fits if record["end"].startswith("WRONG")]
    failed += [row for row in rows if not row["flat"]]
    if failed:
        raise SystemExit("\n".join(map(str, ["wrong, or not flat:", *failed])))


class Soak:
    """Jobs, one after the other, on clusters of the phases."""

    def __init__(self, running: Processes, recorder: Recorder, rng: np.random.Generator) -> None:
        self.running = running
        self.recorder = recorder
        self.rng = rng
        self.left = Left()
        self.client: Any = None
        self.number = 0

    def run(self, seconds: float) -> None:
        """Go on until the time is over, and then wait until nothing is left.

        Raises AssertionError if something stays.
        """
        enough = threading.Event()
        signal.signal(signal.SIGINT, lambda *_: enough.set())  # it ends after the job under way
        try:
            for phase in PHASES:
                self.start(phase)
                end = self.recorder.began + phase.until * seconds
                while time.monotonic() < end and not enough.is_set():
                    self.job(phase)
                    if not self.running.has_scheduler:
                        self.start(phase)
            deadline = time.monotonic() + GIVEN_BACK_SECONDS
            while (found := self.left.look(self.client))["sessions"]:
                assert time.monotonic() < deadline, found
                time.sleep(1.0)
        finally:
            self.close_client()

    def start(self, phase: Phase) -> None:
        """Start a cluster, with a client."""
        from distributed import Client

        self.close_client()
        self.running.start(lifetimes=phase.lifetimes)
        self.client = Client(self.running.address, timeout=CONNECT_SECONDS)
        self.running.ensure(self.client)
        self.left = Left()
        if phase is PHASES[-1]:  # of its workers one lives to the end
            self.client.submit(warm_up, workers=["a"], pure=False).result()
        self.recorder.write("cluster", phase=phase.name)

    def close_client(self) -> None:
        """Close the client, whose scheduler may be gone."""
        if self.client is not None:
            with contextlib.suppress(Exception):
                self.client.close(timeout=10)

    def job(self, phase: Phase) -> None:
        """Draw, run and check one job, and look at what it leaves."""
        running, client = self.running, self.client
        running.ensure(client)
        case = draw(self.number, self.rng, phase.faults)
        self.number += 1
        began = time.monotonic()
        faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True)
        more: dict[str, Any] = {}
        said = ""
        if case.fault == "kill client":
            said = running.killed_client(case.number)
            more["client"] = said
        patience = threading.Timer(PATIENCE_SECONDS, running.help)
        if phase.lifetimes:
            patience.start()
        answer = self.answer(case)
        ended = time.monotonic()
        patience.cancel()
        if running.end_help():
            more["helped"] = True
        try:
            # rows that were sent are lost with their worker; else its fit was under way, or the
            # machine so busy that it did not come so far
            if said.startswith("ended with"):
                may_be_lost = phase.lifetimes and without_end(case.number).storage == "sent"
                explained = may_be_lost and "DataLost" in said
                assert explained, f"the client that was killed {said}"
            end = judge(case, answer, workers_come_and_go=phase.lifetimes)
            if case.fault == KILL_SCHEDULER and running.struck_at is not None:
                more["lost_seconds"] = round(ended - running.struck_at, 2)
                assert ended < running.struck_at + LOST_SECONDS, f"it took {more['lost_seconds']} s"
            if running.has_scheduler:
                more |= self.left.look(client)
        except AssertionError as error:
            end = f"WRONG: {error}, caused by {error.__cause__!r}"
            click.echo(end)
        faulthandler.cancel_dump_traceback_later()
        if isinstance(answer, Answer) and answer.repairs:
            more["repairs"] = answer.repairs
        about = asdict(case)
        about["job"] = about.pop("kind")
        self.recorder.write(
            "fit",
            phase=phase.name,
            **about,
            struck=running.struck_at is not None,
            end=end,
            took=round(ended - began, 2),
            checked=round(time.monotonic() - ended, 2),
            **more,
        )

    def answer(self, case: Case) -> Answer | Exception:
        """Run a job, and have its fault strike at its iteration, or after its time."""
        running, client = self.running, self.client
        running.struck_at = None
        strikes = threading.Timer(case.seconds, running.strike, (case.fault, client))

        def callback(record: dict[str, Any]) -> None:
            if record["iteration"] == case.iteration or case.fault == "callback":
                running.strike(case.fault, client)

        if KINDS[case.kind].tells_iterations:
            return run_job(case, Asked(client, case.storage, callback))
        answer = run_job(case, Asked(client, case.storage, begin=strikes.start))
        strikes.cancel()
        if strikes.ident is not None:  # it may be at work
            strikes.join()
        return answer


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
