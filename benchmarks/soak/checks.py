"""Whether a fit is as good as it says, beside the least objective that NumPy finds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.soak.reference import Objective, optimum

# Relative precision of the reference itself, of sums of 12,000 numbers.
ROUNDING = 1e-9
# Where nothing is proved `tol` bounds what one more Newton step would gain, which is half of the
# rest at worst near an optimum.
UNPROVED = 2.0
# Relative difference of an objective that is reported from that of these rows.
SAME_OBJECTIVE = {False: 1e-8, True: 1e-4}


class NotReached(Exception):
    """A fit says that it did not converge, and nothing promises that it would."""


def check_converged(report: Any, *, convex: bool = True) -> None:
    """Raise AssertionError for a fit that did not converge; `NotReached` of what is not convex.

    Steps of a loss that is not convex are by expected curvatures, and may gain little each. Fits by
    sdca may take more rounds than there are for a set.
    """
    if report.converged or report.solver == "sdca":
        return
    if not convex:
        raise NotReached(report.reason)
    raise AssertionError(f"not converged: {report.reason}")


def check_fit(
    objective: Objective, w: np.ndarray, report: Any, tol: float, *, single_precision: bool
) -> None:
    """Raise AssertionError unless w has the gap that was asked for, and what is told is true.

    Where sdca did not converge its bound has to be true. Reports of families have the objective
    over the strength of the penalty (without one, times the sum of weights).
    """
    value, told = objective.value(w) * objective.scale, report.objective
    assert abs(told - value) <= SAME_OBJECTIVE[single_precision] * abs(value), (
        f"the objective is {value!r}, and {told!r} was told"
    )
    check_optimal(objective, w, report, tol)


def check_optimal(objective: Objective, w: np.ndarray, report: Any, tol: float) -> None:
    """Do the same without the objective, of which reports of many fits have another."""
    check_converged(report, convex=objective.convex)
    if report.converged:
        check_gap(objective, w, tol if math.isfinite(report.relative_gap) else UNPROVED * tol)
    if math.isfinite(report.relative_gap):
        check_gap(objective, w, report.relative_gap)


def check_gap(objective: Objective, w: np.ndarray, bound: float) -> float:
    """Return the relative gap at w; AssertionError where it is more than a bound."""
    terms = objective.terms
    outside = np.maximum(terms.lower - w, w - terms.upper).max()
    assert outside <= 1e-12, f"coefficients are out of their bounds by {outside:.1e}"
    _, best = optimum(objective)
    gap = (objective.value(w) - best) / best
    assert gap <= 1.01 * bound + ROUNDING, f"the gap is {gap:.2e}, more than {bound:.2e}"
    return float(gap)
