"""Run other projects' tests with this package's estimators: `python -m tests.compatibility [SUITE ...]`.

Copies of test files of the scikit-learn and the statsmodels that are installed are patched in a temporary folder and
run; so are dask-ml's test_glm.py where `--dask-ml` names it or a checkout of dask-ml (dask-ml and dask-glm have to be
installed then), glum's where `--glum` names a checkout, and celer's where `--celer` names a folder that celer is
installed in (`pip install --no-deps --target`). Files named `accel_*` are scikit-learn's as they are, run under
`daskglm.accel`. Adapters, `as_*.py`, give our estimators the names and parameters of
statsmodels, glum and celer. Counts are printed with the versions, and the failures by cause: `expected.json` has the
causes. Exit code 1 where a failure has none there.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.compatibility.patch import (
    ACCEL,
    PEERS,
    SUITES,
    Suite,
    write_dask_ml,
    write_peer,
    write_plain,
    write_sklearn,
)

EXPECTED = Path(__file__).with_name("expected.json")
# How the reason begins for which an adapter ends a test.
APART = "not applicable: "
UNKNOWN = "no cause is known: look at it"


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.compatibility", description=__doc__.splitlines()[0]
    )
    names = ", ".join(suite.name for suite in (*SUITES, *ACCEL, *PEERS))
    parser.add_argument("suites", nargs="*", help=f"of {names}; default: all that are there")
    parser.add_argument(
        "--dask-ml", type=Path, help="dask-ml's test_glm.py, or a checkout of dask-ml"
    )
    parser.add_argument("--glum", type=Path, help="a checkout of glum, with its benchmarks")
    parser.add_argument("--celer", type=Path, help="a folder that celer is installed in")
    parser.add_argument("--timeout", type=int, default=60, help="seconds of one test (default: 60)")
    parser.add_argument(
        "--results", type=Path, help="file to write the outcome of each test to, as JSON"
    )
    args = parser.parse_args()
    unexpected = False
    outcomes: dict[str, dict[str, tuple[str, str]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, title, path, functions, options in _suites(args, Path(temporary)):
            outcomes[name] = run(path, functions, args.timeout, **options)
            unexpected |= tell(name, outcomes[name], title)
            if args.results is not None:
                args.results.write_text(json.dumps(outcomes, indent=1))
    return int(unexpected)


def _suites(
    args: argparse.Namespace, temporary: Path
) -> Iterator[tuple[str, str, Path, list[str], dict[str, Any]]]:
    """Name, name with the version, patched file, tests that count, and options of `run`."""
    for suite in SUITES:
        if not args.suites or suite.name in args.suites:
            path, functions = write_sklearn(suite, temporary)
            plugins = {"plugins": ["-p", "sklearn.conftest"]}
            yield suite.name, titled(suite), path, functions, plugins
    for suite in ACCEL:
        if not args.suites or suite.name in args.suites:
            both = ["-p", "tests.compatibility.under_accel", "-p", "sklearn.conftest"]
            both += ["-k", " or ".join(suite.chosen)] if suite.chosen else []
            yield suite.name, titled(suite), write_plain(suite, temporary), [], {"plugins": both}
    for suite in PEERS:
        root = getattr(args, suite.given) if suite.given else installed(suite.package)
        if root is None or (args.suites and suite.name not in args.suites):
            continue
        folder = temporary / suite.package
        folder.mkdir(exist_ok=True)
        path = write_peer(suite, root.resolve(), folder)
        where = [str(root.resolve())] if suite.given else []
        yield suite.name, titled(suite, where), path, [], {"where": where}
    if args.dask_ml is not None:
        folder = temporary / "dask_ml_tests"
        folder.mkdir()
        path, functions = write_dask_ml(args.dask_ml, folder)
        yield "test_glm.py", "dask-ml: test_glm.py", path, functions, {}


def installed(package: str) -> Path | None:
    """The folder of a package, if it is installed."""
    spec = importlib.util.find_spec(package)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def titled(suite: Suite, where: Sequence[str] = ()) -> str:
    """Name and version of the package, as it lies in these folders or is installed, and the suite."""
    name = {"sklearn": "scikit-learn"}.get(suite.package, suite.package)
    found = [
        *metadata.distributions(name=name, path=list(where)),
        *metadata.distributions(name=name),
    ]
    return f"{name} {found[0].version if found else '?'}: {suite.name}"


def run(
    path: Path,
    functions: list[str],
    timeout: int,
    plugins: Sequence[str] = (),
    where: Sequence[str] = (),
) -> dict[str, tuple[str, str]]:
    """Outcome and message of each test, in a process of their own that gives way to others.

    `where` are folders of packages that it can import, too.
    """
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
    command += [f"{path}::{function}" for function in functions] or [str(path)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(
            filter(None, [os.getcwd(), *where, os.environ.get("PYTHONPATH")])
        )
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
        group = case.get("classname", "").rpartition(".")[2]
        test = case.get("name", "")
        test = f"{group}::{test}" if group.startswith("Test") else test
        found[test] = (outcome, (bad[0].get("message") or "") if bad else "")
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


def tell(suite: str, outcomes: dict[str, tuple[str, str]], title: str = "") -> bool:
    """Print counts and causes; true where a failure has none.

    Tests that an adapter ends with "not applicable: why" are told by their reasons.
    """
    counts = Counter(outcome for outcome, _ in outcomes.values())
    reasons = Counter(
        message.partition(APART)[2]
        for outcome, message in outcomes.values()
        if outcome == "skipped" and APART in message
    )
    apart = sum(reasons.values())
    print(
        f"\n{title or suite}: {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['skipped'] - apart} skipped" + (f", {apart} not applicable" if apart else "")
    )
    failed = {test: message for test, (outcome, message) in outcomes.items() if outcome == "failed"}
    causes = {test: cause_of(suite, test) for test in failed}
    for cause, number in Counter(cause or UNKNOWN for cause in causes.values()).most_common():
        print(f"  {number:4d}  {cause}")
    for reason, number in reasons.most_common():
        print(f"  {number:4d}  not applicable: {reason}")
    for test, cause in causes.items():
        if cause is None:
            print(f"  UNEXPECTED {test}: {' '.join(failed[test].split())[:200]}")
    return any(cause is None for cause in causes.values())


if __name__ == "__main__":
    sys.exit(main())
