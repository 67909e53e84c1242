"""Damped Newton's method with an explicit Hessian, for up to a few thousand features."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from daskglm.core.block_hessian import BlockHessian
from daskglm.core.device import Array, on_device
from daskglm.core.facts import DataSummary
from daskglm.core.outcome import Reason
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.quadratic_model import predicted, with_same_hessian
from daskglm.solvers import costs
from daskglm.solvers.chord import Chord, rate_of
from daskglm.solvers.continuation import continued, is_continued
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import backtrack, has_ends
from daskglm.solvers.linear_systems import inverse_of, newton_step
from daskglm.solvers.spec import SolverSpec
from daskglm.solvers.workload import Workload, entry_passes, hessian_passes

# Relative error of the coefficients by a Hessian of least squares from which they are refined: a
# tenth of the digits that its square root leaves, 8, as columns with means of 1,000 times their
# deviations have. Chosen.
ILL_CONDITIONED = 1e-9
# Passes that least squares takes with samples, beside one: a second one, and what samples take.
SAMPLED_WORK = 1.3
# Seed of the first sample; the next ones follow.
SAMPLE_SEED = 20
# Requests about a sample: 1 to 3 on rows like those of HIGGS and flights (2026-11-28).
SAMPLE_REQUESTS = 2.0


# Share of |g|^2 along directions without curvature from which it is no rounding. Chosen.
SLOPING = 1e-12


class Model(NamedTuple):
    """Result of the samples: coefficients, and a Hessian near that of all rows there.

    `rate` is the share of |g|^2 that a step by that Hessian is expected to leave.
    """

    w: np.ndarray
    gram: Array
    rate: float


def newton(objective: Objective, w: np.ndarray, *, tol: float = 1e-6) -> Iterates:
    """Newton's method on the full (generalised) Hessian X'DX, damped by a line search.

    From the origin samples of growing size come first, each solved to its statistical accuracy; the
    first step on all rows, and more where that is cheaper than a Hessian of all rows, use the
    Hessian of the last sample with the exact gradient. Each trial point is evaluated with its
    Hessian in one fused pass. Without samples losses whose curvature jumps gain weight from step to
    step; see `continuation`. Where a Hessian costs several passes points are evaluated without one
    at first, and steps by the last one go on while that is expected to end sooner; see `chord`.
    Cost: a few tenths of a pass for the samples, 1 pass for their result; then 1 pass and 1 round
    for an accepted unit step, 2 passes for a damped one. Where float32 rows have nearly dependent
    columns: 1 pass more, and from then on Hessians that are summed in float64. Least squares with a
    Hessian take the whole step from it, whatever `tol` is, and 1 pass more where it is
    ill-conditioned: residuals in float64 refine the step.

    Parameters
    ----------
    tol : float
        Wanted bound on relative suboptimality, by which the cheaper Hessian is chosen.
    """
    begins = not _is_one_pass(objective) and objective.is_origin(w)
    model = from_samples(objective, tol) if begins else None
    keep = keeps_margins(objective)
    chord = cache(lambda: Chord.of(objective, tol, keep=keep))  # least squares go without
    if model is None:
        point = objective.at(w, gram=True, keep=keep)
        if is_continued(objective, point) and objective.is_origin(w):
            point = yield from continued(objective, point, keep=keep)
    else:
        point = objective.at(model.w, keep=keep)
        point = yield from chord().steps(point, inverse_of(model.gram), model.rate)
    exact, first = False, True
    while True:
        solve = _solve_by(point.known_hessian)
        step = -solve(point.gradient)
        foretells = _can_predict(objective, point) and bool(float(point.gradient @ step) < 0.0)
        # what a strong penalty leaves of coefficients counts, however little it changes the value
        yield Iterate(point, more=first and foretells)
        first = False
        if not point.exact and is_inexact(point, -float(point.gradient @ step), tol):
            # from here on all Hessians are summed in float64
            exact = True
            point = objective.at(point.w, gram=True, keep=keep, exact=True)
            continue
        expected = wants_expected(objective, point, step)
        if expected:
            step = newton_step(objective.expected_hessian(point.w), point.gradient)
        if not float(point.gradient @ step) < 0.0:
            return Reason.NO_PROGRESS

        if foretells and not _is_ill_conditioned(point):
            yield Iterate(predicted(point, point.w + step))
        same = objective.loss.is_quadratic and point.hessian is not None
        gram = not (same or (chord().saves and not exact))
        trial = objective.at(point.w + step, gram=gram, keep=keep, beside=point, exact=exact)
        if same:
            trial = with_same_hessian(trial, point)
        if not (expected or math.isfinite(trial.value)) and _has_expected(objective):
            step = newton_step(objective.expected_hessian(point.w), point.gradient)
            trial = objective.at(point.w + step, gram=True, keep=keep, beside=point, exact=exact)
        accepted = backtrack(objective, point, trial, gram=True, keep=keep, exact=exact)
        if accepted is None:
            return Reason.NO_PROGRESS
        if accepted.hessian is None:
            accepted = yield from chord().steps(accepted, solve, rate_of(point, accepted))
        point = accepted
        if foretells and _is_ill_conditioned(point):
            refined = predicted(point, point.w + newton_step(point.known_hessian, point.gradient))
            yield Iterate(refined)


def _solve_by(hessian: Array | BlockHessian) -> Callable[[Array], Array]:
    """Return what solves systems of a Hessian; on a device it is factorised each time."""
    return (lambda v: -newton_step(hessian, v)) if on_device(hessian) else inverse_of(hessian)


def wants_expected(objective: Objective, point: Point, step: Array) -> bool:
    """Return whether Newton's step leaves out a direction along which the objective falls.

    Rows whose loss is linear have no curvature: counts of zero with the identity link. Of links
    with ends the optimum may be at an end of margins along such a direction; of others what is left
    out is rounding.
    """
    if not _has_expected(objective):
        return False
    left = point.gradient + point.known_hessian @ step
    return float(left @ left) > SLOPING * float(point.gradient @ point.gradient)


def _has_expected(objective: Objective) -> bool:
    """Return whether expected curvatures are to be had where margins may be near an end.

    They grow towards it also where those of the losses do not, so that steps keep away from the end
    until all else is at its best. Targets that are moved inside make all of them grow.
    """
    on_host = objective.engine.capabilities.device == "cpu"
    return has_ends(objective) and on_host and not objective.problem.inside


def _can_predict(objective: Objective, point: Point) -> bool:
    """Return whether the Hessian tells value and gradient elsewhere well enough for a bound."""
    here = objective.xp is np and objective.bounds.proves
    return here and objective.loss.is_quadratic and point.factor.proves


def _is_ill_conditioned(point: Point) -> bool:
    """Return whether a step by the Hessian leaves few digits of coefficients of least squares.

    Its residuals tell more of them where the Hessian is summed in float64 and not singular.
    """
    factor = point.factor
    likely = point.objective.rounding.gram(exact=point.exact, likely=True)
    likely *= factor.spread * factor.norm
    return point.exact and likely > ILL_CONDITIONED and not point.is_doubtful


def _is_one_pass(objective: Objective) -> bool:
    """Return whether one pass with the Hessian of all rows costs less than samples and two passes.

    That is so for least squares with short rows, or where reading rows costs most.
    """
    if not objective.loss.is_quadratic or objective.outputs > 1:
        return False
    can = objective.engine.capabilities
    return not can.cheap_samples or _hessian_passes(objective) <= SAMPLED_WORK


def is_inexact(point: Point, square: float, tol: float) -> bool:
    """Return whether a Hessian summed in the rows' dtype is too inexact.

    That is to step by, or to prove `tol`. `square` is the square of its Newton decrement.
    """
    objective = point.objective
    by_hessian = math.isfinite(objective.loss.self_concordance)
    proves = (by_hessian and objective.bounds.proves) or objective.bounds.is_local
    # a decrement this small would have ended the solve, had rounding not widened the bound
    return point.is_doubtful or (proves and 0.5 * square <= tol * point.value)


def keeps_margins(objective: Objective) -> bool:
    """Return whether to keep margins, 8 bytes a row.

    They are kept unless rows are many and of at most 240 bytes: most steps are unit steps, which do
    not need margins. Both limits are chosen. Statistics of families want them at the end, which is
    a pass over rows that are in memory, and shorter than margins of two points.
    """
    facts, can = objective.engine.facts, objective.engine.capabilities
    if objective.loss.family is not None and not objective.loss.is_quadratic:
        long = facts.nbytes > 16 * facts.n_rows
        return long or facts.n_rows < 300_000 or not can.cheap_samples
    return facts.n_rows < 300_000 or facts.nbytes > 240 * facts.n_rows


def _hessian_passes(objective: Objective) -> float:
    """Passes that a Hessian of all rows adds to a pass."""
    facts = objective.engine.facts
    return hessian_passes(facts, outputs=objective.outputs, blocks=objective.blocks)


def from_samples(objective: Objective, tol: float) -> Model | None:
    """Run Newton's method on random samples of the rows, each larger than the last.

    A sample of m rows has its optimum about d / (2 m) of the value above that of all rows, and is
    solved to that (the Adaptive Newton of Mokhtari, Daneshmand, Lucchi, Hofmann & Ribeiro 2016).
    Returns None where samples would not pay: a factor of thousands of levels has few rows of each
    in a sample, and without a penalty levels whose few rows are alike go off to infinity.
    """
    if objective.blocks and not objective.is_penalised:
        return None
    sizes = sample_sizes(objective.engine.facts, objective.size, tol, outputs=objective.outputs)
    if not objective.engine.capabilities.cheap_samples or not sizes:
        return None

    w = objective.origin
    n = objective.engine.facts.n_rows
    parts = objective.samples(sizes, SAMPLE_SEED, SAMPLE_REQUESTS)
    for part, fraction in zip(parts, sizes, strict=True):
        # a gain of ten statistical errors, or 3 % of the value if that is less. Chosen.
        least = min(10.0 * objective.size / (fraction * n), 0.03)
        point = part.at(w, gram=True)
        while True:
            step = newton_step(point.known_hessian, point.gradient)
            gain = -0.5 * float(point.gradient @ step)
            if not gain > least * point.value:
                break
            trial = part.at(point.w + step, gram=True, beside=point)
            accepted = backtrack(part, point, trial, gram=True)
            if accepted is None:
                break
            point = accepted
        w = point.w + step if objective.is_inside(point.w + step) else point.w
        gram = point.known_hessian

    if not math.isfinite(float(w @ w)) or not is_inside(objective, w):
        return None
    # by the spread of a sample covariance's eigenvalues
    rate = 4.0 * objective.size / (sizes[-1] * n)
    return Model(w, gram, rate)


def is_inside(objective: Objective, w: Array) -> bool:
    """Return whether margins at the result of a sample are inside of what the link takes.

    Those of rows outside of the sample need not be. Cost: 1 pass where margins have an end.
    """
    return not has_ends(objective) or math.isfinite(objective.at(w, keep=False).value)


def sample_sizes(
    summary: DataSummary, size: int, tol: float = 1e-6, *, outputs: int = 1
) -> list[float]:
    """Return the samples' shares of the rows, which grow fourfold; none if all rows are few.

    Nor are there any of short sparse rows, whose Hessian costs less than a pass: a level with few
    rows has none in a sample, or of one class alone, and steps from there lead astray.

    One step on all rows by the Hessian of m of them leaves about (size / m)^2 of the value, so the
    last sample has 5 size / sqrt(tol) rows, or a tenth of all. The numbers are chosen.
    """
    cheap = summary.sparse and hessian_passes(summary, outputs=outputs) < costs.CHEAP_HESSIAN
    if summary.nonzeros < costs.SAMPLED_VALUES or cheap:
        return []
    n = summary.n_rows

    # 20 rows for each coefficient, more where one of two classes is rare
    rarest = min((rows for _, rows, _ in summary.classes), default=n) / n
    least = 20 * size / n / (min(2.0 * rarest, 1.0) if outputs == 1 else 1.0)

    sizes = []
    wanted = 5.0 * size / math.sqrt(min(max(tol, 1e-12), 1e-5))
    fraction = min(0.1, wanted / n)
    while fraction >= least:
        sizes.append(fraction)
        fraction /= 4.0
    return sizes[::-1]


def cost(workload: Workload) -> float:
    """Foresee the passes that Newton's method takes; infinite for too many features."""
    summary, d = workload.summary, workload.n_features
    if workload.coefficients > costs.LARGEST_HESSIAN and not workload.blocks:
        return math.inf
    steps = workload.newton_steps

    # the Hessian takes no time to speak of, or none beside reading the rows anew
    few = d <= costs.FEW_FEATURES or workload.blocks
    if workload.is_small or (not workload.samples and few):
        return steps

    sizes = sample_sizes(summary, workload.size, workload.tol, outputs=workload.outputs)
    if workload.samples and sizes and not workload.starts_at_levels:
        more = 0.0 if workload.quadratic else costs.HESSIANS_PER_DECADE * workload.decades
        hessians = min(
            (costs.SAMPLED_HESSIANS + more) * workload.gram,
            costs.SAMPLE_STEPS * (1.0 + workload.decades) + costs.SAMPLE_HESSIANS * workload.gram,
        )
        entries = entry_passes(summary) * workload.rows_share
        factors = costs.SAMPLED_FACTORS * (workload.factorisation + entries)
        rounds = workload.rounds(costs.WHOLE_ROUNDS)
        rounds += workload.sample_rounds(sizes, costs.SAMPLED_ROUNDS)
        return costs.SAMPLED_PASSES + hessians + factors + rounds
    return _work(workload, 1.0)


def from_here(workload: Workload, share: float) -> float:
    """Foresee the passes from a point that has this share of the digits to go."""
    if not math.isfinite(cost(workload)):
        return math.inf
    return _work(workload, share)


def _work(workload: Workload, share: float) -> float:
    """Foresee the passes on all rows, from a point that has this share of the digits to go."""
    keeps = workload.keeps_hessians
    hessians = workload.kept_hessians if keeps else workload.newton_steps
    chords = share * workload.chords * workload.chord_step if keeps else 0.0
    return (1.0 + share * (hessians - 1.0)) * workload.hessian_step + chords


SPEC = SolverSpec("newton", newton, max_iter=200, settings=("tol",), forms_hessian=True, cost=cost)
