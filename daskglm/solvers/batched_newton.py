"""Newton's method for many problems at once, which share Hessians between folds and values of C.

The problems start from common points (`batched_start`). From there on one pass over the rows, by
products of tiles of X with all of W, evaluates all of them. Gradients are exact; a problem keeps
its Hessian as long as steps by it gain enough.
"""

from __future__ import annotations

import math

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.batched import BatchEvaluation, BatchObjective, BatchPoint, ProblemBatch
from daskglm.solvers.batched_start import (
    SHORTEN,
    Start,
    hessians_at_once,
    start_at_common_points,
    start_where_they_are,
)
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING


def batched_newton(
    objective: BatchObjective,
    batch: ProblemBatch,
    start: np.ndarray | None = None,
    *,
    tol: float,
    resumed: bool = False,
) -> Iterates:
    """Solve all problems to a proved relative gap of `tol`, or as far as floating point allows.

    Cost: less than a pass over samples of the rows, two passes for common points and their
    Hessians, then one or two passes; problems drop out as they are solved. Small data: some ten
    passes. A resumed solve begins with one pass.

    Parameters
    ----------
    objective : BatchObjective
    batch : ProblemBatch
    start : (P, size) array, optional
        Where problems start, the same for those of one class and C; default: found on samples.
    tol : float
    resumed : bool
        Whether `start` is where each problem of a solve to resume was, which may differ for all.

    Yields
    ------
    Iterate
        With the `BatchPoint` of every problem, after each step of those that are not solved.
    """
    if resumed:
        assert start is not None
        begin = start_where_they_are(objective, batch, start)
    else:
        begin = start_at_common_points(objective, batch, start)
    problems = _Progress(objective, batch, begin, tol)
    objective.survey_if_hidden(batch, problems.W, problems.values, tol)
    problems.take_certain_steps()
    problems.bound_starts()
    while True:
        point = problems.point()
        yield Iterate(point, resume=point.resume)
        if not problems.active.any():
            return Reason.NO_PROGRESS if problems.given_up.any() else Reason.CONVERGED
        problems.advance()


class _Progress:
    """The best point of each problem, with its Hessian and the step to try next."""

    def __init__(
        self, objective: BatchObjective, batch: ProblemBatch, start: Start, tol: float
    ) -> None:
        P = len(batch)
        self.objective = objective
        self.batch = batch
        self.tol = tol
        self.factors, self.W, self.values, self.gradients, self.steps, self.squares = start
        self.losses = np.zeros(P)
        self.counts = np.zeros((P, 4))
        self.scored = np.zeros(P, bool)
        self.gaps = np.full(P, math.inf)
        self.n_iter = np.zeros(P, np.int32)
        self.iteration = 0

        self.decrements = np.full(P, math.inf)  # squared, of the last step
        self.short = np.zeros(P, int)  # how often the step was shortened
        self.fresh = np.zeros(P, bool)  # whether a Hessian is wanted where the step leads
        self.given_up = ~np.isfinite(self.values)  # such values never fall
        self.active = ~self.given_up

    def point(self) -> BatchPoint:
        """Return where all problems are now."""
        return BatchPoint(
            self.objective,
            self.batch,
            self.W.copy(),
            self.values.copy(),
            self.gaps.copy(),
            self.n_iter.copy(),
            self.losses.copy(),
            self.counts.copy(),
            self.scored.copy(),
            self.active.copy(),
            self.given_up.copy(),
            float(np.linalg.norm(self.gradients[~self.given_up])),
        )

    def take_certain_steps(self) -> None:
        """Take the first step for problems that it is proved to solve. Cost: nothing."""
        for p in np.flatnonzero(self.active).tolist():
            value, square = float(self.values[p]), float(self.squares[p])
            value, error, gap = self.objective.ahead(
                self.batch[p], self.factors[p], value, self.steps[p], square
            )
            if gap <= self.tol and error <= self.tol * value:
                self.W[p] += self.steps[p]
                self.values[p], self.gaps[p], self.n_iter[p] = value, gap, 1
                self.gradients[p] = 0.0  # of the quadratic model
                self.active[p] = False

    def bound_starts(self) -> None:
        """End the problems whose starts are proved to be good enough. Cost: nothing."""
        which = np.flatnonzero(self.active)
        points = self.W[which], self.values[which], self.gradients[which]
        factors, batch = [self.factors[p] for p in which], self.batch.take(which)
        self.gaps[which] = self.objective.bounds(batch, points, factors, np.zeros(len(which)))
        self.active[which] = ~(self.gaps[which] <= self.tol)

    def advance(self) -> None:
        """Try the next step of every problem that is not solved.

        Cost: 1 pass and 1 round for all of them; more if Hessians fill memory.
        """
        self.iteration += 1
        active = np.flatnonzero(self.active)
        # each request takes problems up to the number of Hessians that memory holds
        most = max(1, hessians_at_once(self.objective.size))
        share = np.cumsum(self.fresh[active]) // most
        for k in range(int(share.max(initial=0)) + 1):
            self._try(active[share == k])

    def _try(self, which: np.ndarray) -> None:
        """Evaluate the next point of some problems, and accept it where it is better."""
        batch = self.batch.take(which)
        trial = self.W[which] + self.steps[which]
        wanted = np.flatnonzero(self.fresh[which])
        factors = [self.factors[p] for p in which]
        found = self.objective.evaluate(batch, trial, wanted, factors=factors)

        # problems with a new Hessian are bounded by that one, from which nothing has moved
        for q, k in enumerate(wanted.tolist()):
            if np.isfinite(found.hessians[q]).all():
                factors[k] = self.objective.factor(trial[k], found.hessians[q])
                found.moved[k] = 0.0
        points = found.W, found.values, found.gradients
        gaps = self.objective.bounds(batch, points, factors, found.moved)

        for k, p in enumerate(which.tolist()):
            self.n_iter[p] = self.iteration
            done = bool(gaps[k] <= self.tol)
            value = self.values[p]
            if not found.values[k] <= value + ROUNDING * abs(value) and not done:
                self._shorten(p)
                continue

            self.factors[p], self.short[p] = factors[k], 0
            self.gaps[p], self.active[p], self.scored[p] = gaps[k], not done, True
            self._move(p, found, k)
            if not done:
                self._next(p)

    def _move(self, p: int, found: BatchEvaluation, k: int) -> None:
        """Move problem p to evaluated point k."""
        self.W[p], self.values[p] = found.W[k], found.values[k]
        self.gradients[p] = found.gradients[k]
        self.losses[p], self.counts[p] = found.losses[k], found.counts[k]

    def _next(self, p: int) -> None:
        """Find Newton's step from where problem p is.

        The problem gets a Hessian of its own if the last step left more than a hundredth of the
        squared decrement.
        """
        self.steps[p], square = self.factors[p].step(self.gradients[p])
        self.fresh[p] = square > 0.01 * self.decrements[p]
        # a step this short changes nothing that floating point can tell
        if square <= ROUNDING * ROUNDING * abs(self.values[p]):
            self._give_up(p)
        self.decrements[p] = square

    def _shorten(self, p: int) -> None:
        """Shorten the step that problem p tried, at most six times, and ask for a Hessian there."""
        self.steps[p] *= SHORTEN
        self.short[p] += 1
        self.fresh[p] = True
        if self.short[p] > 6:
            self._give_up(p)

    def _give_up(self, p: int) -> None:
        """End problem p at its best point, which is not proved to be good enough."""
        self.active[p], self.given_up[p] = False, True
