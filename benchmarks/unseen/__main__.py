"""`python -m benchmarks.unseen BASE`: this code, another commit and rivals in turns, as a table."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import TIMEOUT_MAX, Timer
from typing import Any

import click
import psutil

from benchmarks.contestants import CONTESTANTS
from benchmarks.datasets.problems import Unavailable, write
from benchmarks.speed_guard import ROOT, checkout
from benchmarks.suites.environments import interpreter
from benchmarks.suites.runner import THREAD_VARIABLES, commit
from benchmarks.unseen.problems import PROBLEMS, Problem

TOL = 1e-6  # of daskglm, and the suboptimality that rivals are to reach
READY = 300.0  # seconds until a contestant must have read the rows and warmed up
SINGLE = ("newton", "tron", "lbfgs", "sdca")
MOST_FEATURES = 4_000  # with which `newton` is tried by name


@dataclass
class Side:
    """A contestant of one problem: its process, and its fits at the tolerance it is timed at."""

    name: str
    process: subprocess.Popen[str]
    limit: float
    refused: str | None = None
    tol: float = TOL
    fits: list[dict[str, Any]] = field(default_factory=list)

    def fit(self, tol: float) -> dict[str, Any]:
        """Return the record of one fit; the process is ended where that is late."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{tol}\n")
        self.process.stdin.flush()
        return self.read(self.limit)

    def read(self, limit: float) -> dict[str, Any]:
        """Return the next answer of the process, which is ended after `limit` seconds."""
        assert self.process.stdout is not None
        late = Timer(min(limit, TIMEOUT_MAX), self.end)
        late.start()
        answer = next((line for line in self.process.stdout if line.startswith("{")), None)
        in_time = late.is_alive()
        late.cancel()
        if answer is not None:
            return json.loads(answer)
        return {"refused": "its process ended" if in_time else f"> {limit:g} s"}

    def end(self) -> None:
        """End the process and those that it started: H2O's server has a session of its own."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.process.pid)
            for each in (*process.children(recursive=True), process):
                each.kill()

    @property
    def seconds(self) -> float:
        """Median of its fits."""
        return median(fit["seconds"] for fit in self.fits)

    def excess(self, best: float) -> float:
        """Relative distance of its objective from the best one."""
        return max(fit["objective"] for fit in self.fits) / best - 1.0


def start(
    stack: ExitStack,
    name: str,
    contestant: str,
    problem: Problem,
    folder: str,
    package: Path,
    limit: float,
) -> Side:
    """Start the process of a contestant, with the daskglm of `package`; it may refuse."""
    threads = len(os.sched_getaffinity(0))
    path = os.pathsep.join([str(package), str(ROOT)])
    request = {"contestant": contestant, "folder": folder, "threads": threads}
    request |= {"loss": problem.loss, "C": problem.C}
    process = subprocess.Popen(
        [
            interpreter(CONTESTANTS[contestant].environment),
            *("-P", "-m", "benchmarks.unseen.side", json.dumps(request)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads)) | {"PYTHONPATH": path},
    )
    stack.callback(process.wait)
    side = Side(name, process, limit)
    stack.callback(side.end)
    answer = side.read(READY)
    side.refused = answer.get("refused")
    if contestant.startswith("daskglm") and side.refused is None:
        found = Path(answer["ready"]).parents[1]
        assert found == package, f"the process imports daskglm of {found}, not of {package}"
    return side


def _limit(contestant: str, limit: float) -> float:
    """Return the limit of a contestant's fits: `auto` has none."""
    return math.inf if contestant == "daskglm-auto" else limit


