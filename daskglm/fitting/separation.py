"""Whether coefficients that no penalty holds can grow for ever while the objective falls.

A loss of one row may fall for ever as its margin grows to one side: of a count of zero with a log
link, or of either class. A direction of coefficients along which no margin moves to another side,
and some do move, is one of recession: there is no optimum then, and else there is one. A bound by
the Hessian (`docs/certificates.md`) proves that there is one. Single columns are told by counting
signs, exactly, whatever the solver has reached; others by looking far along the directions in which
the coefficients grow.

Directions are the same for all links of ordered classes: a row's loss falls, or stays, along those
in which neither threshold of its class comes nearer to its margin, and grows for ever along all
others. So the logit tells them, whose tails are the same on both sides, and a bound of it proves
that there is an optimum with any link.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from daskglm.certificates.hessian_factor import HessianFactor
from daskglm.core.block_hessian import BlockHessian, principal
from daskglm.core.column_requests import ColumnSigns
from daskglm.core.device import to_host
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import LINKS
from daskglm.objectives.ordered import Ordered
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.linear_systems import newton_step, step_by_products

# Most features of a Gram that is formed for what is looked for when a fit ends: 32 MB, and a second
# for its eigenvectors.
MOST_FEATURES = 2000
# Most multiplications of a Gram that is formed for that alone: some seconds.
MOST_WORK = 1e11
# Most counts of signs by column and kind of row: 160 MB.
MOST_COUNTS = 1e7
# Margin at which a link's mean is taken for its limit. Large, and its square is a number.
FAR_MARGIN = 1e150
# Share of the weight by which all targets may seem to be off the end of their range, for rounding
# of sums; rows are counted then.
NEARLY = 1e-9
# How far the objective is followed along a direction, in the largest change of a margin that is
# possible: the first is beyond all optima of columns without outliers, the second finds a row that
# opposes with 1e-4 of the largest change. Chosen.
FAR = (2.0**8, 2.0**16)
# Share of the value by which its slope, by the largest change of a margin, may be above zero there,
# for rounding of the direction; of that of a row at the origin, too, where all rows but one level
# are fitted exactly. Chosen: one row in a million that opposes has more.
LEVEL = 1e-9
# Newton's steps taken to find a direction along which the objective falls: other coefficients reach
# their optimum meanwhile. Chosen.
LOOKS = 16
# Products with the Hessian for such a step where it is too large to form, and the residual at which
# there are enough of them, as a share of the gradient. Chosen.
MOST_PRODUCTS, ENOUGH = 100, 1e-6
# Change of a margin by a step of Newton's method below which it is one within an optimum. Far along
# the thinnest tail, that of cloglog, it is 1e-3.
LEAST_STEP = 1e-4
# Newton's steps at most by which the logit comes so near its optimum that a bound proves it, from
# where the fit with another link ended: one to three are enough. Chosen.
LOGIT_STEPS = 5
# Share of the largest part of a step below which a part may be rounding.
TRACE = 1e-7
# Share of the largest part of that step from which a coefficient counts as growing.
GROWING = 0.1


class Ends(NamedTuple):
    """The ends of the range of targets at which a loss falls for ever as a margin grows.

    Parameters
    ----------
    low, high : float
        Rows with targets up to `low`, and from `high` on, do so; nan: there is no such end.
    up : int
        The sign of the margins' change for those from `high` on; others go the other way.
    """

    low: float
    high: float
    up: int = 1


@lru_cache(maxsize=64)
def ends_of(loss: Loss) -> Ends | None:
    """Return the ends of a loss of one margin, by the limits of its link; None: it has none."""
    if loss.classifies:
        return None if loss.attains_infimum else Ends(-1.0, 1.0)
    link, family = loss.link, loss.family
    if link is None or family is None:
        return None
    with np.errstate(all="ignore"):
        rises = bool(link.slope(1.0) > 0.0)
        above = math.nan if math.isfinite(link.high) else _limit(link, FAR_MARGIN)
        below = math.nan if math.isfinite(link.low) else _limit(link, -FAR_MARGIN)
    low, high = (below, above) if rises else (above, below)
    # no target lies beyond the end of its domain, or at one that is open
    domain = family.domain
    low = math.nan if low < domain.low or (domain.open and low == domain.low) else low
    high = math.nan if high > domain.high else high
    return None if math.isnan(low) and math.isnan(high) else Ends(low, high, 1 if rises else -1)


def _limit(link: Any, margin: float) -> float:
    """Return the mean to which a link leads far out; nan if it does not stay near one."""
    mean, slope = float(link.mean(margin)), float(link.slope(margin))
    return round(mean, 12) + 0.0 if abs(slope * margin) < 1e-12 else math.nan


def free_entries(objective: Objective) -> np.ndarray:
    """Return which coefficients neither a penalty nor bounds on both sides hold, (size,) of bool.

    Constants are among them. Cost: nothing.
    """
    d = objective.n_features
    free = np.ones(objective.size, bool)
    free[:d] = objective.penalty.may_be_free
    return free


def with_hessian(objective: Objective, point: Point) -> Point:
    """Return the point with its Hessian, if that is known or cheap. Cost: 1 pass, or nothing."""
    if point.hessian is not None or not _is_cheap(objective):
        return point
    return objective.at(point.w, gram=True)


def _is_cheap(objective: Objective) -> bool:
    """Return whether a Gram is formed for what is looked for when a fit ends."""
    d = objective.n_features
    if objective.blocks:
        return True
    return d <= MOST_FEATURES and objective.engine.facts.nonzeros * float(d) <= MOST_WORK


def has_optimum(objective: Objective, point: Point) -> bool:
    """Return whether the Hessian at a point proves that there is an optimum, near it.

    Cost: nothing; 1 round for losses with a `Loss.local_rate`.
    """
    if point.hessian is None or not objective.loss.convex:
        return False
    if objective.bounds.is_local:
        point = objective.bounds.with_rates(point)
    return math.isfinite(point.excess)


def _with_logit(objective: Objective, point: Point) -> tuple[Objective, Point]:
    """Return ordered classes with another link as the logit has them, and a point near its optimum.

    Others come back as they are. Cost: some passes with a Hessian, or nothing.
    """
    margins = objective.margins
    if not isinstance(margins, Ordered) or margins.link.splits:
        return objective, point
    if objective.bounds.any_penalty or not _is_cheap(objective):
        return objective, point
    logit, ones = LINKS["logit"], np.ones(1)
    problem = replace(objective.problem, loss=logit.loss.ref)
    given: Any = {"C": objective.C, "penalty": objective.penalty}
    made = replace(margins, link=logit)
    with_logit = Objective(objective.engine, problem, logit.loss, margins=made, **given)
    # by slope and value of the logit of F at its median
    w, d = to_host(point.w), margins.width
    w = margins.link.steepness * np.append(w[:d], w[d:] - margins.link.quantiles(ones, ones))
    free = np.ones(objective.size, bool)
    with np.errstate(all="ignore"):
        seen = with_logit.at(w, gram=True)
        for _ in range(LOGIT_STEPS):
            if has_optimum(with_logit, seen) or not math.isfinite(seen.value):
                break
            beyond = with_logit.at(seen.w + _newton_step(seen, free), gram=True)
            if not beyond.value < seen.value:
                break
            seen = beyond
    return (with_logit, seen) if math.isfinite(seen.value) else (objective, point)


def runaways(objective: Objective, point: Point) -> list[int]:
    """Return the coefficients that can grow for ever, the largest first; none if no one can.

    Entry `n_features` is an intercept. Cost: nothing where the Hessian at the point proves an
    optimum, or a penalty holds all features. Else 1 pass that counts signs; and where no column
    alone can grow, 1 with a Hessian; and where that does not prove an optimum, up to 3, and up to 8
    for each direction that is followed, or 108 where there are more features than a Hessian is
    formed for. Of ordered classes with another link than the logit up to 6 more that ask the logit.
    """
    several = len(objective.margins.labels) > 0
    ends = None if several else ends_of(objective.loss)
    free, d = free_entries(objective), objective.n_features
    if (ends is None and not several) or objective.only_side or not free.any():
        return []
    if not free[:d].any() and (ends is None or not _seems_at_an_end(objective, ends)):
        return []
    if has_optimum(objective, point):
        return []
    told, point = _with_logit(objective, point)
    if told is objective:
        return _found(objective, point, ends, free)
    found = [] if has_optimum(told, point) else _found(told, point, ends, free)
    objective.rows.meter.absorb(told.rows.meter)
    return found


def _found(objective: Objective, point: Point, ends: Ends | None, free: np.ndarray) -> list[int]:
    """Return the coefficients that can grow for ever, of columns and then of directions."""
    found = _columns(objective, ends, free)
    if found or not free[: objective.n_features].any():
        return found
    known = with_hessian(objective, point)
    if known is not point and has_optimum(objective, known):
        return []
    return _directions(objective, known, free)


def _seems_at_an_end(objective: Objective, ends: Ends) -> bool:
    """Return whether the mean target is at an end of the range, but for rounding."""
    if not objective.fit_intercept or objective.loss.classifies:
        return False  # `only_side`, which has no solve, takes one class alone
    facts = objective.engine.facts
    mean = facts.target_sum / facts.weight if facts.weight else math.nan
    return bool(mean <= ends.low + NEARLY * abs(mean) or mean >= ends.high - NEARLY)


# ---- single columns
def _columns(objective: Objective, ends: Ends | None, free: np.ndarray) -> list[int]:
    """Return the columns, and the constant, whose coefficient alone can grow for ever.

    Cost: 1 pass, or nothing for rows on a device, and for very many columns and classes.
    """
    d = objective.engine.facts.n_features or 0
    if objective.margins.labels:
        request = ColumnSigns(objective.margins.labels)
    else:
        assert ends is not None
        request = ColumnSigns((), ends.low, ends.high)
    if objective.engine.capabilities.device != "cpu" or request.kinds * float(d) > MOST_COUNTS:
        return []
    totals = objective.ask(request)
    above, below = totals["above"] > 0, totals["below"] > 0
    lower, upper = _bounds(objective)
    # of several sets of coefficients all must be free
    sets = max(objective.n_features // d, 1) if d else 1
    open_ = free[: objective.n_features].reshape(sets, d).all(axis=0)
    if objective.outputs > 1:
        open_ &= np.isinf(lower).reshape(sets, d).all(axis=0)
        open_ &= np.isinf(upper).reshape(sets, d).all(axis=0)
        return np.flatnonzero(_tells_apart(above, below) & open_).tolist()

    if ends is None:  # ordered classes: only those at the ends have a free side
        up, down = request.kinds - 1, 0
    else:
        up, down = (1, 0) if ends.up > 0 else (0, 1)
    inner = np.array([k not in (up, down) for k in range(request.kinds)])
    rests = ~(above[inner] | below[inner]).any(axis=0) & (above | below).any(axis=0) & open_
    rise = rests & ~below[up] & ~above[down] & np.isinf(upper)
    fall = rests & ~above[up] & ~below[down] & np.isinf(lower)
    found: list[int] = np.flatnonzero(rise | fall).tolist()
    occurs = np.flatnonzero(totals["counts"]).tolist()
    if ends is not None and objective.fit_intercept and occurs in ([up], [down]):
        return [objective.n_features, *found]
    return found


def _tells_apart(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the columns along which some classes can be told from others for ever, (d,).

    Scores a_k times the column are added to the margins of the classes k: those that occur above
    zero must all have the largest a, those below zero the least. That leaves nothing but equal
    scores where one class occurs on both sides, or all of them on one.
    """
    both = (above & below).any(axis=0)
    return ~both & (above | below).any(axis=0) & ~above.all(axis=0) & ~below.all(axis=0)


