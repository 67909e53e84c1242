"""`daskglm doctor`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from daskglm.commands.shared import client_of, of_scheduler
from daskglm.commands.text import visible

# Exit code: something is to be changed.
TO_CHANGE = 4


@click.command()
@of_scheduler("Look at the cluster of this scheduler too.")
def doctor(scheduler: str | None, tls_dir: Path | None) -> None:
    """Say what this machine and a cluster offer, and what to change.

    Looks at processors, memory, GPU, versions and compiled kernels, and measures passes over rows
    for a second; with --scheduler at a cluster and its workers too. Exits with 4 if something
    should be changed.
    """
    from daskglm.estimators import doctor as look

    with client_of(scheduler, None, tls_dir) as client:
        parts = {
            "machine": look.machine(),
            "versions": look.versions(),
            "kernels": look.kernels(),
            "cluster": look.cluster(client) if client else (),
            "speed": look.benchmark(),
        }
        changes = 0
        for title, findings in parts.items():
            for k, finding in enumerate(findings):
                if k == 0:
                    click.secho(title, bold=True)
                click.echo(f"  {finding.name}: {visible(finding.text)}")
                if finding.change:
                    changes += 1
                    click.secho(f"    change: {visible(finding.change)}", fg="yellow")
    click.echo(f"{changes} thing(s) to change" if changes else "nothing to change")
    if changes:
        sys.exit(TO_CHANGE)
