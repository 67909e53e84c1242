"""Run all measurements on a GPU and write one JSON and one Markdown file."""

from __future__ import annotations

import time
import traceback
from pathlib import Path

import click

from benchmarks.gpu.results import Results, about_this_device

INTERRUPTED = 130  # exit status of programs that SIGINT ends


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder for the two files."
)
@click.option(
    "--minutes", type=float, default=6.0, show_default=True, help="After so many no case is begun."
)
@click.option("--quick", is_flag=True, help="Tiny sizes: to see that all of it runs.")
@click.option(
    "--tests",
    type=click.Path(path_type=Path, exists=True),
    help="Log of the tests, quoted in the report.",
)
def main(out: Path, minutes: float, quick: bool, tests: Path | None) -> None:
    """Measure and write after every line.

    A case that fails is in the report, and changes the exit status. SIGINT ends the run: the files
    then name the case that was running.
    """
    from daskglm.core.device import gpu

    try:
        gpu()
    except RuntimeError as error:
        raise click.ClickException(str(error)) from None
    from benchmarks.gpu import cases, peers

    start = time.monotonic()
    if tests is None:
        closing = None
    else:
        closing = [line for line in tests.read_text().splitlines() if line.strip()][-15:]
    results = Results(out, about_this_device(), quick=quick, tests=closing)
    for case in (
        cases.bandwidth,
        cases.passes,
        cases.solves,
        cases.hiding,
        cases.streaming,
        peers.peers,
    ):
        name = case.__name__
        if time.monotonic() - start > 60 * minutes:
            results.leave_out(name, f"no time left after {minutes:g} minutes")
            continue
        results.begin(name, (case.__doc__ or "").strip())
        try:
            for line in case(quick):
                results.add(name, line)
        except KeyboardInterrupt:
            click.echo(
                f"interrupted in {name}; what was found before is in {out / 'gpu.json'}", err=True
            )
            raise SystemExit(INTERRUPTED) from None
        except Exception:
            results.end(name, traceback.format_exc())
            click.echo(results.found["not run"][name], err=True)
        else:
            results.end(name)
    click.echo(f"wrote {out / 'gpu.json'} and {out / 'gpu.md'}")
    raise SystemExit(1 if results.found["not run"] else 0)


if __name__ == "__main__":
    main()
