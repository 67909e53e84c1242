"""Where the problems of a batch start: points that several of them share, found on samples of the
rows.

Problems that differ by a fifth of the rows, or by C where rows are many, have optima close to each
other. One sweep at a common point gives all of them their gradient and Hessian, since sums over
groups of rows can be put together anew for each problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from daskglm.objectives.batched import BatchObjective, ProblemBatch
from daskglm.objectives.bounds import HessianFactor
from daskglm.solvers.line_search import ROUNDING

# a sample has one row of so many, the second being the larger one
SAMPLES = (64, 8)
SAMPLED_ROWS = 50  # least rows of a sample for each coefficient
SAMPLE_STEPS = 20  # Newton steps on one sample, at most
# a sample of m rows is solved when the squared Newton decrement is at most this over m, relatively
SAMPLE_TOL = 0.1
ALL_ROWS_TOL = 1e-6  # the same where the rows are so few that all of them are used
# values of C share a common point if their margins differ by at most this (root mean square)
NEAR = 0.05
# factor of a step that did not lower the objective
SHORTEN = 0.25
BATCH_BYTES = 1 << 29  # memory of all Hessians of one request, at most


class Start(NamedTuple):
    """Where every problem starts: coefficients, values, and its Hessian with Newton's first step.

    `squares` are the squared Newton decrements there.
    """

    factors: list[HessianFactor]
    W: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    steps: np.ndarray
    squares: np.ndarray

    @classmethod
    def at(
        cls,
        W: np.ndarray,
        values: np.ndarray,
        gradients: np.ndarray,
        factors: list[HessianFactor],
    ) -> Start:
        """A start at evaluated points, with Newton's steps there."""
        steps, squares = np.empty_like(W), np.empty(len(W))
        for p, factor in enumerate(factors):
            steps[p], squares[p] = factor.step(gradients[p])
        return cls(factors, W, values, gradients, steps, squares)


