"""A scheduler and two supervised workers as processes of their own, and what can happen to them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil

# Of processes. "input" stands for those of a job's own input, or a callback that fails.
FAULTS = ("none", "none", "none", "kill", "kill client", "stop", "retire", "input", "input")
# As dask-jobqueue's users have it, to end before their batch system does; so short that most fits
# see one of the two go.
LIFETIME = ("--lifetime", "14s", "--lifetime-restart")
STOPPED_SECONDS = 3.0
CLIENT_SECONDS = (
    120.0  # of a client that is to be killed at most, on a machine that is busy otherwise
)
UNDER_WAY = "iteration 2"
EVENTS = "1000"  # that Dask keeps in its logs; it keeps 100,000, and until then its memory grows


class Processes:
    """The cluster: a scheduler, a worker `a` that pauses at times, and a worker `b` to kill.

    `start` starts it, anew where it runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": EVENTS,
            # the tasks at work are not its cause
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10",
            "OMP_NUM_THREADS": "1",
        }
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.lifetimes = False
        self.address = ""
        # when a fault struck last
        self.struck_at: float | None = None

    def start(self, *, lifetimes: bool = False) -> None:
        """Start scheduler and workers; workers end and start again all the time if `lifetimes`."""
        self.close()
        self.lifetimes = lifetimes
        where = self.folder / "scheduler.json"
        where.unlink(missing_ok=True)
        here = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        self._start(
            "scheduler", "distributed.cli.dask_scheduler", *here, "--scheduler-file", str(where)
        )
        while not where.exists():
            time.sleep(0.1)
        time.sleep(0.2)
        self.address = json.loads(where.read_text())["address"]
        self.start_worker("a")
        self.start_worker("b")

    @property
    def has_scheduler(self) -> bool:
        """Whether the scheduler runs."""
        return self.started["scheduler"].poll() is None

    def _start(self, name: str, module: str, *arguments: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            command = [sys.executable, "-m", module, *arguments]
            self.started[name] = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def start_worker(self, name: str, *, stays: bool = False) -> None:
        """Start a worker and its nanny, which starts it again when it is killed.

        It `stays` although others have a lifetime.
        """
        more = (
            "--nthreads",
            "1",
            "--memory-limit",
            "2GB",
            "--name",
            name,
            "--dashboard-address",
            "127.0.0.1:0",
        )
        scratch = ("--local-directory", str(self.folder))
        life = LIFETIME if self.lifetimes and not stays else ()
        self._start(name, "distributed.cli.dask_worker", self.address, *more, *scratch, *life)

    def worker(self, name: str) -> psutil.Process | None:
        """Return the worker process under a nanny, if there is one now."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.started[name].pid).children():
                if "spawn_main" in " ".join(child.cmdline()):
                    return child
        return None

    def ensure(self, client: Any) -> None:
        """Wait for both workers, or one where they come and go; starts the one that was retired."""
        deadline = time.monotonic() + 120
        while True:
            if self.started["b"].poll() is not None:
                self.start_worker("b")
            if len(client.nthreads()) >= (1 if self.lifetimes else 2):
                return
            if time.monotonic() > deadline:
                raise RuntimeError("the workers did not come back in 120 s")
            time.sleep(0.2)

    def help(self) -> None:
        """Start a worker more, that stays."""
        if "helper" not in self.started:
            self.start_worker("helper", stays=True)

    def end_help(self) -> bool:
        """Send the helper away; return whether there was one."""
        helper = self.started.pop("helper", None)
        if helper is not None:
            self._kill(helper)
        return helper is not None

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        """End a process and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """End all."""
        for process in self.started.values():
            self._kill(process)

    # ------------------------------------------------------------------ faults
    def strike(self, fault: str, client: Any) -> None:
        """Cause a fault amid a fit."""
        self.struck_at = time.monotonic()
        if fault == "kill" and (worker := self.worker("b")):
            worker.kill()
        elif fault == "stop":
            name = "a" if time.time() % 2 < 1 else "b"
            if worker := self.worker(name):
                worker.suspend()
                threading.Timer(STOPPED_SECONDS, self._resume, (worker,)).start()
        elif fault == "retire":
            workers = client.scheduler_info(n_workers=-1)["workers"]
            address = [at for at, about in workers.items() if about["name"] == "b"]
            if address:
                client.retire_workers(address, close_workers=True)
        elif fault == "kill scheduler":
            self.started["scheduler"].kill()
            self.started["scheduler"].wait()
        elif fault == "callback":
            raise RuntimeError("the callback fails")

    @staticmethod
    def _resume(worker: psutil.Process) -> None:
        with contextlib.suppress(psutil.Error):
            worker.resume()

    def killed_client(self, number: int) -> str:
        """Have another process begin a fit on this cluster, and kill it after its second iteration.

        It is killed after a while in any case. Returns the last line that it said: "iteration 2",
        or the error that its fit ended with before.
        """
        call = f"fit_for_ever({self.address!r}, {number})"
        code = f"from benchmarks.soak.jobs import fit_for_ever; {call}"
        command = [sys.executable, "-c", code]
        said = ""
        with (
            open(self.folder / "client.log", "ab") as log,
            subprocess.Popen(
                command, env=self.environment, stdout=subprocess.PIPE, stderr=log
            ) as process,
        ):
            assert process.stdout is not None
            timer = threading.Timer(CLIENT_SECONDS, process.kill)
            timer.start()
            for line in process.stdout:
                said = line.decode().strip()
                if said == UNDER_WAY or said.startswith("ended with"):
                    break
            process.kill()
            timer.cancel()
        return said
