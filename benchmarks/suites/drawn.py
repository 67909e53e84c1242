"""The suites `random` and `mixed`: `auto` beside every solver by name, on drawn problems.

Every draw is made in a fresh process, which fits it by all solvers in turn and answers with a line
of JSON a fit. A process that is silent for too long is ended; the solver it was at is recorded as
out of time, and another process goes on with the rest.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.datasets.drawing import Drawn
from benchmarks.suites.drawn_fits import GENERATORS, LEAST_SECONDS
from benchmarks.suites.runner import ROOT, THREAD_VARIABLES, commit, locked
from daskglm.losses.table import find
from daskglm.solvers import get_solver, solver_names
from daskglm.solvers.costs import LARGEST_HESSIAN

LATEST_ANSWER = 1.5  # times the limit of a fit after which a silent process is ended
# Wall time of a second of CPU time, at most, on a machine that others use. Chosen.
LONGEST_CPU_SECOND = 6.0
START_SECONDS = 120.0  # for importing, compiling, drawing the rows and warming up
WORST = 10  # draws that the report shows
DRAWS, REPEATS, TOL = 200, 3, 1e-6  # where the command line gives none
QUICK_DRAWS, QUICK_BYTES = 3, 1 << 20


@dataclass(frozen=True)
class Limits:
    """Of every draw: bytes of X, tolerance, repeats, threads, and seconds for one fit.

    With `cpu` they are seconds of CPU time of all threads together, and so are its results.
    """

    most_bytes: int
    tol: float
    repeats: int
    threads: int
    seconds: float
    cpu: bool = False


def run(
    suite: str,
    out: Path,
    draws: int,
    seed: int,
    limits: Limits,
    lock: Path | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Fit so many draws of a suite; append a JSON line a draw to `out`, write the report beside it.

    Returns the path of the report.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    common = {"suite": suite, "commit": commit(), **asdict(limits)}
    records = []
    for number in range(draws):
        drawn = GENERATORS[suite].draw(seed, number, limits.most_bytes)
        with locked(lock):
            fits = _fit_all(suite, drawn, limits)
        records.append({**common, **asdict(drawn), "text": str(drawn), "fits": fits})
        with out.open("a") as file:
            file.write(json.dumps(records[-1]) + "\n")
        say(f"{drawn}: {_brief(records[-1])}")
    page = out.with_suffix(".md")
    page.write_text(report(records))
    return page


def solvers_for(drawn: Drawn) -> tuple[str, ...]:
    """`auto` and the solvers by name that apply to a problem: what they are timed against."""
    loss, kinked = find(drawn.loss), drawn.l1_ratio > 0.0
    found = ["auto"]
    for spec in map(get_solver, solver_names()):
        if spec.forms_hessian and drawn.features > 2 * LARGEST_HESSIAN:
            continue
        if spec.solves_dual:
            applies = loss.has_dual and drawn.l1_ratio < 1.0
        # those for penalties with kinks do no better without; for the hinge `sdca` hands over to
        # proximal points by itself; nobody takes gradient descent for its speed
        elif spec.rounds_corners or spec.takes_kinks != kinked:
            applies = False
        else:
            applies = loss.differentiable and (kinked or spec.cost is not None)
        if applies:
            found.append(spec.name)
    return tuple(found)


# ---- processes
def _fit_all(suite: str, drawn: Drawn, limits: Limits) -> list[dict[str, Any]]:
    """Return the results of all fits of a draw, in as many processes as that takes."""
    fits: list[dict[str, Any]] = []
    left = list(solvers_for(drawn))
    while left:
        answers, at = _ask(suite, drawn, left, limits)
        fits += answers
        if at is None:
            break
        fits.append(at)
        left.remove(at["solver"])
        done = [fit["solver"] for fit in fits]
        left = [name for name in left if done.count(name) < limits.repeats]
    return fits


def _ask(
    suite: str, drawn: Drawn, solvers: Sequence[str], limits: Limits
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Answers of one process, and a record of the fit that it did not end, if there is one."""
    request = {
        **asdict(limits),
        "suite": suite,
        "seed": drawn.seed,
        "number": drawn.number,
        "solvers": list(solvers),
    }
    slowed = LONGEST_CPU_SECOND if limits.cpu else 1.0
    longest = slowed * LATEST_ANSWER * limits.seconds
    order = [name for _ in range(limits.repeats) for name in solvers]
    answers: list[dict[str, Any]] = []
    with _process(request, limits.threads) as lines:
        patience = slowed * START_SECONDS + longest
        while len(answers) < len(order):
            at = {"solver": order[len(answers)], "converged": False, "seconds": limits.seconds}
            try:
                line = lines.get(timeout=patience)
            except queue.Empty:
                return answers, {**at, "status": f"no answer in {patience:g} s"}
            if line is None:
                return answers, {**at, "status": "the process ended"}
            if line.startswith("{"):
                answers.append(json.loads(line))
                patience = longest
    return answers, None


