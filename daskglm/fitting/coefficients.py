"""How far the coefficients of a point are from those of the optimum, at most.
`docs/scikit-learn.md` has the proof.
"""

from __future__ import annotations

import math
from typing import Any

from daskglm.objectives.batched import AnyObjective


def coefficient_error(objective: AnyObjective, point: Any) -> float:
    """Bound |w - w*| / |w| for the features' coefficients w; nan without a penalty.

    The objective with its best intercept, F(w) = min over b of f(w, b), is 1-strongly convex. So
    |w - w*| is at most |grad F(w)|, which is at most |g_w| + R |g_b| with R the largest row norm:
    between b and the best intercept each row's slope changes in the same direction, by amounts
    whose sum is |g_b|, and row i's multiplies x_i. What rounding may have hidden of the gradient
    counts (see `Rounding`). It is also at most sqrt(2 (f - f*)), with the bound on f - f*, or for
    a dual solver's point, which has no gradient, with the duality gap; so it is with an L1 penalty.
    For a batch of problems this bounds the error of all their coefficients together. Cost: nothing.
    """
    if not (objective.is_penalised and objective.loss.is_bounded):
        return math.nan
    if not objective.n_features:
        return 0.0
    norm = objective.rounding.norm(point.vectors[0])
    strong = objective.penalty.quadratic.strong_convexity
    if point.gap is None and objective.penalty.is_smooth:
        bound = min(
            objective.rounding.steepest(point.vectors[1], point.error) / strong,
            math.sqrt(2.0 * max(point.objective.bounds.of(point), 0.0) / strong),
        )
    else:
        gap = point.objective.bounds.of(point) if point.gap is None else point.gap
        bound = math.sqrt(2.0 * max(gap, 0.0) / strong)
    if bound == 0.0:
        return 0.0
    return bound / norm if norm > 0.0 else math.inf
