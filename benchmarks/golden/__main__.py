"""Make or compare the record of 400 fits.

python -m benchmarks.golden make              # benchmarks/results/golden.json
python -m benchmarks.golden compare [FILE]    # exit 1 where a fit differs
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

import click

from benchmarks.golden.cases import COUNT, cases
from benchmarks.golden.record import differences, machine, record

FILE = Path(__file__).parents[1] / "results" / "golden.json"
SHOWN = 40


@click.group()
def main() -> None:
    """Keep the answers of many fits, and compare them with those of the code as it is."""


def _records(count: int) -> dict[str, dict[str, object]]:
    found = {}
    began = time.perf_counter()
    for seed, case in enumerate(cases(count)):
        found[f"{seed}: {case}"] = record(case, seed)
    refused = sum("refused" in each for each in found.values())
    seconds = time.perf_counter() - began
    click.echo(f"{count - refused} fits and {refused} refusals in {seconds:.0f} s")
    return found


@main.command()
@click.argument("file", type=click.Path(path_type=Path), default=FILE)
@click.option("--count", default=COUNT, show_default=True, help="Fits.")
def make(file: Path, count: int) -> None:
    """Write the record of this code."""
    content = {"machine": machine(), "fits": _records(count)}
    file.write_text(json.dumps(content, indent=0, sort_keys=True) + "\n")
    click.echo(f"wrote {file}")


@main.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path), default=FILE)
def compare(file: Path) -> None:
    """Compare this code with a record; on another machine bits do not count."""
    old = json.loads(file.read_text())
    here = machine()
    bits = old["machine"] == here
    if not bits:
        other = [
            f"{key} {old['machine'].get(key)}"
            for key in here
            if here[key] != old["machine"].get(key)
        ]
        click.echo(f"the record is of another machine ({'; '.join(other)}): bits are not compared")
    now = _records(len(old["fits"]))
    if now.keys() != old["fits"].keys():
        sys.exit("the cases are others than those of the record")
    changed = {name: differences(old["fits"][name], each, bits=bits) for name, each in now.items()}
    changed = {name: lines for name, lines in changed.items() if lines}
    for name, lines in list(changed.items())[:SHOWN]:
        click.echo(f"{name}\n    " + "\n    ".join(lines))
    kinds = Counter(line.partition(":")[0] for lines in changed.values() for line in lines)
    click.echo(f"{len(changed)} of {len(now)} fits differ {dict(kinds) if kinds else ''}".rstrip())
    sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
