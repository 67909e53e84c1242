"""`daskglm cluster`: start a cluster here, over ssh, or its parts; wait until it works; make
certificates.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import dask

from daskglm.launch import addresses, machine, ssh, tls
from daskglm.launch.processes import Processes, address_in, ending_in_order, scheduler_file
from daskglm.launch.ready import wait_until_ready
from daskglm.system.topology import read_topology

INTERRUPTED = 130  # exit code after Ctrl-C, as shells have it
STAY = 0.5


@click.group()
def cluster() -> None:
    """Start a cluster with one worker per NUMA node or per GPU.

    Links are plain TCP and an open scheduler runs anybody's code: it listens on 127.0.0.1 unless
    --host says otherwise, and beyond a trusted network give --tls-dir.
    """


def _together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


_TLS = click.option(
    "--tls-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with ca.pem, cert.pem, key.pem: encrypt all links, refuse partners without a "
    "certificate.",
)


def _seconds(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):  # the range lets nan pass, which never ends
        raise click.BadParameter(f"{value} is not a number of seconds.")
    return value


_TIMEOUT = click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    callback=_seconds,
    default=120.0,
    show_default=True,
    help="Seconds.",
)
_LISTEN = _together(
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=8786,
        show_default=True,
        help="0: a free one.",
    ),
    click.option(
        "--dashboard",
        metavar="HOST:PORT",
        help="Serve Dask's dashboard there. Default: no dashboard.",
    ),
)
_WORKERS = _together(
    click.option(
        "--workers", type=click.IntRange(min=1), help="On each machine; default: one per NUMA node."
    ),
    click.option(
        "--threads", type=click.IntRange(min=1), help="Of a worker; default: its physical cores."
    ),
    click.option(
        "--memory",
        metavar="BYTES",
        help="Of a worker, such as 8GB; default: its share of the machine's.",
    ),
    click.option(
        "--device",
        type=click.Choice(["cpu", "cuda"]),
        default="cpu",
        help="cuda: one worker per GPU.",
    ),
)
_COMMAND = click.argument("command", nargs=-1, type=click.UNPROCESSED)


# ---- parts
@cluster.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all."
)
@click.option(
    "--scheduler-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the address there.",
)
@_LISTEN
@_TLS
def scheduler(
    host: str, port: int, dashboard: str | None, scheduler_file: Path | None, tls_dir: Path | None
) -> None:
    """Run a scheduler."""
    host, dashboard = _checked_host(host, tls_dir), _checked_dashboard(dashboard)
    with _until_interrupted() as running, _file(scheduler_file) as file:
        _start_scheduler(running, host, port, file, tls_dir, dashboard)
        click.echo(f"scheduler at {address_in(file, running, 60.0)}")
        running.watch()


@cluster.command()
@click.argument("address", required=False, envvar="DASK_SCHEDULER_ADDRESS")
@click.option(
    "--scheduler-file", type=click.Path(dir_okay=False, path_type=Path), help="In place of ADDRESS."
)
@click.option(
    "--host",
    help="Address of this machine that others are to use; default: by the route to the scheduler.",
)
@click.option("--name", help="Prefix of the workers' names; default: the name of this machine.")
@click.option(
    "--plan",
    "only_plan",
    is_flag=True,
    help="Only print the workers this machine would run, one a line.",
)
@_WORKERS
@_TLS
def workers(
    address: str | None, only_plan: bool, name: str | None, tls_dir: Path | None, **given: Any
) -> None:
    """Run this machine's workers for the scheduler at ADDRESS, and bring back those that end."""
    if only_plan:
        for line in _plan_lines(given):
            click.echo(line)
        return
    if (address is None) == (given["scheduler_file"] is None):
        raise click.UsageError("give the scheduler's ADDRESS or --scheduler-file, one of them.")
    if address and "://" not in address:
        raise click.UsageError(
            f"{address!r} is no address: it should look like tcp://host:8786 or tls://host:8786."
        )
    encrypted = (
        tls_dir is not None or dask.config.get("distributed.comm.tls.ca-file", None) is not None
    )
    if address and address.startswith("tls://") != encrypted:
        raise click.UsageError(
            "a tls:// address and --tls-dir (or certificates in Dask's settings) belong together."
        )
    if given["host"] is not None:
        given["host"] = _own_host(given["host"])
    target = [address] if address else ["--scheduler-file", str(given["scheduler_file"])]
    with _until_interrupted() as running:
        _start_workers(running, target, name or socket.gethostname(), tls_dir, given)
        running.watch()


