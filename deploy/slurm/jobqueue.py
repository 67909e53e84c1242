#!/usr/bin/env python3
"""A cluster by dask-jobqueue: each worker is a SLURM job, and the client runs where this runs.

    .venv/bin/pip install dask-jobqueue
    .venv/bin/python deploy/slurm/jobqueue.py --jobs 4 --cores 32 --memory 128GB --interface ib0

Ask for the cores and the memory of one NUMA node, so that each job is one node. Copy `cluster` into
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
    interface: str, scheduler_interface: str | None = None, tls_dir: Path | None = None
) -> dict[str, Any]:
    """Return arguments of a SLURMCluster: where it listens, and how its links are encrypted.

    Raises ValueError if an interface is empty (Dask would listen on all addresses) or missing here.
    """
    if not interface.strip():
        raise ValueError(
            f"interface {interface!r} is empty, which would listen on all addresses: name one, "
            "such as ib0"
        )
    address = addresses.interface_address(scheduler_interface or interface)
    found: dict[str, Any] = {
        "interface": interface,
        "scheduler_options": {"host": address, "dashboard_address": "127.0.0.1:0"},
    }
    if tls_dir is not None:
        with dask.config.set(tls.settings(tls_dir)):
            found |= {"protocol": "tls://", "security": Security()}
    return found


def cluster(cores: int, memory: str, where: dict[str, Any], **more: Any) -> Any:
    """Return a SLURMCluster whose workers are set up as those of `daskglm cluster workers`.

    Parameters
    ----------
    cores, memory
        Cores and bytes of a job, which is one worker.
    where : dict
        What `arguments` returned.
    **more
        Further arguments of SLURMCluster.
    """
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(
        cores=cores,
        processes=1,
        memory=memory,
        python=sys.executable,
        job_script_prologue=[
            f"export {name}={value}" for name, value in machine.ENVIRONMENT.items()
        ],
        worker_extra_args=machine.LOOPBACK_ONLY,
        **where,
        **more,
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--jobs", type=click.IntRange(min=1), required=True, help="Workers, one job each.")
@click.option("--cores", type=click.IntRange(min=1), required=True, help="Cores of a job.")
@click.option("--memory", required=True, help="Memory of a job, such as 128GB.")
@click.option(
    "--interface",
    required=True,
    help="Network interface to use, such as ib0; nothing listens on others.",
)
@click.option(
    "--scheduler-interface", help="Network interface of this machine, if it has another name."
)
@click.option(
    "--tls-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of certificates that all machines share: encrypt all links.",
)
@click.option("--queue", help="Partition of SLURM.")
@click.option("--walltime", default="01:00:00", show_default=True, help="Time limit of a job.")
@click.option(
    "--extra", multiple=True, help="Further #SBATCH line, such as --exclusive; repeatable."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds to wait for the jobs.",
)
def main(jobs: int, tls_dir: Path | None, timeout: float, **options: Any) -> None:
    """Start the workers, try the cluster with a small fit, and end it."""
    interface = options.pop("interface")
    here = options.pop("scheduler_interface")
    try:
        where = arguments(interface, here, tls_dir)
    except ValueError as error:
        raise click.BadParameter(
            f"{error}.", param_hint="--scheduler-interface" if here else "--interface"
        ) from error

    host = where["scheduler_options"]["host"]
    if warning := addresses.open_cluster_warning(host, encrypted=tls_dir is not None):
        click.echo(warning, err=True)
    directives = list(options.pop("extra"))
    with (
        dask.config.set(tls.settings(tls_dir)),
        cluster(where=where, job_extra_directives=directives, **options) as running,
        Client(running),
    ):
        running.scale(jobs=jobs)
        click.echo(wait_until_ready(running.scheduler_address, jobs, timeout, tls_dir=tls_dir))


if __name__ == "__main__":
    main()
