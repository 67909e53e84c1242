"""Two solvers in turn: dual ascent or L-BFGS, then Newton's method or TRON for the last digits."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.duals.dual import Dual
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.softmax import Softmax
from daskglm.solvers import costs
from daskglm.solvers.dual_bound import bounded
from daskglm.solvers.forecast import iterations_left, relative_error
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.lbfgs import lbfgs
from daskglm.solvers.newton import cost as newton_cost
from daskglm.solvers.newton import from_here as newton_from_here
from daskglm.solvers.newton import newton
from daskglm.solvers.output_lbfgs import output_lbfgs
from daskglm.solvers.proximal_point import proximal_points
from daskglm.solvers.sdca import OPTIONS, check_optional_flag, config_of, sdca
from daskglm.solvers.spec import SolverSpec
from daskglm.solvers.tron import tron
from daskglm.solvers.workload import Workload


def sdca_then_newton(
    objective: Objective,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    polish: bool | None = None,
    state: dict[str, Any] | None = None,
    folder: str | None = None,
    **options: Any,
) -> Iterates:
    """Dual coordinate ascent, finished by another method if that is cheaper than the epochs left.

    Parameters
    ----------
    polish : bool, optional
        Whether a second stage is allowed: Newton's method or TRON on the primal, whichever is
        expected to end first, for the hinge on proximal points of its dual, which alone takes an L1
        part. Default: if the stop rule is the gap. It begins when the epochs left, by the rate of
        the last three to five, cost more than that is expected to take (for a smooth loss and tol
        >= 1e-5: ten times as much), or when the ascent fails: its points are above w = 0, or it
        lowers the gap no further.
    state, folder
        State of a solve to resume, and the folder with its dual variables.
    **options
        Those of `sdca`.
    """
    smooth = objective.loss.differentiable
    allowed = options.get("stop", "gap") == "gap" if polish is None else polish
    # targets of proximal steps differ by less than float32, the dtype on devices, tells apart
    narrow = not smooth and objective.engine.capabilities.device != "cpu"
    # of an L1 part the second stage takes losses with corners alone
    with_kinks = objective.bounds.any_penalty and not smooth
    allowed = bool(allowed) and not narrow and (objective.threshold == 0.0 or with_kinks)
    patience = costs.LOOSE_TOL_FACTOR
    if tol < costs.TIGHT_TOL or not smooth or polish:
        patience = 1.0

    saved = None if state is None or folder is None else (state, folder)
    dual = Dual(objective, w, config_of(options), options.get("random_state", 0), saved)
    # a checkpoint of the second stage has no dual variables
    if state is not None and saved is None:
        return (yield from _second(objective, dual, w, math.inf)) or Reason.NO_PROGRESS

    second = _second_epochs(Workload.of(objective, tol))
    least = costs.SEEN_EPOCHS if smooth else costs.RATE_WINDOW
    gaps: list[float] = []
    ascent = sdca(objective, w, tol=tol, dual=dual, state=state, **options)
    above = 0  # rounds in turn whose value is above that of w = 0
    while True:
        try:
            iterate = next(ascent)
        except StopIteration as end:
            if not (allowed and end.value is Reason.STALLED):
                return end.value
            reason = yield from _second(objective, dual, iterate.point.w, math.inf)
            return reason or Reason.NO_PROGRESS
        yield iterate
        point = iterate.point
        if point.certify is None and not gaps:  # the start, of which no gap is known
            continue

        gaps.append(float(point.gap or 0.0) / max(abs(point.value), np.finfo(float).tiny))
        above = 0 if point.value <= dual.at_zero else above + 1
        # no rate is known of the first ones
        seen = min(len(gaps) - 1, costs.RATE_WINDOW)
        left = iterations_left(gaps, tol, seen) if seen >= least else 0.0
        lost = above >= costs.LOST_ROUNDS
        if allowed and (lost or left > patience * second):
            passes = min(
                max(costs.SECOND_PER_EPOCH * left, costs.LEAST_SECOND),
                costs.MOST_SECOND if smooth else costs.MOST_HINGE,
            )
            reason = yield from _second(objective, dual, point.w, math.inf if lost else passes)
            if reason is not None:
                return reason
            # it took more than the epochs it was to save: the ascent resumes from where it was
            allowed = False


def lbfgs_then_second_order(
    objective: Objective,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    automatic: bool = False,
    radius: float | None = None,
    by_newton: bool = False,
    **state: Any,
) -> Iterates:
    """L-BFGS; if `auto` chose it, a second-order method finishes solves that take long.

    The passes that L-BFGS needs are uncertain. So its own rate on all rows foresees what is left,
    and TRON or Newton's method takes over once that is more than they are expected to take from
    there. TRON in turn is given the passes of Newton's method from the start. For several margins a
    row `output_lbfgs` takes its place, to the end.

    Parameters
    ----------
    automatic : bool
        Whether `auto` chose the solver.
    radius : float, optional
        Of a solve to resume: radius of TRON, if that had taken over.
    by_newton : bool
        Of a solve to resume: whether Newton's method had taken over.
    **state
        Of a solve to resume: state of L-BFGS or TRON.
    """
    if isinstance(objective.margins, Softmax):
        return (yield from output_lbfgs(objective, w, **state))
    workload = Workload.of(objective, tol)
    certain = newton_cost(workload) if automatic else math.inf
    start, last = objective.passes, None
    if radius is None and not by_newton:
        steps = lbfgs(objective, w, **state)
        if not automatic:
            return (yield from steps)
        reason, last, by_newton = yield from _while_it_pays(workload, objective, steps)
        if last is None or reason is not None:
            return reason or Reason.NO_PROGRESS
        w, state = last.w, {}

    left = certain - (objective.passes - start)
    if left > 0.0 and not by_newton:
        steps = tron(objective, w, tol=tol, radius=radius, **state)
        reason, last = yield from _up_to(left, objective, steps, by="tron")
        if last is None or reason is not None:
            return reason or Reason.NO_PROGRESS
        w = last.w

    changes: dict[str, Any] = {"by": "newton", "resume": lambda: {"by_newton": True}}
    steps = newton(objective, w, tol=tol)
    reason, _ = yield from _up_to(math.inf, objective, steps, **changes)
    return reason or Reason.NO_PROGRESS


def _while_it_pays(
    workload: Workload, objective: Objective, iterates: Iterates
) -> Generator[Iterate, None, tuple[Reason | None, Point | None, bool]]:
    """Pass on iterates of L-BFGS while it is nearer its end than other methods.

    Returns why it ended, None if it did not, the last point, and whether Newton's method is the
    one that is expected to end first.
    """
    tol, last = workload.tol, None
    errors: list[float] = []
    first = 0.0
    while True:
        try:
            iterate = next(iterates)
        except StopIteration as end:
            return end.value, last, False
        last = iterate.point
        first = first or last.gradient_norm
        error = relative_error(objective, last, first)
        errors.append(min(error, errors[-1]) if errors else error)
        yield iterate
        taken, latest = len(errors) - 1, errors[-1]
        if taken < costs.SEEN_ITERATIONS:
            continue
        # rates of the last half are those of halts at times, the mean rate sees no slowing down
        left = iterations_left(errors, tol, window=taken)
        lately = iterations_left(errors, tol, window=taken // 2)
        left = math.sqrt(left * min(lately, costs.SLOWEST * left))
        idle = taken - next(k for k, met in enumerate(errors) if met < 2.0 * latest)
        left = max(left, costs.HALTING * idle)
        share = math.log(max(errors[-1] / tol, 1.0)) / math.log(max(errors[0] / tol, math.e))
        spared = (1.0 - costs.NOT_SPARED) * (1.0 - share)
        by_tron = costs.BEGINNING + (1.0 - spared) * workload.tron_beside(taken + left)
        by_newton = newton_from_here(workload, share)
        if left * workload.lbfgs_iteration > costs.HAND_OVER * min(by_tron, by_newton):
            iterates.close()
            return None, last, by_newton < by_tron


def _up_to(
    passes: float, objective: Objective, iterates: Iterates, **changes: Any
) -> Generator[Iterate, None, tuple[Reason | None, Point | None]]:
    """Pass on a solver's iterates, with `changes`, until it ends or has taken this many passes.

    Returns why it ended, None if it did not, and the last point.
    """
    start, last = objective.passes, None
    while objective.passes - start < passes:
        try:
            iterate = replace(next(iterates), **changes)
        except StopIteration as end:
            return end.value, last
        last = iterate.point
        yield iterate
    iterates.close()
    return None, last


def _second(
    objective: Objective, dual: Dual, w: np.ndarray, passes: float
) -> Generator[Iterate, None, Reason | None]:
    """Finish an ascent by Newton's method, or TRON; returns None if it needs more passes."""
    name, solver = ("newton", newton) if _ends_by_newton(objective) else ("tron", tron)
    if not objective.loss.differentiable:
        steps = proximal_points(dual)
        return (yield from _up_to(passes, objective, steps, by=name))[0]

    changes: dict[str, Any] = {"by": name, "resume": lambda: {"state": {}}}
    steps = solver(objective, w)
    first = next(steps)
    # values of an ascent are estimates: if its point is above the best one evaluated, which at
    # first is w = 0, the method begins there
    if not first.point.value <= dual.value:
        steps.close()
        steps = solver(objective, dual.kept)
        first = next(steps)
    return (yield from _up_to(passes, objective, bounded(lambda: dual, first, steps), **changes))[0]


