"""The ordinal loss: -log P(y) with P(class <= k) = F(t_k - z), t_1 < t_2 < ...

F is the logistic function, or that of another link (`ordinal_links`). For the logistic one, with
softplus(m) = log(1 + exp(m)) and the gap g = t_y - t_(y-1) between the thresholds of a class,

    softplus(z - t_y) + softplus(t_(y-1) - z) - log(1 - exp(-g)),

where the first class has the first term only, and the last class the second. It is convex in z and
the thresholds together, and each term is nowhere negative. The last term, the barrier, adds up to a
sum over classes by their weights.

It is no function of one margin, so kernels have it apart (`kernels.ordinal`), and this record is
what solvers and bounds may rely on. With two classes it is the logistic loss of y (z - t).

With other links P(y) is a difference of two F that does not come apart so. Their densities are
log-concave, so that the loss is convex, too, and a row's Hessian has the same shape: curvatures by
the margin from either threshold, and one between both thresholds, which depends on the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from daskglm.core.arguments import check_choice
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


# ---- links
@dataclass(frozen=True)
class OrderedLink:
    """A function F of ordered classes, P(class <= k) = F(t_k - z), and its loss.

    Parameters
    ----------
    name : str
        What users write.
    loss : Loss
    code : int
        Branch of the kernels.
    quantiles : callable
        Weights of classes below and above to F^-1 of the share of those below.
    steepness : float
        Slope of the logit of F at the median, by which coefficients are nearly those of the logit.
    splits : bool
        Whether the loss is a sum of a term by each threshold and of barriers, by which its points
        are bounded.
    """

    name: str
    loss: Loss
    code: int
    quantiles: Callable[[np.ndarray, np.ndarray], np.ndarray]
    steepness: float
    splits: bool = False


def _logits(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.log(below / above)
    return found


def _normal(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    # by the smaller share, which has all its digits
    low, high = below / (below + above), above / (below + above)
    found: np.ndarray = np.where(low < high, ndtri(low), -ndtri(high))
    return found


def _log_log(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    low, high = below / (below + above), above / (below + above)
    found: np.ndarray = np.log(np.where(low < high, -np.log1p(-low), -np.log(high)))
    return found


def _of_link(name: str) -> Loss:
    """Return the record of a link of which no bound is claimed: `docs/certificates.md`."""
    # its `row` is not called: kernels have all links
    return replace(
        LOSS,
        name=name,
        smoothness=np.inf,
        self_concordance=np.inf,
        continuous_curvature=True,
    )


# Codes are those of `ordinal_links.row`.
LINKS = {
    link.name: link
    for link in (
        OrderedLink("logit", LOSS, 0, _logits, 1.0, splits=True),
        OrderedLink(
            "probit", _of_link("ordinal_probit"), 1, _normal, 4.0 / math.sqrt(2.0 * math.pi)
        ),
        OrderedLink("cloglog", _of_link("ordinal_cloglog"), 2, _log_log, 2.0 * math.log(2.0)),
    )
}
_BY_LOSS = {link.loss.name: link for link in LINKS.values()}


def loss_of_link(link: str) -> Loss:
    """Return the loss of ordered classes with a link; ValueError for a link that is none."""
    check_choice(link, "link", tuple(LINKS))
    return LINKS[link].loss


def link_of_loss(name: str) -> OrderedLink:
    """Return the link of a loss of ordered classes, by the loss's name."""
    return _BY_LOSS[name]


def check_link(loss: Loss) -> None:
    """Raise ValueError for a link of ordered classes that kernels of a GPU do not have."""
    if is_ordinal(loss) and not _BY_LOSS[loss.name].splits:
        link = _BY_LOSS[loss.name].name
        raise ValueError(
            f"link={link!r}: OrdinalRegression on a GPU wants link='logit'; use device='cpu'"
        )


def is_ordinal(loss: Loss) -> bool:
    """Return whether a loss is that of ordered classes, with any link."""
    return loss.name in _BY_LOSS


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
