"""Compiling and launching the CUDA sources beside this file. Work goes to CuPy's current stream; nothing here waits."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import cupy as cp
import numpy as np

THREADS = 256
NULL = np.uint64(0)  # an argument that is a null pointer
INDICES = {np.dtype(np.int32): "int", np.dtype(np.int64): "long long"}
REALS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


@functools.cache
def source(*names: str) -> str:
    """The text of source files, one after the other."""
    folder = resources.files("daskglm.kernels.cuda")
    return "\n".join((folder / f"{name}.cu").read_text() for name in ("common", *names))


@functools.cache
def kernel(files: tuple[str, ...], name: str, *options: str) -> Any:
    """A kernel of some source files, compiled for the current device when first used (CuPy keeps it on disk)."""
    module = cp.RawModule(code=source(*files), options=("--std=c++17", *options))
    return module.get_function(name)


def real(dtype: Any) -> str:
    """The compiler option that makes REAL, the type of rows, this dtype."""
    return f"-DREAL={REALS[np.dtype(dtype)]}"


def numbers(*arrays: Any) -> str:
    """The compiler option that makes VECTOR, the type of targets, weights and curvatures, that of the first array.

    Arrays that are None or empty do not count; without any it is double.
    """
    given = [array for array in arrays if array is not None and array.size]
    return f"-DVECTOR={REALS[given[0].dtype] if given else 'double'}"


@functools.cache
def processors() -> int:
    """Streaming multiprocessors of the current device."""
    return int(cp.cuda.Device().attributes["MultiProcessorCount"])


def blocks(items: int, a_block: int, most: int) -> int:
    """Blocks for so many items, each taking `a_block` at a time; at most `most` for each multiprocessor."""
    return max(1, min(-(-items // a_block), most * processors()))


class Workspace:
    """Device memory that stays with the rows it serves: it grows to what is asked for and is never given back.

    `moves` counts how often memory was taken: addresses from before may be stale.
    """

    def __init__(self) -> None:
        self.parts: dict[tuple[str, Any], Any] = {}
        self.moves = 0

    def get(self, name: str, size: int, dtype: Any = np.float64, *, zeroed: bool = False) -> Any:
        """An array (size,), the same memory at every call; at the first of undefined content, or zeros."""
        key = name, np.dtype(dtype)
        part = self.parts.get(key)
        if part is None or len(part) < size:
            part = self.parts[key] = cp.zeros(size, dtype) if zeroed else cp.empty(size, dtype)
            self.moves += 1
        return part[:size] if len(part) > size else part


def pointer(array: Any) -> Any:
    """An array as an argument; None or an empty one as a null pointer."""
    return NULL if array is None or array.size == 0 else array


def add_up(partial: Any, rows: int, length: int, out: Any, *, live: Any = None, add: bool = True) -> None:
    """Add columns 0 .. len(out) - 1 of partial (rows, length) to `out`, in the order of rows."""
    if out.size:
        args = (partial, np.int32(rows), np.int32(length), out, np.int32(add), pointer(live))
        kernel(("rows",), "sum_partials", "-DVECTOR=double")((out.size,), (THREADS,), args)
