"""Codes of one column: counted, and exchanged for others.

NumPy's `bincount`, and indexing by codes, would first make an 8 byte integer of each.
"""

from __future__ import annotations

import numpy as np

from daskglm.system.compiled import compiled


@compiled(nogil=True)
def _count(codes, counts):  # type: ignore[no-untyped-def]
    for code in codes:
        counts[np.uint64(code)] += 1


@compiled(nogil=True)
def _exchange(codes, to, out):  # type: ignore[no-untyped-def]
    for i in range(len(codes)):
        out[i] = to[np.uint64(codes[i])]


def count(codes: np.ndarray, levels: int) -> np.ndarray:
    """Return the number of rows of each of so many codes."""
    counts = np.zeros(levels, np.int64)
    _count(codes, counts)
    return counts


def exchange(codes: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return for each row what `to` has for its code."""
    out = np.empty(len(codes), to.dtype)
    _exchange(codes, to, out)
    return out