def _bounds(objective: Objective) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of the features' coefficients."""
    d = objective.n_features
    kinks = objective.penalty.feature_kinks
    return np.broadcast_to(kinks.lower, d), np.broadcast_to(kinks.upper, d)


# ---- all columns together
def _directions(objective: Objective, point: Point, free: np.ndarray) -> list[int]:
    """Return the coefficients that grow along a direction in which the objective falls for ever.

    Directions are those of the coefficients, then of steps of Newton's method, by which
    coefficients that have an optimum come near it while others go on. Cost: see `runaways`.
    """
    if not objective.rounding.is_surveyed:
        objective.bounds.survey()
    d = objective.n_features
    largest = np.ones(objective.size)
    largest[:d] = objective.rounding.columns
    # of a row, too, where the others are fitted exactly
    own = objective.at(objective.origin, keep=False).value / max(objective.engine.facts.n_rows, 1)
    way = np.where(free, to_host(point.w), 0.0)
    with np.errstate(all="ignore"):
        for look in range(LOOKS + 1):
            if look:
                point = _with_curvature(objective, point)
                way = _newton_step(point, free)
            sizes = largest * np.abs(way)
            if not LEAST_STEP < sizes.sum() < math.inf:
                if look:
                    return []
                continue
            level = LEVEL * (abs(point.value) + own)
            for each in _candidates(objective, point, way, largest, free):
                if _falls(objective, point, each, largest, level):
                    sizes = largest * np.abs(each)
                    growing = np.flatnonzero(sizes >= GROWING * sizes.max()).tolist()
                    return sorted(growing, key=lambda j: -sizes[j])
            if look == LOOKS:
                return []
            if look:
                beyond = objective.at(objective.xp.asarray(to_host(point.w) + way))
                if not beyond.value < point.value:
                    return []
                point = beyond
    return []


