"""Columns with means far from zero: what is known of them less their means, where these are known.

Sums of squares and means are those that `Rounding.measure` has found; weights are sums over rows.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from daskglm.certificates.hessian_factor import FAR, FEW, UNIT

if TYPE_CHECKING:
    from daskglm.certificates.rounding import Rounding


def lost(in_turn: float) -> float:
    """Return the share of a column's squares by which those less its mean may be off, by rounding.

    Their sum is off by a rounding for each of `in_turn` additions, and so is that of the values,
    whose square is taken off.
    """
    return 4.0 * (in_turn + FEW) * UNIT


def are_far(rows: Rounding, weight: float) -> bool:
    """Return whether any column is known to be far from zero beside what it varies by."""
    if rows.squares is None or rows.means is None:
        return False
    return bool((weight * rows.means**2 > FAR * rows.squares).any())


def apart(rows: Rounding, weight: float) -> np.ndarray:
    """Bound the weighted sums of squares of each column less its mean."""
    squares, means = rows.squares, rows.means
    assert squares is not None
    assert means is not None
    found: np.ndarray = np.maximum(squares - weight * means**2, 0.0)
    return found + lost(rows.in_turn) * squares


def centred(rows: Rounding, weight: float) -> Rounding:
    """Return what bounds columns less their means."""
    found = copy.copy(rows)
    assert rows.means is not None
    found.squares, found.columns = apart(rows, weight), rows.largest + np.abs(rows.means)
    return found
