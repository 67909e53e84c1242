"""L-BFGS for the softmax, around the inverse of each class's own block of the Hessian.

The block of class k is C sum_i s_i p_ik (1 - p_ik) x_i x_i' plus the penalty: K matrices of d x d,
where the whole Hessian has K^2. They are summed over a sample of the rows. With many features their
diagonals take their place.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from daskglm.core.outcome import Reason
from daskglm.objectives.primal import Objective
from daskglm.objectives.softmax import Softmax
from daskglm.solvers import costs
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.linear_systems import CurvaturePair, inverse_times, pair_of

# Pairs of steps and gradient changes that are kept: the most that Nocedal & Wright recommend.
MEMORY = 20
# Seed of the sample of rows.
SEED = 12
# Share of a block's diagonal that is added to it, and of the largest diagonal entry that counts as
# the least: so that blocks are definite without a penalty. Chosen.
RIDGE, LEAST = 1e-8, 1e-12
# Steps after which the blocks are formed anew; then after four times as many. Chosen.
RENEWAL = 4

Inverse = Callable[[np.ndarray], np.ndarray]


def by_blocks(objective: Objective, w: np.ndarray) -> Inverse:
    """Return a function that multiplies vectors by the inverses of the classes' blocks at w.

    Cost: a sample's part of a pass, with K Grams; 1 round.
    """
    part, margins = objective, Softmax.of(objective)
    rows = max(costs.LEAST_BLOCK_ROWS, costs.BLOCK_ROWS * margins.width)
    share = rows / max(objective.engine.facts.n_rows, 1)
    if objective.engine.capabilities.cheap_samples and share < 0.5:
        part = objective.sample(share, SEED, requests=1)
    factors = []
    for block in margins.class_blocks(part, w):
        diagonal = np.diag(block)
        least = LEAST * max(float(diagonal.max()), 1e-300)
        block.flat[:: len(block) + 1] += RIDGE * diagonal + least
        factors.append(scipy.linalg.cho_factor(block, lower=True, check_finite=False))

    def inverse(v: np.ndarray) -> np.ndarray:
        G = margins.matrix(v)
        solved = [
            scipy.linalg.cho_solve(factor, g, check_finite=False)
            for factor, g in zip(factors, G, strict=True)
        ]
        return margins.vector(np.array(solved))

    return inverse


def by_diagonals(objective: Objective, w: np.ndarray) -> Inverse:
    """Return the same with the blocks' diagonals. Cost: 1 pass, 1 round."""
    margins = Softmax.of(objective)
    diagonals = margins.class_diagonals(objective, w)
    diagonals = np.maximum(diagonals, LEAST * max(float(diagonals.max()), 1e-300))

    def inverse(v: np.ndarray) -> np.ndarray:
        return margins.vector(margins.matrix(v) / diagonals)

    return inverse


def output_lbfgs(
    objective: Objective,
    w: np.ndarray,
    *,
    steps: np.ndarray | None = None,
    changes: np.ndarray | None = None,
    taken: int = 0,
) -> Iterates:
    """L-BFGS around the classes' blocks, which are formed anew after 4, 16, 64, ... steps.

    Cost: 1 pass and 1 round per accepted unit step, 2 passes for a shortened one; and for the
    blocks a sample's part of a pass with K Grams, or for their diagonals a pass.

    Parameters
    ----------
    objective : Objective
    w : (size,) array
        Where to start.
    steps, changes : (pairs, size) arrays, optional
        Pairs of a solve to resume.
    taken : int
        Steps taken before.
    """
    point = objective.at(w)
    pairs: deque[CurvaturePair] = deque(maxlen=MEMORY)
    renewal = RENEWAL ** (1 + math.floor(math.log(max(taken, 1), RENEWAL)))
    few = Softmax.of(objective).width <= costs.LARGEST_HESSIAN
    form = by_blocks if few else by_diagonals

    def state() -> dict[str, Any]:
        none = np.zeros((0, len(w)))
        return {
            "steps": np.stack([pair.step for pair in pairs]) if pairs else none,
            "changes": np.stack([pair.change for pair in pairs]) if pairs else none,
            "taken": taken,
        }

    yield Iterate(point, resume=state, rough=True)
    inverse = form(objective, point.w)
    if steps is not None and changes is not None:
        pairs.extend(pair_of(s, change, inverse) for s, change in zip(steps, changes, strict=True))

    while True:
        step = -inverse_times(pairs, inverse, point.gradient)
        slope = float(point.gradient @ step)
        if not slope < 0.0:
            return Reason.NO_PROGRESS
        trial = objective.at(point.w + step, beside=point)
        accepted = backtrack(objective, point, trial, slope=slope)
        if accepted is None:
            if not pairs:
                return Reason.NO_PROGRESS
            pairs.clear()  # a stale model of the curvature may be all that is wrong
            continue

        pair = pair_of(accepted.w - point.w, accepted.gradient - point.gradient, inverse)
        if pair.scale > 0.0:
            pairs.append(pair)
        taken += 1
        point = accepted
        if taken >= renewal:
            renewal *= RENEWAL
            inverse = form(objective, point.w)
            # their scales are by the inverse
            pairs = deque((pair_of(s, change, inverse) for s, change, _, _ in pairs), maxlen=MEMORY)
        yield Iterate(point, resume=state, rough=True)
