"""The ordinal loss: -log P(y) with P(class <= k) = sigma(t_k - z), t_1 < t_2 < ...

With softplus(m) = log(1 + exp(m)) and the gap g = t_y - t_(y-1) between the thresholds of a class,

    softplus(z - t_y) + softplus(t_(y-1) - z) - log(1 - exp(-g)),

where the first class has the first term only, and the last class the second. It is convex in z and
the thresholds together, and each term is nowhere negative. The last term, the barrier, adds up to a
sum over classes by their weights.

It is no function of one margin, so kernels have it apart (`kernels.ordinal`), and this record is
what solvers and bounds may rely on. With two classes it is the logistic loss of y (z - t).
"""

from __future__ import annotations

import numpy as np

from daskglm.losses.base import Loss
from daskglm.losses.logistic import LOSS as LOGISTIC

# `smoothness` and `self_concordance` are those by the margin: two logistic terms have a curvature
# of at most 1/4 each, and |third derivative| <= curvature.
LOSS = Loss(
    "ordinal",
    LOGISTIC.row,
    classifies=True,
    smoothness=0.5,
    self_concordance=1.0,
    rest_margin=LOGISTIC.rest_margin,
    attains_infimum=False,
    intercept_radius=LOGISTIC.intercept_radius,
)


# ---- the barrier
def barrier(gaps: np.ndarray) -> np.ndarray:
    """-log(1 - exp(-g)) of gaps above zero; infinite for others."""
    inside = gaps > 0.0
    g = np.where(inside, gaps, 1.0)
    # log(expm1(-g)) cancels where g is large, log1p(exp(-g)) where it is small
    with np.errstate(under="ignore"):
        value = -np.where(g < 0.7, np.log(-np.expm1(-g)), np.log1p(-np.exp(-g)))
    return np.where(inside, value, np.inf)


def barrier_slope(gaps: np.ndarray) -> np.ndarray:
    """Return the derivative of the barrier, -1 / (exp(g) - 1)."""
    with np.errstate(over="ignore"):
        found: np.ndarray = -1.0 / np.expm1(gaps)
    return found


def barrier_curvature(gaps: np.ndarray) -> np.ndarray:
    """Return the second derivative of the barrier, 1 / (4 sinh(g / 2)^2)."""
    with np.errstate(over="ignore"):
        found: np.ndarray = 0.25 / np.sinh(0.5 * gaps) ** 2
    return found


def barrier_rate(gaps: np.ndarray) -> np.ndarray:
    """|third derivative| over curvature of the barrier, coth(g / 2), which falls in g."""
    found: np.ndarray = 1.0 / np.tanh(0.5 * gaps)
    return found
