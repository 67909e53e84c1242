"""Squared distances of rows from a centre, as differences from the centre's own size."""

from __future__ import annotations

from daskglm.kernels.chosen import within_callers

# Relative error of each entry in a distance that is computed from entries.
CANCELS = 4.0 * 2.0**-53


@within_callers()
def squared_size(centre, scale):  # type: ignore[no-untyped-def]
    """Return the squared norm of a centre over `scale`."""
    whole, rest = 0.0, 0.0
    for c in centre:  # Kahan's sum: small entries count, however many there are
        term = (c / scale) ** 2 - rest
        before, whole = whole, whole + term
        rest = (whole - before) - term
    return whole
