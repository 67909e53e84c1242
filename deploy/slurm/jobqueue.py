#!/usr/bin/env python3
"""The same cluster by dask-jobqueue: every worker is a SLURM job of its own, and the client runs
where this runs.

    .venv/bin/pip install dask-jobqueue .venv/bin/python deploy/slurm/jobqueue.py --jobs 4 --cores
    32 --memory 128GB --interface ib0 --tls-dir certificates

One job a NUMA node: ask for the cores and memory of one node of the machines. Copy `cluster` into
your own program.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import dask
from distributed import Client
from distributed.security import Security

from daskglm.launch import addresses, machine, tls
from daskglm.launch.ready import wait_until_ready


def arguments(
    interface: str, here: str | None = None, tls_dir: Path | None = None
) -> dict[str, Any]:
    """Where scheduler and workers listen, and how their links are encrypted, as arguments of a
    SLURMCluster.

    Raises ValueError for an interface that is empty or that this machine lacks: Dask would listen
    on all addresses.
    """
    if not interface.strip():
        raise ValueError(
            f"interface {interface!r} is empty, which would listen on all addresses: name one, "
            "such as ib0"
        )
    address = addresses.network_address(here or interface)
    found: dict[str, Any] = {
        "interface": interface,
        "scheduler_options": {"host": address, "dashboard_address": "127.0.0.1:0"},
    }
    if tls_dir is not None:
        ca, cert, key = (str((tls_dir / name).absolute()) for name in tls.FILES.values())
        tls.options(tls_dir)
        roles = {
            f"tls_{role}_{what}": path
            for role in ("scheduler", "worker", "client")
            for what, path in (("cert", cert), ("key", key))
        }
        found |= {
            "protocol": "tls://",
            "security": Security(require_encryption=True, tls_ca_file=ca, **roles),
        }
    return found


def cluster(
    cores: int,
    memory: str,
    interface: str,
    here: str | None = None,
    tls_dir: Path | None = None,
    **more: Any,
) -> Any:
    """A SLURMCluster whose workers are set up as those of `daskglm cluster workers`.

    `interface` is the network of the workers, and `here` that of this machine where it has another
    name; `tls_dir` is a folder of certificates that all machines share.
    """
    from dask_jobqueue import SLURMCluster

    given = [f"export {name}={value}" for name, value in machine.ENVIRONMENT.items()]
    return SLURMCluster(
        cores=cores,
        processes=1,
        memory=memory,
        python=sys.executable,
        job_script_prologue=given,
        worker_extra_args=machine.LOOPBACK_ONLY,
        **arguments(interface, here, tls_dir),
        **more,
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--jobs", type=click.IntRange(min=1), required=True, help="Workers, one job each.")
@click.option("--cores", type=click.IntRange(min=1), required=True, help="Of a job.")
@click.option("--memory", required=True, help="Of a job, such as 128GB.")
@click.option(
    "--interface", required=True, help="Network to use, such as ib0; nothing listens on others."
)
@click.option(
    "--scheduler-interface", "here", help="That of this machine, where it has another name."
)
@click.option(
    "--tls-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Encrypt all links; a folder on a file system that all machines share.",
)
@click.option("--queue", help="Partition of SLURM.")
@click.option("--walltime", default="01:00:00", show_default=True)
@click.option(
    "--extra", multiple=True, help="Further #SBATCH line, such as --exclusive; repeatable."
)
@click.option("--timeout", type=click.FloatRange(min=1), default=300.0, show_default=True)
def main(
    jobs: int,
    cores: int,
    memory: str,
    interface: str,
    here: str | None,
    tls_dir: Path | None,
    timeout: float,
    **more: Any,
) -> None:
    """Start the workers, try the cluster with a small fit, and end it."""
    extra = list(more.pop("extra"))
    try:
        address = arguments(interface, here, tls_dir)["scheduler_options"]["host"]
    except ValueError as error:
        raise click.BadParameter(
            f"{error}.", param_hint="--scheduler-interface" if here else "--interface"
        ) from error
    if warning := addresses.warning_of_an_open_cluster(address, encrypted=tls_dir is not None):
        click.echo(warning, err=True)
    with (
        dask.config.set(tls.settings(tls_dir)),
        cluster(
            cores, memory, interface, here, tls_dir, job_extra_directives=extra, **more
        ) as running,
        Client(running),
    ):
        running.scale(jobs=jobs)
        click.echo(wait_until_ready(running.scheduler_address, jobs, timeout, folder=tls_dir))


if __name__ == "__main__":
    main()