def _candidates(
    objective: Objective, point: Point, way: np.ndarray, largest: np.ndarray, free: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield a direction, and the same without what moves rows that have an optimum.

    They change no margin by more than 1. The second is by Newton's step far out, where there is no
    curvature but that of such rows. Cost: 1 pass for the second.
    """

    def scaled(way: np.ndarray) -> np.ndarray:
        way = _within_bounds(objective, way)
        sizes = largest * np.abs(way)
        kept: np.ndarray = np.where(sizes > TRACE * sizes.max(), way, 0.0) / sizes.sum()
        return kept

    first = scaled(way)
    yield first
    if not _is_cheap(objective):
        return
    w = to_host(point.w) + FAR[0] * first
    far = objective.at(objective.xp.asarray(w), gram=True)
    if far.hessian is not None and math.isfinite(far.value):
        yield scaled(FAR[0] * first + _newton_step(far, free))


def _falls(
    objective: Objective, point: Point, way: np.ndarray, largest: np.ndarray, level: float
) -> bool:
    """Return whether the objective falls from a point as far as can be seen. Cost: 1 to 3 passes.

    The other way it rises, unless no margin changes, as where columns are dependent. Values and
    slopes up to `level` count as zero.
    """
    w = to_host(point.w)

    def at(t: float) -> tuple[float, float]:
        far = objective.at(objective.xp.asarray(w + t * way), keep=False)
        return far.value - point.value, float(to_host(far.gradient) @ way)

    for t in FAR:
        rise, slope = at(t)
        if not (rise <= level and slope <= level):
            return False
    # from beyond all that the coefficients have made of margins
    return not at(-FAR[0] - 2.0 * float(largest @ np.abs(w)))[0] <= level


def _within_bounds(objective: Objective, way: np.ndarray) -> np.ndarray:
    """Return a direction without what leads out of bounds on one side."""
    d = objective.n_features
    lower, upper = _bounds(objective)
    out = (np.isfinite(lower) & (way[:d] < 0.0)) | (np.isfinite(upper) & (way[:d] > 0.0))
    return np.append(np.where(out, 0.0, way[:d]), way[d:])


def _with_curvature(objective: Objective, point: Point) -> Point:
    """Return the point with its Hessian, or where that is large with what products with it take."""
    known = with_hessian(objective, point)
    if known.hessian is not None:
        return known
    if known.diagonal is not None and np.isfinite(to_host(known.gradient)).all():
        return known
    return objective.at(known.w, diagonal=True, curved=True)


def _newton_step(point: Point, free: np.ndarray) -> np.ndarray:
    """Return Newton's step in the free coefficients, roughly where there is no Hessian."""
    gradient = to_host(point.gradient)
    step = np.zeros(len(gradient))
    if point.hessian is None:
        diagonal = to_host(point.diagonal)
        scale = np.zeros(len(gradient))
        taken = free & (diagonal > 0.0)
        scale[taken] = 1.0 / np.sqrt(diagonal[taken])
        return step_by_products(point, gradient, scale, MOST_PRODUCTS, ENOUGH)
    gram = to_host(point.hessian)
    taken = free & (gram.diagonal() > 0.0)
    if taken.any():
        block = principal(gram, taken)
        if isinstance(block, BlockHessian) and block.is_nested:
            step[taken] = newton_step(block, gradient[taken])
            return step
        factor = HessianFactor.for_steps(block, 0.0, to_host(point.w)[taken])
        step[taken] = factor.step(gradient[taken])[0]
    return step
