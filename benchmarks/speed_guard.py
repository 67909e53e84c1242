"""Time 16 fits on this code and another commit in turns: `python -m benchmarks.speed_guard BASE`.

The fits are those of this checkout, by the public interface. Each commit has a process of its own,
which stays, so that nothing but fits is timed; the two take turns, and which one begins changes.
What counts is the median of the ratios of processor seconds, since those of a turn met the same
machine. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import click

ROOT = Path(__file__).parents[1]
CHECKOUTS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "daskglm-commits"
MINUTES = 5.0
LIMIT = 1.03  # a median ratio beyond which a fit counts as slower
LEAST_TURNS = 5  # of a fit, however long they take


def checkout(commit: str) -> Path:
    """Return a folder with the sources of a commit; it stays, with the kernels compiled there."""
    name = _git("rev-parse", f"{commit}^{{commit}}")
    folder = CHECKOUTS / name
    if not folder.exists():
        folder.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", name, "daskglm"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


class Side:
    """The process of one commit, which fits what it is told and answers with seconds."""

    def __init__(self, folder: Path) -> None:
        env = os.environ | {"PYTHONPATH": f"{folder}", "OMP_NUM_THREADS": "1"}
        script = Path(__file__).with_name("golden") / "timed.py"
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        found = Path(self.ask("where")["package"])
        if found.parent != folder:
            raise RuntimeError(f"the process imports {found}, not the package in {folder}")

    def ask(self, what: str) -> Any:
        """Send one line, and return the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process ended at {what!r}")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def in_turns(base: Side, new: Side, name: str, seconds: float) -> tuple[list[float], float]:
    """Return ratios of new to base, one a turn, and the median seconds of base."""
    base.ask(name), new.ask(name)  # compiles, and warms caches
    ratios: list[float] = []
    before: list[float] = []
    began = time.perf_counter()
    while len(ratios) < LEAST_TURNS or time.perf_counter() - began < seconds:
        first, second = (base, new) if len(ratios) % 2 == 0 else (new, base)
        taken = {id(side): side.ask(name)["seconds"] for side in (first, second)}
        ratios.append(taken[id(new)] / taken[id(base)])
        before.append(taken[id(base)])
    return ratios, median(before)


@click.command()
@click.argument("base")
@click.option("--minutes", default=MINUTES, show_default=True, help="In all, about.")
def main(base: str, minutes: float) -> None:
    """Exit with 1 if a fit takes more than 3 % longer than on the commit BASE, by medians."""
    sides = Side(checkout(base)), Side(ROOT)
    names = sides[1].ask("names")
    slower, medians = [], []
    click.echo(f"{'fit':<28}{'base ms':>9}{'ratio':>8}{'quartiles':>16}{'turns':>7}")
    for name in names:
        ratios, seconds = in_turns(*sides, name, 60.0 * minutes / len(names))
        middle = median(ratios)
        ordered = sorted(ratios)
        low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
        medians.append(middle)
        late = middle > LIMIT
        slower += [name] if late else []
        click.echo(
            f"{name:<28}{1e3 * seconds:>9.1f}{middle:>8.3f}{f'{low:.3f} - {high:.3f}':>16}"
            f"{len(ratios):>7}{'  slower' if late else ''}"
        )
    for side in sides:
        side.close()
    mean = math.exp(sum(map(math.log, medians)) / len(medians))
    click.echo(f"geometric mean {mean:.3f}; {len(slower)} of {len(names)} fits are slower")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
