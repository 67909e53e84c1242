"""`python -m benchmarks.penalties`: run the races, interleaved, each contestant in a process."""

from __future__ import annotations

import json
import os
import platform
import queue
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from benchmarks.penalties.problems import store
from benchmarks.penalties.races import CONTESTANTS, RACES
from benchmarks.penalties.report import Run, best_values, reached, table
from benchmarks.suites.environments import how_to_install, interpreter
from benchmarks.suites.runner import ROOT, THREAD_VARIABLES, commit, locked

RESULTS = Path(__file__).resolve().parents[1] / "results" / "penalties.md"
# Seconds until a contestant must be ready: imports, compilation, conversion of the rows.
READY = 300.0
LATE = f"not ready for its first fit after {READY:g} s"


@dataclass
class Field:
    """Those who run a race: their fits so far, and why they have none or no more."""

    folder: Path
    limit: float
    threads: int
    runs: dict[str, list[Run]]
    reasons: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def measure(self, name: str) -> None:
        """Run a contestant once: at first at all tolerances, then at those that were worth it."""
        tols = self._tolerances(name)
        if not tols:
            return
        run: Run = []
        self.runs[name].append(run)
        request = {
            "contestant": name,
            "folder": str(self.folder),
            "tols": tols,
            "threads": self.threads,
            "best": best_values(self.runs),
        }
        environment = CONTESTANTS[name].environment
        for record in _records(request, interpreter(environment), self.limit):
            if "tol" in record:
                run.append(record)
            elif "versions" in record:
                self.versions |= record["versions"]
            else:
                self.reasons[name] = record["refused"]
                if environment and record["refused"].startswith("not installed"):
                    self.reasons[name] += f"; {how_to_install(environment)}"

    def _tolerances(self, name: str) -> list[float]:
        if not self.runs[name]:
            return list(CONTESTANTS[name].ladder)
        best = best_values(self.runs)
        found = [reached(self.runs[name], best, target) for target in (1e-3, 1e-6)]
        return sorted({fit["tol"] for fit in found if fit is not None}, reverse=True)


def _records(request: dict[str, Any], python: str, limit: float) -> Any:
    """Yield what a process prints, and end it if a fit takes longer than the limit."""
    environment = dict(os.environ) | dict.fromkeys(THREAD_VARIABLES, str(request["threads"]))
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), environment.get("PYTHONPATH")])
    )
    command = [python, "-W", "ignore", "-m", "benchmarks.penalties.single", json.dumps(request)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=ROOT
        )
        lines: queue.Queue[str | None] = queue.Queue()

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=listen, daemon=True).start()
        patience, ended = READY, False
        try:
            while (line := lines.get(timeout=patience)) is not None:
                record = json.loads(line) if line.startswith("{") else {}
                if record.get("seconds", 0.0) > limit:
                    raise queue.Empty
                if record:
                    yield record
                    # what the judge takes is no more than the fit
                    patience = 2.0 * limit
            ended = True
        except queue.Empty:
            yield {"refused": LATE if patience == READY else f"a fit took more than {limit:g} s"}
        finally:
            if not ended:
                process.kill()
            process.wait()
        if ended and process.returncode:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["no message"])[-1]
            yield {"refused": f"exit status {process.returncode}: {last[:300]}"}


@click.group()
def main() -> None:
    """Races of penalised fits."""


@main.command()
@click.option("--race", "names", type=click.Choice(list(RACES)), multiple=True)
@click.option("--contestant", "wanted", type=click.Choice(list(CONTESTANTS)), multiple=True)
@click.option("--scale", type=float, default=1.0, help="Times the rows of each race.")
@click.option("--repeats", type=int, default=3)
@click.option("--limit", type=float, default=60.0, help="Seconds of a fit.")
@click.option("--threads", type=int, default=2)
@click.option("--seed", type=int, default=0)
@click.option("--lock", type=click.Path(path_type=Path), help="File to hold while timing.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS)
def run(
    names: tuple[str, ...],
    wanted: tuple[str, ...],
    scale: float,
    repeats: int,
    limit: float,
    threads: int,
    seed: int,
    lock: Path | None,
    out: Path,
) -> None:
    """Run all contestants of races in turn, and write the tables and the fits themselves."""
    tables, versions = [], {}
    for name in names or RACES:
        race = RACES[name]
        taking = [each for each in race.contestants if not wanted or each in wanted]
        problem = race.make(max(int(race.rows * scale), 1), seed)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "problem")
            store(problem, folder)
            shape, megabytes = problem.X.shape, problem.megabytes
            del problem
            runners = Field(folder, limit, threads, {each: [] for each in taking})
            for repeat in range(repeats):
                for each in taking:
                    with locked(lock):
                        runners.measure(each)
                    click.echo(f"{name} {repeat + 1}/{repeats} {each}", err=True)
        versions |= runners.versions
        title = f"{race.title}: {shape[0]:,} x {shape[1]:,} (`--race {name}`)"
        tables.append(table(title, megabytes, runners.runs, runners.reasons))
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("\n".join([_head(repeats, limit, threads, seed, versions), *tables]) + "\n")
        with out.with_suffix(".jsonl").open("a") as file:
            record = {"race": name, "shape": shape, "commit": commit(), "seed": seed}
            record |= {"runs": runners.runs, "reasons": runners.reasons}
            file.write(json.dumps(record | {"versions": runners.versions}) + "\n")
    click.echo(out.read_text())


def _head(repeats: int, limit: float, threads: int, seed: int, versions: dict[str, str]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    return (
        f"# Races of penalised fits\n\n{os.cpu_count()} cores of a {platform.machine()} machine, "
        f"{threads} threads, seed {seed}, commit {commit()}, medians of {repeats} processes in "
        f"turn; {packages}.\n\nRows are in memory in the form that the package wants before the "
        "clock starts. Every contestant is run at several tolerances, a fit for at most "
        f"{limit:g} s; the time is of the fastest tolerance whose objective, judged in float64 by "
        "formulas of the judge's own, is within the target of the best one seen (of fits by folds: "
        "whose duality gap at the chosen alpha is), at the worst alpha of a path. Memory is the "
        "peak of the fit beyond what was resident, and its share of the rows and targets. "
        "Not run: H2O, cuML.\n"
    )


if __name__ == "__main__":
    main()