def _ends_by_newton(objective: Objective) -> bool:
    """Return whether Newton's method, not TRON, is to finish an ascent."""
    workload = Workload.of(objective)
    by_newton = newton_from_here(workload, 1.0)
    # proximal points know Newton's method alone
    return by_newton < math.inf and (not workload.smooth or by_newton <= workload.tron_passes)


def _second_epochs(workload: Workload) -> float:
    """Foresee the time that the second method takes, in epochs."""
    if workload.smooth:
        passes = min(newton_from_here(workload, 1.0), workload.tron_passes)
        return passes / workload.epoch
    epochs = costs.TRON_FINISH_EPOCHS
    if workload.n_features <= costs.LARGEST_HESSIAN or workload.blocks:
        epochs = costs.FINISH_STEPS * (1.0 + workload.gram / costs.EPOCH_PASSES)
    return costs.PROXIMAL_FACTOR * epochs


def lbfgs_cost(workload: Workload) -> float:
    """Foresee the passes that L-BFGS takes.

    They are at most those after which another method takes over, and that method's.
    """
    if workload.outputs > 1:
        return costs.OUTPUT_LBFGS_PASSES * workload.lbfgs_iteration + workload.class_blocks
    second = min(workload.tron_passes, newton_cost(workload))
    iterations = min(workload.lbfgs_iterations, costs.SEEN_ITERATIONS)
    rest = workload.lbfgs_iterations - iterations
    passes = iterations * workload.lbfgs_iteration + min(rest * workload.lbfgs_iteration, second)
    # least squares are one system of TRON; without a penalty no bound tells the rate
    is_seen = workload.penalised and not workload.quadratic
    return (costs.SEEN_COST if is_seen else 1.0) * passes


def sdca_cost(workload: Workload) -> float:
    """Foresee the passes of dual ascent.

    With a smooth loss it converges linearly, so epochs are proportional to the digits of `tol`.
    """
    if not workload.smooth:
        return costs.CORNER_EPOCHS * workload.digits * workload.epoch
    more = costs.EPOCHS_PER_RATIO * workload.row_ratio**costs.EPOCHS_POWER
    epochs = costs.SDCA_EPOCHS + more
    return costs.SEEN_EPOCH_COST * workload.digits * epochs * workload.epoch


LBFGS = SolverSpec(
    "lbfgs",
    lbfgs_then_second_order,
    max_iter=2000,
    settings=("tol", "automatic"),
    cost=lbfgs_cost,
)
SDCA = SolverSpec(
    "sdca",
    sdca_then_newton,
    max_iter=1000,
    options={**OPTIONS, "polish": check_optional_flag},
    settings=("tol", "random_state"),
    solves_dual=True,
    takes_kinks=True,
    cost=sdca_cost,
)
