"""The parent of the runs: interleaves contestants, starts a fresh process for each, appends what
comes back.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contestants import CONTESTANTS
from benchmarks.suites.definitions import Problem, Suite
from benchmarks.suites.environments import interpreter
from benchmarks.suites.evaluate import suboptimality

ROOT = Path(__file__).resolve().parents[2]
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)
# not tried again on the same problem
NEVER = ("missing", "not applicable", "unavailable", "out of memory")


@dataclass(frozen=True)
class Conditions:
    """Conditions of all processes: threads, seconds allowed, folders of data and references, lock.

    Each process holds the lock of a file while it is timed, so that several people can time on one
    machine.
    """

    threads: int
    timeout: float
    cache: str
    lock: Path | None = None


def run_suite(
    name: str,
    suite: Suite,
    problems: Mapping[Problem, Sequence[str]],
    out: Path,
    conditions: Conditions,
    *,
    say: Callable[[str], None] = print,
) -> None:
    """Run each problem's contestants: repeats outermost, contestants innermost.

    A contestant that is missing, does not apply or ran out of time or memory is recorded with the
    reason; what is left out for that, or by the suite's `once_above`, `last_above` and `enough`, is
    recorded too, as "skipped".
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    common = {"suite": name, "commit": commit()}
    left_out: dict[tuple[Problem, str], list[Skip]] = defaultdict(list)
    best: dict[Problem, float] = {}
    for problem, contestants in problems.items():
        found = child({"what": "reference", "problem": problem.fields()}, conditions, 10)
        _append(out, common | problem.fields() | {"kind": "reference"} | found)
        say(
            f"{problem}: reference {found['status']} "
            f"{found.get('objective', found.get('reason', ''))}"
        )
        best[problem] = found.get("objective", math.inf)
        if found["status"] == "unavailable":
            for contestant in contestants:
                left_out[problem, contestant].append(
                    Skip(math.inf, 0, f"unavailable: {found['reason']}")
                )
    for repeat, problem, tol, contestant in _order(suite, problems):
        skips = left_out[problem, contestant]
        record = common | problem.fields() | {"kind": "run", "contestant": contestant, "tol": tol}
        record |= {
            "repeat": repeat,
            "threads": conditions.threads,
            "ours": CONTESTANTS[contestant].ours,
        }
        reasons = [skip.reason for skip in skips if tol <= skip.tol and repeat >= skip.repeat]
        if reasons:
            _append(out, record | {"status": "skipped", "reason": reasons[0]})
            continue
        request = {"what": "run", "problem": problem.fields(), "contestant": contestant, "tol": tol}
        record |= child(request, conditions)
        _append(out, record)
        say(f"  {repeat + 1}/{suite.repeats} {problem} tol={tol:g} {contestant}: {_brief(record)}")
        skips += _consequences(suite, record, best[problem])


class Skip(NamedTuple):
    """What is not run: tolerances of `tol` and below, from the repeat on."""

    tol: float
    repeat: int
    reason: str


def _order(
    suite: Suite, problems: Mapping[Problem, Sequence[str]]
) -> Iterator[tuple[int, Problem, float, str]]:
    """Repeats, problems, tolerances from loose to tight, contestants: the last changes fastest."""
    for repeat in range(suite.repeats):
        for problem, contestants in problems.items():
            ladders = {
                name: suite.tols if suite.tols is not None else CONTESTANTS[name].tols
                for name in contestants
            }
            for level in range(max(map(len, ladders.values()), default=0)):
                for contestant, tols in ladders.items():
                    if level < len(tols):
                        yield repeat, problem, tols[level], contestant


def _consequences(suite: Suite, record: dict[str, Any], best: float) -> list[Skip]:
    """Note which later runs the outcome of a run makes needless or hopeless."""
    status = record["status"]
    tol = record["tol"]
    repeat = record["repeat"]
    if status in NEVER:
        return [Skip(math.inf, 0, f"{status}: {record['reason']}")]
    if status == "timeout":
        return [Skip(tol, 0, f"timeout: {record['reason']}")]
    if status != "ok":
        return []
    found = []
    if suite.once_above is not None and record["seconds"] > suite.once_above:
        found.append(
            Skip(tol, repeat + 1, f"one run only, it took more than {suite.once_above:g} s")
        )
    tighter = math.nextafter(tol, 0.0)
    if suite.last_above is not None and record["seconds"] > suite.last_above:
        found.append(Skip(tighter, 0, f"a looser tolerance took more than {suite.last_above:g} s"))
    if suite.enough is not None and suboptimality(record["objective"], best) <= suite.enough:
        found.append(
            Skip(tighter, 0, f"a looser tolerance gave a suboptimality below {suite.enough:g}")
        )
    return found


def child(request: dict[str, Any], conditions: Conditions, patience: float = 1) -> dict[str, Any]:
    """Return the answer of a fresh process, within `patience` times the seconds allowed.

    A crash is an answer, too.
    """
    environment = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(conditions.threads))
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), environment.get("PYTHONPATH")])
    )
    contestant = CONTESTANTS.get(request.get("contestant", ""))
    request = request | {"threads": conditions.threads, "cache": conditions.cache}
    timeout = patience * conditions.timeout
    with locked(conditions.lock):
        process = subprocess.Popen(
            [
                interpreter(contestant and contestant.environment),
                "-m",
                "benchmarks.suites.single_run",
                json.dumps(request),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # so that the workers of a cluster end with it
        )
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return {
                "status": "timeout",
                "reason": f"no answer after {timeout:g} s, loading and warm-up included",
            }
        finally:
            _end(process)
    answers = [line for line in output.splitlines() if line.startswith("{")]
    if process.returncode or not answers:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        return {"status": "failed", "reason": f"exit status {process.returncode}: {last[:500]}"}
    return json.loads(answers[-1])


@contextlib.contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Hold a file's lock, waiting for whoever has it; None: nothing to hold."""
    if path is None:
        yield
        return
    import fcntl

    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # given back when the file closes
        yield


def _end(process: subprocess.Popen) -> None:
    """End what is left of the process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def commit() -> str:
    """Return the commit of the repository, with a plus sign if tracked files were changed.

    "unknown" outside git.
    """
    try:
        head, changes = (
            subprocess.run(
                ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (
                ["rev-parse", "--short", "HEAD"],
                ["status", "--porcelain", "--untracked-files=no"],
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changes else "")


def _append(out: Path, record: dict[str, Any]) -> None:
    with out.open("a") as file:
        file.write(json.dumps(record) + "\n")


def _brief(record: dict[str, Any]) -> str:
    if record["status"] != "ok":
        return f"{record['status']}: {record['reason']}"
    return f"{record['seconds']:.3f} s, objective {record['objective']:.10g}"
