"""CPU kernels on vectors of n margins: they never see X, so calling them is not a pass over the
data.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.kernels.records import read_only
from daskglm.losses.base import Law
from daskglm.losses.dispatch import ROOM, tile_at
from daskglm.system.compiled import compiled

TILE_ROWS = 512
# Points whose margins are combined, as in `cuda.margins`.
MOST_POINTS = 3


@within_callers()
def is_zero(w):  # type: ignore[no-untyped-def]
    """Return whether all coefficients are zero, so that margins are the intercept."""
    found = True
    for j in range(len(w)):
        found &= w[j] == 0.0
    return found


@within_callers(fastmath={"reassoc", "nsz"})
def total_of(values):  # type: ignore[no-untyped-def]
    """Return the sum of values in vector registers.

    That of `values.sum()` is a chain of additions, each of which waits for the one before: as much
    as a third of the loss (0.7 ns a row, x86 server, 2026-11).
    """
    total = 0.0
    for t in range(len(values)):
        total += values[t]
    return total


@compiled(nogil=True, error_model="numpy")
def curvatures(law, y, weight, offset, z, start, stop, out):  # type: ignore[no-untyped-def]
    """Weighted curvatures of the rows [start, stop) at the margins z."""
    slope, room = np.empty(TILE_ROWS), np.empty(ROOM * TILE_ROWS)
    for lo in range(start, stop, TILE_ROWS):
        hi = min(lo + TILE_ROWS, stop)
        of = weight[lo:hi], offset[lo:hi]
        tile_at(law, y[lo:hi], z[lo:hi], *of, slope[: hi - lo], out[lo:hi], room)


@compiled(nogil=True, error_model="numpy")
def slopes(law, y, weight, offset, z, start, stop, out):  # type: ignore[no-untyped-def]
    """Weighted slopes of the rows [start, stop) at the margins z."""
    curvature, room = np.empty(TILE_ROWS), np.empty(ROOM * TILE_ROWS)
    for lo in range(start, stop, TILE_ROWS):
        hi = min(lo + TILE_ROWS, stop)
        of = weight[lo:hi], offset[lo:hi]
        tile_at(law, y[lo:hi], z[lo:hi], *of, out[lo:hi], curvature[: hi - lo], room)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


def along(
    law: Law,
    y: np.ndarray,
    weight: np.ndarray,
    offset: np.ndarray,
    Z: tuple[np.ndarray, ...],
    coefficients: np.ndarray,
    start: int,
    stop: int,
    out: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Add up the loss at combinations of cached margins, with derivatives, over [start, stop).

    Z is a tuple of k margin vectors; row m of `coefficients` (m, k + 1) asks for the margins sum_j
    c_j Z_j + c_k + offset, and derivatives are in the coefficients. Adds to `out`: values (m,),
    slopes (m, k + 1) and Hessians (m, k + 1, k + 1), where index k is the constant direction.
    """
    # as many as line searches have, so that one compiled kernel serves any number of them
    filled = *Z, *([np.empty(0)] * (MOST_POINTS - len(Z)))
    _along(law, read_only(y), weight, offset, filled, coefficients, start, stop, out)


@compiled(nogil=True, error_model="numpy")
def _along(law, y, weight, offset, Z, coefficients, start, stop, out):  # type: ignore[no-untyped-def]
    """Do this for the first of the margins Z, as many as there are coefficients of."""
    values, slopes, hessians = out
    k = coefficients.shape[1] - 1
    basis = np.ones((k + 1, TILE_ROWS))
    z = np.empty(TILE_ROWS)
    slope = np.empty(TILE_ROWS)
    curvature = np.empty(TILE_ROWS)
    scaled, room = np.empty(TILE_ROWS), np.empty(ROOM * TILE_ROWS)
    for lo in range(start, stop, TILE_ROWS):
        hi = min(lo + TILE_ROWS, stop)
        n = hi - lo
        for j in range(k):
            for t in range(n):
                basis[j, t] = Z[j][lo + t]
        for m in range(len(values)):
            z[:] = coefficients[m, k]
            for j in range(k):
                for t in range(n):
                    z[t] += coefficients[m, j] * basis[j, t]
            of = weight[lo:hi], offset[lo:hi]
            values[m] += tile_at(law, y[lo:hi], z[:n], *of, slope[:n], curvature[:n], room)
            for a in range(k + 1):
                slopes[m, a] += _dot(slope[:n], basis[a, :n])
                for t in range(n):
                    scaled[t] = curvature[t] * basis[a, t]
                for c in range(k + 1):
                    hessians[m, a, c] += _dot(scaled[:n], basis[c, :n])
