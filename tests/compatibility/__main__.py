"""Run other projects' tests with this package's estimators: `python -m tests.compatibility [--dask-ml PATH]`.

Copies of scikit-learn's test_logistic.py, test_ridge.py (what concerns Ridge) and test_svm.py (what concerns LinearSVC)
are taken from the scikit-learn that is installed, patched in a temporary folder and run; so is dask-ml's test_glm.py
where `--dask-ml` names it or a checkout of dask-ml (dask-ml and dask-glm have to be installed then). Counts are printed,
and the failures by cause: `expected.json` has the causes. Exit code 1 where a failure has none there.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.compatibility.patch import SUITES, write_dask_ml, write_sklearn

EXPECTED = Path(__file__).with_name("expected.json")
UNKNOWN = "no cause is known: look at it"


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.compatibility", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "suites", nargs="*", help=f"of {', '.join(suite.name for suite in SUITES)}; default: all"
    )
    parser.add_argument(
        "--dask-ml", type=Path, help="dask-ml's test_glm.py, or a checkout of dask-ml"
    )
    parser.add_argument("--timeout", type=int, default=60, help="seconds of one test (default: 60)")
    parser.add_argument(
        "--results", type=Path, help="file to write the outcome of each test to, as JSON"
    )
    args = parser.parse_args()
    unexpected = False
    outcomes: dict[str, dict[str, tuple[str, str]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, path, functions, plugins in _suites(args, Path(temporary)):
            outcomes[name] = run(path, functions, plugins, args.timeout)
            unexpected |= tell(name, outcomes[name])
    if args.results is not None:
        args.results.write_text(json.dumps(outcomes, indent=1))
    return int(unexpected)


def _suites(
    args: argparse.Namespace, temporary: Path
) -> Iterator[tuple[str, Path, list[str], list[str]]]:
    for suite in SUITES:
        if not args.suites or suite.name in args.suites:
            yield suite.name, *write_sklearn(suite, temporary), ["-p", "sklearn.conftest"]
    if args.dask_ml is not None:
        folder = temporary / "dask_ml_tests"
        folder.mkdir()
        yield "test_glm.py", *write_dask_ml(args.dask_ml, folder), []


def run(
    path: Path, functions: list[str], plugins: list[str], timeout: int
) -> dict[str, tuple[str, str]]:
    """Outcome and message of each test, in a process of their own that gives way to others."""
    report = path.with_suffix(".xml")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plugins,
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    command += [
        f"--timeout={timeout}",
        f"--rootdir={path.parent}",
        "-c",
        os.devnull,
        "--tb=line",
        "--no-header",
    ]
    command += [f"{path}::{function}" for function in functions]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    }
    subprocess.run(
        command,
        cwd=path.parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.nice(10),
    )
    found = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = (
            {"failure": "failed", "error": "failed"}.get(bad[0].tag, bad[0].tag)
            if bad
            else "passed"
        )
        found[case.get("name", "")] = (outcome, (bad[0].get("message") or "") if bad else "")
    return found


def cause_of(suite: str, test: str) -> str | None:
    """The committed cause of a failure; the first pattern that fits counts."""
    for entry in json.loads(EXPECTED.read_text()).get(suite, []):
        if any(
            fnmatch.fnmatchcase(test.replace("[", "("), pattern.replace("[", "("))
            for pattern in entry["tests"]
        ):
            return entry["cause"]
    return None


def tell(suite: str, outcomes: dict[str, tuple[str, str]]) -> bool:
    """Print counts and causes; true where a failure has none."""
    counts = Counter(outcome for outcome, _ in outcomes.values())
    print(
        f"\n{suite}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    )
    failed = {test: message for test, (outcome, message) in outcomes.items() if outcome == "failed"}
    causes = {test: cause_of(suite, test) for test in failed}
    for cause, number in Counter(cause or UNKNOWN for cause in causes.values()).most_common():
        print(f"  {number:4d}  {cause}")
    for test, cause in causes.items():
        if cause is None:
            print(f"  UNEXPECTED {test}: {' '.join(failed[test].split())[:200]}")
    return any(cause is None for cause in causes.values())


if __name__ == "__main__":
    sys.exit(main())
