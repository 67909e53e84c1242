"""What commands share: where they run, and formats of files."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from daskglm.commands.text import visible
from daskglm.commands.values import not_blank

# Dask would serve HTTP pages of scheduler and workers on all addresses.
_LOOPBACK = "127.0.0.1:0"


def of_scheduler(what: str) -> Callable[[Any], Any]:
    """Add the options that name a scheduler, which is for `what`, and the certificates for it."""

    def add(command: Any) -> Any:
        certificates = click.option(
            "--tls-dir",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Folder with the certificates of that cluster.",
        )
        scheduler = click.option(
            "--scheduler",
            metavar="ADDRESS",
            envvar="DASK_SCHEDULER_ADDRESS",
            callback=not_blank,
            help=what,
        )
        return scheduler(certificates(command))

    return add


# ---- commands


def format_of(path: str, asked: str) -> str:
    """Return the format of a file; a usage error where its name does not tell."""
    from daskglm.estimators import datafiles

    kind = datafiles.format_of(path, asked)
    if kind is None:
        raise click.UsageError(
            f"cannot tell the format of {visible(path)!r} from its name: give --format."
        )
    return kind


def check_out(out: str, *inputs: str) -> None:
    """Raise before any work unless `out` can be written and is not one of the inputs."""
    from daskglm.core.arguments import writable

    path = writable(out)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{out}: the folder does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{out}: files cannot be written to that folder")
    for given in inputs:
        if path.exists() and os.path.exists(given) and path.samefile(given):
            raise ValueError(f"{out} is a file that this command reads: give another --out")


# ---- where to run
@contextlib.contextmanager
def client_of(scheduler: str | None, workers: int | None, tls_dir: Path | None) -> Iterator[Any]:
    """Make a client of a scheduler or of local workers the default; without both fit in process.

    Gives the client, or None.
    """
    if scheduler:
        import dask

        from daskglm.launch import tls

        with dask.config.set(tls.settings(tls_dir)), _connected(scheduler) as client:
            yield client
    elif workers:
        with _of_local_workers(workers) as client:
            yield client
    else:
        yield None


@contextlib.contextmanager
def _of_local_workers(workers: int) -> Iterator[Any]:
    """Start workers on this machine, and give a client of them; ConnectionError if they do not."""
    from distributed import Client, LocalCluster

    quiet = not click.get_current_context().find_root().obj
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        try:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                # None would serve pages on all addresses
                dashboard_address=_LOOPBACK,
                worker_dashboard_address=_LOOPBACK,
                # workers would write tracebacks of errors that are shown here as one line
                silence_logs=logging.CRITICAL if quiet else logging.WARNING,
            )
            client = stack.enter_context(Client(stack.enter_context(cluster)))
        except OSError as error:  # timeouts are among them, mostly without a word
            raise ConnectionError(
                f"{workers} local workers did not start (tried for "
                f"{time.monotonic() - began:.3g} s): does the machine do much else?"
                + (f" {error}" if str(error) else "")
            ) from error
        yield client


def _connected(scheduler: str) -> Any:
    """Return a client of a scheduler; ConnectionError where none answers."""
    import dask
    from distributed import Client

    began = time.monotonic()
    try:
        return Client(scheduler)
    except OSError as error:  # timeouts are among them, mostly without a word
        raise ConnectionError(
            f"no scheduler answers at {scheduler} (tried for {time.monotonic() - began:.3g} s; "
            f"distributed.comm.timeouts.connect is "
            f"{dask.config.get('distributed.comm.timeouts.connect')}): is it running there, and "
            "is this the address that it printed?" + (f" {error}" if str(error) else "")
        ) from error
