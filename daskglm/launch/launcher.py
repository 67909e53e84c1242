"""Start the scheduler and the workers of this machine, and keep them running for a command."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from daskglm.launch import machine, tls
from daskglm.launch.options import ListenOptions, WorkerOptions
from daskglm.launch.processes import POLL_SECONDS, Process, Processes, signals_as_interrupt
from daskglm.system.memory import memory_of_machine
from daskglm.system.topology import read_topology

# Exit code after Ctrl-C, as shells have it.
INTERRUPTED = 130


def plan_slots(size: WorkerOptions) -> list[machine.Slot]:
    """Return the places of this machine's workers."""
    topology = read_topology()
    memory = machine.memory_of_nodes(topology, memory_of_machine())
    slots = machine.plan(topology, memory, size.workers, size.threads)
    if size.memory is None:
        return slots
    return [dataclasses.replace(slot, memory=size.memory) for slot in slots]


def plan_lines(size: WorkerOptions) -> list[str]:
    """Return the workers of this machine, each as a line of JSON."""
    if size.device == "cuda":
        return [json.dumps({"gpu": gpu}) for gpu in machine.visible_gpus()]
    return [json.dumps(dataclasses.asdict(slot)) for slot in plan_slots(size)]


def start_scheduler(
    running: Processes, listen: ListenOptions, file: Path, tls_dir: Path | None
) -> None:
    """Start a scheduler, which will write its address to `file`."""
    host, port = listen.host, listen.port
    # Dask would take another port, or end with a traceback
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise click.UsageError(
            f"cannot listen on {host}:{port} ({os.strerror(error.errno or 0)}): give another "
            "--host or --port."
        ) from error

    environment = machine.environment() | tls.environment(tls_dir)
    command = machine.scheduler_command(
        host, port, file, encrypted=tls_dir is not None, dashboard=listen.dashboard
    )
    running.start(Process("the scheduler", command, environment))


def start_workers(
    running: Processes,
    scheduler: Sequence[str],
    name: str,
    size: WorkerOptions,
    host: str | None,
    tls_dir: Path | None,
) -> None:
    """Start this machine's workers, which are restarted when they end.

    Parameters
    ----------
    scheduler : sequence of str
        Arguments of Dask's commands that say where the scheduler is.
    name : str
        Prefix of the workers' names.
    host : str, optional
        Address of this machine for the others.
    """
    more = ["--host", host] if host else []
    certificates = tls.environment(tls_dir)
    if size.device == "cuda":
        if not machine.visible_gpus():
            raise RuntimeError("--device cuda: no GPU is visible on this machine")
        if size.memory is not None:
            more += ["--memory-limit", str(size.memory)]
        command = machine.gpu_command(scheduler, name, more)
        environment = machine.environment() | certificates
        running.start(Process("the workers", command, environment, restart=True))
        return

    for k, slot in enumerate(plan_slots(size)):
        bound = machine.can_bind_memory(slot)
        if not bound and k == 0:
            click.echo(
                "warning: numactl cannot bind memory here; workers are bound to processors only",
                err=True,
            )
        running.start(
            Process(
                f"worker {name}-{k}",
                machine.worker_command(slot, scheduler, f"{name}-{k}", more),
                machine.environment(slot.threads) | certificates,
                cpus=None if bound else slot.cpus,
                restart=True,
            )
        )


def run_command(
    running: Processes, address: str, tls_dir: Path | None, command: Sequence[str]
) -> None:
    """Run a command on the cluster and exit as it does; without a command stay until Ctrl-C."""
    if not command:
        click.echo(address)
        running.watch()

    environment = {**os.environ, **tls.environment(tls_dir), "DASK_SCHEDULER_ADDRESS": address}
    with subprocess.Popen(command, env=environment) as user:
        try:
            while user.poll() is None:
                running.check()
                time.sleep(POLL_SECONDS)
        finally:
            user.terminate()
    sys.exit(user.returncode)


@contextlib.contextmanager
def processes_until_interrupted() -> Iterator[Processes]:
    """Yield processes that end with the launcher; Ctrl-C and SIGTERM are ways to end it."""
    if not hasattr(os, "killpg"):
        raise click.UsageError(
            "the processes of a cluster are ended by signals of POSIX, which Windows lacks: run "
            "`dask scheduler` and `dask worker`, or this command in the Linux of Windows (WSL)"
        )
    try:
        with signals_as_interrupt(), Processes() as running:
            yield running
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
