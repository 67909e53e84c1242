"""Limited-memory BFGS (Nocedal & Wright, chapter 7): one pass over the rows an iteration."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.primal import Objective, Point
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.linear_systems import CurvaturePair, inverse_times, pair_of

MEMORY = 10  # pairs of steps and gradient changes that are kept
# Steps after which the diagonal is formed anew; then each time that they have doubled.
FIRST_RENEWAL = 4
# Share of the first diagonal below which later ones are not believed where curvature jumps: rows
# beyond the corner of a loss may come back. Chosen.
LEAST_DIAGONAL = 0.1


def lbfgs(
    objective: Objective,
    w: np.ndarray,
    *,
    steps: np.ndarray | None = None,
    changes: np.ndarray | None = None,
    diagonal: np.ndarray | None = None,
    least: np.ndarray | None = None,
    taken: int = 0,
    renewal: int = FIRST_RENEWAL,
) -> Generator[Point, None, Reason]:
    """Two-loop L-BFGS around the inverse diagonal of the Hessian, which is formed anew after 4, 8,
    16, ... steps.

    Pairs with too little curvature are skipped; by convexity Armijo's rule suffices, and its search
    is on cached margins. The keywords are the state of a solve to resume: steps and changes of the
    gradient, (pairs, d) each, the diagonal and its lower bound, (d,), steps taken and those at
    which the diagonal is due. Cost: 1 pass and 1 round per accepted unit step, 2 passes for a
    shortened one.
    """

    def inverse(v: Any) -> Any:
        return v / diagonal

    point = objective.at(w, diagonal=diagonal is None)
    pairs: deque[CurvaturePair] = deque(maxlen=MEMORY)
    if diagonal is None or least is None or steps is None or changes is None:
        assert point.diagonal is not None
        floor = 1e-12 * max(float(point.diagonal.max()), 1e-300)
        share = 0.0 if math.isfinite(objective.loss.self_concordance) else LEAST_DIAGONAL
        least = np.maximum(share * point.diagonal, floor)
        diagonal = np.maximum(point.diagonal, least)
    else:
        diagonal, least = objective.xp.asarray(diagonal), objective.xp.asarray(least)
        for s, change in zip(
            map(objective.xp.asarray, steps), map(objective.xp.asarray, changes), strict=True
        ):
            pairs.append(pair_of(s, change, inverse))

    def state() -> dict[str, Any]:
        kept = ([pair[k] for pair in pairs] for k in (0, 1))
        rows = [
            objective.xp.stack(each) if each else objective.xp.zeros((0, len(w))) for each in kept
        ]
        how = {"diagonal": diagonal, "least": least, "taken": taken, "renewal": renewal}
        return {"steps": rows[0], "changes": rows[1], **how}

    while True:
        yield replace(point, resume=state)
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
        if accepted.diagonal is not None:
            diagonal, renewal = np.maximum(accepted.diagonal, least), 2 * taken
            pairs = deque((pair_of(s, change, inverse) for s, change, _, _ in pairs), maxlen=MEMORY)
        point = accepted
