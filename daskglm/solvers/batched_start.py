"""Find common points where the problems of a batch start, on samples of the rows.

Problems that differ by a fifth of the rows, or by C where rows are many, have optima close to each
other. One sweep at a common point gives all of them their gradient and Hessian, since sums over
groups of rows can be put together anew for each problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from daskglm.certificates.hessian_factor import HessianFactor
from daskglm.objectives.batched import BatchObjective, ProblemBatch
from daskglm.solvers.line_search import ROUNDING

# A sample of m rows is solved when the squared Newton decrement is at most this over m, relatively.
SAMPLE_TOL = 0.1
# Factor of a step that did not lower the objective.
SHORTEN = 0.25


class Start(NamedTuple):
    """The points where problems start, each with its Hessian and Newton's first step.

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
        """Start at evaluated points, with Newton's steps there."""
        steps, squares = np.empty_like(W), np.empty(len(W))
        for p, factor in enumerate(factors):
            steps[p], squares[p] = factor.step(gradients[p])
        return cls(factors, W, values, gradients, steps, squares)


def hessians_at_once(size: int) -> int:
    """Return how many Hessians one request may form, which take at most 512 MiB."""
    return int((1 << 29) // (8 * size**2))


def runs_of(which: np.ndarray, objective: BatchObjective, each: int = 1) -> Iterator[np.ndarray]:
    """Cut problems into runs with few enough Hessians, `each` for a problem, for one request."""
    most = max(1, hessians_at_once(objective.size) // each)
    return (which[k : k + most] for k in range(0, len(which), most))


# ---- starts
def start_at_common_points(
    objective: BatchObjective, batch: ProblemBatch, W: np.ndarray | None
) -> Start:
    """Start at common points, one for problems near each other.

    `W` (P, size) has the points, the same for problems of one class and C; default: they are found
    on samples. Cost: 1 pass, 1 round, and without `W` less than two passes more. More rounds if
    Hessians fill memory; one more of everything if Hessians must be summed in float64.
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
    """Start each problem at a point of its own, with a Hessian of its own, to resume a solve.

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
    """Make each problem's start from the sums by group at common point number `at`."""
    # one array for all problems that start at a point, by which requests know that it is the same
    anchors = list(points)
    factors: list[HessianFactor] = []
    values = np.empty(len(batch))
    gradients = np.empty((len(batch), objective.size))
    for p, k in enumerate(at.tolist()):
        (losses, slopes, grams), w = sums[k], anchors[k]
        _, fold, C = batch[p]
        trained = objective.trained(fold)
        hessian = C * np.einsum("g,gij->ij", trained, grams) + np.diag(objective.penalised)
        factors.append(objective.factor(w, hessian))
        values[p] = C * (trained @ losses) + 0.5 * w @ (objective.penalised * w)
        gradients[p] = C * (trained @ slopes) + objective.penalised * w
    return Start.at(points[at], values, gradients, factors)


# ---- common points
def _on_samples(
    objective: BatchObjective, heads: ProblemBatch
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve the heads, one problem for each class and C, on samples of the rows.

    Heads that become common points are solved on a larger sample too, and then take a step with the
    exact gradient. Returns the heads' points and the result of `_gather`. Cost: the pass for that
    gradient, and less than one more.
    """
    size = objective.size
    W = np.zeros((len(heads), size))
    hessians = np.empty((len(heads), size, size))

    # one row of 64, then of 8, where that makes 50 rows for each coefficient
    n = objective.engine.facts.n_rows
    samples = [every for every in (64, 8) if n >= 50 * size * every]

    every = samples[0] if samples else 1
    small = SAMPLE_TOL * every / n if samples else 1e-6
    _solve_on(objective, heads, np.arange(len(heads)), every, small, W, hessians)
    common, chosen = _gather(objective, heads, W, hessians)
    for every in samples[1:]:
        _solve_on(objective, heads, common, every, SAMPLE_TOL * every / n, W, hessians)
    if samples:
        found = objective.evaluate(heads.take(common), W[common], np.empty(0, int))
        factors = [objective.factor(W[p], hessians[p]) for p in common]
        objective.must_be_exact(factors)
        for k, p in enumerate(common):
            W[p] += factors[k].step(found.gradients[k])[0]
    return W, common, chosen


def _gather(
    objective: BatchObjective, heads: ProblemBatch, W: np.ndarray, hessians: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the heads that become common points, and for each head its common point.

    A common point is for a run of near heads, from the largest C down: solutions for large C are
    next to each other, whatever C is.
    """
    common: list[int] = []
    chosen = np.empty(len(heads), int)
    for p in reversed(range(len(heads))):  # ordered by class, then C
        near = False
        if common and heads.of[common[-1]] == heads.of[p]:
            k = common[-1]
            move = W[p] - W[k]
            weight = heads.C[k] * objective.weights.sum() * min(objective.loss.smoothness, 1.0)
            # margins differ by at most 0.05 (root mean square)
            near = float(move @ (hessians[k] @ move)) <= 0.05**2 * weight
        if not near:
            common.append(p)
        chosen[p] = len(common) - 1
    return np.array(common), chosen


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

    It ends where the squared decrement is relatively `small`, or after 20 steps. `W` and `hessians`
    are updated.
    """
    values = np.full(len(heads), math.inf)
    steps = np.zeros_like(W)
    for _ in range(20):
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
