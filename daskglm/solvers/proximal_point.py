"""Proximal-point method on the dual of a loss with corners: a hinge, a quantile's loss.

It takes the last digits, where dual ascent is slow, and the whole of a regression with many rows.
Every proximal step is solved by Newton's method.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.device import Array, to_host
from daskglm.core.outcome import Reason
from daskglm.core.requests import SDCAConfig
from daskglm.duals.corrected import Corrected, residual_unit
from daskglm.duals.dual import Dual
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs, kinked_steps
from daskglm.solvers.corner_widths import ByIterations, ByRates, Widths
from daskglm.solvers.interior_points import interior_points, takes_interior_points
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING, backtrack
from daskglm.solvers.linear_systems import newton_step
from daskglm.solvers.newton import SAMPLE_SEED, newton, sample_sizes
from daskglm.solvers.spec import SolverSpec
from daskglm.solvers.tron import tron
from daskglm.solvers.workload import Workload

# Share of a corner's curvature that all rows are given where few are within corners. Chosen.
LEAST_CURVATURE = 1e-3


def proximal(objective: Objective, w: np.ndarray, *, tol: float = 1e-6) -> Iterates:
    """Proximal points from the start, for losses with corners, with or without a penalty.

    From w = 0 samples of growing size come first. Corners are rounded over about the distance that
    a sample of m rows leaves to the optimum, (size / m)^0.4 of the mean loss (He, Pan, Tan & Zhou
    2021, for quantiles); that is the first width for all rows too. Of few rows for each feature
    `interior_points` come before. Cost: 1 pass, some tenths of a pass for the samples, then that of
    `proximal_points`.
    """
    zero = objective.xp.zeros(objective.size)
    dual = Dual(objective, zero, SDCAConfig(), 0, corrected=_corrected(objective))
    from_origin = objective.is_origin(w)
    solver = step_solver(dual)
    if w.any():
        dual.kept, dual.value = w, objective.at(w).value
        yield Iterate(dual.kept_point())
    else:
        yield Iterate(dual.start_point())
    if takes_interior_points(dual):
        for iterate in interior_points(dual, tol):
            yield Iterate(iterate.point)
        from_origin = False

    facts = objective.engine.facts
    start, value = dual.kept, dual.value
    unit = residual_unit(objective, value)
    can_sample = objective.engine.capabilities.cheap_samples and from_origin
    sizes = sample_sizes(facts, objective.size, tol) if can_sample else []
    level = 0.0  # the first sample begins far from its optimum, with wide corners
    for k, fraction in enumerate([*sizes[:1], *sizes]):
        part = dual.smoothed(unit * 10.0**-level).samples(sizes, SAMPLE_SEED)[max(k - 1, 0)]
        accuracy = objective.size / (fraction * facts.n_rows) * value
        inner, _ = _solve(dual, solver, part, start, accuracy)
        objective.rows.meter.absorb(part.rows.meter)
        if math.isfinite(inner.value):
            start, value = inner.w, inner.value
            unit = residual_unit(objective, value)
        level = _level(objective.size, sizes[k] * facts.n_rows) if k < len(sizes) else 0.0
    level = _level(objective.size, facts.n_rows) if sizes or not from_origin else 0.0
    steps = proximal_points(dual, Begin(start, 10.0**-level * value, level, unit), tol=tol)
    while True:
        try:
            iterate = next(steps)
        except StopIteration as end:
            reason: Reason = end.value
            return reason
        yield Iterate(iterate.point)  # a solve resumes from the coefficients


def _corrected(objective: Objective) -> Corrected | None:
    """Return what dual variables prove where dual ascent does not know the penalty."""
    known = objective.threshold >= 0.0 or not objective.bounds.any_penalty
    return None if objective.is_penalised and known else Corrected(objective)


def step_solver(dual: Dual) -> Callable[..., Any]:
    """Return the solver of proximal steps around these dual variables."""
    objective = dual.objective
    if objective.bounds.any_penalty:
        return kinked_steps.step_solver(objective)
    if not objective.is_penalised:
        assert isinstance(dual.feasible, Corrected)
        assert dual.feasible.correction is not None
        return functools.partial(newton_within_corners, dual.feasible.correction.gram)
    if objective.n_features > costs.LARGEST_HESSIAN:
        return tron
    if objective.loss.classifies or not objective.fit_intercept:
        return newton
    # an intercept has no curvature where no row is within a corner
    floor = np.zeros((objective.size, objective.size))
    floor[-1, -1] = objective.C * objective.total_weight
    return functools.partial(newton_within_corners, floor)


def newton_within_corners(floor: np.ndarray, primal: Objective, w: np.ndarray) -> Iterates:
    """Newton's method for a proximal step, where too few rows may be within corners.

    A Hessian that is singular for that is given a share of `floor`, (size, size), the Hessian of
    all rows with a curvature of one, as far as there is no penalty. Cost: 1 pass for an accepted
    unit step, 2 for a damped one.
    """
    exact = not primal.is_penalised
    point = primal.at(w, gram=True, exact=exact)
    while True:
        yield Iterate(point)
        hessian = to_host(point.hessian)
        if not point.factor.proves:
            more = LEAST_CURVATURE * primal.loss.smoothness * floor
            if not exact:
                # to an intercept that has some, which is beside a large mean more than the rest
                more[-1, -1] = max(more[-1, -1] - hessian[-1, -1], 0.0)
            hessian = hessian + more
        step = primal.xp.asarray(newton_step(hessian, to_host(point.gradient)))
        if not float(point.gradient @ step) < 0.0:
            return Reason.NO_PROGRESS
        trial = primal.at(point.w + step, gram=True, beside=point, exact=exact)
        accepted = backtrack(primal, point, trial, gram=True, exact=exact)
        if accepted is None:
            return Reason.NO_PROGRESS
        point = accepted


def _level(size: int, rows: float) -> float:
    """Return the level of smoothing that the statistical error of so many rows suggests."""
    return max(-0.4 * math.log10(size / max(rows, 1.0)), 0.0)


class Begin(NamedTuple):
    """Where proximal points begin, other than at the dual's own point.

    Parameters
    ----------
    w : array
    gap : float
        What is expected of the first proximal step.
    level, unit : float
        Corners are rounded over unit * 10 ** -level.
    """

    w: np.ndarray
    gap: float
    level: float
    unit: float


def proximal_points(dual: Dual, begin: Begin | None = None, *, tol: float = 0.0) -> Iterates:
    """Proximal-point method on the dual of a loss with corners (Rockafellar 1976).

    A proximal term around the dual variables rounds the corners (`losses.base.Loss.smoothed`).
    Newton's method on the generalised Hessian, or TRON for many features, solves the primal of
    that, and its slopes are the next dual variables. Narrower corners are longer steps, taken while
    Newton's method needs few iterations; with kinks, whose models take products with Hessians,
    while the gap falls more for each pass.

    Every point is certified, and is the best of all that were. The method starts from the dual
    variables as they are, or from zero if they are worse, as an ascent gone astray leaves them. It
    ends at rest, or where rounding hides that a point is within `tol`.

    Cost: that of the solver, and 2 passes a proximal step.
    """
    if begin is None:
        point = dual.certified_point()
        if dual.met.dual < 0.0:
            dual.start_again()
            point = dual.certified_point()
        begin = Begin(
            _start(dual, point),
            float(point.gap or 0.0),
            0.0,
            residual_unit(dual.objective, dual.value),
        )
    w, gap, level, unit = begin
    solver = step_solver(dual)

    kinked = dual.objective.bounds.any_penalty
    widths: Widths = ByRates(level) if kinked else ByIterations(level)
    idle = 0  # proximal steps in turn that left more than 0.9 of the gap
    while idle < 20 and not dual.is_hidden(tol):
        begun = dual.objective.passes
        primal = dual.smoothed(unit * 10.0**-widths.level)
        inner, steps = _solve(dual, solver, primal, w, 0.03 * gap)

        # Newton's method is lost where slopes are larger than the gap allows
        if widths.level > 0 and dual.feasible.is_lost(inner, gap):
            widths.lost()
            idle = idle + 1
            dual.objective.rows.meter.absorb(primal.rows.meter)
            continue

        w = inner.w
        dual.adopt(primal, w)
        found = dual.certified_point(w)
        yield Iterate(
            found, resume=lambda: {"state": {**dual.state(), "sigma": None}}, save_rows=dual.save
        )

        assert found.gap is not None
        widths.after(gap, found.gap, steps, dual.objective.passes - begun)
        idle = idle + 1 if found.gap > 0.9 * gap else 0
        gap = found.gap
    return Reason.STALLED


def _solve(
    dual: Dual,
    solver: Callable[..., Any],
    primal: Objective,
    w: np.ndarray,
    accuracy: float,
) -> tuple[Point, int]:
    """Solve a proximal step to a bound of `accuracy`; return the point and the iterations."""
    steps, value = 0, math.inf
    for iterate in solver(primal, w):
        inner = iterate.point
        steps += 1
        level = value - inner.value <= ROUNDING * abs(inner.value)
        # more than 15 iterations are better spent with a wider corner. Chosen.
        if level or dual.feasible.left_open(inner) <= accuracy or steps > 15:
            break
        value = inner.value
    return inner, steps


def _start(dual: Dual, point: Point) -> Array:
    """Return where Newton's method starts.

    From zero coefficients it starts without the best intercept, since all curvatures may vanish
    there.
    """
    if point.w[: dual.objective.n_features].any():
        return point.w
    return dual.objective.xp.zeros(dual.objective.size)


def cost(workload: Workload) -> float:
    """Foresee the passes that proximal points take; infinite for too many features."""
    if workload.n_features > costs.LARGEST_HESSIAN:
        return costs.PROXIMAL_PASSES * costs.WORKING_SET_PASSES if workload.kinked else math.inf
    return costs.PROXIMAL_PASSES + costs.PROXIMAL_HESSIANS * (1.0 + workload.gram)


SPEC = SolverSpec(
    "proximal",
    proximal,
    max_iter=200,
    settings=("tol",),
    forms_hessian=True,
    rounds_corners=True,
    takes_kinks=True,
    takes_groups=True,
    cost=cost,
)
