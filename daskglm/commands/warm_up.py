"""`daskglm warm-up`."""

from __future__ import annotations

import os
import time

import click


@click.command("warm-up")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Processes that compile. Default: one a processor, four at most.",
)
def warm_up(processes: int | None) -> None:
    """Compile all kernels for this machine, so that no fit waits for it.

    Run it where images are built, and after an installation from sources: wheels contain compiled
    kernels. What is on disk already is not compiled again.
    """
    from daskglm.system.warmed import Record

    if Record().holds():
        click.echo("kernels are compiled")
        return
    from daskglm.estimators.warm_up import run_all, tasks

    many = processes or min(4, os.cpu_count() or 1)
    start = time.perf_counter()
    done = run_all(many)
    with click.progressbar(done, length=len(tasks()), label="compiling kernels") as bar:
        for _ in bar:
            pass
    click.echo(f"kernels are compiled ({time.perf_counter() - start:.0f} s)")
