"""Processes of a cluster on this machine: started together, watched, and ended together, whatever
ends the launcher.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

logger = logging.getLogger("daskglm")

GRACE_SECONDS = 10.0  # between being asked to end and being killed
POLL_SECONDS = 0.2
LEAST_SECONDS = 5.0  # a process that ends sooner would end again


class Ended(RuntimeError):
    """A process that a cluster cannot do without has ended."""


@dataclass
class Process:
    """A command, the process that runs it now, and since when."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    cpus: Sequence[int] | None = None
    again: bool = False
    loses: int | None = None
    popen: subprocess.Popen[bytes] = field(init=False)
    since: float = field(init=False)

    def start(self) -> None:
        """Start the command in a process group of its own: a Ctrl-C is for the launcher, which ends
        it in order.
        """
        self.popen = subprocess.Popen(
            self.command, env=dict(self.environment), start_new_session=True
        )
        self.since = time.monotonic()
        if self.cpus:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(self.popen.pid).cpu_affinity(list(self.cpus))


class Processes:
    """What a launcher runs; leaving its context ends all, those that started last first."""

    def __init__(self) -> None:
        self.running: list[Process] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        cpus: Sequence[int] | None = None,
        again: bool = False,
        loses: int | None = None,
    ) -> None:
        """Start a command, on some processors only; `again` starts it anew where it ends without an
        error.

        Dask's nanny restarts a worker that dies, but ends itself when it loses its scheduler for a
        while: then this brings the worker back. `loses` is the exit code of a command that has lost
        the machine it works on: what it has started there goes on by itself, and comes back or not.
        """
        process = Process(name, command, environment, cpus, again, loses)
        process.start()
        self.running.append(process)

    def check(self) -> None:
        """Start again what ended and may; raise `Ended` for what may not."""
        for process in list(self.running):
            code = process.popen.poll()
            if code is None:
                continue
            lived = time.monotonic() - process.since
            if code == process.loses and lived >= LEAST_SECONDS:
                logger.warning("%s cannot be reached any more; the others go on", process.name)
                self.running.remove(process)
                continue
            if not process.again or code > 0 or lived < LEAST_SECONDS:
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                raise Ended(f"{process.name} has ended ({how}) after {lived:.0f} s")
            logger.warning("%s has ended; starting it again", process.name)
            process.start()

    def watch(self) -> None:
        """Check until one may not be started again."""
        while True:
            self.check()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """End all, politely at first."""
        self._stop([process for process in self.running if process.again])
        # whom the others say goodbye to
        self._stop([process for process in self.running if not process.again])
        self.running.clear()

    def _stop(self, processes: Sequence[Process]) -> None:
        for process in processes:
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        for process in processes:
            try:
                process.popen.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.popen.wait()
            # what a killed nanny has left behind
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.popen.pid, signal.SIGKILL)


def _signal(process: Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.popen.send_signal(number)


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into what Ctrl-C does, so that they too leave nothing running."""

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
    """Where a scheduler writes its address; a temporary one unless a path is given, which is
    removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="daskglm-") as folder:
        file = Path(folder) / "scheduler.json" if path is None else path
        if file.exists() and not file.is_file():
            raise ValueError(
                f"scheduler file {file} is a folder or a device, not a file: give another name"
            )
        file.unlink(missing_ok=True)  # that of a scheduler that is gone would lead astray
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)


def address_in(file: Path, processes: Processes, timeout: float) -> str:
    """The address that a scheduler has written; raises TimeoutError where it does not come."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        processes.check()
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return str(json.loads(file.read_text())["address"])
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"the scheduler did not write its address to {file} within {timeout:.0f} s")