@cluster.command()
@click.argument("address", required=False, envvar="DASK_SCHEDULER_ADDRESS")
@click.option(
    "--scheduler-file", type=click.Path(dir_okay=False, path_type=Path), help="In place of ADDRESS."
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, show_default=True, help="To wait for."
)
@_TIMEOUT
@_TLS
def check(
    address: str | None,
    scheduler_file: Path | None,
    workers: int,
    timeout: float,
    tls_dir: Path | None,
) -> None:
    """Wait until a cluster has its workers, and try it with a small fit."""
    if (address is None) == (scheduler_file is None):
        raise click.UsageError("give the scheduler's ADDRESS or --scheduler-file, one of them.")
    deadline = time.monotonic() + timeout
    if scheduler_file is not None and scheduler_file.exists() and not scheduler_file.is_file():
        raise click.BadParameter(
            f"{scheduler_file} is a pipe or a device, not a file.", param_hint="--scheduler-file"
        )
    while (
        scheduler_file is not None and not scheduler_file.exists() and time.monotonic() < deadline
    ):
        time.sleep(STAY)
    click.echo(wait_until_ready(address, workers, timeout, folder=tls_dir, file=scheduler_file))


@cluster.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Name or address to put in the certificate; may be repeated.",
)
@click.option(
    "--days",
    type=click.IntRange(min=1),
    default=tls.DAYS,
    show_default=True,
    help="For which it holds.",
)
def certificates(folder: Path, hosts: Sequence[str], days: int) -> None:
    """Make an authority and a certificate in FOLDER, for tests and small clusters."""
    for path in tls.make_certificates(folder, hosts, days).values():
        click.echo(path)


# ---- whole clusters
@cluster.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--scheduler-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the address there.",
)
@_LISTEN
@_WORKERS
@_TIMEOUT
@_TLS
@_COMMAND
def local(
    host: str,
    port: int,
    dashboard: str | None,
    scheduler_file: Path | None,
    timeout: float,
    tls_dir: Path | None,
    command: Sequence[str],
    **given: Any,
) -> None:
    """Run a cluster on this machine until Ctrl-C, or while COMMAND runs on it (write it after
    --).
    """
    host, dashboard = _checked_host(host, tls_dir), _checked_dashboard(dashboard)
    expected = len(_plan_lines(given))
    with _until_interrupted() as running, _file(scheduler_file) as file:
        _start_scheduler(running, host, port, file, tls_dir, dashboard)
        address = address_in(file, running, timeout)
        _start_workers(running, [address], "local", tls_dir, {**given, "host": host})
        click.echo(
            wait_until_ready(address, expected, timeout, folder=tls_dir, alive=running.check),
            err=True,
        )
        _use(running, address, tls_dir, command)


