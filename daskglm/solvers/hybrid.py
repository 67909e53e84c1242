"""Two solvers in turn: dual ascent or TRON, then one with Hessians for the last digits."""

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
from daskglm.solvers.forecast import iterations_left
from daskglm.solvers.interior_points import (
    interior_passes,
    interior_points,
    takes_interior_points,
)
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.lbfgs import lbfgs
from daskglm.solvers.newton import cost as newton_cost
from daskglm.solvers.newton import from_here as newton_from_here
from daskglm.solvers.newton import newton
from daskglm.solvers.opening import opened
from daskglm.solvers.output_lbfgs import output_lbfgs
from daskglm.solvers.proximal_newton import passes_left, proximal_newton
from daskglm.solvers.proximal_point import proximal_points
from daskglm.solvers.sdca import OPTIONS, check_optional_flag, config_of, sdca, takes_steps
from daskglm.solvers.spec import SolverSpec
from daskglm.solvers.tron import tron
from daskglm.solvers.workload import Workload

# Options that the ascent itself takes; its dual variables have the others.
OF_ASCENT = ("stop", "aggregation", "local_epochs")


def sdca_then_newton(
    objective: Objective,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    automatic: bool = False,
    polish: bool | None = None,
    state: dict[str, Any] | None = None,
    folder: str | None = None,
    **options: Any,
) -> Iterates:
    """Dual coordinate ascent, finished by another method if that is cheaper than the epochs left.

    Parameters
    ----------
    automatic : bool
        Whether `auto` chose the solver: then easy rows are left to L-BFGS, see `opened`.
    polish : bool, optional
        Whether a second stage is allowed: Newton's method or TRON on the primal, whichever is
        expected to end first, with an L1 part proximal Newton, for the hinge proximal points of its
        dual, or, of few rows, interior points. Default: if the stop rule is the gap. It begins when
        the epochs left, by the rate of the last three to five, cost more than that is expected to
        take (for a smooth loss and tol >= 1e-5: ten times as much), or when the ascent fails: its
        points are above w = 0, or it lowers the gap no further.
    state, folder
        State of a solve to resume, and the folder with its dual variables.
    **options
        Those of `sdca` and `config_of`, and `random_state`.
    """
    smooth = objective.loss.differentiable
    allowed = options.get("stop", "gap") == "gap" if polish is None else polish
    allowed = bool(allowed) and _has_second(objective)
    patience = costs.LOOSE_TOL_FACTOR
    if tol < costs.TIGHT_TOL or not smooth or polish:
        patience = 1.0

    saved = None if state is None or folder is None else (state, folder)
    dual = Dual(objective, w, config_of(objective, options), options.get("random_state", 0), saved)
    # a checkpoint of the second stage has no dual variables
    if state is not None and saved is None:
        return (yield from _second(dual, w, math.inf, tol))[0] or Reason.NO_PROGRESS

    pace = _Pace(dual, tol)
    if automatic and state is None:
        yield from opened(objective, w, pace.workload, sdca_cost(pace.workload))
    given = {name: options[name] for name in OF_ASCENT if name in options}
    ascent = sdca(dual, tol=tol, state=state, **given)
    again = False  # whether the second stage was given up
    reached: Point | None = None  # by the second stage
    while smooth or not dual.is_hidden(tol):
        try:
            iterate = next(ascent)
        except StopIteration as end:
            if not (allowed and end.value is Reason.STALLED):
                return end.value
            reason, _ = yield from _second(dual, iterate.point.w, math.inf, tol)
            return reason or Reason.NO_PROGRESS
        yield iterate
        point = iterate.point
        if point.certify is None and not pace.gaps:  # the start, of which no gap is known
            continue

        pace = pace.on(dual)
        lost, left = pace.meet(point, dual), pace.left(tol)
        if again and pace.is_hopeless(tol):
            if not smooth:
                break
            lost = allowed = True
        if allowed and (lost or left > patience * pace.second):
            passes = math.inf if lost else _passes(pace.workload, left, stepped=pace.stepped)
            best = min(filter(None, (reached, point)), key=lambda known: known.value)
            second = _second(dual, best.w, passes, tol, near=_is_near(dual, best))
            reason, reached = yield from second
            if reason is not None and smooth and (lost or not pace.is_dear):
                return reason
            # it took more than the epochs it was to save, or proximal points came to rest where the
            # ascent had only paused: that resumes from where it was, and may leave the rest to
            # interior points if it is slow again
            again, dual.rests = smooth or pace.inside, not smooth
            if not smooth:
                pace = _Pace(dual, tol)
            allowed = pace.inside and not again
    return Reason.STALLED


