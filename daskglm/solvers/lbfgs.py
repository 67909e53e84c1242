"""Limited-memory BFGS: one pass an iteration, for when curvature products cost too much."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.objective import Objective, Point
from daskglm.report import Reason
from daskglm.solvers.linear import Pair, backtrack, inverse_times

MEMORY = 10


def lbfgs(
    objective: Objective,
    w: np.ndarray,
    *,
    steps: np.ndarray | None = None,
    changes: np.ndarray | None = None,
    diagonal: np.ndarray | None = None,
) -> Generator[Point, None, Reason]:
    """Two-loop L-BFGS started from the inverse diagonal of the Hessian at the first point.

    Pairs with too little curvature are skipped; by convexity Armijo's rule suffices, and its search is on cached
    margins. `steps` and `changes` of the gradient, (pairs, d) each, and `diagonal` are those of a solve to go on from.
    Cost: 1 pass and 1 round per accepted unit step, 2 passes for a shortened one.
    """
    point = objective.at(w, diagonal=diagonal is None)
    pairs: deque[Pair] = deque(maxlen=MEMORY)
    if diagonal is None or steps is None or changes is None:
        assert point.diagonal is not None
        diagonal = np.maximum(point.diagonal, 1e-12 * max(float(point.diagonal.max()), 1e-300))
    else:
        diagonal = objective.xp.asarray(diagonal)
        for s, change in zip(map(objective.xp.asarray, steps), map(objective.xp.asarray, changes), strict=True):
            pairs.append(Pair(s, change, float(s @ change)))

    def state() -> dict[str, Any]:
        kept = ([pair[k] for pair in pairs] for k in (0, 1))
        rows = [objective.xp.stack(each) if each else objective.xp.zeros((0, len(w))) for each in kept]
        return {"steps": rows[0], "changes": rows[1], "diagonal": diagonal}

    while True:
        yield replace(point, resume=state)
        step = -inverse_times(pairs, lambda v: v / diagonal, point.gradient)
        if not float(point.gradient @ step) < 0.0:
            return Reason.NO_PROGRESS
        accepted = backtrack(objective, point, objective.at(point.w + step, beside=point))
        if accepted is None:
            if not pairs:
                return Reason.NO_PROGRESS
            pairs.clear()  # a stale model of the curvature may be all that is wrong
            continue
        s, change = accepted.w - point.w, accepted.gradient - point.gradient
        curvature = float(s @ change)
        if curvature > 1e-10 * float(s @ (diagonal * s)) * 1e-6:
            pairs.append(Pair(s, change, curvature))
        point = accepted
