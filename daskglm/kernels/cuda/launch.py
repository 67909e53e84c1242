"""Compiling and launching the CUDA sources beside this file. Work goes to CuPy's current stream;
nothing here waits.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.cuda.signature import NULL as NULL  # those who launch import it from here
from daskglm.kernels.cuda.signature import check, parameters
from daskglm.losses.base import OUTSIDE, Law

THREADS = 256
# Bytes of shared memory that a kernel may have without a request.
DEFAULT_SHARED = 48 << 10
INDICES = {np.dtype(np.int32): "int", np.dtype(np.int64): "long long"}
REALS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


@functools.cache
def source(*names: str) -> str:
    """Join the texts of source files."""
    folder = resources.files("daskglm.kernels.cuda")
    return "\n".join((folder / f"{name}.cu").read_text() for name in ("common", "families", *names))


class Kernel:
    """A compiled kernel, which is called like CuPy's: grid, threads, arguments.

    Arguments are checked against the signature first.

    Parameters
    ----------
    function : cupy.RawKernel
    wanted : tuple of signature.Parameter
    """

    def __init__(self, function: Any, wanted: tuple[Any, ...]) -> None:
        self.function = function
        self.name = function.name
        self.wanted = wanted
        self.resident: dict[tuple[int, int], int] = {}
        self.shared = DEFAULT_SHARED

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, *, shared_mem: int = 0
    ) -> None:
        """Launch on the current stream.

        Raises TypeError if an argument does not match the kernel's signature.
        """
        check(self.name, self.wanted, args, cp.ndarray)
        self.function(grid, block, args, shared_mem=shared_mem)

    def most_blocks(self, threads: int = THREADS, shared: int = 0) -> int:
        """Return how many blocks the whole device holds at once.

        Each has so many bytes of dynamic shared memory. More blocks would wait for the first to
        end, and run as a second wave that leaves part of the device idle.
        """
        key = threads, shared
        if key not in self.resident:
            if shared > self.shared:
                self.function.max_dynamic_shared_size_bytes = self.shared = shared
            each = cp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                self.function.kernel.ptr, threads, shared
            )
            if each < 1:
                raise RuntimeError(
                    f"{self.name}: no multiprocessor holds a block of {threads} threads with "
                    f"{shared} bytes of shared "
                    f"memory and {self.function.num_regs} registers a thread"
                )
            self.resident[key] = each
        return self.resident[key] * processors()

    def grid(
        self, items: int, a_block: int, threads: int = THREADS, shared: int = 0, *, beside: int = 1
    ) -> int:
        """Return the number of blocks for so many items, each taking `a_block` at a time.

        There are no more than the device holds at once. `beside` of them are side by side in the
        grid's other dimension.
        """
        return max(1, min(-(-items // a_block), self.most_blocks(threads, shared) // beside))


@functools.cache
def kernel(files: tuple[str, ...], name: str, *options: str) -> Kernel:
    """Return a kernel of some source files, compiled for the current device when first used.

    CuPy caches it on disk.
    """
    code = source(*files)
    module = cp.RawModule(code=code, options=("--std=c++17", *options))
    return Kernel(module.get_function(name), parameters(code, name, options))


def real(dtype: Any) -> str:
    """Return the compiler option that makes REAL, the type of rows, this dtype."""
    return f"-DREAL={REALS[np.dtype(dtype)]}"


def numbers(*arrays: Any) -> str:
    """Return the compiler option for VECTOR, the type of targets, weights and curvatures.

    It is that of the first array that is neither None nor empty; without any it is double.
    """
    given = [array for array in arrays if array is not None and array.size]
    return f"-DVECTOR={REALS[given[0].dtype] if given else 'double'}"


@functools.cache
def processors() -> int:
    """Streaming multiprocessors of the current device."""
    return int(cp.cuda.Device().attributes["MultiProcessorCount"])


def blocks(items: int, a_block: int, most: int) -> int:
    """Return the number of blocks for so many items, each taking `a_block` at a time.

    There are at most `most` for each multiprocessor.
    """
    return max(1, min(-(-items // a_block), most * processors()))


class Workspace:
    """Device memory that stays with its rows: it grows as needed and is never returned.

    `moves` counts how often memory was taken: addresses from before may be stale.
    """

    def __init__(self) -> None:
        self.parts: dict[tuple[str, Any], Any] = {}
        self.moves = 0

    def get(self, name: str, size: int, dtype: Any = np.float64, *, zeroed: bool = False) -> Any:
        """Return an array (size,), the same memory at every call.

        At the first call it is uninitialised, or zero if `zeroed`.
        """
        key = name, np.dtype(dtype)
        part = self.parts.get(key)
        if part is None or len(part) < size:
            part = self.parts[key] = cp.zeros(size, dtype) if zeroed else cp.empty(size, dtype)
            self.moves += 1
        return part[:size] if len(part) > size else part


def mode_of(law: Law) -> str:
    """Return the compiler option for MODE, which gives a kernel the code of this loss only.

    Raises ValueError for a loss that the CUDA sources do not have.
    """
    _check(law[0])
    return f"-DMODE={law[0]}"


def numbers_of(law: Law) -> tuple[Any, Any]:
    """Return the parameters of a loss, as arguments of a kernel that is compiled for it."""
    return np.float64(law[1]), np.float64(law[2])


def arguments_of(law: Law) -> tuple[Any, Any, Any]:
    """Return a law as arguments of a kernel that has all losses with a dual.

    Raises ValueError for a loss that the CUDA sources do not have.
    """
    _check(law[0])
    return np.int32(law[0]), *numbers_of(law)


def _check(code: int) -> None:
    if code >= OUTSIDE:
        raise ValueError(f"no CUDA kernel has a loss of the code {code}; use device='cpu'")


def pointer(array: Any) -> Any:
    """Return an array as an argument; a null pointer for None or an empty one."""
    return NULL if array is None or array.size == 0 else array


def add_up(
    partial: Any, rows: int, length: int, out: Any, *, live: Any = None, add: bool = True
) -> None:
    """Add columns 0 .. len(out) - 1 of partial (rows, length) to `out`, in the order of rows."""
    if out.size:
        args = (partial, np.int32(rows), np.int32(length), out, np.int32(add), pointer(live))
        kernel(("rows",), "sum_partials", "-DVECTOR=double")((out.size,), (THREADS,), args)


def clear(out: Any) -> None:
    """Set a float64 array to zero, by a kernel of ours: a graph can capture it with the others."""
    function = kernel(("rows",), "zeros", "-DVECTOR=double")
    function((function.grid(out.size, THREADS),), (THREADS,), (np.int64(out.size), out))
