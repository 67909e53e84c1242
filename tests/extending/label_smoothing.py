"""A loss of K margins from outside of daskglm, as one module: the softmax with smoothed labels.

A row's target is its class but for a share of p1, which all classes have alike (Szegedy et al. 2016,
section 7): log(sum_k exp(z_k)) - sum_k q_k z_k. It differs from the softmax by a linear term only.
"""

import math
import sys
from typing import NamedTuple

import numpy as np

from daskglm import Loss, register_loss
from daskglm.kernels import class_losses, softmax
from daskglm.kernels.softmax import direction_curvature, pair_curvature, prepared, times_hessian
from daskglm.losses.base import Parameter
from daskglm.system.compiled import compiled

__all__ = ["direction_curvature", "losses", "pair_curvature", "prepared", "times_hessian"]


class LabelSmoothing(NamedTuple):
    """The law."""

    p1: float


@compiled(nogil=True, error_model="numpy")
def losses(law, z, K, n, of, s, work, slopes):
    """Weighted sum of the losses; z becomes probabilities, and `slopes` the slopes."""
    moved = 0.0
    for t in range(n):
        mean = 0.0
        for k in range(K):
            mean += z[k, t] / K
        moved += s[t] * law.p1 * (z[of[t], t] - mean)
    total = softmax.losses(law, z, K, n, of, s, work, slopes)
    for k in range(K):
        for t in range(n):
            own = 1.0 if of[t] == k else 0.0
            slopes[k, t] += s[t] * law.p1 * (own - 1.0 / K)
    return total + moved


def row(y, z, p1, p2):
    """Value, slope and curvature of two classes, by the difference of their margins."""
    target = 0.5 * (1.0 + y * (1.0 - p1))
    p = 1.0 / (1.0 + math.exp(-z))
    return max(z, 0.0) + math.log1p(math.exp(-abs(z))) - target * z, p - target, p * (1.0 - p)


def shares(weights: np.ndarray, p1: float) -> np.ndarray:
    """Weights of the classes as smoothed labels have them."""
    return (1.0 - p1) * weights + p1 * weights.mean()


class_losses.register(sys.modules[__name__], LabelSmoothing)
LABEL_SMOOTHING = register_loss(
    Loss(
        "label_smoothing",
        row,
        classifies=True,
        smoothness=0.5,
        self_concordance=math.sqrt(2.0),
        p1=0.1,
        parameter=Parameter("smoothing", 0.0, 1.0, 0.1),
        of_margins=LabelSmoothing,
        shares=shares,
    )
)
