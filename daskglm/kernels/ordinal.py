"""The ordinal loss on a tile of rows, on the CPU: its logistic terms, or those of another link.

Thresholds come as `edges` (2, K + 1), of class k the lower one at k and the upper one at k + 1: in
the first row the thresholds, zero at both ends, in the second one 1 where there is one, else 0. For
links other than the logit two more rows follow: gaps by class, infinite at both ends, and the code
of the link. Sums by thresholds are (K + 1,) too, with zeros at both ends. For these links sums of
curvatures are twice as long: after those by thresholds come those between them, by class.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.chosen import within_callers
from daskglm.losses.ordinal_links import row
from daskglm.losses.vector_math import exp, twice_artanh
from daskglm.system.compiled import compiled

FAST = {"contract", "reassoc", "nsz"}
# Rows of a tile of margins, which stay in the first-level cache.
TILE_ROWS = 512
# Numbers that a row has: of `terms`, and the curvature between thresholds of `link_terms`.
NUMBERS = 5


def edges_of(thresholds: np.ndarray, link: int = 0) -> np.ndarray:
    """Return thresholds (K - 1,) as kernels take them; `link` is the code of one."""
    edges = np.zeros((4 if link else 2, len(thresholds) + 2))
    edges[0, 1:-1] = thresholds
    edges[1, 1:-1] = 1.0
    if link:
        edges[2] = np.inf
        edges[2, 1:-2] = np.diff(thresholds)
        edges[3] = link
    return edges


@compiled(nogil=True, error_model="numpy", fastmath=FAST)
def terms(codes, weight, offset, z, edges, lo, n, out):  # type: ignore[no-untyped-def]
    """Return the weighted sum of the logistic terms of the n rows from `lo` on.

    z (n,) are their margins without offsets. `out` (4, n or more) gets of each row the weighted
    slope and curvature of the term of the upper threshold by z, then those of the lower one. The
    sum is not finite where a margin is not.
    """
    weighted, moved = len(weight) > 0, len(offset) > 0
    # places that numba knows not to be negative
    above, below = edges[0, 1:], edges[0, :-1]
    has_above, has_below = edges[1, 1:], edges[1, :-1]
    up, up_curvature, low, low_curvature = out[0], out[1], out[2], out[3]
    total = 0.0
    for i in range(n):
        k = np.uint64(codes[lo + i])
        s = weight[lo + i] if weighted else 1.0
        at = z[i] + offset[lo + i] if moved else z[i]
        upper, lower = s * has_above[k], s * has_below[k]

        m = at - above[k]
        e = exp(-abs(m))
        both = 1.0 / ((1.0 + e) * (2.0 + e))
        other = (2.0 + e) * both
        total += upper * (max(m, 0.0) + twice_artanh(e * (1.0 + e) * both))
        up[i] = upper * (other if m > 0.0 else e * other)
        up_curvature[i] = upper * (e * other * other)

        m = below[k] - at
        e = exp(-abs(m))
        both = 1.0 / ((1.0 + e) * (2.0 + e))
        other = (2.0 + e) * both
        total += lower * (max(m, 0.0) + twice_artanh(e * (1.0 + e) * both)) + 0.0 * at
        low[i] = -lower * (other if m > 0.0 else e * other)
        low_curvature[i] = lower * (e * other * other)
    return total


@compiled(nogil=True, error_model="numpy")
def link_terms(codes, weight, offset, z, edges, lo, n, out):  # type: ignore[no-untyped-def]
    """Return the weighted sum of the losses of n rows with another link; see `terms`.

    `out` (5, n or more) gets the curvature between both thresholds, too.
    """
    weighted, moved = len(weight) > 0, len(offset) > 0
    total = 0.0
    for i in range(n):
        k = np.int64(codes[lo + i])
        s = weight[lo + i] if weighted else 1.0
        at = z[i] + offset[lo + i] if moved else z[i]
        found = row(
            edges[3, k],
            edges[0, k + 1] - at,
            edges[0, k] - at,
            edges[2, k],
            edges[1, k + 1] > 0.0,
            edges[1, k] > 0.0,
        )
        if s == 0.0:  # rows of no class here, whose loss may be infinite
            out[:, i] = 0.0
            continue
        total += s * found[0] + 0.0 * at
        out[0, i] = s * found[1]
        out[1, i] = s * found[2]
        out[2, i] = -s * found[3]
        out[3, i] = s * found[4]
        out[4, i] = s * found[5]
    return total


@within_callers(error_model="numpy")
def row_terms(codes, weight, offset, z, edges, lo, n, out):  # type: ignore[no-untyped-def]
    """Return the weighted sum of the losses of n rows, of logit ones without the barrier."""
    if len(edges) > 2:
        return link_terms(codes, weight, offset, z, edges, lo, n, out)
    return terms(codes, weight, offset, z, edges, lo, n, out)


@compiled(nogil=True, error_model="numpy")
def add_by_threshold(codes, lo, n, of, slopes, curvatures):  # type: ignore[no-untyped-def]
    """Add derivatives by thresholds of the n rows from `lo` on, from what `row_terms` has made."""
    for i in range(n):
        k = np.int64(codes[lo + i])
        slopes[k + 1] -= of[0, i]
        slopes[k] -= of[2, i]
        curvatures[k + 1] += of[1, i]
        curvatures[k] += of[3, i]
    many = len(slopes)
    if len(curvatures) > many:
        for i in range(n):
            curvatures[many + np.int64(codes[lo + i])] += of[4, i]


@within_callers(error_model="numpy", fastmath=FAST)
def join(of, n):  # type: ignore[no-untyped-def]
    """Add the terms of the lower thresholds to those of the upper ones: derivatives by margins."""
    for i in range(n):
        of[0, i] += of[2, i]
        of[1, i] += of[3, i]


@compiled(nogil=True, error_model="numpy")
def products(codes, of, u, shifts, lo, n, by):  # type: ignore[no-untyped-def]
    """Multiply by each row's Hessian of margin and thresholds, for the n rows from `lo` on.

    u (n,) are the changes of margins, and become what multiplies the rows; `shifts` (K + 1,) are
    those of thresholds, and `by` (K + 1,) is added the products that belong to them. Curvatures
    between thresholds are left to who knows their sums by class.
    """
    for i in range(n):
        k = np.int64(codes[lo + i])
        upper = of[1, i] * (u[i] - shifts[k + 1])
        lower = of[3, i] * (u[i] - shifts[k])
        by[k + 1] -= upper
        by[k] -= lower
        u[i] = upper + lower


@compiled(nogil=True, error_model="numpy")
def along(codes, weight, offset, Z, coefficients, edges, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the terms at combinations of cached margins over the rows [start, stop).

    Z is a tuple of margins (n,); `coefficients` (r, len(Z)), and `edges` (r, 2 or 4, K + 1) has the
    thresholds of each combination. Adds to `out`: values (r,), slopes and curvatures (r, K + 1).
    """
    values, slopes, curvatures = out
    z, of = np.empty(TILE_ROWS), np.empty((NUMBERS, TILE_ROWS))
    for lo in range(start, stop, TILE_ROWS):
        n = min(lo + TILE_ROWS, stop) - lo
        for r in range(len(values)):
            z[:] = 0.0
            for j in range(len(Z)):
                c, other = coefficients[r, j], Z[j]
                if c != 0.0:  # margins far out may be infinite
                    for i in range(n):
                        z[i] += c * other[lo + i]
            values[r] += row_terms(codes, weight, offset, z, edges[r], lo, n, of)
            add_by_threshold(codes, lo, n, of, slopes[r], curvatures[r])
