"""Requests about the ordinal loss: one margin a row, and thresholds between the classes.

The problem's loss names the link. Of a row's logit loss (see `losses.ordinal`) these sum the two
logistic terms. The third depends on the thresholds and the weights of classes alone, and is added
by the objective. Of other links these sum whole losses, and replies have `between` (m - 1,), too:
curvatures by the differences of neighbouring thresholds, beside those by each threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EvaluateOrdinal:
    """Evaluate the terms of the loss at coefficients w (d,) and thresholds (m,). 1 pass.

    Threshold k lies between classes k and k + 1 of the problem. Margins x.w stay with the
    rows under `token`, unless `keep` is false; `beside` is another token whose margins are kept.
    Rows whose label is not among the classes must have weight zero. Thresholds need not increase.

    Reply: value; gradient (d,), by w; slopes and curvatures (m,), derivatives by each threshold, of
    which second ones by two thresholds are zero; weights (m + 1,) of the classes[; gram (d, d),
    upper triangle, second derivatives by w, and cross (d, m), those by w and thresholds; where
    `gram`][; diagonal (d,)]. `exact`: the Gram is summed in float64, whatever the dtype of the
    rows.
    """

    w: np.ndarray
    thresholds: np.ndarray
    token: int
    gram: bool = False
    diagonal: bool = False
    keep: bool = True
    beside: int | None = None
    exact: bool = False


@dataclass(frozen=True)
class OrdinalHessianVector:
    """Hessian of the terms of the loss times (v, shifts), v (d,) and shifts (m,). 1 pass.

    `at` is (token, w) of the point and `thresholds` are its own. Reply: product (d,), by (m,), and
    weights (m + 1,) of the classes. Curvatures between thresholds are left out.
    """

    v: np.ndarray
    shifts: np.ndarray
    thresholds: np.ndarray
    at: tuple[int, np.ndarray]


@dataclass(frozen=True)
class OrdinalAlong:
    """Terms of the loss at combinations of evaluated margins, each with thresholds. 0 passes.

    Row r of `coefficients` (r, points) asks for the margins sum_j c_j Z_j, and row r of
    `thresholds` (r, m) belongs to it. Reply: values (r,), slopes and curvatures (r, m) by the
    thresholds, weights (m + 1,).
    """

    points: tuple[tuple[int, np.ndarray], ...]
    coefficients: np.ndarray
    thresholds: np.ndarray


OrdinalRequest = EvaluateOrdinal | OrdinalHessianVector | OrdinalAlong
