"""Processes of a cluster on this machine: started, watched, and ended with their launcher."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

logger = logging.getLogger("daskglm")

# Seconds between asking a process to end and killing it.
GRACE_SECONDS = 10.0

# Seconds between two looks at the processes.
POLL_SECONDS = 0.2

# A process that lived for fewer seconds is not restarted: it would fail again.
MIN_LIFETIME_SECONDS = 5.0


# Number of the option of prctl that has the kernel signal a process when its parent dies.
PR_SET_PDEATHSIG = 1

# None where the system has no such call; Windows does not even have a library of the process.
_prctl = getattr(ctypes.CDLL(None), "prctl", None) if hasattr(os, "killpg") else None


class ProcessEnded(RuntimeError):
    """A process that the cluster needs has ended."""


@dataclass
class Process:
    """A command of a cluster, and the process that runs it.

    Attributes
    ----------
    name : str
        For messages.
    command : sequence of str
    environment : mapping of str to str
    cpus : sequence of int, optional
        Processors to bind it to.
    restart : bool
        Start it again if it ends without an error. Dask's nanny restarts a worker that dies, but
        ends itself when it loses its scheduler; then the launcher brings the worker back.
    disconnect_code : int, optional
        Exit code that means that the link to another machine was lost, not that the command failed
        there. The process is dropped then, and the others go on.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    cpus: Sequence[int] | None = None
    restart: bool = False
    disconnect_code: int | None = None
    popen: subprocess.Popen[bytes] = field(init=False)
    started: float = field(init=False)

    def start(self) -> None:
        """Start the command in a process group of its own, out of reach of the user's Ctrl-C.

        The launcher gets the Ctrl-C and ends its processes in order.
        """
        self.popen = subprocess.Popen(
            self.command,
            env=dict(self.environment),
            start_new_session=True,
            preexec_fn=_end_with_launcher,
        )
        self.started = time.monotonic()
        if self.cpus:
            # macOS binds no process
            with contextlib.suppress(psutil.NoSuchProcess, AttributeError):
                psutil.Process(self.popen.pid).cpu_affinity(list(self.cpus))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process is gone."""
        with contextlib.suppress(ProcessLookupError):
            self.popen.send_signal(number)


class Processes:
    """The processes of a launcher. Leaving the context ends them: workers before the scheduler."""

    def __init__(self) -> None:
        self.running: list[Process] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, process: Process) -> None:
        """Start a process and watch it from now on."""
        process.start()
        self.running.append(process)

    def check(self) -> None:
        """Restart processes that ended and may be restarted.

        Raises
        ------
        ProcessEnded
            If another process ended, one ended with an error, or one ended right after its start.
        """
        for process in list(self.running):
            code = process.popen.poll()
            if code is None:
                continue
            lifetime = time.monotonic() - process.started
            if code == process.disconnect_code and lifetime >= MIN_LIFETIME_SECONDS:
                logger.warning("%s cannot be reached any more; the others go on", process.name)
                self.running.remove(process)
                continue
            if not process.restart or code > 0 or lifetime < MIN_LIFETIME_SECONDS:
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                raise ProcessEnded(f"{process.name} has ended ({how}) after {lifetime:.0f} s")
            logger.warning("%s has ended; starting it again", process.name)
            process.start()

    def watch(self) -> None:
        """Check again and again; returns only by an exception."""
        while True:
            self.check()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ask all processes to end, and kill those that do not."""
        # the scheduler goes last: workers take leave of it
        self._stop([process for process in self.running if process.restart])
        self._stop([process for process in self.running if not process.restart])
        self.running.clear()

    def _stop(self, processes: Sequence[Process]) -> None:
        for process in processes:
            process.signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        for process in processes:
            try:
                process.popen.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.signal(signal.SIGKILL)
                process.popen.wait()
            # a nanny that was killed leaves its worker in the process group
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.popen.pid, signal.SIGKILL)


def _end_with_launcher() -> None:
    """In a new process: get SIGTERM when the launcher dies, even if it is killed (on Linux)."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


@contextlib.contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP too, so that they leave nothing running."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def scheduler_file(path: Path | None) -> Iterator[Path]:
    """Yield the path at which a scheduler is to write its address; the file is removed at the end.

    Parameters
    ----------
    path : path, optional
        Default: a file in a temporary folder.

    Raises
    ------
    ValueError
        If the path is a folder or a device.
    """
    with tempfile.TemporaryDirectory(prefix="daskglm-") as folder:
        file = Path(folder) / "scheduler.json" if path is None else path
        if file.exists() and not file.is_file():
            raise ValueError(
                f"scheduler file {file} is a folder or a device, not a file: give another name"
            )
        # a file of an earlier scheduler would be taken for the new one's
        file.unlink(missing_ok=True)
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)


def read_scheduler_file(
    file: Path, timeout: float, alive: Callable[[], None] = lambda: None
) -> str:
    """Wait for the address that a scheduler writes to a file, and return it.

    Parameters
    ----------
    timeout : float
        Seconds.
    alive : callable
        Called while waiting; raises if the scheduler has ended.

    Raises
    ------
    TimeoutError
        If the file, or an address in it, does not appear in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        alive()
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return str(json.loads(file.read_text())["address"])
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the scheduler did not write its address to {file} within {timeout:.0f} s"
            )
        time.sleep(POLL_SECONDS)
