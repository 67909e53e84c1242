"""Two solvers in turn: dual ascent or L-BFGS while they are cheap, then Newton's method for the
last digits.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.dual import Dual
from daskglm.objectives.primal import SAME_VALUE, Objective, Point
from daskglm.solvers.lbfgs import lbfgs
from daskglm.solvers.newton import newton
from daskglm.solvers.proximal_point import proximal_points
from daskglm.solvers.sdca import plan_of, sdca
from daskglm.solvers.tron import tron

EXACT = 1e-5  # tolerances from here on may be met cheaper by a second-order method
PATIENCE = 5.0  # times the epochs left that the second stage may take in passes, which cost less,
LEVEL = 3  # points in turn that are level in floating point, after which the dual bounds them:
RELUCTANT = 10.0  # times as many epochs left for tolerances above
LOST = 5  # rounds in turn above the value of w = 0, after which the ascent is given up
LEAST_PASSES, MOST_PASSES, MOST_OF_HINGE = 200.0, 500.0, 5000.0  # within these bounds
# epochs that a polish costs: Newton steps, products of conjugate gradients
NEWTON_EPOCHS, TRON_EPOCHS = 4.0, 25.0
GRAM_FEATURES = 60.0  # a Gram costs as much more than an epoch as there are features over this
PROXIMAL = 5.0  # times as many Newton steps for the proximal points of a hinge
LARGEST_GRAM = 1000
LBFGS_PASSES = 60.0  # after which few problems are left that TRON does not end sooner


def sdca_then_newton(
    objective: Objective,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    polish: bool | None = None,
    state: dict[str, Any] | None = None,
    folder: str | None = None,
    **options: Any,
) -> Generator[Point, None, Reason]:
    """Dual coordinate ascent, finished by Newton's method where that is cheaper than the epochs
    still to come.

    Parameters
    ----------
    polish : bool, optional
        Whether the second stage may come: Newton's method (TRON for many features) on the primal,
        for the hinge on proximal points of its dual. Default: where the stop rule is the gap. It
        comes when the epochs left, by the rate of the last five, cost more than some Newton steps
        (for a smooth loss and tol >= 1e-5: ten times as much), or when the ascent has gone astray:
        its points are above w = 0, or it lowers the gap no further.
    state, folder
        Of a solve to go on from, and the files of its dual variables.
    **options
        Of `sdca`.
    """
    smooth = math.isfinite(objective.loss.smoothness)
    allowed = options.get("stop", "gap") == "gap" if polish is None else polish
    # proximal targets differ by less than float32 tells apart
    if not smooth and objective.engine.device != "cpu":
        allowed = False
    patience = 1.0 if tol < EXACT or not smooth or polish else RELUCTANT
    gaps: list[float] = []
    saved = None if state is None or folder is None else (state, folder)
    dual = Dual(objective, w, plan_of(options), options.get("random_state", 0), saved)
    if state is not None and saved is None:  # what was saved is a point of the second stage
        return (yield from _second(objective, dual, w, math.inf)) or Reason.NO_PROGRESS
    ascent = sdca(objective, w, tol=tol, dual=dual, state=state, **options)
    above = 0  # rounds in turn whose value is above that of w = 0
    while True:
        try:
            point = next(ascent)
        except StopIteration as end:
            if allowed and end.value is Reason.STALLED:
                return (
                    yield from _second(objective, dual, point.w, math.inf)
                ) or Reason.NO_PROGRESS
            return end.value
        yield point
        if point.certify is None and not gaps:  # the start, of which no gap is known
            continue
        gaps.append(float(point.gap or 0.0) / max(abs(point.value), np.finfo(float).tiny))
        above = 0 if point.value <= dual.at_zero else above + 1
        left, lost = _epochs_left(gaps, tol), above >= LOST
        if allowed and (lost or left > patience * _polish_epochs(objective, smooth=smooth)):
            passes = min(
                max(PATIENCE * left, LEAST_PASSES), MOST_PASSES if smooth else MOST_OF_HINGE
            )
            reason = yield from _second(objective, dual, point.w, math.inf if lost else passes)
            if reason is not None:
                return reason
            # it took more than the epochs it was to save: the ascent goes on from where it was
            allowed = False


def lbfgs_then_tron(
    objective: Objective,
    w: np.ndarray,
    *,
    polish: bool = False,
    radius: float | None = None,
    **state: Any,
) -> Generator[Point, None, Reason]:
    """L-BFGS; where `polish`, TRON goes on after 60 passes. The other keywords are those of a solve
    to go on from.
    """
    if radius is None:
        most = LBFGS_PASSES if polish else math.inf
        reason, last = yield from _up_to(most, objective, lbfgs(objective, w, **state))
        if last is None or reason is not None:
            return reason or Reason.NO_PROGRESS
        w, state = last.w, {}
    reason, _ = yield from _up_to(
        math.inf, objective, tron(objective, w, radius=radius, **state), by="tron"
    )
    return reason or Reason.NO_PROGRESS


def _up_to(
    passes: float, objective: Objective, points: Generator[Point, None, Reason], **changes: Any
) -> Generator[Point, None, tuple[Reason | None, Point | None]]:
    """Points of a solver, so changed, until it ends or has taken so many passes; returns why it
    ended, and the last.
    """
    start, last = objective.passes, None
    while objective.passes - start < passes:
        try:
            last = replace(next(points), **changes)
        except StopIteration as end:
            return end.value, last
        yield last
    points.close()
    return None, last


def _second(
    objective: Objective, dual: Dual, w: np.ndarray, passes: float
) -> Generator[Point, None, Reason | None]:
    """Newton's method from a point of the ascent; None where it is not done after so many passes.

    An ascent may have gone astray, its values being estimates: where the point is above the best
    one evaluated, which at first is w = 0, the method begins there.
    """
    name, solver = ("newton", newton) if objective.n_features <= LARGEST_GRAM else ("tron", tron)
    if not math.isfinite(objective.loss.smoothness):
        return (yield from _up_to(passes, objective, proximal_points(dual, solver), by=name))[0]
    changes: dict[str, Any] = {"by": name, "resume": lambda: {"state": {}}}
    steps = solver(objective, w)
    first = next(steps)
    if not first.value <= dual.value:
        steps.close()
        steps = solver(objective, dual.kept)
        first = next(steps)
    return (yield from _up_to(passes, objective, _proved(dual, first, steps), **changes))[0]


def _proved(
    dual: Dual, point: Point, rest: Generator[Point, None, Reason]
) -> Generator[Point, None, Reason]:
    """A solver's points from its first; where values are level, one with the bound of the dual
    variables there.

    Rounding keeps gradients from falling further where columns have large means or scales. The dual
    variables balance themselves exactly, so that of an intercept's gradient nothing is left in
    their bound.
    """
    level = 0
    while True:
        yield point
        if level == LEVEL:
            yield _bound_by_dual(dual, point)
        value = point.value
        try:
            point = next(rest)
        except StopIteration as end:
            if level < LEVEL and math.isfinite(value):
                yield _bound_by_dual(dual, point)
            reason: Reason = end.value
            return reason
        level = 0 if point.value < value - SAME_VALUE * abs(value) else level + 1


def _bound_by_dual(dual: Dual, point: Point) -> Point:
    dual.adopt(dual.objective, point.w)
    return dual.certified_point(point.w)


def _epochs_left(gaps: list[float], tol: float) -> float:
    """Epochs until the gap is at most tol, going on at the rate of the last five; none before there
    are five.
    """
    if len(gaps) < 6 or gaps[-1] <= tol:
        return 0.0
    rate = (gaps[-1] / gaps[-6]) ** 0.2
    return (
        math.inf
        if rate >= 1.0
        else math.log(gaps[-1] / tol) / -math.log(rate)
        if tol > 0
        else math.inf
    )


def _polish_epochs(objective: Objective, *, smooth: bool) -> float:
    d = objective.n_features
    steps = NEWTON_EPOCHS * (1.0 + d / GRAM_FEATURES) if d <= LARGEST_GRAM else TRON_EPOCHS
    return steps if smooth else PROXIMAL * steps
