"""Products of those dense rows that have curvature, one by one, where they are few."""

from __future__ import annotations

from daskglm.kernels.chosen import within_callers
from daskglm.system.compiled import compiled

# Rows of a tile for each one with curvature from which those are taken one by one. Chosen.
ONE_BY_ONE = 4


@within_callers()
def are_few(numbers):  # type: ignore[no-untyped-def]
    """Return whether so few numbers are not zero that rows are taken one by one."""
    count = 0
    for t in range(len(numbers)):
        count += numbers[t] != 0.0
    return count * ONE_BY_ONE < len(numbers)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def margins_of(X, w, b, start, curvature, z):  # type: ignore[no-untyped-def]
    """Compute the margins of the rows from start on that have curvature; others are zero."""
    for t in range(len(curvature)):
        z[t] = 0.0
        if curvature[t] != 0.0:
            x, total = X[start + t], 0.0
            for j in range(X.shape[1]):
                total += w[j] * x[j]
            z[t] = total + b


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_slopes_of(X, slope, start, out):  # type: ignore[no-untyped-def]
    """Add the rows from start on, times slopes that are not zero, to `out`."""
    for t in range(len(slope)):
        s = slope[t]
        if s != 0.0:
            x = X[start + t]
            for j in range(X.shape[1]):
                out[j] += s * x[j]
