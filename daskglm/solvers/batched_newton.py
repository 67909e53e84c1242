"""Newton's method for many problems at once: Hessians are shared between folds and values of C,
gradients are exact.

Problems that differ by a fifth of the rows, or by C where rows are many, have optima close to each
other. So they start from common points, found on samples of the rows, where one sweep gives all of
them their gradient and Hessian (sums over groups of rows are put together anew for each problem).
From then on a sweep over the rows is products of a tile of X with all of W, and a problem keeps its
Hessian as long as that serves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.objectives.batched import Columns, Found, Frame, Joint

SAMPLES = (64, 8)  # one over the shares of the rows that starting points are found on
SAMPLED_ROWS = 50  # least rows of a sample, per coefficient
SAMPLE_STEPS = 20
SMALL = 0.1  # relative decrement^2, times the rows of a sample, at which it is solved well enough
LEAST = 1e-6  # the same where all rows are used
NEAR = 0.05  # root mean square difference of margins within which values of C share a common point
SLOW = 0.01  # decrement^2 must shrink to this by a step, or the problem gets a Hessian of its own
# factor of a step that did not lower the objective; how often it may be shortened
SHORTEN, STALL = 0.25, 6
ROUNDING = 16 * np.finfo(float).eps
HESSIAN_BYTES = 1 << 29  # of all Hessians of one request


@dataclass
class Solved:
    """Where each problem ended (`found`), bounds on its relative gap, why, and after how many
    iterations.
    """

    found: Found
    gaps: np.ndarray
    reasons: list[Reason]
    n_iter: np.ndarray

    def take(self, p: int, found: Found, k: int, gap: float, reason: Reason) -> None:
        """Put down problem k of what was found as where problem p is."""
        for name in ("W", "values", "gradients", "losses", "counts"):
            getattr(self.found, name)[p] = getattr(found, name)[k]
        self.gaps[p], self.reasons[p] = gap, reason


def nowhere(P: int, size: int) -> Solved:
    """Problems that have not begun."""
    W, gradients, values, losses, counts = (
        np.zeros((P, *more)) for more in ((size,), (size,), (), (), (4,))
    )
    unknown = np.empty(0)
    found = Found(W, values + math.inf, gradients, losses, counts, unknown, unknown)
    return Solved(found, np.full(P, math.inf), [Reason.NO_PROGRESS] * P, np.zeros(P, np.int32))


def together(
    joint: Joint, columns: Columns, start: np.ndarray | None, *, tol: float, max_iter: int
) -> Solved:
    """Solve all problems to a proved relative gap of `tol`, or to where floating point or
    `max_iter` ends it.

    `start` (P, size) is where problems start, the same for those of one class and C; default: found
    on samples. Cost: less than a pass over samples of the rows, two joint passes for common points
    and their Hessians, then one or two joint passes; problems drop out as they are solved, and a
    last pass scores those that no pass has seen. Small data: some ten joint passes.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a step too long is told by its value
        frames, W, values, steps, squares = _common(joint, columns, start)
        joint.survey_if_hidden(columns, W, values, tol)
        state = _State(joint, columns, frames, W, values, steps, tol)
        unread = state.foresee(squares)
        for iteration in range(1, max_iter + 1):
            if not state.active.any():
                break
            state.advance(iteration)
    held = unread[columns.fold[unread] >= 0]
    if len(held):
        found = state.solved.found
        found.losses[held], found.counts[held] = joint.score(columns.take(held), found.W[held])
    return state.solved


