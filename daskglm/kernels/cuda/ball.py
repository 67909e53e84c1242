"""Conjugate gradients in a trust region without the host: `linear.cg_in_ball` with everything on the device.

How it meets the list of Halloran & Rocke 2020 (supplement, concealing transfer latency):

- (a) all functions that make what the host needs go to one asynchronous stream: a chunk of STEPS iterations, captured
  once as a CUDA graph and launched as one;
- (b) the transfer follows them on that stream: eight integers, into pinned memory, nothing of length d or n;
- (c) independent work comes before waiting: the next chunk is enqueued; if it proves one too many its kernels see the
  flag LIVE and return at once;
- (d) the stream is synchronised, by an event, just before the host reads the flags;
- (e) scalars, v'Hv among them, are not even returned: they are used where they are made (`ball.cu`).

The other way, host to device, `memory.Upload` and `streamed` launch a copy as soon as its data are packed, and what
needs them waits for an event on the device. Margins, losses, slopes and D come of one kernel (`visit` in `common.cu`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.cuda.launch import THREADS, blocks, kernel
from daskglm.kernels.cuda.memory import pinned

STEPS = 5  # iterations of a chunk
LIVE, BORDER, PRODUCTS = range(3)


class Ball:
    """Workspace for coefficients of one size and the memos of some blocks, and the captured chunk.

    Parameters
    ----------
    size : int
        Coefficients, the intercept included.
    n_features : int
    memos : sequence of respond.Memo
        Their rows and curvatures are what the Hessian is made of; they must stay where they are.
    capture : bool
        Whether chunks are launched as graphs.
    ranks : collective.Communicator, optional
        Over devices that solve the same system, each with rows of its own: they add up each product.
    """

    def __init__(
        self, size: int, n_features: int, memos: Sequence[Any], *, capture: bool = True, ranks: Any = None
    ) -> None:
        self.size, self.memos, self.capture, self.ranks = size, list(memos), capture, ranks
        self.reads = self._reads(memos)
        self.intercept = int(size > n_features)
        self.penalised, self.M, self.step, self.residual, self.direction = (cp.empty(size) for _ in range(5))
        self.hd = cp.empty(n_features + 1)
        self.state, self.flags = cp.empty(8), cp.zeros(8, np.int32)
        self.grid = blocks(size, 4 * THREADS, 1)
        self.partial = cp.empty(4 * self.grid)
        self.status = [pinned(8, np.int32), pinned(8, np.int32)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.graph: Any = None

    @staticmethod
    def _reads(memos: Sequence[Any]) -> list[Any]:
        """What a captured chunk has the addresses of: it is of no use once one of them has moved."""
        return [(m.curvature, m.rows, m.rows.workspace.moves) for m in memos]

    def serves(self, size: int, memos: Sequence[Any]) -> bool:
        """Whether this workspace, and the chunk it may have captured, is good for these memos."""
        now = self._reads(memos)
        same = len(now) == len(self.reads) and all(
            a is b and rows is others and moves == before
            for (a, rows, moves), (b, others, before) in zip(now, self.reads, strict=True)
        )
        return size == self.size and same

    def _product(self, live: Any) -> None:
        for m in self.memos:
            m.kernels.hessian_vector(m.rows, m.curvature, self.direction, self.intercept, 0, len(m.y), self.hd, live)

    def _wait(self, event: Any) -> None:
        if self.ranks is None:
            event.synchronize()
            return
        try:
            self.ranks.wait(event, self.stream)
        except Exception:  # other devices do not come
            self.graph = None  # which NCCL waits for when it ends a communicator
            raise

    def solve(self, gradient: Any, M: Any, radius: float, scale: float, penalised: Any) -> tuple[Any, Any, bool, int]:
        """Step and residual (both (size,), overwritten by the next solve), whether on the border, products made."""
        outer = cp.cuda.get_current_stream()
        self.M[:], self.penalised[:] = M, penalised
        most = max(self.size, 5)
        args = (
            np.int32(self.size), np.float64(radius), np.float64(scale), np.int32(most), gradient, self.M, self.step,
            self.residual, self.direction, self.state, self.flags, self.partial,
        )  # fmt: skip
        _ball("ball_start")((self.grid,), (THREADS,), args)
        ready = outer.record()
        with self.stream:
            self.stream.wait_event(ready)
            done = [self._chunk(0)]
            for turn in range(1, most // STEPS + 3):
                done.append(self._chunk(turn))
                self._wait(done[turn - 1])
                flags = self.status[(turn - 1) % 2]
                if not flags[LIVE]:
                    break
            self._wait(done[-1])  # the chunk too many, before anyone writes to what it reads
        return self.step, self.residual, bool(flags[BORDER]), int(flags[PRODUCTS])

    def _chunk(self, turn: int) -> Any:
        """Enqueue a chunk and the copy of its flags; the event tells when they are there."""
        if not self.capture:
            self._steps()
        else:
            if self.graph is None:
                self._product(self.flags[:1])  # makes workspaces and compiles, which a capture cannot
                self.reads = self._reads(self.memos)
                self.stream.begin_capture()
                self._steps()
                self.graph = self.stream.end_capture()
            self.graph.launch(self.stream)
        self.flags.get(stream=self.stream, out=self.status[turn % 2], blocking=False)
        return self.stream.record()

    def _steps(self) -> None:
        size, live = np.int32(self.size), self.flags[:1]
        for _ in range(STEPS):
            _ball("ball_clear")((self.grid,), (THREADS,), (np.int32(len(self.hd)), self.hd))
            self._product(live)
            if self.ranks is not None:
                self.ranks.sum(self.hd)  # also where LIVE is zero: the others wait for it
            length = (
                size, self.penalised, self.M, self.step, self.direction, self.hd, self.state, self.flags, self.partial,
            )  # fmt: skip
            _ball("ball_length")((self.grid,), (THREADS,), length)
            move = (
                size, self.M, self.direction, self.hd, self.step, self.residual, self.state, self.flags, self.partial,
            )  # fmt: skip
            _ball("ball_move")((self.grid,), (THREADS,), move)
            turn = (size, self.M, self.residual, self.direction, self.state, self.flags)
            _ball("ball_turn")((self.grid,), (THREADS,), turn)


def _ball(name: str) -> Any:
    return kernel(("ball",), name)
