#!/usr/bin/env python3
"""A cluster under mpirun, by dask-mpi.

Rank 0 is the scheduler, rank 1 runs the command, and the others are workers.

    .venv/bin/pip install mpi4py dask-mpi
    mpirun -n 4 .venv/bin/python deploy/mpi/daskglm_mpi.py [options] -- COMMAND...

Start one rank per NUMA node and two more, and let mpirun bind: Open MPI --map-by numa --bind-to
numa, MPICH -bind-to numa. COMMAND finds the scheduler in DASK_SCHEDULER_ADDRESS, as `daskglm fit`
and `Client()` do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from daskglm.launch import addresses, machine, tls
from daskglm.launch.ready import wait_until_ready
from daskglm.system.topology import read_topology


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--interface",
    default="lo",
    show_default=True,
    help="Network interface to use, such as ib0; lo: this host only.",
)
@click.option(
    "--tls-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of certificates: encrypt all links.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Threads of a worker; default: the cores that mpirun binds a rank to.",
)
@click.option(
    "--memory", default="auto", show_default=True, help="Memory of a worker, such as 8GB."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=120.0,
    show_default=True,
    help="Seconds to wait.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def main(
    interface: str,
    tls_dir: Path | None,
    threads: int | None,
    memory: str,
    timeout: float,
    command: Sequence[str],
) -> None:
    """Run COMMAND on a cluster of MPI's ranks."""
    try:
        address = addresses.interface_address(interface)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--interface") from error
    os.environ.update(machine.environment() | tls.environment(tls_dir))
    import dask.config

    dask.config.refresh()  # read the environment again
    from dask_mpi import initialize
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD.Get_size()
    if ranks < 3:
        raise click.UsageError(
            f"{ranks} rank(s) are too few: one is the scheduler and one runs the command; start at "
            "least 3."
        )
    warning = addresses.open_cluster_warning(address, encrypted=tls_dir is not None)
    if warning and MPI.COMM_WORLD.Get_rank() == 0:
        click.echo(warning, err=True)
    cores = sum(len(node.cores) for node in read_topology().nodes)
    initialize(
        interface=interface,
        nthreads=threads or cores,
        memory_limit=memory,
        protocol="tls" if tls_dir else "tcp",
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        worker_class="distributed.Nanny",
        worker_options={"dashboard_address": "127.0.0.1:0"},
    )
    # dask-mpi keeps the other ranks in `initialize`: only rank 1 arrives here
    from distributed import Client

    with Client() as client:
        scheduler = client.scheduler.address
        click.echo(wait_until_ready(scheduler, ranks - 2, timeout, tls_dir=tls_dir), err=True)
        code = subprocess.run(
            command, env={**os.environ, "DASK_SCHEDULER_ADDRESS": scheduler}, check=False
        ).returncode
    sys.exit(code)


if __name__ == "__main__":
    main()
