"""The only loop that stops, records, warns and calls back. Solvers yield points; this decides when
one is enough.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from daskglm.core.outcome import Iteration, Reason
from daskglm.fitting.checkpoint import Keeper
from daskglm.fitting.coefficients import coefficient_error
from daskglm.objectives.primal import SAME_VALUE, Objective, Point

# iterations without progress in value or gradient after which floating point is held to be
# exhausted
STALL = 10
ROUNDING = 16 * np.finfo(float).eps

Callback = Callable[[Iteration], bool | None]


@dataclass(frozen=True)
class Solution:
    """The best point of a solve, why it ended, and the record of all points."""

    point: Point
    reason: Reason
    relative_gap: float
    gradient_ratio: float
    coefficient_error: float
    history: list[Iteration]
    passes: float
    rounds: int
    bytes_reduced: int
    seconds: float


def relative_gap(objective: Objective, point: Point) -> float:
    """Bound on (value - optimum) / optimum: the bound on the excess over the least the optimum can
    then be.

    The bound is the duality gap where a point has one; the least value is then the dual's.
    """
    bound = objective.bound(point) if point.gap is None else point.gap
    if bound == 0.0:
        return 0.0
    least = point.value - bound
    return bound / least if least > 0 or math.isnan(least) else math.inf


class Record:
    """Clock and counters of one solve, as differences from its start."""

    def __init__(self, objective: Objective) -> None:
        self.objective, self.engine = objective, objective.engine
        self.start = time.perf_counter()
        self.passes, self.rounds, self.bytes = (
            objective.passes,
            self.engine.rounds,
            self.engine.bytes_reduced,
        )
        self.history: list[Iteration] = []
        self.last: Point | None = None

    def spent(self) -> tuple[float, int, int, float]:
        """Passes, rounds, bytes and seconds since the start."""
        return (
            self.objective.passes - self.passes,
            self.engine.rounds - self.rounds,
            self.engine.bytes_reduced - self.bytes,
            time.perf_counter() - self.start,
        )

    def add(self, point: Point, gap: float) -> Iteration:
        """Write down one accepted point."""
        step = 0.0 if self.last is None else point.distance(self.last)
        self.last = point
        passes, rounds, size, seconds = self.spent()
        record = Iteration(
            iteration=len(self.history),
            objective=point.value,
            relative_gap=gap,
            gradient_norm=point.gradient_norm,
            step=step,
            estimated=point.certify is not None,
            solver=point.by,
            passes=passes,
            rounds=rounds,
            bytes=size,
            seconds=seconds,
        )
        self.history.append(record)
        return record


class _Certificate:
    """Bounds points, and settles the intercept where only that stands between a point and a bound
    of `tol`.
    """

    def __init__(self, objective: Objective, tol: float) -> None:
        self.objective, self.tol = objective, tol
        self.settle_below = 0.5 * tol if objective.fit_intercept and objective.penalty else -1.0

    def of(self, point: Point) -> tuple[Point, float]:
        """The point, or a better one with the same coefficients of features, and its relative
        gap.
        """
        gap = relative_gap(self.objective, point)
        if not gap > self.tol or point.gap is not None:
            return point, gap
        features = self.objective.feature_bound(point) / max(point.value, np.finfo(float).tiny)
        settle = features <= self.settle_below
        if settle:
            # a settled point that still fails is not tried again at once
            self.settle_below = 0.1 * features
            point = self.objective.with_near_intercept(point)
            gap = relative_gap(self.objective, point)
        if gap > self.tol and self.objective.is_hidden(point, self.tol):
            self.objective.survey()
            point = replace(point)  # what its bounds were is kept with it
            gap = relative_gap(self.objective, point)
        if not (settle and gap > self.tol):
            return point, gap
        settled = replace(self.objective.with_best_intercept(point), by=point.by)
        settled = self.objective.with_near_intercept(settled)
        better = relative_gap(self.objective, settled)
        return (settled, better) if better < gap else (point, gap)


class _Best:
    """The point to return: the lowest of those whose values are not estimates, w = 0 included where
    it is known.

    Of values that only rounding tells apart, the one with the smaller bound.
    """

    def __init__(self, objective: Objective, zero: Point | None) -> None:
        self.objective, self.point = objective, zero
        self.gap = math.inf if zero is None else relative_gap(objective, zero)

    def add(self, point: Point, gap: float) -> None:
        """Take note of a point and its relative gap."""
        if point.certify is None and (self.point is None or self._is_above(point, gap)):
            self.point, self.gap = point, gap

    def _is_above(self, point: Point, gap: float) -> bool:
        assert self.point is not None
        best, value = self.point.value, point.value
        if math.isnan(best) or math.isnan(value):
            return math.isnan(best)
        return not self.gap < gap if abs(value - best) <= SAME_VALUE * abs(best) else value < best

    def found(self, last: Point, reason: Reason, tol: float) -> tuple[Point, float, Reason]:
        """The point to return after the last one, its relative gap, and why the solve ended in the
        light of that.
        """
        if last.certify is not None:
            last = last.certify()
            self.add(last, relative_gap(self.objective, last))
        if self.point is None or (reason.converged and reason is not Reason.SMALL_CHANGE):
            return last, relative_gap(self.objective, last), reason
        unproved = reason in (Reason.NO_PROGRESS, Reason.STALLED, Reason.MAX_ITER)
        return self.point, self.gap, Reason.CONVERGED if unproved and self.gap <= tol else reason


class _Stall:
    """Tells when neither the value falls beyond rounding nor the gradient's norm halves for `STALL`
    points.
    """

    def __init__(self) -> None:
        self.value, self.norm, self.idle = math.inf, math.inf, 0

    def after(self, value: float, norm: float) -> bool:
        """Take note of a point; true if it is one too many."""
        if value < self.value - ROUNDING * abs(value) or norm < 0.5 * self.norm:
            self.idle = 0
        else:
            self.idle += 1
        self.value, self.norm = min(value, self.value), min(norm, self.norm)
        return self.idle >= STALL


def _rule_met(
    objective: Objective, point: Point, gap: float, norm: float, tol: float, stop: str
) -> Reason | None:
    """The rule by which a point of this relative gap and gradient norm is good enough; estimates
    prove nothing.
    """
    if norm == 0.0:
        return Reason.CONVERGED
    if point.certify is not None:
        return None
    if stop == "coefficients":
        return Reason.COEFFICIENTS if coefficient_error(objective, point) <= tol else None
    return Reason.CONVERGED if gap <= tol else None


def solve(
    objective: Objective,
    points: Iterator[Point],
    *,
    tol: float,
    max_iter: int,
    stop: str = "gap",
    record: Record | None = None,
    zero: Point | None = None,
    callback: Callback | None = None,
    keeper: Keeper | None = None,
) -> Solution:
    """Take points from a solver until one is good enough.

    Stops when the bound on relative suboptimality is at most `tol`. Without a penalty there is no
    bound: then when the gradient's norm is at most `tol` times its norm at w = 0. Where only a
    rough intercept stands between a point and its certificate, the intercept is set to its best
    value and the point evaluated once more.

    Parameters
    ----------
    points : iterator of Point
        A solver at work; what it returns at its end is the `Reason`.
    max_iter : int
        Accepted points after the first.
    stop : {"gap", "coefficients"}
        Whether `tol` is for the bound on relative suboptimality or that on the coefficients'
        relative error.
    record : Record, optional
        Begun earlier, where a solver was chosen by reading rows, or for `zero`; default: begins
        now.
    zero : Point, optional
        w = 0, where the solver starts elsewhere: its gradient's norm is the measure of the others',
        and it is returned where nothing lower is found. Default: the first point.
    callback : callable, optional
        Gets each `Iteration`; a true answer stops the solve.
    keeper : Keeper, optional
        Writes checkpoints: those that are due before the callback is called, and the last point.
    """
    record, stall, certificate = record or Record(objective), _Stall(), _Certificate(objective, tol)
    best, point = _Best(objective, zero), zero
    start_gradient_norm = math.nan if zero is None else zero.gradient_norm
    met: Point | None = None  # as its solver made it, without a settled intercept
    reason: Reason | None = None
    while reason is None:
        try:
            # a diverging solver is told by its value
            with np.errstate(over="ignore", invalid="ignore"):
                point = next(points)
        except StopIteration as end:
            reason = end.value
            break
        met = point
        point, gap = certificate.of(point)
        norm = point.gradient_norm
        if math.isnan(start_gradient_norm):
            start_gradient_norm = norm
        iteration = record.add(point, gap)
        if keeper is not None and math.isfinite(met.value):
            keeper.after(met, iteration["iteration"])
        enough = callback is not None and callback(iteration)
        if not math.isfinite(point.value) or (point.gap is None and not math.isfinite(norm)):
            reason = Reason.NOT_FINITE
        elif (met_rule := _rule_met(objective, point, gap, norm, tol, stop)) is not None:
            reason = met_rule
        elif not objective.penalty and norm <= tol * start_gradient_norm:
            reason = Reason.SMALL_GRADIENT
        elif point.gap is None and stall.after(point.value, norm):
            reason = Reason.NO_PROGRESS
        elif enough:
            reason = Reason.CALLBACK
        elif len(record.history) > max_iter:
            reason = Reason.MAX_ITER
        best.add(point, gap)
    if keeper is not None and met is not None and math.isfinite(met.value):
        keeper.after(met, len(record.history) - 1, last=True)
    assert point is not None
    found, gap, reason = best.found(point, reason, tol if stop == "gap" else -math.inf)
    return Solution(
        found,
        reason,
        gap,
        found.gradient_norm / (start_gradient_norm or 1.0),
        coefficient_error(objective, found),
        record.history,
        *record.spent(),
    )
