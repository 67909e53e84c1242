"""Moving rows to the device and back: pinned memory, copies in chunks on a stream of their own, and
the budget.
"""

from __future__ import annotations

import sys
from typing import Any

import cupy as cp
import numpy as np

# Share of the free memory that a fit takes; the rest is for coefficients, totals, workspaces and
# fragments.
FREE_SHARE = 0.9
# Bytes of a chunk of a copy to the device: one is prepared while the last one is under way.
CHUNK_BYTES = 32 << 20


def pinned(shape: Any, dtype: Any) -> np.ndarray:
    """Make a NumPy array in page-locked memory, which the device copies directly."""
    count = int(np.prod(shape))
    memory = cp.cuda.alloc_pinned_memory(max(count, 1) * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype, count).reshape(shape)


class Upload:
    """Copies host arrays to the device through two pinned buffers, on a stream of its own."""

    def __init__(self) -> None:
        self.stream = cp.cuda.Stream(non_blocking=True)
        # page-locking takes time: not before there is something to copy
        self.buffers = [np.empty(0, np.uint8)] * 2
        self.free = [self.stream.record() for _ in self.buffers]
        self.turn = 0
        # what several blocks have in common, by its content
        self.shared: dict[Any, Any] = {}

    def copy(self, array: np.ndarray, dtype: Any = None) -> Any:
        """Start to copy an array to the device, in C order; after `finish` work waits for it."""
        dtype = np.dtype(dtype or array.dtype)
        out = cp.empty(array.shape, dtype)
        # memory that the pool gives may be in use yet
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        rows = max(1, CHUNK_BYTES // max(dtype.itemsize * int(np.prod(array.shape[1:])), 1))
        flat = out.reshape(-1)
        width = int(np.prod(array.shape[1:]))
        for lo in range(0, len(array), rows):
            part = array[lo : lo + rows]
            k = self.turn = (self.turn + 1) % 2
            self.free[k].synchronize()
            need = part.size * dtype.itemsize
            if need > len(self.buffers[k]):
                self.buffers[k] = pinned(need, np.uint8)
            staged = self.buffers[k][:need].view(dtype)
            # conversion and packing overlap with the copy before
            staged.reshape(part.shape)[...] = part
            flat[lo * width : lo * width + part.size].set(staged, stream=self.stream)
            self.free[k] = self.stream.record()
        return out

    def finish(self) -> None:
        """Let all later work wait for the copies, and keep the buffers until they are done."""
        cp.cuda.get_current_stream().wait_event(self.stream.record())
        self.stream.synchronize()


def available(limit: int | None) -> int | None:
    """Return the bytes that a fit may take on the current device.

    That is `limit`, or FREE_SHARE of what is free, in the pool of CuPy or RMM too; None if memory
    comes from a resource of RMM that does not tell what is left of it.
    """
    if limit is not None:
        return limit
    rmm = _rmm_in_use()
    if rmm is None:
        free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    else:
        free = _left_to_rmm(rmm.mr)
    return None if free is None else int(FREE_SHARE * free)


def _rmm_in_use() -> Any:
    """Return the package rmm if CuPy takes memory from it, else None."""
    bridge = sys.modules.get("rmm.allocators.cupy")
    if bridge is None or cp.cuda.get_allocator() != bridge.rmm_cupy_allocator:
        return None
    return sys.modules["rmm"]


def _left_to_rmm(mr: Any) -> int | None:
    """Return the bytes that RMM's current resource can still give; None if its methods do not tell.

    A pool has taken its bytes from the device beforehand, so memGetInfo counts them as used. It
    tells its size; an adaptor around it tells what was given away (StatisticsResourceAdaptor,
    TrackingResourceAdaptor) or may be at most (LimitingResourceAdaptor). A pool that may grow is
    counted as it is.
    """
    resource = mr.get_current_device_resource()
    given = None
    most = None
    while isinstance(resource, mr.UpstreamResourceAdaptor) and not isinstance(
        resource, mr.PoolMemoryResource
    ):
        if isinstance(resource, mr.StatisticsResourceAdaptor):
            given = resource.allocation_counts.current_bytes
        elif isinstance(resource, mr.TrackingResourceAdaptor | mr.LimitingResourceAdaptor):
            given = resource.get_allocated_bytes()
        if isinstance(resource, mr.LimitingResourceAdaptor):
            most = resource.get_allocation_limit() - given
        resource = resource.get_upstream()
    left = None
    if isinstance(resource, mr.PoolMemoryResource):
        left = None if given is None else resource.pool_size() - given
    elif isinstance(resource, mr.CudaMemoryResource | mr.ManagedMemoryResource):
        left = cp.cuda.runtime.memGetInfo()[0]
    known = [size for size in (left, most) if size is not None]
    return max(min(known), 0) if known else None


def adopt_rmm() -> None:
    """Take memory from RMM if this process has a pool of it, as dask-cuda's workers may have."""
    rmm = sys.modules.get("rmm")
    if rmm is None or isinstance(rmm.mr.get_current_device_resource(), rmm.mr.CudaMemoryResource):
        return
    from rmm.allocators.cupy import rmm_cupy_allocator

    cp.cuda.set_allocator(rmm_cupy_allocator)
