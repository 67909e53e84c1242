"""Requests about single columns of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ColumnMoments:
    """Add up each column and its squares, with the row weights of the problem. 1 pass.

    Reply: sums (d,), of s x_j over rows of weight s; squares (d,), of s x_j^2; weight, of s. All
    are float64, whatever the dtype of the rows.
    """


@dataclass(frozen=True)
class ColumnTargets:
    """Add up each column times its rows' targets, and times their means at a constant. 1 pass.

    Only for rows in host memory, and losses with a link, or classes of the logistic loss, whose
    targets are 0 and 1 here. Sums are in float64.

    Parameters
    ----------
    constant : float
        Margin of all rows, to which their offsets are added.

    Reply: weights, targets and means (d + 1,), of s x_j, s y x_j and s mu x_j over rows of weight
    s, mean mu; the last entries are those of a column of ones.
    """

    constant: float


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


@dataclass(frozen=True)
class ColumnSweeps:
    """Descend on a model along one coefficient after the other. 1 pass for every sweep.

    For engines with `sweeps_columns`. A copy of the rows by columns is made once, in 1 pass.

    Parameters
    ----------
    at : tuple of (int, (size,) array)
        The point whose curvatures the model has: the token of its margins, and its coefficients.
    C : float
        What curvatures are multiplied by.
    v : (size,) array
        Where to start.
    model : (6, size) float64 array
        See `kernels.column_sweeps.sweep`.
    wanted : float
        Residual at which to end.
    most : int
        Sweeps at most.

    Reply: v (size,), and sweeps.
    """

    at: tuple[int, np.ndarray]
    C: float
    v: np.ndarray = field(compare=False)
    model: np.ndarray = field(compare=False)
    wanted: float
    most: int


@dataclass(frozen=True)
class ColumnDescent:
    """Minimise a model along one coefficient after the other. 1 pass for every sweep over all.

    For engines with `descends_columns`. A copy of the rows by columns is made once, in 1 pass.

    Parameters
    ----------
    at : tuple of (int, (size,) array)
        The point that the model is around: the token of its margins, and its coefficients.
    C : float
        What curvatures are multiplied by.
    model : (5, size) float64 array
        See `kernels.column_descent.descend`.
    wanted : float
        Residual beside the strength at which to end.
    most : float
        Passes at most.

    Reply: v (size,), and whether it has ended: False where that took more passes.
    """

    at: tuple[int, np.ndarray]
    C: float
    model: np.ndarray = field(compare=False)
    wanted: float
    most: float


@dataclass(frozen=True)
class ColumnSigns:
    """Count rows of each kind in which a column is above zero, and below it. 1 pass.

    Only for rows in host memory. Rows of weight zero are not counted.

    Parameters
    ----------
    classes : tuple
        Labels, each a kind of its own; rows of other labels are not counted. Empty: kinds are by
        target.
    low, high : float
        Ends of the targets: 0 is the kind of rows up to `low`, 1 of those from `high` on, 2 of all
        between them. nan: there is no such end.

    Reply: above and below (kinds, d), and counts (kinds,), of rows.
    """

    classes: tuple[Any, ...] = ()
    low: float = -1.0
    high: float = 1.0

    @property
    def kinds(self) -> int:
        """Number of kinds of rows."""
        return len(self.classes) or 3
