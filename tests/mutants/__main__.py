"""Put each fault into a copy of the package, run the tests that cover its line, write the table.

    python -m tests.mutants                       # all: about an hour on two processors
    python -m tests.mutants --only bounds         # those whose file or description has this text

A fault that no test sees survives. Lines are appended to the file of `--lines` as runs end, and a
run that is started again goes on after them. `TABLE.md` beside this file is the result.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.mutants import certificates, rows, solvers, statistics
from tests.mutants.fault import ROOT, Fault

AREAS = {
    module.__name__.rpartition(".")[2]: module.FAULTS
    for module in (certificates, statistics, rows, solvers)
}
TABLE = Path(__file__).with_name("TABLE.md")
SECONDS = 900  # after which a test run that hangs has seen the fault, too
LEFT_OUT = (".git", ".venv", "_build", "results", "demo-output", ".mypy_cache", ".hypothesis")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main() -> int:
    """Run what is asked for; return 1 if a fault survived."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="faults whose file or description has this text")
    parser.add_argument("--lines", type=Path, default=Path(tempfile.gettempdir()) / "mutants.jsonl")
    parser.add_argument("--processes", type=int, default=2, help="0: only write the table")
    chosen = parser.parse_args()
    faults = [
        (area, fault)
        for area, many in AREAS.items()
        for fault in many
        if chosen.only in f"{fault.file} {fault.what}"
    ]
    for _, fault in faults:
        fault.applied()  # all are there, before any is run
    done = _read(chosen.lines)
    left = [fault for _, fault in faults if _key(fault) not in done]
    print(f"{len(faults)} faults, {len(left)} to run")
    if not chosen.processes:
        left = []
    with tempfile.TemporaryDirectory() as folder, open(chosen.lines, "a") as lines:
        copies: queue.Queue[Path] = queue.Queue()
        for k in range(chosen.processes) if left else ():
            copies.put(_copy(Path(folder) / str(k) / "main"))
        with concurrent.futures.ThreadPoolExecutor(chosen.processes or 1) as pool:
            for found in pool.map(lambda fault: _run(fault, copies), left):
                print(json.dumps(found), file=lines, flush=True)
                done[found["key"]] = found
                print(f"{found['end']:<9}{found['seconds']:>5.0f} s  {found['key']}", flush=True)
    missing: dict[str, object] = {"end": "not run", "by": ""}
    ends = [(area, fault, done.get(_key(fault), missing)) for area, fault in faults]
    if not chosen.only:
        TABLE.write_text(_table(ends))
    seen = sum(end["end"] == "seen" for _, _, end in ends)
    survived = [fault.what for _, fault, end in ends if end["end"] == "survived"]
    print(f"{seen} of {len(ends)} seen; survived: {survived}")
    return 1 if survived else 0


def _key(fault: Fault) -> str:
    return f"{fault.file}: {fault.what}"


def _read(path: Path) -> dict[str, dict[str, object]]:
    if not path.exists():
        return {}
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return {each["key"]: each for each in found}


def _copy(folder: Path) -> Path:
    """Copy the project with its compiled kernels: of other sources they are compiled anew."""
    return Path(shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT)))


def _run(fault: Fault, copies: queue.Queue[Path]) -> dict[str, object]:
    """Run the tests with the fault in one of the copies, and take it out again."""
    folder = copies.get()
    path = folder / "daskglm" / fault.file
    before, began = path.stat(), time.monotonic()
    source = path.read_bytes()
    path.write_text(fault.applied())
    try:
        end, by = _tested(folder, fault.tests.split())
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        copies.put(folder)
    return {"key": _key(fault), "end": end, "by": by, "seconds": time.monotonic() - began}


def _tested(folder: Path, tests: list[str]) -> tuple[str, str]:
    env = os.environ | {
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "DASKGLM_DATA": os.environ.get("DASKGLM_DATA", str(ROOT.parent / "shared" / "data")),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += [f"tests/{test}" for test in tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return "seen", "no end in time"
    if done.returncode == 0:
        return "survived", ""
    failed = FAILED.search(done.stdout)
    if done.returncode == 1 and failed:
        return "seen", failed[1]
    if failed:
        return "seen", f"{failed[1]} (collection)"
    return "broken", (done.stdout + done.stderr)[-300:]


def _table(ends: list[tuple[str, Fault, dict[str, object]]]) -> str:
    count = Counter(str(end["end"]) for _, _, end in ends)
    broken = f", {count['broken']} runs broke" if count["broken"] else ""
    lines = [
        "# Faults that the tests see",
        "",
        f"`python -m tests.mutants`: of {len(ends)} faults {count['seen']} are seen,"
        f" {count['survived']} survive, {count['not run']} were not run{broken}. Each was run against the"
        " tests that its record names, until one failed.",
        "",
        "| area | file | fault | end | by |",
        "|---|---|---|---|---|",
    ]
    for area, fault, end in ends:
        by = str(end["by"]).removeprefix("tests/").replace("|", "\\|")
        what = fault.what.replace("|", "\\|")
        lines.append(f"| {area} | {fault.file} | {what} | {end['end']} | {by} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