@cluster.command("ssh")
@click.argument("hostfile", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--scheduler",
    "chief",
    metavar="HOST",
    help="Host of the scheduler; default: the first of HOSTFILE.",
)
@click.option(
    "--scheduler-host",
    metavar="ADDRESS",
    help="Its address for the workers; default: its name for ssh.",
)
@click.option("--folder", help="Of daskglm on every host; default: the same as here.")
@click.option("--python", help="On every host; default: .venv/bin/python in the folder.")
@click.option(
    "--install",
    is_flag=True,
    help="Copy this checkout's commit to the folder on every host and set it up.",
)
@click.option(
    "--ssh-option",
    "options",
    multiple=True,
    metavar="OPTION",
    help="Of ssh, such as -p2222; repeatable.",
)
@_LISTEN
@_WORKERS
@_TIMEOUT
@_TLS
@_COMMAND
def over_ssh(
    hostfile: Path,
    chief: str | None,
    scheduler_host: str | None,
    port: int,
    dashboard: str | None,
    timeout: float,
    tls_dir: Path | None,
    command: Sequence[str],
    **given: Any,
) -> None:
    """Run a cluster on the hosts of HOSTFILE until Ctrl-C, or while COMMAND runs on it (write it
    after --).

    HOSTFILE has one host a line, as ssh takes it. Certificates of --tls-dir are copied to the
    hosts.
    """
    hosts = ssh.read_hosts(hostfile)
    if scheduler_host is not None and not ssh.is_host(scheduler_host):
        raise click.BadParameter(
            f"{scheduler_host!r} is not a name or an address.", param_hint="--scheduler-host"
        )
    if port == 0:
        raise click.BadParameter(
            "workers on other hosts must know it beforehand.", param_hint="--port"
        )
    tls.options(tls_dir)
    tree = Path(__file__).resolve().parents[2]
    folder = given["folder"] or str(tree)
    python = given["python"] or f"{folder}/.venv/bin/python"
    remotes = [
        ssh.Remote(host, tuple(given["options"]), folder, python) for host in dict.fromkeys(hosts)
    ]
    first = next((remote for remote in remotes if remote.host == chief), remotes[0])
    if chief and first.host != chief:
        raise click.BadParameter(f"{chief} is not in {hostfile}.", param_hint="--scheduler")
    if given["install"]:
        ssh.install(remotes, tree, max(timeout, 900.0))
    encrypted = []
    if tls_dir is not None:
        ssh.copy_certificates(remotes, tls_dir, timeout)
        encrypted = ["--tls-dir", f"{{home}}/{ssh.CERTIFICATES}"]
    homes = ssh.on_all({remote.host: remote.command("pwd") for remote in remotes}, timeout)
    shape = [
        f"--{name}={given[name]}"
        for name in ("workers", "threads", "memory", "device")
        if given[name]
    ]
    plans = ssh.on_all(
        {
            remote.host: remote.daskglm(["cluster", "workers", "--plan", *shape])
            for remote in remotes
        },
        timeout,
    )
    expected = sum(len(text.splitlines()) for text in plans.values())
    at = first.name if scheduler_host is None else scheduler_host.strip("[]")
    address = f"{'tls' if tls_dir else 'tcp'}://{machine.bracketed(at)}:{port}"

    def there(remote: ssh.Remote, *arguments: str) -> list[str]:
        home = homes[remote.host].strip()
        full = [*arguments, *(part.replace("{home}", home) for part in encrypted)]
        return remote.daskglm(["cluster", *full], terminal=True)

    with _until_interrupted() as running:
        shown = ["--dashboard", dashboard] if dashboard else []
        listen = there(first, "scheduler", "--host", at, "--port", str(port), *shown)
        running.start(f"the scheduler on {first.host}", listen, dict(os.environ))
        for remote in remotes:
            command_there = there(remote, "workers", address, "--name", remote.name, *shape)
            name = f"the launcher of workers on {remote.host}"
            running.start(name, command_there, dict(os.environ), again=True, loses=ssh.LOST)
        click.echo(
            wait_until_ready(address, expected, timeout, folder=tls_dir, alive=running.check),
            err=True,
        )
        _use(running, address, tls_dir, command)


# ---- what they share
def _slots(given: dict[str, Any]) -> list[machine.Slot]:
    from dask.utils import parse_bytes
    from distributed.system import MEMORY_LIMIT

    topology = read_topology()
    slots = machine.plan(
        topology,
        machine.memory_of_nodes(topology, MEMORY_LIMIT),
        given["workers"],
        given["threads"],
    )
    if given["memory"] is None:
        return slots
    try:
        size = int(parse_bytes(given["memory"]))
        if size < 1:
            raise ValueError
    except (ValueError, TypeError, OverflowError) as error:
        message = f"{given['memory']!r} is not a number of bytes, such as 8GB."
        raise click.BadParameter(message, param_hint="--memory") from error
    return [dataclasses.replace(slot, memory=size) for slot in slots]


