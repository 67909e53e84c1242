"""Limited-memory BFGS (Nocedal & Wright, chapter 7): one pass over the rows an iteration."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.primal import Objective
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.linear_systems import CurvaturePair, inverse_times, pair_of

# Pairs of steps and gradient changes that are kept: Nocedal & Wright, section 7.2, recommend 3 to
# 20.
MEMORY = 10


def lbfgs(
    objective: Objective,
    w: np.ndarray,
    *,
    steps: np.ndarray | None = None,
    changes: np.ndarray | None = None,
    diagonal: np.ndarray | None = None,
    least: np.ndarray | None = None,
    taken: int = 0,
    renewal: int = 4,
) -> Iterates:
    """L-BFGS around the inverse diagonal of the Hessian, which is formed anew at times.

    That is after 4, 8, 16, ... steps. Pairs with too little curvature are skipped. The objective is
    convex, so Armijo's rule is enough, and its search takes cached margins. Cost: 1 pass and 1
    round per accepted unit step, 2 passes for a shortened one.

    Parameters
    ----------
    objective : Objective
    w : (size,) array
        Where to start.
    steps, changes : (pairs, size) arrays, optional
        Pairs of a solve to resume; with all that follow.
    diagonal, least : (size,) arrays, optional
        Diagonal and its lower bound.
    taken, renewal : int
        Steps taken, and their number at which to form the diagonal anew.
    """

    def inverse(v: Any) -> Any:
        return v / diagonal

    point = objective.at(w, diagonal=diagonal is None)
    pairs: deque[CurvaturePair] = deque(maxlen=MEMORY)
    if diagonal is None or least is None or steps is None or changes is None:
        assert point.diagonal is not None
        floor = 1e-12 * max(float(point.diagonal.max()), 1e-300)
        # where curvature jumps, rows beyond the corner of a loss may come back: later diagonals
        # below a tenth of this one are not believed. Chosen.
        share = 0.0 if math.isfinite(objective.loss.self_concordance) else 0.1
        least = np.maximum(share * point.diagonal, floor)
        diagonal = np.maximum(point.diagonal, least)
    else:
        asarray = objective.xp.asarray
        diagonal, least = asarray(diagonal), asarray(least)
        for s, change in zip(steps, changes, strict=True):
            pairs.append(pair_of(asarray(s), asarray(change), inverse))

    def stacked(vectors: list[Any]) -> Any:
        return objective.xp.stack(vectors) if vectors else objective.xp.zeros((0, len(w)))

    def state() -> dict[str, Any]:
        return {
            "steps": stacked([pair.step for pair in pairs]),
            "changes": stacked([pair.change for pair in pairs]),
            "diagonal": diagonal,
            "least": least,
            "taken": taken,
            "renewal": renewal,
        }

    while True:
        yield Iterate(point, resume=state)
        step = -inverse_times(pairs, inverse, point.gradient)
        slope = float(point.gradient @ step)
        if not slope < 0.0:
            return Reason.NO_PROGRESS

        trial = objective.at(point.w + step, diagonal=taken + 1 >= renewal, beside=point)
        accepted = backtrack(objective, point, trial, slope=slope)
        if accepted is None:
            if not pairs:
                return Reason.NO_PROGRESS
            pairs.clear()  # a stale model of the curvature may be all that is wrong
            continue

        pair = pair_of(accepted.w - point.w, accepted.gradient - point.gradient, inverse)
        if pair.curvature > 1e-16 * float(pair.step @ (diagonal * pair.step)):
            pairs.append(pair)
        taken += 1

        # a shortened step has no diagonal: it stays due
        if accepted.diagonal is not None:
            diagonal = np.maximum(accepted.diagonal, least)
            renewal = 2 * taken
            # their scales are by the inverse of the diagonal
            pairs = deque((pair_of(s, change, inverse) for s, change, _, _ in pairs), maxlen=MEMORY)
        point = accepted
