"""Log-likelihoods of losses that have one, from sums over the rows."""

from __future__ import annotations

import math
from collections.abc import Callable

from daskglm.core.asking import Asking
from daskglm.core.requests import ResidualSums, Totals
from daskglm.losses.base import LOGISTIC, Loss
from daskglm.losses.table import JOINT_LOSSES


def has_likelihood(loss: Loss) -> bool:
    """Return whether a loss is minus a log-likelihood, up to the dispersion and a constant."""
    joint = loss.name in JOINT_LOSSES
    return loss.family is not None or loss.code == LOGISTIC or joint


def fixed_dispersion(loss: Loss) -> float | None:
    """Return the dispersion where the family fixes it; None: it is estimated."""
    return 1.0 if loss.family is None else loss.family.dispersion


class LogLikelihoods:
    """Log-likelihoods, by the saturated one: that of each row predicted by its target. 0 passes.

    Where the family fixes the dispersion the saturated one is put off at once; else it takes a
    request for each dispersion.

    Parameters
    ----------
    asking : Asking
    loss : Loss
    frequency : bool
        Whether a weight counts equal rows.
    """

    def __init__(self, asking: Asking, loss: Loss, *, frequency: bool) -> None:
        self.asking, self.loss, self.frequency = asking, loss, frequency
        # replies by dispersion
        self.known: dict[float, Callable[[], Totals]] = {}
        family = loss.family
        if family is not None and family.log_density is not None and family.dispersion is not None:
            self._ask(family.dispersion)

    def of(self, value: float, totals: Totals) -> Callable[[], float]:
        """Return what returns the log-likelihood, NaN where the family has none that is known.

        It is the saturated one less the sum of the losses `value` over the dispersion: the family's
        own, or else deviance / n, as in `statistics_of`. `totals` are of `InferenceSums`.
        """
        family = self.loss.family
        if family is None:
            return lambda: -value if has_likelihood(self.loss) else math.nan
        dispersion = family.dispersion
        if dispersion is None:
            rows = family.variance_by_weight and not self.frequency
            dispersion = 2.0 * value / float(totals["used"] if rows else totals["weight"])
        if family.log_density is None or not dispersion > 0.0:
            return lambda: math.nan
        reply = self._ask(dispersion)
        return lambda: float(reply()["likelihood"]) - value / dispersion

    def _ask(self, dispersion: float) -> Callable[[], Totals]:
        if dispersion not in self.known:
            request = ResidualSums(None, dispersion, self.frequency)
            self.known[dispersion] = self.asking.later(request)
        return self.known[dispersion]
