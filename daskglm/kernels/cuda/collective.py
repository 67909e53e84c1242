"""Sums over the GPUs of several workers by NCCL, on streams and in captured graphs. No device has
run it yet.

NCCL gives all ranks the same bits of a sum (nccl#434, #855, #1497), so what each computes from it
alone is the same on all, decisions too. It does not tell that a rank has died: who waits for it
waits for ever, until the communicator is aborted. So the host never waits for a stream with a sum
on it but by `Communicator.wait`. docs/multi-gpu.md says more.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import cupy as cp
import numpy as np

from daskglm.core.requests import CollectiveLost
from daskglm.kernels.cuda.memory import pinned

# Seconds that ranks may lag behind each other; a chunk over 140 GB of rows takes half a second.
PATIENCE = 30.0
# Seconds that a stream may take to end after an abort, which makes NCCL's kernels return.
DRAIN = 10.0
# Seconds of waiting in which the host polls without sleep, for solves of milliseconds.
SPIN = 0.01
# Seconds between two polls afterwards.
LOOK = 0.001
# Numbers that ranks exchange before a solve: whether one needs a new workspace, and whether one has
# failed.
FLAGS = 2


def library() -> ModuleType:
    """CuPy's module for NCCL.

    Raises
    ------
    RuntimeError
        Where the library is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy's own words on what is missing; they follow below
        from cupy.cuda import nccl
    if not nccl.available:
        raise RuntimeError(
            "collective='nccl' needs the library NCCL, and CuPy finds none: install "
            "nvidia-nccl-cu13 or "
            "nvidia-nccl-cu12, after your driver's CUDA version, or set "
            "daskglm.collective to None"
        )
    found: ModuleType = nccl
    return found


def identity() -> tuple[str, str, str]:
    """Return the GPU of this process: its machine, its place there and its kind.

    Sums over a grid have the same bits on GPUs of one kind.
    """
    device = cp.cuda.Device()
    name = cp.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
    version = library().get_version()
    return socket.gethostname(), device.pci_bus_id, f"{name}, NCCL {version}"


def unique_id() -> bytes:
    """Return the identifier of a new communicator, whose ranks meet at this process."""
    made: bytes = library().get_unique_id()
    return made


class Communicator:
    """One rank of a communicator; nothing is done before `join`.

    Parameters
    ----------
    size : int
        Ranks, each in a process of its own with another device.
    rank : int
    name : bytes
        From `unique_id`.
    patience : float, optional
        Seconds to wait for others; default: PATIENCE.
    """

    def __init__(self, size: int, rank: int, name: bytes, patience: float | None = None) -> None:
        self.size = size
        self.rank = rank
        self.name = name
        self.patience = PATIENCE if patience is None else patience
        self.left = threading.Event()  # set from another thread by those who give this up
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.flags, self.status = cp.empty(FLAGS), pinned(FLAGS, np.float64)
        self._ranks: Any = None
        self._nccl = library()

    def join(self) -> None:
        """Meet the others, and add up ones, which lets NCCL connect all before a graph is captured.

        Raises
        ------
        CollectiveLost
            Where they do not come, or NCCL cannot connect them.
        """
        device = cp.cuda.Device().id
        made = threading.Event()
        failed = []

        def make() -> None:
            try:
                with cp.cuda.Device(device):
                    ranks = self._nccl.NcclCommunicator(self.size, self.name, self.rank)
                if self.left.is_set():
                    ranks.abort()
                else:
                    self._ranks = ranks
            except Exception as error:
                failed.append(error)
            made.set()

        # in a thread of its own, since NCCL would wait for ever for a rank that does not come
        threading.Thread(target=make, name="daskglm-nccl", daemon=True).start()
        self._until(made.is_set, self.stream)
        if failed:
            raise CollectiveLost(f"NCCL could not connect the GPUs: {failed[0]!r}") from failed[0]
        if (found := self._exchange(1.0, 0.0)[0]) != self.size:
            self._lose(f"NCCL added {self.size} ones up to {found}", self.stream)

    def sum(self, array: Any) -> None:
        """Put the sum over all ranks into a float64 array, as work of the current stream.

        The stream may be capturing.
        """
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        if self._ranks is None:
            raise CollectiveLost("the communicator is closed")
        at = array.data.ptr
        stream = cp.cuda.get_current_stream()
        try:
            self._ranks.allReduce(
                at, at, array.size, self._nccl.NCCL_FLOAT64, self._nccl.NCCL_SUM, stream.ptr
            )
        except RuntimeError as error:
            if not stream.is_capturing():
                self._lose(f"NCCL: {error}", stream)
            self.close()  # a stream that captures does nothing that could be waited for
            raise CollectiveLost(f"NCCL: {error}") from error

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any rank, after all ranks have called this.

        Raises CollectiveLost if one has failed.
        """
        flags, failed = self._exchange(float(flag), 0.0)
        if failed:
            self._lose("another GPU could not go on", self.stream)
        return flags > 0.0

    def fail(self) -> None:
        """Come where the others ask `any`, to say that this rank does not go on."""
        with contextlib.suppress(CollectiveLost):
            self._exchange(0.0, 1.0)

    def wait(self, event: Any, stream: Any) -> None:
        """Wait for an event of a stream.

        Raises
        ------
        CollectiveLost
            Where another rank does not come. Nothing that was added up since is to be used.
        RuntimeError
            Where the device does not end its work even so.
        """
        self._until(lambda: bool(event.done), stream)

    def leave(self) -> None:
        """Let the thread that waits here, or will, give up. From any thread."""
        self.left.set()

    def close(self) -> None:
        """Abort: neither device nor host waits any longer for what other ranks were to send.

        All work that counts has been waited for, and a rank that has died would not answer to an
        orderly destruction. It runs in a thread of its own, since NCCL first tells its kernels to
        return and then waits until the last graph with a sum of this communicator is gone
        (`commDestroySync`).
        """
        self.left.set()
        ranks, self._ranks = self._ranks, None
        if ranks is not None:
            threading.Thread(target=ranks.abort, name="daskglm-nccl-end", daemon=True).start()

    def _exchange(self, *numbers: float) -> tuple[float, ...]:
        self.status[:] = numbers
        with self.stream:
            self.flags.set(self.status, stream=self.stream)
            self.sum(self.flags)
            self.flags.get(stream=self.stream, out=self.status, blocking=False)
            self.wait(self.stream.record(), self.stream)
        return tuple(map(float, self.status))

    def _until(self, done: Callable[[], bool], stream: Any) -> None:
        began = time.monotonic()
        while not done():
            waited = time.monotonic() - began
            if waited < SPIN:
                continue
            time.sleep(LOOK)
            if self.left.is_set():
                self._lose("the fit has given up the sums over GPUs", stream)
            if waited > self.patience:
                self._lose(
                    f"another GPU did not come to a sum within {self.patience:.0f} s", stream
                )
            if self._ranks is not None:
                try:
                    self._ranks.check_async_error()
                except RuntimeError as error:
                    self._lose(f"NCCL: {error}", stream)

    def _lose(self, why: str, stream: Any) -> None:
        """Abort, and wait until nothing on the stream writes any more."""
        began = time.monotonic()
        self.close()
        while not stream.done:
            if time.monotonic() - began > DRAIN:
                raise RuntimeError(
                    f"{why}; and the GPU has not ended its work {DRAIN:.0f} s after: restart this "
                    "worker"
                )
            time.sleep(LOOK)
        raise CollectiveLost(why)
