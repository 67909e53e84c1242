"""Which factor's levels a Hessian has as a diagonal block: the one rule for solvers and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.objectives.margins import OneMargin

if TYPE_CHECKING:
    from daskglm.objectives.primal import Objective

# Coefficients up to which a Hessian is all entries: those looked at when fits end are.
MOST_WHOLE = 2000
# Share of the entries of a whole Hessian that one by blocks has at most, and bytes. Chosen.
MOST_ENTRIES, MOST_BYTES = 0.5, 2 << 30


def block_of(objective: Objective) -> tuple[int, int] | None:
    """Return the coefficients [start, stop) of the factor that is eliminated; None: of none.

    Only Hessians of smooth objectives of one margin over rows of codes in host memory have one.
    Not where margins have ends, at which expected curvatures take the place of a Hessian, nor
    around the centre of a proximal problem. Cost: nothing.
    """
    loss, penalty = objective.loss, objective.penalty
    suits = (
        isinstance(objective.margins, OneMargin)
        and objective.engine.capabilities.device == "cpu"
        and objective.xp is np
        and loss.differentiable
        and (loss.link is None or not loss.link.is_bounded)
        and penalty.is_smooth
        and penalty.quadratic.is_diagonal
        and objective.rows.view.columns is None
        and objective.problem.centre is None
    )
    return largest_factor(objective.engine.facts, objective.size) if suits else None


def largest_factor(facts: DataSummary, size: int) -> tuple[int, int] | None:
    """Return the largest factor, if its elimination saves enough; see `block_of`."""
    if size <= MOST_WHOLE or not facts.factors:
        return None
    start, stop = max(facts.factors, key=lambda factor: factor[1] - factor[0])
    entries = (float(size) + 1.0) * (size + 1 - (stop - start))
    saves = (
        size > stop - start
        and entries <= MOST_ENTRIES * float(size) ** 2
        and 8 * entries <= MOST_BYTES
    )
    return (start, stop) if saves else None
