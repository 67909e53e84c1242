"""Newton's method for many problems at once: Hessians are shared between folds and values of C, gradients are exact.

Problems that differ by a fifth of the rows, or by C where rows are many, have optima close to each other. So they
start from common points, found on samples of the rows, where one sweep gives all of them their gradient and Hessian
(sums over groups of rows are put together anew for each problem). From then on a sweep over the rows is products of a
tile of X with all of W, and a problem keeps its Hessian as long as that serves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from daskglm.joint import Columns, Found, Frame, Joint
from daskglm.report import Reason

SAMPLES = (64, 8)  # one over the shares of the rows that starting points are found on
SAMPLED_ROWS = 50  # least rows of a sample, per coefficient
SAMPLE_STEPS = 20
SMALL = 1e-3  # relative decrement^2 at which a sample's problem is solved well enough
NEAR = 0.05  # root mean square difference of margins within which values of C share a common point
SLOW = 0.01  # decrement^2 must shrink to this by a step, or the problem gets a Hessian of its own
SHORTEN, STALL = 0.25, 6  # factor of a step that did not lower the objective; how often it may be shortened
ROUNDING = 16 * np.finfo(float).eps
HESSIAN_BYTES = 1 << 29  # of all Hessians of one request


@dataclass
class Solved:
    """Where each problem ended (`found`), bounds on its relative gap, why, and after how many iterations."""

    found: Found
    gaps: np.ndarray
    reasons: list[Reason]
    n_iter: np.ndarray
    history: list[dict[str, float]] = field(default_factory=list)


def together(joint: Joint, columns: Columns, start: np.ndarray | None, *, tol: float, max_iter: int) -> Solved:
    """Solve all problems to a proved relative gap of `tol`, or to where floating point or `max_iter` ends it.

    `start` (P, size) is where problems start, the same for those of one class and C; default: found on samples.
    Cost: a pass over samples of the rows, one joint pass for common Hessians, then one or two joint passes; problems
    drop out as they are solved. Small data: some ten joint passes.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a step too long is told by its value
        state = _State(joint, columns, *_common(joint, columns, start), tol)
        for iteration in range(1, max_iter + 1):
            state.advance(iteration)
            if not state.active.any():
                break
    return state.solved()


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
        self.W, self.steps = W, steps
        self.values, self.decrements = values, np.full(P, math.inf)
        self.gradients = np.zeros((P, size))
        self.losses, self.counts, self.moved = np.zeros(P), np.zeros((P, 4)), np.zeros(P)
        self.gaps, self.n_iter = np.full(P, math.inf), np.zeros(P, np.int32)
        self.active, self.fresh = np.ones(P, bool), np.zeros(P, bool)
        self.short = np.zeros(P, int)
        self.reasons = [Reason.MAX_ITER] * P
        self.history: list[dict[str, float]] = []

    def advance(self, iteration: int) -> None:
        """Try the next step of every problem that is not solved. Cost: 1 joint pass; more if Hessians fill memory."""
        active = np.flatnonzero(self.active)
        room = max(1, int(HESSIAN_BYTES // (8 * self.joint.size**2)))
        wanted = np.cumsum(self.fresh[active]) // room
        for share in range(int(wanted.max(initial=0)) + 1):
            self._try(active[wanted == share], iteration)
        done = ~self.active
        self.history.append(
            {
                "iteration": iteration, "problems": len(active), "converged": int(done.sum()),
                "relative_gap": float(self.gaps.max()), "passes": self.joint.passes, "rounds": self.joint.rounds,
            }
        )  # fmt: skip

    def _try(self, which: np.ndarray, iteration: int) -> None:
        columns, trial = self.columns.take(which), self.W[which] + self.steps[which]
        gram = np.flatnonzero(self.fresh[which])
        frames = [self.frames[p] for p in which]
        found = self.joint.evaluate(columns, trial, gram, frames=frames)
        for q, k in enumerate(gram.tolist()):
            if np.isfinite(found.hessians[q]).all():
                frames[k], found.moved[k] = Frame.of(trial[k], found.hessians[q]), 0.0
        gaps = self.joint.bounds(columns, found, frames)
        for k, p in enumerate(which.tolist()):
            self.n_iter[p] = iteration
            if not found.values[k] <= self.values[p] + ROUNDING * abs(self.values[p]) and not gaps[k] <= self.tol:
                self._shorten(p)
                continue
            self.W[p], self.values[p], self.gradients[p] = trial[k], found.values[k], found.gradients[k]
            self.losses[p], self.counts[p], self.gaps[p] = found.losses[k], found.counts[k], gaps[k]
            self.frames[p], self.short[p], self.moved[p] = frames[k], 0, found.moved[k]
            if gaps[k] <= self.tol:
                self._end(p, Reason.CONVERGED)
            else:
                self._next(p)

    def _next(self, p: int) -> None:
        """Newton's step from where problem p is; a Hessian of its own for it if the last step gained little."""
        frame = self.frames[p]
        self.steps[p], square = frame.step(self.gradients[p])
        self.fresh[p] = square > SLOW * self.decrements[p]
        if square <= ROUNDING * ROUNDING * abs(self.values[p]):
            self._end(p, Reason.NO_PROGRESS)
        self.decrements[p] = square

    def _shorten(self, p: int) -> None:
        """Shorten the step that problem p tried, and ask for a Hessian where it leads."""
        self.steps[p] *= SHORTEN
        self.short[p] += 1
        self.fresh[p] = True
        if self.short[p] > STALL:
            self._end(p, Reason.NO_PROGRESS)

    def _end(self, p: int, reason: Reason) -> None:
        self.active[p], self.reasons[p] = False, reason

    def solved(self) -> Solved:
        """What has become of all problems."""
        found = Found(self.W, self.values, self.gradients, self.losses, self.counts, np.empty((0, 0, 0)), self.moved)
        return Solved(found, self.gaps, self.reasons, self.n_iter, self.history)


# ---------------------------------------------------------------------------- where to start
def _common(
    joint: Joint, columns: Columns, start: np.ndarray | None
) -> tuple[list[Frame], np.ndarray, np.ndarray, np.ndarray]:
    """Common points, one for problems near each other: every problem's Hessian, start, value and first step there."""
    kinds, place = np.unique(np.stack([columns.of, columns.C]), axis=1, return_inverse=True)
    place = np.ravel(place)
    heads = Columns(kinds[0].astype(columns.of.dtype), np.full(kinds.shape[1], -1), kinds[1])
    if start is None:
        W, hessians = _on_samples(joint, heads)
        common, head = _gather(joint, heads, W, hessians)
    else:
        W = np.empty((len(heads), joint.size))
        W[place] = start
        common = head = np.arange(len(heads))
    room = max(1, int(HESSIAN_BYTES // (8 * joint.size**2 * len(joint.roles))))
    runs = [common[k : k + room] for k in range(0, len(common), room)]
    parts = [part for run in runs for part in zip(*joint.by_group(heads.of[run], W[run]), strict=True)]
    points = [W[k].copy() for k in common]
    frames: list[Frame] = []
    starts, steps, values = np.empty((len(columns), joint.size)), np.empty((len(columns), joint.size)), []
    for p in range(len(columns)):
        k = int(head[place[p]])
        losses, gradients, grams = parts[k]
        w, trained, C = points[k], joint.trained(int(columns.fold[p])), columns.C[p]
        hessian = C * np.einsum("g,gij->ij", trained, grams) + np.diag(joint.penalised)
        frames.append(Frame.of(w, hessian))
        starts[p] = w
        values.append(C * (trained @ losses) + 0.5 * w @ (joint.penalised * w))
        steps[p] = frames[-1].step(C * (trained @ gradients) + joint.penalised * w)[0]
    return frames, starts, np.array(values), steps


def _gather(joint: Joint, heads: Columns, W: np.ndarray, hessians: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads that serve as common points, and which of these serves each head: C in order, runs of near ones."""
    common: list[int] = []
    served = np.empty(len(heads), int)
    for p in range(len(heads)):  # ordered by class, then C
        if common and heads.of[common[-1]] == heads.of[p]:
            move, k = W[p] - W[common[-1]], common[-1]
            weight = heads.C[k] * joint.weights.sum() * min(joint.loss.smoothness, 1.0)
            if float(move @ (hessians[k] @ move)) <= NEAR**2 * weight:
                served[p] = len(common) - 1
                continue
        common.append(p)
        served[p] = len(common) - 1
    return np.array(common), served


def _on_samples(joint: Joint, heads: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Solve the problem of each head roughly on growing parts of the rows, or on all of them where they are few."""
    W, hessians = np.zeros((len(heads), joint.size)), np.empty((len(heads), joint.size, joint.size))
    n = joint.engine.facts.n_rows
    samples = [every for every in SAMPLES if n >= SAMPLED_ROWS * joint.size * every]
    for every in samples or [1]:
        active = np.arange(len(heads))
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
                steps[p], square = Frame.of(trial[k], found.hessians[k]).step(found.gradients[k])
                if square > SMALL * abs(values[p]) * (every / n if len(samples) else 1e-3):
                    left.append(p)
            active = np.array(left, int)
            if not len(active):
                break
    return W, hessians
