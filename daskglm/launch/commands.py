"""`daskglm cluster`: start a cluster or its parts, check a cluster, make certificates.

Each function is one command; its docstring is what `--help` shows.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import click

from daskglm.launch import addresses, options, ssh, tls
from daskglm.launch.launcher import (
    plan_lines,
    processes_until_interrupted,
    run_command,
    start_scheduler,
    start_workers,
)
from daskglm.launch.options import ListenOptions, SchedulerAddress, SSHOptions, WorkerOptions
from daskglm.launch.processes import Process, read_scheduler_file, scheduler_file
from daskglm.launch.ready import wait_until_ready

# Seconds that a scheduler may take to write its address.
SCHEDULER_SECONDS = 60.0

# Least seconds for `--install` on a host, which may have to download packages.
INSTALL_SECONDS = 900.0


@click.group()
def cluster() -> None:
    """Start a cluster with one worker per NUMA node or per GPU.

    A scheduler without encryption runs the code of anybody who can reach it. It listens on
    127.0.0.1 unless --host says otherwise; beyond a trusted network give --tls-dir.
    """


# ---- parts of a cluster
@cluster.command()
@options.listen_options
@options.tls_dir
def scheduler(listen: ListenOptions, tls_dir: Path | None) -> None:
    """Run a scheduler."""
    _warn_if_open(listen.host, tls_dir)
    with processes_until_interrupted() as running, scheduler_file(listen.scheduler_file) as file:
        start_scheduler(running, listen, file, tls_dir)
        address = read_scheduler_file(file, SCHEDULER_SECONDS, running.check)
        click.echo(f"scheduler at {address}")
        running.watch()


@cluster.command()
@options.scheduler_address
@options.workers_host
@click.option("--name", help="Prefix of the workers' names; default: the name of this machine.")
@click.option("--plan", is_flag=True, help="Only print this machine's workers, one a line.")
@options.worker_options
@options.tls_dir
def workers(
    scheduler: SchedulerAddress,
    host: str | None,
    name: str | None,
    plan: bool,
    size: WorkerOptions,
    tls_dir: Path | None,
) -> None:
    """Run this machine's workers for the scheduler at ADDRESS, and restart those that end."""
    if plan:
        for line in plan_lines(size):
            click.echo(line)
        return
    scheduler.check(tls_dir)
    where = [scheduler.address or f"--scheduler-file={scheduler.scheduler_file}"]
    with processes_until_interrupted() as running:
        start_workers(running, where, name or socket.gethostname(), size, host, tls_dir)
        running.watch()


@cluster.command()
@options.scheduler_address
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of workers to wait for.",
)
@options.timeout
@options.tls_dir
def check(scheduler: SchedulerAddress, workers: int, timeout: float, tls_dir: Path | None) -> None:
    """Wait until a cluster has its workers, and try it with a small fit."""
    scheduler.check(tls_dir)
    began = time.monotonic()
    address = scheduler.address
    if scheduler.scheduler_file is not None:
        address = read_scheduler_file(scheduler.scheduler_file, timeout)
    left = max(timeout - (time.monotonic() - began), 1.0)
    click.echo(wait_until_ready(str(address), workers, left, tls_dir=tls_dir))


@cluster.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Name or address to put in the certificate; repeatable.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=tls.DAYS,
    show_default=True,
    help="Days for which the certificate is valid.",
)
def certificates(folder: Path, hosts: Sequence[str], days: int) -> None:
    """Make an authority and a certificate in FOLDER, for tests and small clusters."""
    for path in tls.make_certificates(folder, hosts, days).values():
        click.echo(path)


# ---- whole clusters
@cluster.command()
@options.listen_options
@options.worker_options
@options.timeout
@options.tls_dir
@options.command
def local(
    listen: ListenOptions,
    size: WorkerOptions,
    timeout: float,
    tls_dir: Path | None,
    command: Sequence[str],
) -> None:
    """Run a cluster on this machine until Ctrl-C, or while COMMAND runs on it.

    Write COMMAND after --. It finds the scheduler in DASK_SCHEDULER_ADDRESS.
    """
    _warn_if_open(listen.host, tls_dir)
    expected = len(plan_lines(size))
    with processes_until_interrupted() as running, scheduler_file(listen.scheduler_file) as file:
        start_scheduler(running, listen, file, tls_dir)
        address = read_scheduler_file(file, timeout, running.check)
        start_workers(running, [address], "local", size, listen.host, tls_dir)
        ready = wait_until_ready(address, expected, timeout, tls_dir=tls_dir, alive=running.check)
        click.echo(ready, err=True)
        run_command(running, address, tls_dir, command)


@cluster.command("ssh")
@click.argument("hostfile", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@options.ssh_options
@options.worker_options
@options.timeout
@options.tls_dir
@options.command
def over_ssh(
    hostfile: Path,
    settings: SSHOptions,
    size: WorkerOptions,
    timeout: float,
    tls_dir: Path | None,
    command: Sequence[str],
) -> None:
    """Run a cluster on the hosts of HOSTFILE until Ctrl-C, or while COMMAND runs on it.

    HOSTFILE has one host a line, as ssh takes it. Certificates of --tls-dir are copied to the
    hosts. Write COMMAND after --. It finds the scheduler in DASK_SCHEDULER_ADDRESS.
    """
    tree = Path(__file__).resolve().parents[2]
    folder = settings.folder or str(tree)
    python = settings.python or f"{folder}/.venv/bin/python"
    remotes = [
        ssh.Remote(host, tuple(settings.ssh_option), folder, python)
        for host in ssh.read_hosts(hostfile)
    ]
    first = remotes[0]
    if settings.scheduler:
        named = [remote for remote in remotes if remote.host == settings.scheduler]
        if not named:
            raise click.BadParameter(
                f"{settings.scheduler} is not in {hostfile}.", param_hint="--scheduler"
            )
        first = named[0]

    if tls_dir is not None:
        tls.check_folder(tls_dir)
    if settings.install:
        ssh.install(remotes, tree, max(timeout, INSTALL_SECONDS))
    certificates = ssh.copy_certificates(remotes, tls_dir, timeout) if tls_dir else {}
    expected = ssh.count_workers(remotes, size.arguments(), timeout)

    host = (settings.scheduler_host or first.name).strip("[]")
    protocol = "tls" if tls_dir else "tcp"
    address = f"{protocol}://{addresses.bracketed(host)}:{settings.port}"

    def on_host(remote: ssh.Remote, *arguments: str) -> list[str]:
        encrypt = ["--tls-dir", certificates[remote.host]] if certificates else []
        return remote.daskglm(["cluster", *arguments, *encrypt], terminal=True)

    with processes_until_interrupted() as running:
        listen = ["--host", host, "--port", str(settings.port)]
        if settings.dashboard:
            listen += ["--dashboard", settings.dashboard]
        start = on_host(first, "scheduler", *listen)
        running.start(Process(f"the scheduler on {first.host}", start, os.environ))
        for remote in remotes:
            start = on_host(remote, "workers", address, "--name", remote.name, *size.arguments())
            running.start(
                Process(
                    f"the launcher of workers on {remote.host}",
                    start,
                    os.environ,
                    restart=True,
                    disconnect_code=ssh.LINK_LOST,
                )
            )
        ready = wait_until_ready(address, expected, timeout, tls_dir=tls_dir, alive=running.check)
        click.echo(ready, err=True)
        run_command(running, address, tls_dir, command)


def _warn_if_open(host: str, tls_dir: Path | None) -> None:
    if warning := addresses.open_cluster_warning(host, encrypted=tls_dir is not None):
        click.echo(warning, err=True)