class _Pace:
    """The relative gaps of an ascent, and how many epochs it has left by how they fall.

    Parameters
    ----------
    dual : Dual
    tol : float

    Attributes
    ----------
    objective, workload
        Of the dual when this began.
    inside, stepped : bool
        Whether interior points are the second method, and whether the ascent takes steps.
    second : float
        What the second method is foreseen to take, in epochs.
    is_dear : bool
        Whether that is much, or it has been tried, so that the rate must be sure.
    """

    def __init__(self, dual: Dual, tol: float) -> None:
        self.objective = dual.objective
        self.workload = workload = Workload.of(dual.objective, tol)
        self.smooth = workload.smooth
        self.stepped, self.inside = takes_steps(dual), takes_interior_points(dual)
        self.second = _second_epochs(workload, stepped=self.stepped, inside=self.inside)
        dear = self.second >= costs.PROXIMAL_TRON_EPOCHS
        self.is_dear = self.inside or dear or dual.rests
        self.window = costs.SURE_WINDOW if self.is_dear else costs.RATE_WINDOW
        self.above = 0  # rounds in turn with a value above that of w = 0, and no lower gap
        self.gaps: list[float] = []
        self.epochs: list[int] = []

    def on(self, dual: Dual) -> _Pace:
        """Return this, or a new one where the rows have come here and the ascent has begun anew."""
        return self if dual.objective is self.objective else _Pace(dual, self.workload.tol)

    def meet(self, point: Point, dual: Dual) -> bool:
        """Take the gap after a round; return whether the ascent is lost, above w = 0.

        With kinks, how many coefficients are not zero says what the second method takes.
        The gap rises where rows that were passed over are met again, which is no reason for a
        second method that is dear.
        Hinges of much noise begin above w = 0, and get nearer with each round.
        """
        if self.smooth and self.workload.kinked:
            self.second = self._proximal_epochs(point)
        gap = float(point.gap or 0.0) / max(abs(point.value), np.finfo(float).tiny)
        falls = gap < min(self.gaps, default=math.inf)
        self.gaps.append(min([gap, *self.gaps[-1:]]) if self.is_dear else gap)
        self.epochs.append(dual.plan.epochs)
        self.above = 0 if falls or point.value <= dual.at_zero else self.above + 1
        return self.above >= costs.LOST_ROUNDS

    def _proximal_epochs(self, point: Point) -> float:
        """Foresee the epochs that proximal Newton takes.

        Infinite while rows are with workers but may travel: if the ascent is slow they come first.
        """
        if self.workload.remote and self.workload.travels((1.0,)):
            return math.inf
        nonzero = int((point.w != 0.0).sum())
        return passes_left(self.workload, nonzero) / self.workload.epoch

    def is_hopeless(self, tol: float) -> bool:
        """Return whether the last half of a long ascent has come no nearer to its end."""
        if len(self.gaps) < costs.LONG_ASCENT:
            return False
        return iterations_left(self.gaps, tol, costs.LONG_ASCENT // 2) > costs.HOPELESS_EPOCHS

    def left(self, tol: float) -> float:
        """Return the epochs that are left; none while no rate is known, as of the first ones."""
        seen = min(len(self.gaps) - 1, self.window)
        few = costs.SEEN_EPOCHS if self.smooth and not self.is_dear else self.window
        if seen < few:
            return 0.0
        return iterations_left(self.gaps, tol, seen) * sum(self.epochs[-seen:]) / seen


def tron_then_newton(
    objective: Objective,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    automatic: bool = False,
    by_newton: bool = False,
    **state: Any,
) -> Iterates:
    """TRON; if `auto` chose it, Newton's method finishes solves that take long.

    The products that TRON needs are uncertain, the Hessians of Newton's method are much less so: it
    takes over once TRON has cost as much as that would have from the start.

    Parameters
    ----------
    automatic : bool
        Whether `auto` chose the solver.
    by_newton : bool
        Of a solve to resume: whether Newton's method had taken over.
    **state
        Of a solve to resume: state of TRON.
    """
    if not by_newton:
        workload = Workload.of(objective, tol)
        enough, start = math.inf, None
        if automatic:
            enough = newton_cost(workload) / workload.tron_product
            if not state:
                w, start = yield from opened(objective, w, workload, tron_cost(workload))
        steps = tron(objective, w, tol=tol, most=enough, start=start, **state)
        reason, last = yield from _up_to(enough, objective, steps)
        if last is None or reason is not None:
            return reason or Reason.NO_PROGRESS
        # steps from a point that is not near turn rows on and off where curvature jumps
        w = objective.origin if objective.loss.jumps else last.w
    steps = newton(objective, w, tol=tol)
    resume = {"by_newton": True}
    reason, _ = yield from _up_to(math.inf, objective, steps, "newton", resume=lambda: resume)
    return reason or Reason.NO_PROGRESS


def lbfgs_or_blocks(objective: Objective, w: np.ndarray, **state: Any) -> Iterates:
    """L-BFGS; for several margins a row, around the blocks of their classes."""
    several = isinstance(objective.margins, Softmax)
    return (yield from (output_lbfgs if several else lbfgs)(objective, w, **state))


def _up_to(
    passes: float, objective: Objective, iterates: Iterates, by: str = "", **changes: Any
) -> Generator[Iterate, None, tuple[Reason | None, Point | None]]:
    """Pass on a solver's iterates, with `changes`, until it ends or has taken this many passes.

    `by` is its name, unless it tells itself who made an iterate.

    Returns why it ended, None if it did not, and the last point.
    """
    start, last = objective.passes, None
    while objective.passes - start < passes:
        try:
            iterate = next(iterates)
        except StopIteration as end:
            return end.value, last
        last = iterate.point
        iterate = replace(iterate, **changes, by=iterate.by or by)
        yield iterate
    iterates.close()
    return None, last


def _second(
    dual: Dual, w: np.ndarray, passes: float, tol: float, *, near: bool = True
) -> Generator[Iterate, None, tuple[Reason | None, Point | None]]:
    """Finish an ascent by Newton's method, or by TRON and that; with an L1 part by proximal Newton.

    Unless w is `near`, a steeper objective there than at the best point that was evaluated tells
    that w is too far out to begin at, as does a gap of more than the value: TRON took 0.34, 0.87,
    0.92 and 1.14 of the passes of four drawn problems from w = 0 (2026-11-30).

    Returns why the method ended, None if it needs more passes, and the last point.
    """
    objective = dual.objective  # of rows that may have come to this process
    if takes_interior_points(dual):
        return (yield from _up_to(passes, objective, interior_points(dual, tol), "interior"))
    name = _finisher(objective)
    if not objective.loss.differentiable:
        steps = proximal_points(dual, tol=tol)
        return (yield from _up_to(passes, objective, steps, name))

    def begin(w: np.ndarray) -> Iterates:
        if name == "proximal_newton":
            return proximal_newton(objective, w, tol=tol)
        if name == "newton":
            return newton(objective, w)
        return tron_then_newton(objective, w, automatic=True)

    steps = begin(w)
    first = next(steps)
    # values of an ascent are estimates: if its point is above the best one evaluated, which at
    # first is w = 0, the method begins there
    far = not first.point.value <= dual.value
    if not (far or near):
        far = dual.gap >= first.point.value or (
            first.point.gradient_norm > objective.at(dual.kept).gradient_norm
        )
    if far:
        steps.close()
        steps = begin(dual.kept)
        first = next(steps)
    # proximal Newton proves its points by itself
    bound = bounded if objective.penalty.is_smooth else _unbounded
    steps = bound(lambda: dual, first, steps)
    return (yield from _up_to(passes, objective, steps, name, resume=lambda: {"state": {}}))


def _unbounded(_: Any, first: Iterate, rest: Iterates) -> Iterates:
    """Pass on a solver's iterates from its first, as `bounded` does, without bounds."""
    yield first
    return (yield from rest)


def _has_second(objective: Objective) -> bool:
    """Return whether there is a second method for what an ascent left."""
    if objective.loss.differentiable:
        return True
    # targets of proximal steps differ by less than float32, the dtype on devices, tells apart
    wide = objective.engine.capabilities.device == "cpu"
    return wide and (objective.threshold == 0.0 or objective.bounds.any_penalty)


def _is_near(dual: Dual, point: Point) -> bool:
    """Return whether an ascent's point, by its gap, is where Newton's steps converge, or all are.

    Those of least squares do from everywhere. Of losses that jump it is not known to matter.
    """
    loss, gap = dual.objective.loss, point.gap
    if loss.is_quadratic or loss.jumps or gap is None or not math.isfinite(dual.at_zero):
        return True
    return gap <= costs.NEAR_GAP * (dual.at_zero - point.value + gap)


def _finisher(objective: Objective) -> str:
    """Return the name of the solver that is to finish an ascent."""
    workload = Workload.of(objective)
    if workload.smooth and workload.kinked:
        return "proximal_newton"
    by_newton = newton_from_here(workload, 1.0)
    # proximal points know Newton's method alone
    cheap = by_newton < math.inf and (not workload.smooth or by_newton <= workload.tron_passes)
    return "newton" if cheap else "tron"


def _passes(workload: Workload, left: float, *, stepped: bool) -> float:
    """Return how many passes the second method may take, by the epochs that are left.

    TRON may take at most those foreseen, if steps follow.
    """
    most = costs.MOST_HINGE
    if workload.smooth:
        most = workload.tron_passes if stepped else costs.MOST_SECOND
    return min(max(costs.SECOND_PER_EPOCH * left, costs.LEAST_SECOND), most)


def _second_epochs(workload: Workload, *, stepped: bool, inside: bool) -> float:
    """Foresee the time that the second method takes, in epochs.

    Much if the ascent takes steps, unless TRON is foreseen to end before these do, or it is that of
    interior points.
    """
    if inside:
        return min(interior_passes(workload) / workload.epoch, costs.PROXIMAL_TRON_EPOCHS)
    of_steps = costs.STEPPED_EPOCHS * workload.epoch
    if stepped and (not workload.smooth or workload.tron_passes > of_steps):
        return costs.PROXIMAL_TRON_EPOCHS
    if workload.smooth and workload.kinked:
        return passes_left(workload, 0) / workload.epoch
    if workload.smooth:
        passes = min(newton_from_here(workload, 1.0), workload.tron_passes)
        return passes / workload.epoch
    if workload.n_features > costs.LARGEST_HESSIAN and not workload.blocks:
        return costs.PROXIMAL_TRON_EPOCHS
    epochs = costs.FINISH_STEPS * (1.0 + workload.gram / costs.EPOCH_PASSES)
    return costs.PROXIMAL_FACTOR * epochs


def tron_cost(workload: Workload) -> float:
    """Foresee the work of TRON in passes; infinite for several margins a row.

    Its preconditioners take classes apart: 523 passes where Newton's method took 20.
    """
    return workload.tron_passes if workload.outputs == 1 else math.inf


def lbfgs_cost(workload: Workload) -> float:
    """Foresee the passes of L-BFGS for several margins a row; TRON takes fewer for one."""
    if workload.outputs == 1:
        return math.inf
    return costs.OUTPUT_LBFGS_PASSES * workload.lbfgs_iteration + workload.class_blocks


def sdca_cost(workload: Workload) -> float:
    """Foresee the passes of dual ascent.

    With a smooth loss it converges linearly, so epochs are proportional to the digits of `tol`.
    """
    if not workload.smooth:
        return costs.CORNER_EPOCHS * workload.digits * workload.epoch
    more = costs.EPOCHS_PER_RATIO * workload.row_ratio**costs.EPOCHS_POWER
    epochs = costs.SDCA_EPOCHS + more
    stepped = workload.jumps and workload.samples and not workload.kinked  # see `takes_steps`
    if stepped and workload.n_features > costs.LARGEST_HESSIAN:
        epochs = min(epochs, costs.STEPPED_EPOCHS)
    return costs.SEEN_EPOCH_COST * workload.digits * epochs * workload.epoch


TRON = SolverSpec(
    "tron",
    tron_then_newton,
    max_iter=1000,
    settings=("tol", "automatic"),
    opens=True,
    cost=tron_cost,
)
LBFGS = SolverSpec("lbfgs", lbfgs_or_blocks, max_iter=2000, cost=lbfgs_cost)
SDCA = SolverSpec(
    "sdca",
    sdca_then_newton,
    max_iter=1000,
    options={**OPTIONS, "polish": check_optional_flag},
    settings=("tol", "random_state", "automatic"),
    solves_dual=True,
    takes_kinks=True,
    opens=True,
    cost=sdca_cost,
)
