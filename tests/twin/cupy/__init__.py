"""Stands in for CuPy where tests have no GPU: arrays in host memory that behave as if they were on a device.

They refuse to mix with NumPy arrays, start out filled with NaN, and lie between guards that every kernel launch checks.
Kernels are the package's own CUDA sources, compiled for the CPU (`cuda_on_cpu.hpp`). Work on streams other than the
default one is done as late as it may be (or, with TWIN_EAGER=1, at once), so that a missing wait shows. Only what the
package uses is here; a test compares names and signatures with the real CuPy where that is installed.
"""

import numpy as _np

from cupy import cuda, linalg  # noqa: F401
from cupy._array import ndarray, unwrap, wrap
from cupy._module import RawKernel, RawModule  # noqa: F401
from numpy import bool_, float32, float64, int8, int32, int64, newaxis, uint8  # noqa: F401

__version__ = "0.0+twin"


def _lift(function):
    def lifted(*args, **kwargs):
        cuda.wait_for_default_stream()
        return wrap(function(*unwrap(args), **unwrap(kwargs)))

    return lifted


for _name in (
    "zeros ones full zeros_like ones_like empty_like arange where sqrt maximum minimum abs sign exp log diag "
    "concatenate append cumsum sum dot isfinite stack triu argsort bincount repeat searchsorted linspace outer "
    "count_nonzero any all diff floor clip matmul einsum max min argmax argmin take tensordot"
).split():
    globals()[_name] = _lift(getattr(_np, _name))


def empty(shape, dtype=float):
    return ndarray.allocate(shape, dtype)


def asarray(a, dtype=None, order=None, *, blocking=False):
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    host = _np.asarray(a, dtype)
    out = ndarray.allocate(host.shape, host.dtype)
    out._a[...] = host
    return out


array = asarray


def ascontiguousarray(a, dtype=None):
    a = asarray(a, dtype)
    return a if a._a.flags.c_contiguous else a.copy()


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get() if isinstance(a, ndarray) else _np.asarray(a)


def get_array_module(*args):
    import cupy

    return cupy if any(isinstance(a, ndarray) for a in args) else _np


def may_share_memory(a, b):
    return _np.may_share_memory(a._a, b._a)


class _Pool:
    def used_bytes(self):
        return ndarray.used

    def free_bytes(self):
        return 0

    def free_all_blocks(self):
        pass


def get_default_memory_pool():
    return _Pool()