@contextlib.contextmanager
def _process(request: dict[str, Any], threads: int) -> Iterator[queue.Queue[str | None]]:
    """Lines that a fresh process writes, then None; it is ended when the context is left."""
    environment = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(threads))
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), environment.get("PYTHONPATH")])
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.suites.drawn_fits", json.dumps(request)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


# ---- what was found
@dataclass(frozen=True)
class Outcome:
    """A draw's time of `auto` over that of the best solver by name; nan where nobody converged."""

    ratio: float
    best: str
    seconds: dict[str, float]


def outcome(record: dict[str, Any]) -> Outcome:
    """Return medians over repeats.

    `auto` takes the whole limit if it misses the tolerance; others that miss it, or were stopped
    because `auto` was far ahead, have no time. Where it alone converged the ratio is 1.
    """
    times: dict[str, list[float]] = {}
    reached: dict[str, bool] = {}
    for fit in record["fits"]:
        name = fit["solver"]
        converged = bool(fit["converged"])
        reached[name] = reached.get(name, True) and converged
        times.setdefault(name, []).append(max(fit["seconds"], LEAST_SECONDS))
    limit = max(record["seconds"], LEAST_SECONDS)
    seconds = {name: median(each) for name, each in times.items() if reached[name]}
    named = {name: time for name, time in seconds.items() if name != "auto"}
    if not named:
        alone = "auto" in seconds
        return Outcome(1.0 if alone else math.nan, "auto" if alone else "none", seconds)
    best = min(named, key=named.__getitem__)
    return Outcome(seconds.setdefault("auto", limit) / named[best], best, seconds)


def report(records: Sequence[dict[str, Any]]) -> str:
    """Markdown: how the ratios are distributed, and the worst draws with what `auto` chose."""
    found = [(outcome(record), record) for record in records]
    judged = sorted(
        (pair for pair in found if not math.isnan(pair[0].ratio)), key=lambda pair: -pair[0].ratio
    )
    ratios = sorted(pair[0].ratio for pair in judged)
    lines = ["# Drawn problems: the time of `auto` over that of the best solver by name", ""]
    if not ratios:
        return "\n".join([*lines, f"No solver converged on any of {len(records)} draws.", ""])
    first = records[0]
    clock = "CPU times of all threads together" if first["cpu"] else "Wall times"
    lines += [
        f"Suite `{first['suite']}`, {len(records)} draws of seed {first['seed']}, each of at most "
        f"{first['most_bytes'] >> 20} MiB; "
        f"tol {first['tol']:g}, {first['threads']} threads, {first['repeats']} repeats, "
        f"commit {first['commit']}. {clock}; fits under {1e3 * LEAST_SECONDS:g} ms count as that "
        "long.",
        "",
        "| draws | median | 95 % | worst | up to 1.3 | up to 2 | nobody converged |",
        "|---|---|---|---|---|---|---|",
        f"| {len(ratios)} | {median(ratios):.2f} | {quantile(ratios, 0.95):.2f} | {ratios[-1]:.2f} "
        f"| {_share(ratios, 1.3)} | {_share(ratios, 2.0)} | {len(records) - len(ratios)} |",
        "",
        "## The worst",
        "",
        "| ratio | problem | auto | best | seconds | why |",
        "|---|---|---|---|---|---|",
    ]
    for result, record in judged[:WORST]:
        chosen = next(fit for fit in record["fits"] if fit["solver"] == "auto")
        seconds = ", ".join(f"{name} {time:.3g}" for name, time in result.seconds.items())
        lines.append(
            f"| {result.ratio:.2f} | {record['text']} | {chosen.get('chosen', '-')} "
            f"| {result.best} | {seconds} | {chosen.get('why', chosen.get('status', '-'))} |"
        )
    return "\n".join([*lines, ""])


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the least value that so large a share of sorted values does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def _share(ratios: Sequence[float], limit: float) -> str:
    return f"{100 * sum(ratio <= limit for ratio in ratios) / len(ratios):.0f} %"


def _brief(record: dict[str, Any]) -> str:
    found = outcome(record)
    chosen = next(
        (fit.get("chosen", "-") for fit in record["fits"] if fit["solver"] == "auto"), "-"
    )
    return f"auto {chosen}, best {found.best}, ratio {found.ratio:.2f}"
