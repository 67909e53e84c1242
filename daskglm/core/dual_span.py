"""The dual in the span of what a round changed and of the last steps, and how far to go there.

That is a nonlinear conjugate gradient method, preconditioned by epochs and projected on the bounds
of the dual variables (Silcowitz et al. 2010, for Gauss-Seidel). Once the rows at a bound are
settled the dual is a quadratic in the others. A step without a projection is as short as the way of
the first row to its bound; what rows moved too far are brought back costs a product with these
rows alone. Among groups of rows the epochs of each are its block of the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.requests import DualStateRef, Totals

# Multiples of a change that a search may take: larger ones would magnify the rounding errors of a
# change that is nearly zero. Chosen.
LONGEST = 8.0
# Epochs after which a step is taken. Of 12 hinges on text and tables steps after each took 0.9 to
# 1.8 times the time, after 4 as much (with one step kept, 2026-11-29).
EPOCHS_A_STEP = 2
# Last steps that are kept: epochs in random order are another preconditioner each time, so that
# directions do not stay conjugate. With two the last digits took half the epochs that they took
# with one, with four and eight no fewer (2026-11-29).
KEPT_STEPS = 2
# Shares of the way to the best of the span that are tried: bounds may be in the way. Chosen.
SHARES = (1.0, 0.5, 0.25, 0.125)
# Rises of the dual beside the square of the shared vector v that are rounding: that of a change of
# v is some eps |v|, and stands |v| times in the slope along it. By slopes that were rounding,
# changes were multiplied by chance, and hinges came to rest where a change is sqrt(eps) |v|: 1,849
# x 1,168 dense rows at a gap of 2e-6 with a search, at 2e-5 with steps, which end after 600 passes
# so. Of 12 small hinges none reached 1e-7 by steps with eps, 8 with 16 eps, all with 64, which took
# 0.7 to 1 of the passes with 256 (2026-11-29).
RISE = 64.0 * float(np.finfo(float).eps)
# Rounding errors of the shared vector that a step may have, in multiples of those of an epoch: the
# steps before are forgotten then. Conjugacy is lost by that, but errors of steps that are added up
# from each other grow without end where the steps themselves do not. With 100 five hinges took up
# to 1.1 times the passes, with 30 up to 2.2 times, with a million as many (2026-11-29).
MOST_ERRORS = 1e3


def pull(state: DualStateRef) -> float:
    """Return what multiplies the last entry of the shared vector: margins contain the offset."""
    return state.offset / state.bias if state.bias else 0.0


class Span(NamedTuple):
    """Derivatives of minus the dual where a round ended, along its change and the kept steps.

    Slopes (k,) and hessian (k, k); the dual's penalty has no threshold.
    """

    slopes: np.ndarray
    hessian: np.ndarray

    @classmethod
    def of(
        cls,
        state: DualStateRef,
        v: Any,
        vectors: Sequence[Any],
        totals: Totals,
        *,
        by_margins: bool = False,
    ) -> Span:
        """Add up those of the penalty and, by the reply to a `DualSpan`, of the conjugates.

        `vectors` are the round's change of the shared vector v where it began, and the steps'. The
        slopes may have the penalty's part already, by margins.
        """
        gram = np.array([[float(one @ other) for other in vectors] for one in vectors])
        if by_margins:
            return cls(state.C * totals["slopes"], state.C * totals["hessian"] + gram)
        along = np.array([float(v @ one) for one in vectors])
        last = np.array([float(one[-1]) for one in vectors])
        slopes = state.C * totals["slopes"] + along + gram[0] + pull(state) * last
        return cls(slopes, state.C * totals["hessian"] + gram)

    def climb(
        self, share: float, errors: Sequence[float], least: float, move: Callable[[Any], float]
    ) -> float:
        """Move to the first point tried that rises more than `least` above a share of the change.

        Parameters
        ----------
        errors : sequence of float
            Of the kept steps, as in `MOST_ERRORS`.
        move : callable
            Goes to multiples (k,) of the directions, and returns what the dual rises by.

        Returns
        -------
        float
            Errors of the step that was taken.
        """
        first = np.eye(len(self.slopes))[0]
        safe, best = share * first, first + self._newton()
        for part in SHARES:
            c = np.clip(safe + part * (best - safe), -LONGEST, LONGEST)
            if move(c) > least:
                return float(np.abs(c) @ [1.0, *errors])
        move(safe)
        return 1.0

    def _newton(self) -> np.ndarray:
        """Return the step, from where the round ended, to where minus the dual is least."""
        # scaled, since the change may be far smaller than the previous steps
        scale = np.sqrt(np.maximum(np.diag(self.hessian), np.finfo(float).tiny))
        system = self.hessian / np.outer(scale, scale) + 1e-12 * np.eye(len(scale))
        found: np.ndarray = -np.linalg.solve(system, self.slopes / scale) / scale
        return found


def rise(state: DualStateRef, v: Any, swept: Any, share: float, moved: Totals) -> float:
    """Return at least how much higher the dual is after a `DualMove` than at a share of the change.

    Values would differ by less than their rounding, but slopes of convex conjugates bound what
    these rise by. v is the shared vector where the round began, `swept` its change.
    """
    beyond = moved["change"] - share * swept
    to_start, to_end = moved["slopes"]
    gained = state.C * ((share - 1.0) * to_start - share * to_end)
    gained -= float((v + share * swept) @ beyond) + pull(state) * float(beyond[-1])
    return float(gained - 0.5 * float(beyond @ beyond))