def runs_of(which: np.ndarray, objective: BatchObjective, each: int = 1) -> Iterator[np.ndarray]:
    """Cut problems into runs whose Hessians, `each` for a problem, fit into BATCH_BYTES."""
    most = max(1, int(BATCH_BYTES // (8 * objective.size**2 * each)))
    return (which[k : k + most] for k in range(0, len(which), most))


# ---- starts
def start_at_common_points(
    objective: BatchObjective, batch: ProblemBatch, W: np.ndarray | None
) -> Start:
    """Start at common points, one for problems near each other.

    `W` (P, size), the same for problems of one class and C, gives the points; default: they are
    found on samples. Cost: 1 pass, 1 round, and without `W` less than two passes more. More rounds
    if Hessians fill memory; one more of everything if Hessians must be summed in float64.
    """
    kinds, place = np.unique(np.stack([batch.of, batch.C]), axis=1, return_inverse=True)
    place = np.ravel(place)
    heads = ProblemBatch(kinds[0].astype(batch.of.dtype), np.full(kinds.shape[1], -1), kinds[1])
    if W is None:
        points, common, head = _on_samples(objective, heads)
    else:
        points = np.empty((len(heads), objective.size))
        points[place] = W
        common = head = np.arange(len(heads))

    while True:
        sums = [
            sums
            for run in runs_of(common, objective, len(objective.roles))
            for sums in zip(*objective.by_group(heads.of[run], points[run]), strict=True)
        ]
        start = _from_groups(objective, batch, points[common], sums, head[place])
        if not objective.must_be_exact(start.factors):
            return start


def start_where_they_are(objective: BatchObjective, batch: ProblemBatch, W: np.ndarray) -> Start:
    """Start each problem at a point of its own, with a Hessian of its own: to resume a solve.

    Cost: 1 pass, 1 round; more rounds if Hessians fill memory.
    """
    values, gradients = np.empty(len(batch)), np.empty_like(W)
    while True:
        factors = []
        for run in runs_of(np.arange(len(batch)), objective):
            found = objective.evaluate(batch.take(run), W[run], np.arange(len(run)))
            values[run], gradients[run] = found.values, found.gradients
            factors += [objective.factor(W[p], found.hessians[k]) for k, p in enumerate(run)]
        if not objective.must_be_exact(factors):
            return Start.at(W.copy(), values, gradients, factors)


def _from_groups(
    objective: BatchObjective,
    batch: ProblemBatch,
    points: np.ndarray,
    sums: list[Any],
    at: np.ndarray,
) -> Start:
    """Put together each problem's start from the sums by group at common point number `at`."""
    anchors = list(points)  # one array for all problems that start there
    factors: list[HessianFactor] = []
    values, gradients = np.empty(len(batch)), np.empty((len(batch), objective.size))
    for p, k in enumerate(at.tolist()):
        (losses, slopes, grams), w = sums[k], anchors[k]
        trained, C = objective.trained(int(batch.fold[p])), batch.C[p]
        hessian = C * np.einsum("g,gij->ij", trained, grams) + np.diag(objective.penalised)
        factors.append(objective.factor(w, hessian))
        values[p] = C * (trained @ losses) + 0.5 * w @ (objective.penalised * w)
        gradients[p] = C * (trained @ slopes) + objective.penalised * w
    return Start.at(points[at], values, gradients, factors)


# ---- common points
def _on_samples(
    objective: BatchObjective, heads: ProblemBatch
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve one problem for each class and C, a head, on a part of the rows, or on all if they are
    few.

    Returns the points, and what `_gather` does. Those that serve as common points are solved on a
    larger part too, and brought next to the optimum of all rows by a step with the exact gradient.
    Cost: that pass, and less than one more.
    """
    size = objective.size
    W, hessians = np.zeros((len(heads), size)), np.empty((len(heads), size, size))
    n = objective.engine.facts.n_rows
    samples = [every for every in SAMPLES if n >= SAMPLED_ROWS * size * every]

    every = samples[0] if samples else 1
    small = SAMPLE_TOL * every / n if samples else ALL_ROWS_TOL
    _solve_on(objective, heads, np.arange(len(heads)), every, small, W, hessians)
    common, served = _gather(objective, heads, W, hessians)
    for every in samples[1:]:
        _solve_on(objective, heads, common, every, SAMPLE_TOL * every / n, W, hessians)
    if samples:
        found = objective.evaluate(heads.take(common), W[common], np.empty(0, int))
        factors = [objective.factor(W[p], hessians[p]) for p in common]
        objective.must_be_exact(factors)
        for k, p in enumerate(common):
            W[p] += factors[k].step(found.gradients[k])[0]
    return W, common, served


def _gather(
    objective: BatchObjective, heads: ProblemBatch, W: np.ndarray, hessians: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Choose heads that serve as common points, and which of these serves each head.

    A common point serves a run of near heads, from the largest C down: solutions for large C are
    next to each other, whatever C is.
    """
    common: list[int] = []
    served = np.empty(len(heads), int)
    for p in reversed(range(len(heads))):  # ordered by class, then C
        if common and heads.of[common[-1]] == heads.of[p]:
            move, k = W[p] - W[common[-1]], common[-1]
            weight = heads.C[k] * objective.weights.sum() * min(objective.loss.smoothness, 1.0)
            if float(move @ (hessians[k] @ move)) <= NEAR**2 * weight:
                served[p] = len(common) - 1
                continue
        common.append(p)
        served[p] = len(common) - 1
    return np.array(common), served


def _solve_on(
    objective: BatchObjective,
    heads: ProblemBatch,
    active: np.ndarray,
    every: int,
    small: float,
    W: np.ndarray,
    hessians: np.ndarray,
) -> None:
    """Run Newton's method for some heads on one of `every` tiles of the rows.

    It ends where the squared decrement is relatively `small`; `W` and `hessians` are updated.
    """
    values, steps = np.full(len(heads), math.inf), np.zeros_like(W)
    for _ in range(SAMPLE_STEPS):
        trial = W[active] + steps[active]
        found = objective.evaluate(heads.take(active), trial, np.arange(len(active)), (every, 0))
        left = []
        for k, p in enumerate(active):
            if not found.values[k] <= values[p] * (1.0 + ROUNDING):
                steps[p] *= SHORTEN
                left.append(p)
                continue
            W[p], values[p], hessians[p] = trial[k], found.values[k], found.hessians[k]
            factor = objective.factor(trial[k], found.hessians[k])
            steps[p], square = factor.step(found.gradients[k])
            if square > small * abs(values[p]):
                left.append(p)
        active = np.array(left, int)
        if not len(active):
            break
