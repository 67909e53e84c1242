"""The only loop that stops, records and calls back.

Solvers yield iterates; this decides when one is good enough.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.outcome import Cost, Iteration, Reason
from daskglm.fitting.checkpoint import CheckpointWriter
from daskglm.fitting.coefficients import coefficient_error
from daskglm.fitting.polish import MOST_STEPS, polished
from daskglm.fitting.unproved import Unproved
from daskglm.objectives.batched import AnyObjective
from daskglm.objectives.primal import SAME_VALUE
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING
from daskglm.solvers.spec import get_solver, solver_names

logger = logging.getLogger("daskglm")

# Iterations without progress in value or gradient after which floating point is exhausted.
STALL = 10
# Share of the value at the start below which the targets are fitted to rounding: the square of a
# residual of 1e-13. Chosen.
EXACT = 1e-26

Callback = Callable[[Iteration], bool | None]
AnyPoint = Any  # a Point, or the BatchPoint of many problems, which offers the same


@dataclass(frozen=True)
class Solution:
    """The best point of a solve, why it ended, and the record of all points."""

    point: AnyPoint
    reason: Reason
    relative_gap: float
    gradient_ratio: float
    coefficient_error: float
    history: list[Iteration]
    cost: Cost


@dataclass(frozen=True)
class StoppingRule:
    """When a solve ends by itself.

    Parameters
    ----------
    tol : float
        Tolerance of `kind`.
    max_iter : int
        Accepted points after the first.
    kind : {"gap", "coefficients"}
        Whether `tol` is for the bound on relative suboptimality or that on the coefficients'
        relative error.
    by_default : bool
        Whether `max_iter` is the first solver's default: another that takes over then has its own.
    """

    tol: float
    max_iter: int
    kind: str = "gap"
    by_default: bool = False

    def most(self, solver: str) -> int:
        """Return how many points may be accepted, the last one by this solver ("": the first)."""
        if not (self.by_default and solver in solver_names()):
            return self.max_iter
        return max(self.max_iter, get_solver(solver).max_iter)

    def met(
        self, objective: AnyObjective, point: AnyPoint, gap: float, norm: float
    ) -> Reason | None:
        """Return the reason to stop at a point of this relative gap and gradient norm, if any.

        Estimates are no reason.
        """
        # least squares with a gradient of zero have their optimum, whatever their value
        if norm == 0.0 and point.prediction is None and objective.loss.is_quadratic:
            return Reason.CONVERGED
        if point.certify is not None:
            return None
        if self.kind == "coefficients":
            enough = coefficient_error(objective, point) <= self.tol
            return Reason.COEFFICIENTS if enough else None
        return Reason.CONVERGED if gap <= self.tol else None


class Record:
    """Clock and counters of one solve, as differences from its start."""

    def __init__(self, objective: AnyObjective) -> None:
        self.objective = objective
        self.engine = objective.engine
        self.start = self._now() - Cost(passes=objective.prepared)
        self.history: list[Iteration] = []
        self.last: AnyPoint | None = None

    def _now(self) -> Cost:
        engine = self.engine
        return Cost(self.objective.passes, engine.rounds, engine.bytes_reduced, time.perf_counter())

    def spent(self) -> Cost:
        """Return the cost since the start."""
        return self._now() - self.start

    def add(self, point: AnyPoint, gap: float, solver: str = "") -> Iteration:
        """Write down one accepted point of a solver."""
        step = 0.0 if self.last is None else point.distance(self.last)
        self.last = point
        cost = self.spent()
        record = Iteration(
            iteration=len(self.history),
            objective=point.value,
            relative_gap=gap,
            gradient_norm=point.gradient_norm,
            step=step,
            estimated=point.certify is not None,
            solver=solver,
            passes=cost.passes,
            rounds=cost.rounds,
            bytes=cost.bytes_reduced,
            seconds=cost.seconds,
        )
        self.history.append(record)
        self.engine.publish(record)
        logger.info(
            "iteration %d: objective %.10g, relative gap %s %.2e, |gradient| %.2e, %.4g passes, "
            "%d rounds, %d bytes, %.3f s",
            record["iteration"],
            record["objective"],
            "about" if record["estimated"] else "<=",
            gap,
            record["gradient_norm"],
            *(cost.passes, cost.rounds, cost.bytes_reduced, cost.seconds),
        )
        return record


class _Best:
    """The point to return: the lowest whose value is not an estimate, w = 0 included if known.

    Of values that differ only by rounding, the one with the smaller bound.
    """

    def __init__(self, zero: AnyPoint | None) -> None:
        self.point = zero
        self.gap = math.inf if zero is None else zero.relative_gap

    def add(self, point: AnyPoint, gap: float) -> None:
        """Take note of a point and its relative gap."""
        if point.certify is None and (self.point is None or self._is_above(point, gap)):
            self.point, self.gap = point, gap

    def _is_above(self, point: AnyPoint, gap: float) -> bool:
        assert self.point is not None
        if point.replaces_earlier:
            return True
        best, value = self.point.value, point.value
        if math.isnan(best) or math.isnan(value):
            return math.isnan(best)
        return not self.gap < gap if abs(value - best) <= SAME_VALUE * abs(best) else value < best

    def found(self, last: AnyPoint, reason: Reason, tol: float) -> tuple[AnyPoint, float, Reason]:
        """Return the best point after the last one, its relative gap, and why the solve ended."""
        if last.certify is not None:
            last = last.certify()
            self.add(last, last.relative_gap)
        if self.point is None or (reason.converged and reason is not Reason.SMALL_CHANGE):
            return last, last.relative_gap, reason
        unproved = reason in (Reason.NO_PROGRESS, Reason.STALLED, Reason.MAX_ITER)
        return self.point, self.gap, Reason.CONVERGED if unproved and self.gap <= tol else reason


class _Stall:
    """Detects a stall: `STALL` points without a fall of the value or of the gradient's norm.

    The value must fall by more than rounding, or the norm to half. A solver that takes over may
    begin elsewhere, and is watched from there.
    """

    def __init__(self) -> None:
        self._watch("")

    def _watch(self, by: str) -> None:
        self.by, self.value, self.norm, self.idle = by, math.inf, math.inf, 0

    def after(self, value: float, norm: float, by: str) -> bool:
        """Take note of a point of a solver; true if it is one too many."""
        if by != self.by:
            self._watch(by)
        if value < self.value - ROUNDING * abs(value) or norm < 0.5 * self.norm:
            self.idle = 0
        else:
            self.idle += 1
        self.value = min(value, self.value)
        self.norm = min(norm, self.norm)
        return self.idle >= STALL


def solve(
    objective: AnyObjective,
    iterates: Iterates,
    rule: StoppingRule,
    *,
    record: Record | None = None,
    zero: AnyPoint | None = None,
    callback: Callback | None = None,
    writer: CheckpointWriter | None = None,
) -> Solution:
    """Take iterates from a solver until one is good enough.

    Stops when the bound on relative suboptimality is at most `tol` of the rule. Where nothing is
    proved (mostly without a penalty) there is no bound: then when Newton's step is expected to
    lower the objective by at most `tol` times its value (see `Unproved`). Where only a rough
    intercept stands between a point and its certificate, the intercept is set to its best value and
    the point evaluated once more.

    Parameters
    ----------
    iterates : generator of Iterate
        A solver at work; it returns the `Reason` for which it ends by itself.
    rule : StoppingRule
    record : Record, optional
        Begun earlier, where a solver was chosen by reading rows, or for `zero`; default: begins
        now.
    zero : Point, optional
        w = 0, where the solver starts elsewhere: its gradient's norm is the measure of the others',
        and it is returned where nothing lower is found. Default: the first point.
    callback : callable, optional
        Gets each `Iteration`; a true answer stops the solve.
    writer : CheckpointWriter, optional
        Writes checkpoints: those that are due before the callback is called, and the last point.
    """
    record, stall = record or Record(objective), _Stall()
    # what overflows proves nothing
    certify: Callable[[AnyPoint], tuple[AnyPoint, float]] = objective.certificate(rule.tol)
    certificate = np.errstate(over="ignore", invalid="ignore")(certify)
    best, point = _Best(zero), zero
    unproved = Unproved(objective, rule.tol)
    start_gradient_norm = math.nan if zero is None else zero.gradient_norm
    iterate: Iterate | None = None
    reason: Reason | None = None
    while reason is None:
        try:
            # a diverging solver is told by its value
            with np.errstate(over="ignore", invalid="ignore"):
                iterate = next(iterates)
        except StopIteration as end:
            reason = end.value
            break
        # the solver resumes from its own point, whose intercept may be another
        own = iterate.point
        point, gap = certificate(own)
        norm = point.gradient_norm
        if math.isnan(start_gradient_norm):
            start_gradient_norm = norm
        iteration = record.add(point, gap, iterate.by)
        if writer is not None and math.isfinite(own.value):
            writer.after(iterate, iteration["iteration"])
        stop = callback is not None and callback(iteration)
        if not math.isfinite(point.value) or (point.gap is None and not math.isfinite(norm)):
            reason = Reason.NOT_FINITE
        elif not iterate.more:
            point, gap, reason = _judged(objective, point, gap, rule, certificate, unproved)
        if reason is None:
            reason = _given_up(
                point,
                iterate.by,
                stall,
                stop=bool(stop),
                late=len(record.history) > rule.most(iterate.by),
            )
            if _ends_exactly(objective, point, gap, reason, record):
                reason = Reason.EXACT
        best.add(point, gap)
    if writer is not None and iterate is not None and math.isfinite(iterate.point.value):
        writer.after(iterate, len(record.history) - 1, last=True)
    assert point is not None
    if reason is Reason.NO_PROGRESS and math.isnan(point.relative_gap) and point.gap is None:
        point, gap, enough = unproved.judge(point, certificate, ended=True)
        best.add(point, gap)
        reason = Reason.SMALL_DECREMENT if enough else reason
    found, gap, reason = best.found(point, reason, rule.tol if rule.kind == "gap" else -math.inf)
    if reason is Reason.NO_PROGRESS and _ends_exactly(objective, found, gap, reason, record):
        reason = Reason.EXACT
    if reason.converged:
        found, gap = _with_all_digits(objective, (found, gap), certificate, rule, record, iterate)
    return Solution(
        found,
        reason,
        gap,
        found.gradient_norm / (start_gradient_norm or 1.0),
        coefficient_error(objective, found),
        record.history,
        record.spent(),
    )


def _with_all_digits(
    objective: AnyObjective,
    found: tuple[AnyPoint, float],
    certificate: Callable[[AnyPoint], tuple[AnyPoint, float]],
    rule: StoppingRule,
    record: Record,
    last: Iterate | None,
) -> tuple[AnyPoint, float]:
    """Return the point that steps beyond `tol` lead to, and its gap."""
    point, gap = found
    by, rough = ("", False) if last is None else (last.by, last.rough)
    moved = len(record.history) > 1
    for _ in range(min(MOST_STEPS, rule.max_iter + 1 - len(record.history))):
        further = polished(objective, point, moved=moved, rough=rough)
        if further is point:
            break
        point, gap = certificate(further)
        record.add(point, gap, by)
    return point, gap


def _judged(
    objective: AnyObjective,
    point: AnyPoint,
    gap: float,
    rule: StoppingRule,
    certificate: Callable[[AnyPoint], tuple[AnyPoint, float]],
    unproved: Unproved,
) -> tuple[AnyPoint, float, Reason | None]:
    """Return a point, its gap, and the reason to stop there if it is good enough.

    Where nothing is proved, the point may come back with a Hessian, and with a gap.
    """
    reason = rule.met(objective, point, gap, point.gradient_norm)
    if reason is not None or not math.isnan(gap):
        return point, gap, reason
    point, gap, enough = unproved.judge(point, certificate)
    if enough:
        return point, gap, Reason.SMALL_DECREMENT
    return point, gap, rule.met(objective, point, gap, point.gradient_norm)


def _ends_exactly(
    objective: AnyObjective, point: AnyPoint, gap: float, reason: Reason | None, record: Record
) -> bool:
    """Return whether all that is left of the value at the start is rounding of the targets.

    Where a coming point may prove that, only if the solve is given up for a `reason`.
    """
    if objective.loss.classifies or not record.history or (reason is None and not math.isnan(gap)):
        return False
    evaluated = point.certify is None and point.prediction is None and point.gap is None
    return evaluated and point.value <= EXACT * record.history[0]["objective"]


def _given_up(point: AnyPoint, by: str, stall: _Stall, *, stop: bool, late: bool) -> Reason | None:
    """Return the reason to stop at a point that is not good enough, if any."""
    if point.gap is None and stall.after(point.value, point.gradient_norm, by):
        return Reason.NO_PROGRESS
    if stop:
        return Reason.CALLBACK
    return Reason.MAX_ITER if late else None
