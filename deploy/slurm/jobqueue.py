#!/usr/bin/env python3
"""The same cluster by dask-jobqueue: every worker is a SLURM job of its own, and the client runs where this runs.

    .venv/bin/pip install dask-jobqueue
    .venv/bin/python deploy/slurm/jobqueue.py --jobs 4 --cores 32 --memory 128GB --interface ib0

One job a NUMA node: ask for the cores and memory of one node of the machines. Copy `cluster` into your own program.
"""

from __future__ import annotations

import sys
from typing import Any

import click
from distributed import Client

from daskglm.launch import machine
from daskglm.launch.ready import wait_until_ready


def cluster(cores: int, memory: str, interface: str | None, here: str | None = None, **more: Any) -> Any:
    """A SLURMCluster whose workers are set up as those of `daskglm cluster workers`."""
    from dask_jobqueue import SLURMCluster

    given = [f"export {name}={value}" for name, value in machine.ENVIRONMENT.items()]
    return SLURMCluster(
        cores=cores,
        processes=1,
        memory=memory,
        interface=interface,
        python=sys.executable,
        job_script_prologue=given,
        worker_extra_args=machine.LOOPBACK_ONLY,
        scheduler_options={"interface": here or interface, "dashboard_address": "127.0.0.1:0"},
        **more,
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--jobs", type=click.IntRange(min=1), required=True, help="Workers, one job each.")
@click.option("--cores", type=click.IntRange(min=1), required=True, help="Of a job.")
@click.option("--memory", required=True, help="Of a job, such as 128GB.")
@click.option("--interface", help="Network to use, such as ib0.")
@click.option("--scheduler-interface", "here", help="That of this machine, where it has another name.")
@click.option("--queue", help="Partition of SLURM.")
@click.option("--walltime", default="01:00:00", show_default=True)
@click.option("--extra", multiple=True, help="Further #SBATCH line, such as --exclusive; repeatable.")
@click.option("--timeout", type=click.FloatRange(min=1), default=300.0, show_default=True)
def main(jobs: int, cores: int, memory: str, interface: str | None, timeout: float, **more: Any) -> None:
    """Start the workers, try the cluster with a small fit, and end it."""
    extra = list(more.pop("extra"))
    with cluster(cores, memory, interface, job_extra_directives=extra, **more) as running, Client(running):
        running.scale(jobs=jobs)
        click.echo(wait_until_ready(running.scheduler_address, jobs, timeout))


if __name__ == "__main__":
    main()
