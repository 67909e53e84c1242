"""Requests about single columns of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class ColumnMoments:
    """Add up each column and its squares, with the row weights of the problem. 1 pass.

    Reply: sums (d,), of s x_j over rows of weight s; squares (d,), of s x_j^2; weight, of s. All
    are float64, whatever the dtype of the rows.
    """


@dataclass(frozen=True)
class ColumnGram:
    """Add up the Hessian of the losses by a few coefficients and the intercept. 1 pass.

    Only for rows in host memory. Sums are in float64, whatever the dtype of the rows.

    Parameters
    ----------
    at : tuple of (int, (size,) array)
        An evaluated point: the token of its margins, and its coefficients.
    columns : (k,) int64 array
        Numbers of the features, ascending.
    reach : float
        Zero: with the curvatures at the point. Else a margin's change within which rows must keep
        their curvature to be counted; for losses with `Loss.has_two_curvatures`.

    Reply: gram (k + 1, k + 1), whose last entries are the intercept's.
    """

    at: tuple[int, np.ndarray]
    columns: np.ndarray = field(compare=False)
    reach: float = 0.0
