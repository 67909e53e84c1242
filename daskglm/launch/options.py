"""Options of `daskglm cluster`. Options that belong together reach their command as one record."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from daskglm.launch import addresses


@dataclass(frozen=True)
class ListenOptions:
    """Where a scheduler and its dashboard listen, and the file that will hold its address."""

    host: str
    scheduler_file: Path | None
    port: int
    dashboard: str | None


@dataclass(frozen=True)
class WorkerOptions:
    """Workers of one machine: number, threads and bytes of memory of each. None: by the machine."""

    workers: int | None
    threads: int | None
    memory: int | None
    device: str

    def arguments(self) -> list[str]:
        """Return the same options as arguments of `daskglm cluster workers`."""
        values = dataclasses.asdict(self)
        return [f"--{name}={value}" for name, value in values.items() if value is not None]


@dataclass(frozen=True)
class SchedulerAddress:
    """A running scheduler: its address, or the file in which it wrote the address."""

    address: str | None
    scheduler_file: Path | None

    def check(self, tls_dir: Path | None) -> None:
        """Raise a usage error unless exactly one of the two is given and fits the certificates."""
        address, file = self.address, self.scheduler_file
        if (address is None) == (file is None):
            raise click.UsageError("give the scheduler's ADDRESS or --scheduler-file, one of them.")
        if file is not None and file.exists() and not file.is_file():
            raise click.BadParameter(
                f"{file} is a pipe or a device, not a file.", param_hint="--scheduler-file"
            )
        if address is None:
            return
        if "://" not in address:
            raise click.UsageError(
                f"{address!r} is no address: it should look like tcp://host:8786 or "
                "tls://host:8786."
            )

        import dask

        configured = dask.config.get("distributed.comm.tls.ca-file", None) is not None
        if address.startswith("tls://") != (tls_dir is not None or configured):
            raise click.UsageError(
                "a tls:// address and --tls-dir (or certificates in Dask's settings) belong "
                "together."
            )


@dataclass(frozen=True)
class SSHOptions:
    """How hosts are reached over ssh, and what they are to run."""

    scheduler: str | None
    scheduler_host: str | None
    folder: str | None
    python: str | None
    install: bool
    ssh_option: Sequence[str]
    port: int
    dashboard: str | None


# ---- checks of single values
def _checked(check: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a callback for click that reports a ValueError of `check` as wrong usage."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else check(value)
        except ValueError as error:
            raise click.BadParameter(f"{error}.") from error

    return callback


def _finite(seconds: float) -> float:
    # click's range accepts nan, and a timeout of nan would never end
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} is not a number of seconds")
    return seconds


def _bytes(text: str) -> int:
    from dask.utils import parse_bytes

    try:
        size = int(parse_bytes(text))
    except (ValueError, TypeError, OverflowError):
        size = 0
    if size < 1:
        raise ValueError(f"{text!r} is not a number of bytes, such as 8GB")
    return size


def _remote_host(host: str) -> str:
    if not addresses.is_host(host):
        raise ValueError(f"{host!r} is not a name or an address")
    return host


# ---- groups
def _group(record: type, name: str, *options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Decorate a command: add options, and pass their values as the one argument `name`."""

    def decorate(command: Any) -> Any:
        @functools.wraps(command)
        def with_record(**given: Any) -> Any:
            fields = {field.name: given.pop(field.name) for field in dataclasses.fields(record)}
            return command(**given, **{name: record(**fields)})

        decorated: Any = with_record
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


_FILE = click.Path(dir_okay=False, path_type=Path)
_PORT: dict[str, Any] = {"default": 8786, "show_default": True}
_DASHBOARD: dict[str, Any] = {
    "metavar": "HOST:PORT",
    "help": "Serve Dask's dashboard there. Default: no dashboard.",
}

listen_options = _group(
    ListenOptions,
    "listen",
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        callback=_checked(addresses.listening_host),
        help="Address to listen on; 0.0.0.0: all.",
    ),
    click.option("--scheduler-file", type=_FILE, help="Write the scheduler's address there."),
    click.option(
        "--port", type=click.IntRange(0, 65535), **_PORT, help="Port to listen on; 0: a free one."
    ),
    click.option("--dashboard", **_DASHBOARD, callback=_checked(addresses.dashboard_address)),
)

worker_options = _group(
    WorkerOptions,
    "size",
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        help="Workers on each machine; default: one per NUMA node.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        help="Threads of each worker; default: its physical cores.",
    ),
    click.option(
        "--memory",
        metavar="BYTES",
        callback=_checked(_bytes),
        help="Memory of each worker, such as 8GB; default: its share of the machine's.",
    ),
    click.option(
        "--device",
        type=click.Choice(["cpu", "cuda"]),
        default="cpu",
        help="cuda: one worker per GPU.",
    ),
)

scheduler_address = _group(
    SchedulerAddress,
    "scheduler",
    click.argument("address", required=False, envvar="DASK_SCHEDULER_ADDRESS"),
    click.option(
        "--scheduler-file", type=_FILE, help="File that has the address, in place of ADDRESS."
    ),
)

ssh_options = _group(
    SSHOptions,
    "settings",
    click.option(
        "--scheduler",
        metavar="HOST",
        help="Host of HOSTFILE that runs the scheduler; default: the first.",
    ),
    click.option(
        "--scheduler-host",
        metavar="ADDRESS",
        callback=_checked(_remote_host),
        help="Address of the scheduler for the workers; default: its name for ssh.",
    ),
    click.option("--folder", help="Folder of daskglm on every host; default: the same as here."),
    click.option(
        "--python", help="Python on every host; default: .venv/bin/python in that folder."
    ),
    click.option(
        "--install",
        is_flag=True,
        help="Copy this checkout's commit to the folder on every host and install it there.",
    ),
    click.option(
        "--ssh-option",
        multiple=True,
        metavar="OPTION",
        help="Option for ssh, such as -p2222; repeatable.",
    ),
    # workers on other hosts must know the port beforehand, so 0 is out
    click.option("--port", type=click.IntRange(1, 65535), **_PORT, help="Port of the scheduler."),
    click.option("--dashboard", **_DASHBOARD),
)

# ---- single options
workers_host = click.option(
    "--host",
    callback=_checked(addresses.listening_host),
    help="Address of this machine for the others; default: the one of the route to the scheduler.",
)
tls_dir = click.option(
    "--tls-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with ca.pem, cert.pem and key.pem: encrypt all links, and refuse everybody "
    "without a certificate.",
)
timeout = click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    callback=_checked(_finite),
    default=120.0,
    show_default=True,
    help="Seconds to wait for the cluster.",
)
command = click.argument("command", nargs=-1, type=click.UNPROCESSED)
