"""Conjugate gradients in a trust region without the host: `trust_region.steihaug_cg` with
everything on the device.

How it meets the list of Halloran & Rocke 2020 (supplement, concealing transfer latency):

- (a) all functions that make what the host needs go to one asynchronous stream: a chunk of STEPS
  iterations, where there are many captured as a CUDA graph and launched as one;
- (b) the transfer follows them on that stream: one row of scalars and flags, into pinned memory,
  nothing of length d or n;
- (c) independent work comes before waiting: the next chunk is enqueued; if it proves one too many
  its kernels see the flag LIVE and return at once, and nobody on the host waits for them;
- (d) the stream is synchronised, by an event, just before the host reads the row;
- (e) scalars, v'Hv among them, are not even returned: they are used where they are made
  (`ball.cu`).

The other way, host to device, `memory.Upload` and `streamed` launch a copy as soon as its data are
packed, and what needs them waits for an event on the device. Margins, losses, slopes and D come of
one kernel (`finish_row` in `common.cu`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from daskglm.kernels.cuda.launch import NULL, THREADS, blocks, kernel
from daskglm.kernels.cuda.memory import pinned

# Iterations of a chunk: as many products, at most, are enqueued in vain at the end of a solve.
STEPS = 2
# Chunks of one workspace that are launched kernel by kernel: a capture is forecast to take 1 to 2
# ms and to save 0.1 ms of launches a chunk (not measured on a device yet).
CAPTURE_AFTER = 16
# Places of `state` in ball.cu, and its size.
LENGTH, SLOPE, LEFT, SCALARS = 8, 9, 10, 12
# Places of `flags` in ball.cu, and its size.
LIVE, BORDER, PRODUCTS, FLAGS = 0, 1, 2, 8


class Solved(NamedTuple):
    """A step s and its residual r with what the host needs to know about them.

    Both are (size,), and the next solve overwrites them. `length` is the root of s'Ms, `slope` g's
    and `left` s'r.
    """

    step: Any
    residual: Any
    on_border: bool
    products: int
    length: float
    slope: float
    left: float


class Ball:
    """Workspace of the solver for some blocks and one size, with the captured chunk of launches.

    Parameters
    ----------
    size : int
        Number of coefficients, with the intercept.
    n_features : int
    caches : sequence of block_cache.BlockCache
        Their rows and curvatures form the Hessian; they must stay where they are.
    metric : array
        See `solve`. A full one is used for all solves; of a diagonal one only its kind matters.
    capture : bool
        Whether chunks are launched as graphs once there have been many.
    ranks : collective.Communicator, optional
        The devices that solve the same system, each with rows of its own, and add up each product.
    """

    def __init__(
        self,
        size: int,
        n_features: int,
        caches: Sequence[Any],
        metric: Any,
        *,
        capture: bool = True,
        ranks: Any = None,
    ) -> None:
        self.size = size
        self.caches = list(caches)
        self.capture = capture
        self.ranks = ranks
        self.reads = self._reads(caches)
        self.intercept = int(size > n_features)
        self.gradient, self.penalised = cp.empty(size), cp.empty(size)
        self.step, self.residual, self.direction = (cp.empty(size) for _ in range(3))
        self.full = metric if metric.ndim == 2 else None
        self.inverse = None if self.full is None else cp.ascontiguousarray(cp.asarray(metric))
        # of a diagonal one its entries, of a full one its inverse times the residual
        self.metric = cp.empty(size)
        self.hd = cp.empty(n_features + 1)
        # scalars and flags in one piece, so that one copy brings both
        self.row = cp.zeros(SCALARS + FLAGS // 2)
        self.state, self.flags = self.row[:SCALARS], self.row[SCALARS:].view(np.int32)
        self.grid = blocks(size, 4 * THREADS, 1)
        self.solve_grid = blocks(size, THREADS // 32, 2)
        self.partial = cp.empty(4 * max(self.grid, self.solve_grid))
        self.rows = [pinned(self.row.shape, np.float64) for _ in range(2)]
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.chunks = 0
        self.graph: Any = None

    @staticmethod
    def _reads(caches: Sequence[Any]) -> list[Any]:
        """Return the memory whose addresses a captured chunk has, and which must not move."""
        return [(m.curvature, m.rows, m.rows.workspace.moves) for m in caches]

    def serves(self, size: int, caches: Sequence[Any], metric: Any) -> bool:
        """Return whether this workspace, with a chunk it may have captured, fits these caches."""
        now = self._reads(caches)
        same = len(now) == len(self.reads) and all(
            a is b and rows is others and moves == before
            for (a, rows, moves), (b, others, before) in zip(now, self.reads, strict=True)
        )
        return (
            size == self.size
            and same
            and (self.full is None if metric.ndim == 1 else self.full is metric)
        )

    def _product(self, live: Any) -> None:
        for m in self.caches:
            m.kernels.hessian_vector(
                m.rows, m.curvature, self.direction, self.intercept, 0, len(m.y), self.hd, live
            )

    def _wait(self, event: Any) -> None:
        if self.ranks is None:
            event.synchronize()
            return
        try:
            self.ranks.wait(event, self.stream)
        except Exception:  # other devices do not come
            self.graph = None  # which NCCL waits for when it ends a communicator
            raise

    def solve(
        self,
        gradient: Any,
        metric: Any,
        radius: float,
        share: float,
        scale: float,
        penalised: Any,
    ) -> Solved:
        """Minimise the model within the radius, until this share of the first residual is left.

        Parameters
        ----------
        gradient, penalised : (size,) float64 arrays
            Here or on the host, as `metric` may be.
        metric : (size,) or (size, size) array
            The diagonal of a diagonal M, or the inverse of a full one.
        """
        outer = cp.cuda.get_current_stream()
        self.gradient[:], self.penalised[:] = cp.asarray(gradient), cp.asarray(penalised)
        if self.full is None:
            self.metric[:] = cp.asarray(metric)
        most = max(self.size, 5)
        numbers = (np.float64(number) for number in (radius, share, scale))
        limits = np.int32(len(self.hd)), *numbers, np.int32(most)
        vectors = self.gradient, self._diagonal, self.step, self.residual, self.direction, self.hd
        self._launch("ball_start", *limits, *vectors, self.state, self.flags, self.partial)
        if self.full is not None:
            self._solve()
            self._turn()
        ready = outer.record()
        with self.stream:
            self.stream.wait_event(ready)
            done = [self._chunk(0)]
            for turn in range(1, most // STEPS + 3):
                done.append(self._chunk(turn))
                self._wait(done[turn - 1])
                row = self.rows[(turn - 1) % 2]
                flags = row[SCALARS:].view(np.int32)
                if not flags[LIVE]:
                    break
        if self.ranks is not None:
            self._wait(done[-1])
        # nobody writes to what the chunk too many reads before it is through
        outer.wait_event(done[-1])
        self.reads = self._reads(self.caches)
        return Solved(
            self.step,
            self.residual,
            bool(flags[BORDER]),
            int(flags[PRODUCTS]),
            float(np.sqrt(row[LENGTH])),
            float(row[SLOPE]),
            float(row[LEFT]),
        )

    def _chunk(self, turn: int) -> Any:
        """Enqueue a chunk and the copy of its row; the event tells when that is there."""
        self.chunks += 1
        if not self.capture or self.chunks <= CAPTURE_AFTER:
            self._steps()
        else:
            if self.graph is None:  # all kernels have been compiled and all workspaces made by now
                self.reads = self._reads(self.caches)
                self.stream.begin_capture()
                self._steps()
                self.graph = self.stream.end_capture()
            self.graph.launch(self.stream)
        self.row.get(stream=self.stream, out=self.rows[turn % 2], blocking=False)
        return self.stream.record()

    def _steps(self) -> None:
        made = self.state, self.flags, self.partial
        for _ in range(STEPS):
            self._product(self.flags[:1])
            if self.ranks is not None:
                self.ranks.sum(self.hd)  # also where LIVE is zero: the others wait for it
            self._launch("ball_length", self.penalised, self.direction, self.hd, *made)
            reads = self.gradient, self._diagonal, self.direction, self.hd
            self._launch("ball_move", *reads, self.step, self.residual, *made)
            if self.full is not None:
                self._solve()
            self._turn()

    @property
    def _diagonal(self) -> Any:
        return NULL if self.full is not None else self.metric

    def _solve(self) -> None:
        reads = self.inverse, self.residual, self.metric
        made = self.state, self.flags, self.partial
        self._launch("ball_solve", *reads, *made, grid=self.solve_grid)

    def _turn(self) -> None:
        vectors = self._diagonal, self.metric, self.residual, self.direction, self.hd
        self._launch("ball_turn", np.int32(len(self.hd)), *vectors, self.state, self.flags)

    def _launch(self, name: str, *args: Any, grid: int | None = None) -> None:
        launched = (np.int32(self.size), *args)
        kernel(("ball",), name)((grid or self.grid,), (THREADS,), launched)