class _State:
    """All problems on their way: the best point of each, its Hessian, and the step to try next."""

    def __init__(
        self,
        joint: Joint,
        columns: Columns,
        frames: list[Frame],
        W: np.ndarray,
        values: np.ndarray,
        steps: np.ndarray,
        tol: float,
    ) -> None:
        self.joint, self.columns, self.tol = joint, columns, tol
        self.frames = list(frames)
        P, size = W.shape
        self.solved = nowhere(P, size)
        self.solved.found.W[:], self.solved.found.values[:] = W, values
        self.solved.reasons[:] = [Reason.MAX_ITER] * P
        self.steps, self.decrements = steps, np.full(P, math.inf)
        self.active, self.fresh = np.ones(P, bool), np.zeros(P, bool)
        self.short = np.zeros(P, int)

    def foresee(self, squares: np.ndarray) -> np.ndarray:
        """Take the first step, of such squared decrements, of problems that it is certain to solve;
        return which.

        Cost: nothing.
        """
        taken, found = [], self.solved.found
        for p, square in enumerate(squares.tolist()):
            value, error, gap = self.joint.ahead(
                self.frames[p], float(found.values[p]), self.steps[p], square, self.columns, p
            )
            if gap <= self.tol and error <= self.tol * value:
                found.W[p] += self.steps[p]
                found.values[p], self.solved.gaps[p], self.solved.n_iter[p] = value, gap, 1
                self.solved.reasons[p], self.active[p] = Reason.CONVERGED, False
                taken.append(p)
        return np.array(taken, int)

    def advance(self, iteration: int) -> None:
        """Try the next step of every problem that is not solved. Cost: 1 joint pass; more if
        Hessians fill memory.
        """
        active = np.flatnonzero(self.active)
        room = max(1, int(HESSIAN_BYTES // (8 * self.joint.size**2)))
        wanted = np.cumsum(self.fresh[active]) // room
        for share in range(int(wanted.max(initial=0)) + 1):
            self._try(active[wanted == share], iteration)

    def _try(self, which: np.ndarray, iteration: int) -> None:
        at = self.solved.found
        columns, trial = self.columns.take(which), at.W[which] + self.steps[which]
        gram = np.flatnonzero(self.fresh[which])
        frames = [self.frames[p] for p in which]
        found = self.joint.evaluate(columns, trial, gram, frames=frames)
        for q, k in enumerate(gram.tolist()):
            if np.isfinite(found.hessians[q]).all():
                frames[k], found.moved[k] = self.joint.frame(trial[k], found.hessians[q]), 0.0
        gaps = self.joint.bounds(columns, found, frames)
        for k, p in enumerate(which.tolist()):
            self.solved.n_iter[p] = iteration
            done = gaps[k] <= self.tol
            if not found.values[k] <= at.values[p] + ROUNDING * abs(at.values[p]) and not done:
                self._shorten(p)
                continue
            self.solved.take(
                p, found, k, float(gaps[k]), Reason.CONVERGED if done else Reason.MAX_ITER
            )
            self.frames[p], self.short[p], self.active[p] = frames[k], 0, not done
            if not done:
                self._next(p)

    def _next(self, p: int) -> None:
        """Newton's step from where problem p is; a Hessian of its own for it if the last step
        gained little.
        """
        self.steps[p], square = self.frames[p].step(self.solved.found.gradients[p])
        self.fresh[p] = square > SLOW * self.decrements[p]
        if square <= ROUNDING * ROUNDING * abs(self.solved.found.values[p]):
            self._give_up(p)
        self.decrements[p] = square

    def _shorten(self, p: int) -> None:
        """Shorten the step that problem p tried, and ask for a Hessian where it leads."""
        self.steps[p] *= SHORTEN
        self.short[p] += 1
        self.fresh[p] = True
        if self.short[p] > STALL:
            self._give_up(p)

    def _give_up(self, p: int) -> None:
        self.active[p], self.solved.reasons[p] = False, Reason.NO_PROGRESS


# ---- where to start
def _common(
    joint: Joint, columns: Columns, start: np.ndarray | None
) -> tuple[list[Frame], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Common points, one for problems near each other.

    Returns every problem's Hessian, start, value and first step there, with the square of its
    decrement.
    """
    kinds, place = np.unique(np.stack([columns.of, columns.C]), axis=1, return_inverse=True)
    place = np.ravel(place)
    heads = Columns(kinds[0].astype(columns.of.dtype), np.full(kinds.shape[1], -1), kinds[1])
    if start is None:
        W, common, head = _on_samples(joint, heads)
    else:
        W = np.empty((len(heads), joint.size))
        W[place] = start
        common = head = np.arange(len(heads))
    room = max(1, int(HESSIAN_BYTES // (8 * joint.size**2 * len(joint.roles))))
    runs = [common[k : k + room] for k in range(0, len(common), room)]
    points = [W[k].copy() for k in common]
    while True:
        parts = [
            part
            for run in runs
            for part in zip(*joint.by_group(heads.of[run], W[run]), strict=True)
        ]
        found = _steps_from(joint, columns, points, parts, head[place])
        if not joint.must_be_exact(found[0]):
            return found


def _steps_from(
    joint: Joint, columns: Columns, points: list[np.ndarray], parts: list[Any], at: np.ndarray
) -> tuple[list[Frame], np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `_common` returns, from sums by group at the points, of which each problem starts at
    number `at`.
    """
    frames: list[Frame] = []
    starts, steps = np.empty((len(columns), joint.size)), np.empty((len(columns), joint.size))
    values, squares = np.empty(len(columns)), np.empty(len(columns))
    for p in range(len(columns)):
        k = int(at[p])
        losses, gradients, grams = parts[k]
        w, trained, C = points[k], joint.trained(int(columns.fold[p])), columns.C[p]
        hessian = C * np.einsum("g,gij->ij", trained, grams) + np.diag(joint.penalised)
        frames.append(joint.frame(w, hessian))
        starts[p] = w
        values[p] = C * (trained @ losses) + 0.5 * w @ (joint.penalised * w)
        steps[p], squares[p] = frames[-1].step(C * (trained @ gradients) + joint.penalised * w)
    return frames, starts, values, steps, squares


def _gather(
    joint: Joint, heads: Columns, W: np.ndarray, hessians: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Heads that serve as common points, and which of these serves each head: runs of near ones
    from the largest C.

    Solutions for large C are next to each other, whatever C is.
    """
    common: list[int] = []
    served = np.empty(len(heads), int)
    for p in reversed(range(len(heads))):  # ordered by class, then C
        if common and heads.of[common[-1]] == heads.of[p]:
            move, k = W[p] - W[common[-1]], common[-1]
            weight = heads.C[k] * joint.weights.sum() * min(joint.loss.smoothness, 1.0)
            if float(move @ (hessians[k] @ move)) <= NEAR**2 * weight:
                served[p] = len(common) - 1
                continue
        common.append(p)
        served[p] = len(common) - 1
    return np.array(common), served


def _on_samples(joint: Joint, heads: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve the problem of each head roughly on a part of the rows, or on all of them where they
    are few.

    Returns the points, and what `_gather` does. Those that serve as common points are solved on a
    larger part too, and brought next to the optimum of all rows by a step with the exact gradient.
    Cost: that pass, and less than one more.
    """
    W, hessians = np.zeros((len(heads), joint.size)), np.empty((len(heads), joint.size, joint.size))
    n = joint.engine.facts.n_rows
    samples = [every for every in SAMPLES if n >= SAMPLED_ROWS * joint.size * every]
    for every in samples[:1] or [1]:
        _solve_on(
            joint,
            heads,
            np.arange(len(heads)),
            every,
            SMALL * every / n if samples else LEAST,
            W,
            hessians,
        )
    common, served = _gather(joint, heads, W, hessians)
    for every in samples[1:]:
        _solve_on(joint, heads, common, every, SMALL * every / n, W, hessians)
    if samples:
        found = joint.evaluate(heads.take(common), W[common], np.empty(0, int))
        frames = [joint.frame(W[p], hessians[p]) for p in common]
        joint.must_be_exact(frames)
        for k, p in enumerate(common):
            W[p] += frames[k].step(found.gradients[k])[0]
    return W, common, served


def _solve_on(
    joint: Joint,
    heads: Columns,
    active: np.ndarray,
    every: int,
    small: float,
    W: np.ndarray,
    hessians: np.ndarray,
) -> None:
    """Newton's method for some heads on one of `every` tiles of the rows, until decrement^2 is
    relatively `small`.
    """
    values, steps = np.full(len(heads), math.inf), np.zeros_like(W)
    for _ in range(SAMPLE_STEPS):
        trial = W[active] + steps[active]
        found = joint.evaluate(heads.take(active), trial, np.arange(len(active)), (every, 0))
        left = []
        for k, p in enumerate(active):
            if not found.values[k] <= values[p] * (1.0 + ROUNDING):
                steps[p] *= SHORTEN
                left.append(p)
                continue
            W[p], values[p], hessians[p] = trial[k], found.values[k], found.hessians[k]
            steps[p], square = joint.frame(trial[k], found.hessians[k]).step(found.gradients[k])
            if square > small * abs(values[p]):
                left.append(p)
        active = np.array(left, int)
        if not len(active):
            break
