"""The unpenalised intercept of dual ascent: the step of its proximal method, and its start."""

from __future__ import annotations

import math

import numpy as np

from daskglm.losses.table import law_of
from daskglm.objectives.margins import best_shift
from daskglm.objectives.primal import Objective

# Part of the mean row's squared norm that counts in the step of an intercept: among 1, 0.3, 0.1 and
# 0.03 the one that cost no problem of nine, for two C and 1, 2 and 4 groups, more than twice the
# rounds of the best of them (2026-11-25).
COMMON = 0.3


def constant_feature(objective: Objective, C: float) -> float:
    """Choose the value of the constant feature, whose square is the step of the intercept.

    While features follow, the objective has a curvature of 1 / (1/K + m^2 + s^2/n) in b: K is that
    at fixed features, m the norm of the mean row, by which all margins can move with b, and s that
    of what rows differ by. With a step of its inverse the intercept has come half way after each
    round. Longer steps hold back groups of threads that pass on their share of the sum of the dual
    variables to others: with the mean square of all rows, which is far more where rows have little
    in common, two groups were still at a gap of 5e-3 when they made 1e-15 with this.

    Parameters
    ----------
    objective : Objective
    C : float
        Weight of its losses beside a penalty of strength one.
    """
    facts = objective.engine.facts
    n = max(facts.n_rows, 1)
    square = facts.squared_norms / n
    mean = facts.target_sum / facts.weight if facts.weight > 0.0 else 0.0
    curvature = objective.loss.expected_curvature(mean)
    if not math.isfinite(curvature):
        # the corners of all rows are spread over what margins or targets are
        curvature = 1.0 / (facts.largest_target or 1.0)
    if objective.loss.classifies and objective.sides is not None:
        positive, negative = objective.sides
        # of the logistic loss this is the curvature at the best constant
        curvature *= 4.0 * positive * negative / objective.total_weight**2
    total = C * objective.total_weight * curvature
    step = (1.0 / total if total > 0.0 else math.inf) + square / n
    step += COMMON * facts.row_products / n
    return math.sqrt(min(step, square)) or 1.0


def value_at_zero(objective: Objective, w: np.ndarray) -> tuple[float, float]:
    """Return the objective where all features are zero, and the best intercept there.

    `w` are such coefficients, from whose intercept regressions search. Cost: nothing for classes,
    whose margins are all equal, so that the total weights of both are enough; else 1 pass.
    """
    loss, fit_intercept = objective.loss, objective.fit_intercept
    if loss.classifies:
        from daskglm.losses.conjugates import losses  # many kernels, which other solvers do without

        best = 0.0
        if fit_intercept:
            best = loss.best_constant(*objective.sides) if objective.sides else float(w[-1])
        sides = np.array(objective.sides or (objective.total_weight, 0.0))
        value = float(losses(law_of(loss.ref), np.array([1, -1], np.int8), np.full(2, best), sides))
        return objective.C * value, best

    point = objective.at(w)
    if not fit_intercept:
        return point.value, 0.0
    if loss.is_quadratic:
        # one Newton step by the intercept is exact
        slope = float(point.gradient[-1])
        shift = -slope / (objective.C * objective.total_weight)
        value = point.value + 0.5 * slope * shift
    else:
        best_constant = best_shift(objective, point)
        shift, value = best_constant.at, best_constant.value
    return value, float(w[-1]) + shift
