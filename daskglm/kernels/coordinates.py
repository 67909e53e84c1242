"""A model with kinks and bounds along one coefficient."""

from __future__ import annotations

from numba import njit


@njit(nogil=True)
def best(v, slope, curvature, strength, lower, upper):  # type: ignore[no-untyped-def]
    """Return where the model is least along a coefficient."""
    to = v - slope / curvature
    threshold = strength / curvature
    to -= min(max(to, -threshold), threshold)
    return min(max(to, lower), upper)


@njit(nogil=True)
def residual(v, slope, strength, lower, upper):  # type: ignore[no-untyped-def]
    """Return the size of the shortest subgradient by a coefficient."""
    low = slope + (strength if v > 0.0 else -strength)
    high = slope + (-strength if v < 0.0 else strength)
    if low > 0.0 and v > lower:
        return low
    if high < 0.0 and v < upper:
        return -high
    return 0.0