def _plan_lines(given: dict[str, Any]) -> list[str]:
    """The workers of this machine, each as a line of JSON."""
    if given["device"] == "cuda":
        return [json.dumps({"gpu": gpu}) for gpu in _gpus()]
    return [json.dumps(dataclasses.asdict(slot)) for slot in _slots(given)]


def _gpus() -> list[str]:
    """GPUs that dask-cuda would use: those of CUDA_VISIBLE_DEVICES, else all."""
    try:
        from dask_cuda.utils import get_n_gpus
    except ImportError as error:
        raise RuntimeError(
            f"--device cuda needs dask-cuda: pip install 'daskglm[cuda13]' ({error})"
        ) from error
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [gpu for gpu in visible.split(",") if gpu]
    try:
        return [str(gpu) for gpu in range(get_n_gpus())]
    except Exception as error:  # of NVML, which has its own
        raise RuntimeError(f"--device cuda: no GPU was found on this machine ({error})") from error


def _own_host(host: str) -> str:
    try:
        return addresses.listening_host(host)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--host") from error


def _checked_host(host: str, tls_dir: Path | None) -> str:
    """A host for a scheduler, with a warning where others can reach it and links are not
    encrypted.
    """
    host = _own_host(host)
    if warning := addresses.warning_of_an_open_cluster(host, encrypted=tls_dir is not None):
        click.echo(warning, err=True)
    return host


def _checked_dashboard(dashboard: str | None) -> str | None:
    try:
        return None if dashboard is None else addresses.served_at(dashboard)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--dashboard") from error


def _start_scheduler(
    running: Processes,
    host: str,
    port: int,
    file: Path,
    tls_dir: Path | None,
    dashboard: str | None,
) -> None:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise click.UsageError(
            f"cannot listen on {host}:{port} ({os.strerror(error.errno or 0)}): give another "
            "--host or --port."
        ) from error
    command = machine.scheduler_command(host, port, file, tls.options(tls_dir), dashboard)
    running.start("the scheduler", command, machine.environment() | tls.environment(tls_dir))


def _start_workers(
    running: Processes, target: list[str], name: str, tls_dir: Path | None, given: dict[str, Any]
) -> None:
    common = [*tls.options(tls_dir), *(["--host", given["host"]] if given.get("host") else [])]
    environment = machine.environment() | tls.environment(tls_dir)
    if given["device"] == "cuda":
        if not _gpus():
            raise RuntimeError("--device cuda: no GPU is visible on this machine")
        limit = ["--memory-limit", given["memory"]] if given["memory"] else []
        running.start(
            "the workers",
            machine.gpu_command(target, name, [*common, *limit]),
            environment,
            again=True,
        )
        return
    for k, slot in enumerate(_slots(given)):
        bound = machine.binds(slot)
        if not bound and k == 0:
            click.echo(
                "warning: numactl cannot bind memory here; workers are bound to processors only",
                err=True,
            )
        running.start(
            f"worker {name}-{k}",
            machine.worker_command(slot, target, f"{name}-{k}", common),
            machine.environment(slot.threads) | tls.environment(tls_dir),
            cpus=None if bound else slot.cpus,
            again=True,
        )


def _use(running: Processes, address: str, tls_dir: Path | None, command: Sequence[str]) -> None:
    """Run a command on the cluster and exit as it does; without one stay until Ctrl-C."""
    if not command:
        click.echo(address)
        running.watch()
    environment = {**os.environ, **tls.environment(tls_dir), "DASK_SCHEDULER_ADDRESS": address}
    with subprocess.Popen(command, env=environment) as user:
        try:
            while user.poll() is None:
                running.check()
                time.sleep(STAY)
        finally:
            user.terminate()
    sys.exit(user.returncode)


def _file(path: Path | None) -> contextlib.AbstractContextManager[Path]:
    return scheduler_file(path)


@contextlib.contextmanager
def _until_interrupted() -> Iterator[Processes]:
    """Processes that end with the launcher; Ctrl-C and SIGTERM are ways to end it."""
    try:
        with ending_in_order(), Processes() as running:
            yield running
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
