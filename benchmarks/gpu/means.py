"""Ways to switch off what hides latency, one by one."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp

from daskglm.core.device import gpu
from daskglm.kernels.records import PointSums, RowData
from daskglm.solvers import costs


@contextlib.contextmanager
def _patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def unfused() -> Iterator[None]:
    """Losses in a pass over the margins of their own; dense rows are read once for each product."""
    backend = gpu()

    def evaluate(
        law: Any, data: RowData, w: Any, b: int, start: int, stop: int, out: PointSums
    ) -> None:
        rows, *vectors = data
        z, c, sums, diagonal, _ = out
        slope = cp.empty(len(z), z.dtype)
        backend.sparse.margins(rows, w, b, start, stop, z)
        backend.margins.losses(law, *vectors, z, slope, c, sums[rows.d + 1 :])
        # the value comes behind
        backend.sparse.backward(rows, slope, start, stop, sums[: rows.d + 1])
        if diagonal.size:
            # rows read once more, as for the gradient
            rows.add_columns(slope, cp.zeros(rows.d), c, diagonal)

    with (
        _patched(backend.dense, "NARROW", 0),
        _patched(backend.dense, "WIDE", {4: 0, 8: 0}),
        _patched(backend.sparse, "evaluate", evaluate),
    ):
        yield


@contextlib.contextmanager
def host_cg() -> Iterator[None]:
    """Conjugate gradients by CuPy operations, their scalars on the host."""
    from daskglm.worker.shard import Shard

    with _patched(Shard, "solves_trust_regions", False):
        yield


@contextlib.contextmanager
def no_graph() -> Iterator[None]:
    """Conjugate gradients on the device, kernel by kernel."""
    with _patched(gpu(), "Ball", functools.partial(gpu().Ball, capture=False)):
        yield


@contextlib.contextmanager
def graph_at_once() -> Iterator[None]:
    """Run conjugate gradients as a graph from the first chunk; the default captures it later."""
    from daskglm.kernels.cuda import ball

    with _patched(ball, "CAPTURE_AFTER", 0):
        yield


@contextlib.contextmanager
def diagonal_metric() -> Iterator[None]:
    """Switch off the preconditioner of a sample, which conjugate gradients from the host lack."""
    with _patched(costs, "LARGEST_HESSIAN", 0):
        yield
