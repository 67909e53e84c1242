"""Damped Newton with the explicit Hessian: for up to a few thousand features."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.outcome import Reason
from daskglm.objectives.primal import Objective, Point
from daskglm.solvers import costs
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.linear_systems import (
    CurvaturePair,
    inverse_of,
    inverse_times,
    newton_step,
    pair_of,
)
from daskglm.solvers.spec import SolverSpec
from daskglm.solvers.workload import Workload, entry_passes, hessian_passes

# Rows for each feature in the first sample, growth from one sample to the next, and largest share
# of all rows. Chosen.
ROWS_PER_FEATURE, SAMPLE_GROWTH, LARGEST_SAMPLE = 20, 4.0, 0.1
# Rows of the last sample, times the features over the root of tol: see `sample_sizes`. Chosen.
LAST_SAMPLE_ROWS = 5.0
# A sample is solved when the next step gains less than so many of its statistical errors, or this
# share of the value, whichever is less. Chosen.
STATISTICAL_ERRORS, LARGEST_ERROR = 10.0, 0.03
MEMORY = 20  # pairs of steps and gradient changes that correct a sample's inverse Hessian
# Rows from which margins (8 bytes a row) are not kept, where a row has at most so many bytes.
# Chosen: unit steps do not need them.
MANY_ROWS, SHORT_ROW_BYTES = 300_000, 240
SAMPLE_SEED = 20  # of the first sample's rows; the next sample has the next


class Model(NamedTuple):
    """Where samples have led: w, a Hessian near that of all rows there, and how much a step by it
    leaves of |g|^2.
    """

    w: np.ndarray
    gram: Any
    rate: float


def newton(
    objective: Objective, w: np.ndarray, *, tol: float = 1e-6
) -> Generator[Point, None, Reason]:
    """Newton's method on the full (generalised) Hessian X'DX, damped by line search, begun on
    samples of the rows.

    From w = 0 samples of growing size come first, each solved to its statistical accuracy; the
    first step on all rows, and more where that is cheaper than a Hessian of all rows, use the
    Hessian of the last sample with the exact gradient. Each trial point is evaluated with its
    Hessian in one fused pass. Cost: a few tenths of a pass for the samples, 1 pass for their
    result; then 1 pass and 1 round for an accepted unit step, 2 passes for a damped one. Where
    float32 rows have nearly dependent columns: 1 pass more, and from then on Hessians that are
    summed in float64.

    Parameters
    ----------
    tol : float
        The bound on relative suboptimality that is wanted: it tells which Hessian is cheaper.
    """
    model = None if w.any() else from_samples(objective, tol)
    keep = _keeps(objective)
    if model is None:
        point = objective.at(w, gram=True, keep=keep)
    else:
        point = yield from _by_model(objective, model, tol)
    exact = False
    while True:
        yield point
        step = newton_step(point.gram, point.gradient)
        if not point.exact and _is_inexact(point, -float(point.gradient @ step), tol):
            exact = True
            point = objective.at(point.w, gram=True, keep=keep, exact=True)
            continue
        if not float(point.gradient @ step) < 0.0:
            return Reason.NO_PROGRESS
        trial = objective.at(point.w + step, gram=True, keep=keep, beside=point, exact=exact)
        accepted = backtrack(objective, point, trial, gram=True, keep=keep, exact=exact)
        if accepted is None:
            return Reason.NO_PROGRESS
        point = accepted


def _is_inexact(point: Point, square: float, tol: float) -> bool:
    """Whether a Hessian summed in the rows' dtype is too far from the exact one to step by, or to
    prove `tol`.

    By its Newton decrement, whose square is given, a point that was not good enough would have
    been.
    """
    proves = math.isfinite(point.objective.loss.self_concordance) and point.objective.is_penalised
    return point.is_doubtful or (proves and 0.5 * square <= tol * point.value)


def _keeps(objective: Objective) -> bool:
    """Whether margins are few beside the rows: most steps are unit steps, which do not need
    them.
    """
    facts = objective.engine.facts
    return facts.n_rows < MANY_ROWS or facts.nbytes > SHORT_ROW_BYTES * facts.n_rows


def _by_model(objective: Objective, model: Model, tol: float) -> Generator[Point, None, Point]:
    """Steps by the Hessian of a sample and exact gradients (L-BFGS on its inverse); returns a point
    with a Hessian.

    That is the first trial point, unless more such steps are expected to reach tol for less.
    """
    inverse = inverse_of(model.gram)
    pairs: deque[CurvaturePair] = deque(maxlen=MEMORY)
    rate = model.rate
    keep = _keeps(objective)
    point = objective.at(model.w, keep=keep)
    while True:
        yield point
        step = -inverse_times(pairs, inverse, point.gradient)
        gram = not _suffices(objective, point, rate, tol)
        trial = objective.at(point.w + step, gram=gram, keep=keep, beside=point)
        accepted = backtrack(objective, point, trial, gram=gram, keep=keep)
        if accepted is None or accepted.gram is not None:
            return accepted or objective.at(point.w, gram=True, keep=keep)
        pair = pair_of(accepted.w - point.w, accepted.gradient - point.gradient, inverse)
        if pair.curvature > 0.0:
            pairs.append(pair)
        rate = float((accepted.gradient @ accepted.gradient) / (point.gradient @ point.gradient))
        point = accepted


def _suffices(objective: Objective, point: Point, rate: float, tol: float) -> bool:
    """Whether steps that leave `rate` of the bound each reach tol for less than a Hessian of all
    rows costs.
    """
    wanted = tol * point.value
    bound = objective.feature_bound(point)
    if not (wanted > 0.0 and bound > wanted and rate < 1.0):
        return False
    steps = math.ceil(math.log(bound / wanted) / -math.log(max(rate, 1e-6)))
    hessian = 1.0 + hessian_passes(objective.engine.facts)
    return steps < hessian


def from_samples(objective: Objective, tol: float) -> Model | None:
    """Newton's method on random samples of the rows, each larger than the last; None where they
    would not pay.

    A sample of m rows has its optimum about d / (2 m) of the value above that of all rows, and is
    solved to that (the Adaptive Newton of Mokhtari, Daneshmand, Lucchi, Hofmann & Ribeiro 2016).
    """
    sizes = sample_sizes(objective.engine.facts, objective.size, tol)
    if not objective.engine.capabilities.cheap_samples or not sizes:
        return None
    w, n = objective.xp.zeros(objective.size), objective.engine.facts.n_rows
    gram = None
    for k, fraction in enumerate(sizes):
        part = objective.sample(fraction, SAMPLE_SEED + k)
        point = part.at(w, gram=True)
        while True:
            step = newton_step(point.gram, point.gradient)
            ahead = -0.5 * float(point.gradient @ step)
            if (
                not ahead
                > min(STATISTICAL_ERRORS * objective.size / (fraction * n), LARGEST_ERROR)
                * point.value
            ):
                break
            accepted = backtrack(
                part, point, part.at(point.w + step, gram=True, beside=point), gram=True
            )
            if accepted is None:
                break
            point = accepted
        w, gram = point.w + step, point.gram
    # by the spread of a sample covariance's eigenvalues
    rate = 4.0 * objective.size / (sizes[-1] * n)
    return Model(w, gram, rate) if math.isfinite(float(w @ w)) else None


def sample_sizes(summary: DataSummary, size: int, tol: float = 1e-6) -> list[float]:
    """Shares of the rows for samples that grow; none where all rows are few.

    One step on all rows by the Hessian of m of them leaves about (size / m)^2 of the value, so the
    last sample has `LAST_SAMPLE_ROWS` size / sqrt(tol) rows, or `LARGEST_SAMPLE` of all.
    """
    if summary.nonzeros < costs.SAMPLED_VALUES:
        return []
    n = summary.n_rows
    rarest = min((rows for _, rows, _ in summary.classes), default=n) / n
    least = ROWS_PER_FEATURE * size / n / min(2.0 * rarest, 1.0)
    sizes = []
    wanted = LAST_SAMPLE_ROWS * size / math.sqrt(min(max(tol, 1e-12), 1e-5))
    fraction = min(LARGEST_SAMPLE, wanted / n)
    while fraction >= least:
        sizes.append(fraction)
        fraction /= SAMPLE_GROWTH
    return sizes[::-1]


def cost(workload: Workload) -> float:
    """Passes that Newton's method is expected to take; infinite for too many features.

    A Hessian that takes no time to speak of, or none beside reading the rows anew, is free.
    """
    summary, d = workload.summary, workload.n_features
    if d > costs.LARGEST_HESSIAN:
        return math.inf
    steps = workload.newton_steps
    if workload.is_small or (not workload.samples and d <= costs.FEW_FEATURES):
        return steps
    if workload.samples and sample_sizes(summary, workload.size, workload.tol):
        more = 0.0 if workload.quadratic else costs.HESSIANS_PER_DECADE * workload.decades
        hessians = (costs.SAMPLED_HESSIANS + more) * workload.gram
        factors = costs.SAMPLED_FACTORS * (workload.factorisation + entry_passes(summary))
        rounds = workload.rounds(costs.SAMPLED_ROUNDS)
        return costs.SAMPLED_PASSES + hessians + factors + rounds
    return steps * (1.0 + workload.gram + workload.factorisation + workload.rounds())


SPEC = SolverSpec("newton", newton, max_iter=100, settings=("tol",), forms_hessian=True, cost=cost)
