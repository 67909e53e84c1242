"""Requests about a loss of several margins a row, one for each class: the softmax."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EvaluateOutputs:
    """Evaluate the softmax loss and its gradient at W (K, d), or (K, d + 1). 1 pass.

    With intercepts these are W's last column. Row k of W belongs to class k of the problem. Margins
    (K of each row) stay with the rows under `token`, unless `keep` is false; `beside` is another
    token whose margins are kept. Rows whose label is not among its classes must have weight zero.

    Parameters
    ----------
    gram : bool
        Whether to add up the blocks of the Hessian. Block (j, k) is, for j < k, minus the Gram
        sum_i s_i p_ij p_ik (x_i, 1)(x_i, 1)', and diagonal blocks are minus the sum of the others
        of their row: so K (K - 1) / 2 Grams are all of it.
    by_class : bool
        Whether only the K diagonal blocks are added up, each by itself.
    basis : (K, r) array, optional
        Directions in the space of classes, for the diagonal of the Hessian in coordinates along
        them.
    exact : bool
        Whether Grams are summed in float64, whatever the dtype of the rows.

    Reply: value, gradient (K, size)[, grams (pairs, size, size), upper triangles, pairs in the
    order (0, 1), (0, 2), ..., (1, 2), ..., or classes][, diagonal (r, size)].
    """

    W: np.ndarray
    token: int
    gram: bool = False
    basis: np.ndarray | None = None
    keep: bool = True
    beside: int | None = None
    exact: bool = False
    by_class: bool = False


@dataclass(frozen=True)
class OutputsHessianVector:
    """Hessian of the softmax loss at a point times V (K, size). Reply: product (K, size). 1 pass.

    `at` is (token, W) of the point.
    """

    V: np.ndarray
    at: tuple[int, np.ndarray]


@dataclass(frozen=True)
class OutputsAlong:
    """Softmax loss at affine combinations of evaluated points, shifted by constants. 0 passes.

    Row m of `coefficients` (m, points) and of `shifts` (m, K) asks for the margins sum_j c_j Z_j +
    shift, where the c_j sum to one, as offsets are among the margins. Reply: values (m,), slopes
    (m, K) and hessians (m, K, K), derivatives in the shift.
    """

    points: tuple[tuple[int, np.ndarray], ...]
    coefficients: np.ndarray
    shifts: np.ndarray


OutputRequest = EvaluateOutputs | OutputsHessianVector | OutputsAlong
