"""How far the coefficients of a point are from those of the optimum, at most. `docs/scikit-learn.md` has the proof."""

from __future__ import annotations

import math

from daskglm.objective import Objective, Point

UNIT = 2.0**-53  # unit roundoff of float64
FEW = 8  # roundings of one term of a sum before it is added


def coefficient_error(objective: Objective, point: Point) -> float:
    """Bound on |w - w*| / |w| for the features' coefficients w; nan without a penalty. Cost: nothing.

    The objective with its best intercept, F(w) = min over b of f(w, b), is 1-strongly convex. So |w - w*| is at most
    |grad F(w)|, which is at most |g_w| + R |g_b| with R the largest row norm: between b and the best intercept each
    row's slope changes in the same direction, by amounts whose sum is |g_b|, and row i's multiplies x_i. Of a dual
    solver's point, which has no gradient, it is at most sqrt(2 (f - f*)), with the duality gap for f - f*.
    """
    if not objective.penalty:
        return math.nan
    features = point.w[: objective.n_features]
    norm = math.sqrt(float(features @ features))
    if point.gap is None:
        bound = _gradient_bound(objective, point, norm)
    else:
        rounding = (math.sqrt(objective.engine.facts.n_rows) + FEW) * UNIT * abs(point.value)
        bound = math.sqrt(2.0 * (max(point.gap, 0.0) + rounding))
    if bound == 0.0:
        return 0.0
    return bound / norm if norm > 0.0 else math.inf


def _gradient_bound(objective: Objective, point: Point, norm: float) -> float:
    """|g_w| + R |g_b|, and what rounding may have hidden of it."""
    facts, d = objective.engine.facts, objective.n_features
    radius, g = facts.largest_row_norm, point.gradient
    bound = math.sqrt(float(g[:d] @ g[:d])) + 2.0 * UNIT * norm
    intercept = 0.0
    if objective.fit_intercept:
        bound += radius * abs(float(g[d]))
        intercept = abs(float(point.w[d]))
    return bound + (1.0 + objective.fit_intercept) * radius * _slope_error(objective, point, norm, intercept)


def _slope_error(objective: Objective, point: Point, norm: float, intercept: float) -> float:
    """Bound on the rounding error of a sum of slopes times factors of at most one, C and weights included.

    A margin of d terms is off by at most (d + 3) roundoffs of |w| R + |b|, a slope by that times the curvature L. The
    sizes of the slopes add up to at most sqrt(2 L C W f), since a slope's square is at most 2 L times its loss. Sums
    over rows are made over tiles and blocks, so that their errors grow with the root of the number of rows at most.
    """
    facts, L = objective.engine.facts, objective.loss.smoothness
    mass = objective.scale * objective.total_weight
    margin = (objective.n_features + 3) * UNIT * (norm * facts.largest_row_norm + intercept)
    slopes = math.sqrt(max(2.0 * L * mass * point.value, 0.0))
    return mass * L * margin + (math.sqrt(facts.n_rows) + FEW) * UNIT * slopes
