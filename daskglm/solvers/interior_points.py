"""Interior points of the dual of a loss with corners, where coordinate ascent is slow."""

from __future__ import annotations

import math

from daskglm.core.outcome import Reason
from daskglm.duals.dual import Dual
from daskglm.solvers import costs
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING
from daskglm.solvers.workload import Workload


def interior_points(dual: Dual, tol: float = 0.0) -> Iterates:
    """Method of interior points on the dual, whose variables are in the memory of this process.

    It begins anew, whatever the dual variables are: near a bound its steps are short. Every point
    is certified. Where rounding ends it, which it does while residuals fit no more, the dual
    variables are those of the highest dual value that it went through. It ends as well where
    rounding hides that a point is within `tol`.

    Cost: a Gram of the rows; of each step a factor and 2 passes; of more than 2,000 rows a Gram of
    the features, its factor and 11.
    """
    way, least, idle = "begin", math.inf, 0
    for _ in range(costs.MOST_INTERIOR):
        totals = dual.step_inside(way)
        way, left = "step", float(totals["left"])
        if not totals["moved"]:
            break
        yield _certified(dual)
        idle = idle + 1 if not left < 0.9 * least else 0
        least = min(least, left)
        # the gap has no more to fall than rounding, or it was for long no nearer
        if left <= ROUNDING * abs(dual.lower) or idle >= costs.IDLE_INTERIOR:
            break
        if dual.is_hidden(tol):
            break
    if dual.step_inside("best")["moved"]:
        yield _certified(dual)
    else:
        dual.start_again()
    return Reason.STALLED


def _certified(dual: Dual) -> Iterate:
    """Return the best point evaluated, once that of these dual variables is."""

    def now() -> dict[str, object]:
        return {"state": {**dual.state(), "sigma": None}}

    return Iterate(dual.certified_point(), resume=now, save_rows=dual.save)


def takes_interior_points(dual: Dual) -> bool:
    """Return whether the dual is one for this method: of few rows for each feature, here.

    With more rows proximal points and epochs take less, unless those have come to rest. Rows are in
    the memory of this process.
    """
    objective, can = dual.objective, dual.objective.engine.capabilities
    here = can.shares_memory and can.device == "cpu" and can.workers == 1
    plain = dual.feasible is dual.penalty and not dual.penalty.threshold
    if objective.loss.differentiable or not (plain and here):
        return False
    n, d = objective.engine.facts.n_rows, objective.n_features
    few = n <= costs.FEW_ROWS * d or dual.rests
    fits = few and min(n, d) <= costs.LARGEST_HESSIAN and n * d <= costs.INTERIOR_VALUES
    return fits and _seconds(n, d) <= costs.INTERIOR_LONGEST


def interior_passes(workload: Workload) -> float:
    """Foresee the passes that take as long as interior points."""
    return _seconds(workload.summary.n_rows, workload.n_features) / workload.pass_seconds


def _seconds(rows: int, features: int) -> float:
    """Foresee the seconds of a thread that interior points take."""
    n, d = float(rows), float(features)
    work = n * n * d + costs.INTERIOR_STEPS * n**3 / 3.0
    if n > costs.LARGEST_HESSIAN:
        work = costs.INTERIOR_STEPS * (n * d * d + d**3 / 3.0)
    return costs.INTERIOR_SECONDS * work
