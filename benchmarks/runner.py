"""The parent of the runs: interleaves contestants, starts a fresh process for each, appends what comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rivals import CONTESTANTS
from benchmarks.suites import Problem, Suite

ROOT = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
NEVER = ("missing", "not applicable", "unavailable")  # not tried again on the same problem


def run_suite(
    name: str,
    suite: Suite,
    problems: list[Problem],
    out: Path,
    *,
    threads: int,
    timeout: float,
    say: Callable[[str], None] = print,
) -> None:
    """Run all contestants on all problems: repeats outermost, contestants innermost.

    A contestant that is missing, does not apply or ran out of time is recorded with the reason; what is left out
    for that is recorded too, as "skipped".
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    common = {"suite": name, "commit": commit()}
    given_up: dict[tuple[Problem, str], tuple[float, str]] = {}
    with tempfile.TemporaryDirectory(prefix="daskglm-benchmarks-") as cache:
        for problem in problems:
            found = child({"what": "reference", "problem": problem.fields(), "cache": cache}, 1, 10 * timeout)
            _append(out, common | problem.fields() | {"kind": "reference"} | found)
            say(f"{problem}: reference {found['status']} {found.get('objective', found.get('reason', ''))}")
            if found["status"] == "unavailable":
                given_up |= {
                    (problem, contestant): (float("inf"), f"unavailable: {found['reason']}")
                    for contestant in suite.contestants
                }
        for repeat in range(suite.repeats):
            for problem in problems:
                for tol in suite.tols:
                    for contestant in suite.contestants:
                        key = (problem, contestant)
                        record = common | problem.fields() | {"kind": "run", "contestant": contestant, "tol": tol}
                        record |= {"repeat": repeat, "threads": threads, "ours": CONTESTANTS[contestant].ours}
                        if tol <= given_up.get(key, (-1.0, ""))[0]:
                            _append(out, record | {"status": "skipped", "reason": given_up[key][1]})
                            continue
                        request = {"what": "run", "problem": problem.fields(), "contestant": contestant}
                        request |= {"tol": tol, "threads": threads, "cache": cache}
                        record |= child(request, threads, timeout)
                        _append(out, record)
                        say(f"  {repeat + 1}/{suite.repeats} {problem} tol={tol:g} {contestant}: {_brief(record)}")
                        if record["status"] in NEVER:
                            given_up[key] = (float("inf"), f"{record['status']}: {record['reason']}")
                        elif record["status"] == "timeout":
                            given_up[key] = (tol, f"timeout: {record['reason']}")


def child(request: dict[str, Any], threads: int, timeout: float) -> dict[str, Any]:
    """What a fresh process answers; a crash or a timeout is an answer as well."""
    environment = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(threads))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "one", json.dumps(request)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # so that the workers of a cluster end with it
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"status": "timeout", "reason": f"no answer after {timeout:g} s, loading and warm-up included"}
    finally:
        _end(process)
    answers = [line for line in output.splitlines() if line.startswith("{")]
    if process.returncode or not answers:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        return {"status": "failed", "reason": f"exit status {process.returncode}: {last[:500]}"}
    return json.loads(answers[-1])


def _end(process: subprocess.Popen) -> None:
    """End what is left of the process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def commit() -> str:
    """Commit of the repository, with a plus sign where tracked files were changed; "unknown" outside git."""
    try:
        head, changes = (
            subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
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
