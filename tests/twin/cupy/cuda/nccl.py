"""NCCL of the stand-in: sums over ranks that are threads of one process or processes of one machine.

The process that made the unique id adds up, in the order of ranks, and sends all the same bytes. It is as unforgiving as
NCCL may be: who waits for a rank that has died waits for ever, until it aborts. What NCCL leaves undefined is an error:
ranks that differ in what they call, or of which some have captured the call and some have not. TWIN_NCCL=0: as CuPy is
where the library is not installed.
"""

import contextlib
import ctypes
import os
import secrets
import struct
import threading
import time
import weakref
from multiprocessing import connection

import numpy as np

import cupy.cuda

available = os.environ.get("TWIN_NCCL") != "0"
NCCL_SUM, NCCL_FLOAT64 = 0, 8
ID_BYTES, KEY_BYTES = 128, 16


class NcclError(RuntimeError):
    """A status that is not success."""

    def __init__(self, status):
        self.status = status
        super().__init__(f"NCCL status {status}")


def get_version():
    return 22707


def get_unique_id():
    key = secrets.token_bytes(KEY_BYTES)
    listener = connection.Listener(("127.0.0.1", 0), authkey=key)
    threading.Thread(target=_serve, args=(listener,), daemon=True).start()
    return (struct.pack("<H", listener.address[1]) + key).ljust(ID_BYTES, b"\0")


def _serve(listener):
    """Wait for all ranks, then add up what they send, in their order; end when all have gone."""
    ranks, size = {}, 1
    with listener:
        while len(ranks) < size:
            try:
                channel = listener.accept()
                size, rank = channel.recv()
            except (OSError, EOFError):  # one that has gone already: the others wait
                continue
            ranks[rank] = channel
    _tell(ranks, "go")
    given = {}
    while ranks:
        for channel in connection.wait(list(ranks.values())):
            rank = next(rank for rank, other in ranks.items() if other is channel)
            try:
                given[rank] = channel.recv()
            except (OSError, EOFError):
                del ranks[rank]
        if len(given) == size:
            calls = {call for call, _ in given.values()}
            total = sum(np.frombuffer(given[rank][1]) for rank in sorted(given)).tobytes()
            _tell(
                ranks, total if len(calls) == 1 else f"ranks call different things: {sorted(calls)}"
            )
            given = {}


def _tell(ranks, what):
    for channel in ranks.values():
        with contextlib.suppress(OSError):  # it has gone
            channel.send(what)


class NcclCommunicator:
    """One rank."""

    def __init__(self, ndev, commId, rank, config=None):
        if len(commId) != ID_BYTES:
            raise ValueError(f"commId length {len(commId)} != {ID_BYTES}.")
        (port,) = struct.unpack("<H", commId[:2])
        self.graphs, self.capture, self.dead = 0, None, False
        self.captured = weakref.WeakSet()
        self.channel = connection.Client(("127.0.0.1", port), authkey=commId[2 : 2 + KEY_BYTES])
        self.channel.send((ndev, rank))
        assert self.channel.recv() == "go"  # as NCCL does: wait for all

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        if (datatype, op) != (NCCL_FLOAT64, NCCL_SUM):
            raise NcclError(4)
        stream = cupy.cuda.stream_at(stream)
        capture = stream.capture if stream.captured is not None else None
        if capture is not None and capture is not self.capture:
            self.capture = capture
            self.graphs += 1
        work = _Sum(self, (self.graphs if capture is not None else 0, count), sendbuf, recvbuf)
        if capture is not None:
            self.captured.add(work)
        stream.enqueue(work)

    def check_async_error(self):
        if self.channel is None:
            raise NcclError(4)

    def destroy(self):
        if self.channel is not None:
            self.channel.close()
        self.channel = None
        while self.captured:  # as NCCL does: until the last graph is gone
            time.sleep(0.001)

    abort = destroy


class _Sum:
    """One all-reduce on a stream: sends when it is its turn, and is done when the sum has come."""

    def __init__(self, ranks, call, sendbuf, recvbuf):
        self.given = ranks, call, sendbuf, recvbuf
        self.sent = False

    def again(self):
        return _Sum(*self.given)

    def __call__(self):
        ranks, (which, count), sendbuf, recvbuf = self.given
        channel = ranks.channel  # another thread may abort at any moment
        if channel is None:
            return None
        try:
            if not self.sent:
                channel.send(((which, count), ctypes.string_at(sendbuf, 8 * count)))
                self.sent = True
            if ranks.dead or not channel.poll():
                return cupy.cuda.PENDING
            total = channel.recv()
        except (OSError, EOFError, TypeError, ValueError):  # the last two where it closes amid this
            ranks.dead = True
            return cupy.cuda.PENDING
        if isinstance(total, str):
            raise AssertionError(total)
        ctypes.memmove(recvbuf, total, 8 * count)
        return None


if not available:
    del NcclCommunicator, NcclError, get_unique_id, get_version