def race(problem: Problem, base: Path, seed: int, repeats: int, limit: float) -> list[Side]:
    """Return all contestants of a problem, with fits that took turns.

    No fit of others than `auto` takes more than `limit` seconds, and those that took as much
    together are not repeated.
    """
    X, y = problem.make(seed)
    features = X.shape[1]
    with tempfile.TemporaryDirectory(prefix="daskglm-unseen-") as scratch, ExitStack() as stack:
        folder = str(Path(scratch, "rows"))
        write(Path(folder), X, y)
        del X, y
        single = [name for name in SINGLE if name != "newton" or features <= MOST_FEATURES]
        entries = [("base", "daskglm-auto", base), ("now", "daskglm-auto", ROOT)]
        entries += [(name, f"daskglm-{name}", ROOT) for name in single]
        entries += [(name, name, ROOT) for name in problem.peers]
        sides = [
            start(stack, name, contestant, problem, folder, package, _limit(contestant, limit))
            for name, contestant, package in entries
        ]
        best = sides[1].fit(TOL)["objective"]
        for side in sides:
            _find_tol(side, best)
        for turn in range(repeats):
            for side in sides[turn % 2 :] + sides[: turn % 2]:
                if side.refused or sum(fit["seconds"] for fit in side.fits) > limit:
                    continue
                found = side.fit(side.tol)
                side.refused = found.get("refused")
                if side.refused is None:
                    side.fits.append(found)
    return sides


def _find_tol(side: Side, best: float) -> None:
    """Give a rival the loosest of its tolerances at which it is as near as daskglm promises."""
    if side.refused or CONTESTANTS.get(side.name, CONTESTANTS["daskglm-auto"]).ours:
        return
    looser = ""
    for tol in CONTESTANTS[side.name].tols:
        found = side.fit(tol)
        if "refused" in found:
            side.refused = found["refused"] + looser
            return
        side.tol, late = tol, found["objective"] / best - 1.0
        looser = f" ({found['seconds']:.3g} to {late:.0e})"
        if late <= TOL:
            return


def row(problem: Problem, sides: list[Side]) -> str:
    """Return a line of the table."""
    ran = {side.name: side for side in sides if side.fits}
    best = min(fit["objective"] for side in ran.values() for fit in side.fits)
    base, now = ran["base"], ran["now"]

    def ours(side: Side) -> str:
        last = side.fits[-1]
        return f"{last['solver']} {last['passes']:.3g}, {side.seconds:.3g}"

    singles = [ran[name] for name in SINGLE if name in ran]
    single = min(singles, key=lambda side: side.seconds, default=None)
    rivals = []
    for name in problem.peers:
        if name in ran:
            late = ran[name].excess(best)
            short = f" (to {late:.0e})" if late > TOL else ""
            rivals.append(f"{name} {ran[name].seconds:.3g}{short}")
        else:
            refused = next(side.refused for side in sides if side.name == name)
            rivals.append(f"{name}: {refused}")
    return (
        f"| {problem} | {ours(base)} | {ours(now)} | {now.seconds / base.seconds:.2f} "
        f"| {ours(single) if single else ''} "
        f"| {'; '.join(rivals)} | {now.fits[-1]['beyond_mb']:.0f} |"
    )


HEAD = """\
| problem | auto, base | auto, now | ratio | best single solver, now | rivals | MB beyond, now |
|---|---|---|---|---|---|---|"""


@click.command()
@click.argument("base")
@click.option("--only", multiple=True, help="Names of data; repeatable. Default: all.")
@click.option("--seed", default=0, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--limit", default=60.0, show_default=True, help="Seconds of a rival's fit.")
@click.option("--out", type=click.Path(path_type=Path), help="A Markdown page.")
def main(
    base: str, only: tuple[str, ...], seed: int, repeats: int, limit: float, out: Path | None
) -> None:
    """Time BASE, this code and rivals: solver and passes, then median seconds, no intercept.

    daskglm proves a relative gap of 1e-6; a rival has the loosest of its tolerances that reaches
    that, or "(to ...)" says how near it came. Where a fit takes longer than the limit, its process
    is ended, and what a looser tolerance took is told.
    """
    threads = len(os.sched_getaffinity(0))
    folder = checkout(base)
    lines = [
        f"{commit()} beside {base}; seed {seed}, {repeats} repeats, {threads} threads.",
        "",
        HEAD,
    ]
    click.echo("\n".join(lines))
    for problem in PROBLEMS:
        if only and problem.data not in only:
            continue
        try:
            lines.append(row(problem, race(problem, folder, seed, repeats, limit)))
        except Unavailable as error:
            lines.append(f"| {problem} | not run: {error} | | | | | |")
        click.echo(lines[-1])
        if out:
            out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
