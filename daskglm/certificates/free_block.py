"""Features that neither a penalty nor bounds hold: how near they are to their best coefficients.

The objective, minimised over them, is a convex function of the other coefficients, and the bound by
the tangent holds for it. Only their own block of the Hessian is wanted. `docs/certificates.md` has
the proof.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskglm.certificates.free import Free, Settled
from daskglm.certificates.hessian_factor import FAR_OUT, FEW, UNIT, HessianFactor, Triangle, length
from daskglm.certificates.rounding import HIDDEN
from daskglm.core.block_hessian import principal
from daskglm.core.column_requests import ColumnGram

if TYPE_CHECKING:
    from daskglm.certificates.tangent import ByTangent
    from daskglm.objectives.point import Point
    from daskglm.objectives.primal import Objective

# Features without a penalty, at most, whose Hessian is formed: 32 MB. As `costs.LARGEST_HESSIAN`.
MOST = 2000
# Change of the logarithm of curvatures within which the best coefficients must be.
LARGEST_CHANGE = 0.2
# Bound on its exponential.
GROWN = 1.25
# Steps of Newton's method to the best coefficients, at most: where these are near, two reach
# rounding. Chosen.
STEPS = 4
# Share of the gradient's norm that a step near the best coefficients leaves, at most: far from them
# more steps are not worth their passes. Chosen.
NEWTON_FALL = 0.25
# By how many times the change of margins that is foreseen that one is allowed within which rows
# keep their curvature. More finds fewer rows, less may have to be asked again. Chosen.
ALLOWED = 8.0


class FreeHessian(NamedTuple):
    """The Hessian by the coefficients that nothing holds, at a point.

    Parameters
    ----------
    entries : (m,) int array
        Which they are: features, and the intercept as the last, if there is one.
    factor : HessianFactor
        Of that block.
    curvature : float
        Bound on the weighted sum of all rows' curvatures, times C; infinite: not known.
    diagonal : (d,) array, optional
        Of the whole Hessian, where that is known.
    reach : float
        Change of margins within which the Hessian is no smaller: for losses without
        self-concordance.
    """

    entries: np.ndarray
    factor: HessianFactor
    curvature: float = math.inf
    diagonal: np.ndarray | None = None
    reach: float = 0.0


NONE = np.empty(0, np.int64)
# A block that proves nothing.
NO_FACTOR = HessianFactor(Triangle(np.empty((0, 0))), math.inf, math.inf, np.empty(0))
UNKNOWN = FreeHessian(NONE, NO_FACTOR)


def block_of(point: Point) -> FreeHessian | None:
    """Return what is known of the Hessian by the coefficients that nothing holds. Cost: nothing."""
    known = vars(point)
    if point.free_hessian is None and "own_block" not in known:
        known["own_block"] = of_hessian(point.objective, point)
    found: FreeHessian | None = point.free_hessian or known.get("own_block")
    return found


def can_settle(bounds: ByTangent, point: Point) -> bool:
    """Return whether the Hessian by the coefficients that nothing holds may bound a point.

    Not where it is singular as far as is known, nor need it where that of all proves something.
    """
    loss = bounds.loss
    known = math.isfinite(loss.self_concordance) or loss.has_two_curvatures
    if not (known and isinstance(bounds.free, FreeBlock)):
        return False
    if bounds.objective.rows.moves or math.isfinite(point.excess):
        return False
    if not 0 < len(features_of(bounds.objective, point.w)) <= MOST:
        return False
    block = block_of(point)
    return block is None or block.factor.proves


def unproved(point: Point) -> Point:
    """Return the point, of whose coefficients that nothing holds nothing can be proved."""
    return replace(point, free_hessian=UNKNOWN)


def features_of(objective: Objective, w: np.ndarray) -> np.ndarray:
    """Return the features that nothing holds at w: (k,) int array.

    Those with a bound on one side count where they are not at it.
    """
    penalty, d = objective.penalty, objective.n_features
    if penalty.is_held:
        return NONE
    kinks = penalty.feature_kinks
    inside = (w[:d] > kinks.lower) & (w[:d] < kinks.upper)
    return np.flatnonzero(penalty.may_be_free & inside)


def entries_of(objective: Objective, features: np.ndarray) -> np.ndarray:
    """Return the features' entries of a vector, and the intercept's."""
    return np.append(features, np.arange(objective.n_features, objective.size))


def of_hessian(objective: Objective, point: Point) -> FreeHessian | None:
    """Return what the Hessian of a point says, if it has one that says anything. Cost: nothing."""
    features = features_of(objective, point.w)
    known = math.isfinite(objective.loss.self_concordance) and len(features)
    if point.hessian is None or not known:
        return None
    entries = entries_of(objective, features)
    block = principal(point.hessian, entries)
    factor = HessianFactor.of(block, point.entry_error)
    whole = point.hessian.diagonal()
    curvature = float(whole[-1]) if objective.fit_intercept else math.inf
    diagonal = whole[: objective.n_features].copy()
    return FreeHessian(entries, factor, curvature, diagonal)


@FAR_OUT
def with_block(objective: Objective, point: Point, reach: float = 0.0) -> Point:
    """Return the point with the block of the Hessian there. Cost: 1 pass, 1 round.

    `reach` is that of `FreeHessian`: zero for any curvature at the margins. Where all features are
    held after all the point is returned as it is.
    """
    features = features_of(objective, point.w)
    if not len(features):
        return point
    error = margin_error(objective, point.w) if reach else 0.0
    asked = ColumnGram((point.token, point.w), features, reach + error)
    gram = objective.C * objective.ask(asked)["gram"]
    curvature = float(gram[-1, -1]) * (1.0 + 1e-6)  # sums of so many terms are better than that
    if math.isinf(objective.loss.self_concordance):
        curvature = math.inf  # rows that were left out have some elsewhere
    entries = entries_of(objective, features)
    block = gram[: len(entries), : len(entries)].copy()
    objective.penalty.quadratic.restricted(features).add_to(block)
    # terms are added up in any order
    rounding = objective.rounding
    factor = HessianFactor.of(block, (rounding.in_turn + FEW) * UNIT)
    return replace(point, free_hessian=FreeHessian(entries, factor, curvature, None, reach))


def margin_error(objective: Objective, w: np.ndarray) -> float:
    """Bound the error of any margin at w, and of its distance from where a curvature jumps."""
    rounding = objective.rounding
    size = rounding.size(w)
    return float(UNIT * (rounding.row * size + 4.0 * FEW * (size + rounding.largest_target + 1.0)))


def change(objective: Objective, free: FreeHessian) -> float:
    """Bound the change of any margin by a step of norm one in that of the block."""
    rounding, features = objective.rounding, free.entries[free.entries < objective.n_features]
    roots = free.factor.roots
    columns = np.ones(len(roots))
    columns[: len(features)] = rounding.largest[features]
    constant = float(len(features) < len(roots))
    whole = math.hypot(rounding.radius, constant) * free.factor.root_trace
    return min(whole, float(columns @ roots))


def rounding_error(objective: Objective, point: Point, free: FreeHessian, off: np.ndarray) -> float:
    """Bound the error of the gradient's entries in the norm of the inverse of the block.

    `off` is that of `nearness`.
    """
    factor, rate, rounding = free.factor, objective.loss.self_concordance, objective.rounding
    found = float(factor.roots @ off)
    if math.isinf(rate) or found == 0.0:
        return found
    # what errors of margins do does not depend on the condition of the block
    features = free.entries[free.entries < objective.n_features]
    widest = float(rounding.largest[features] @ factor.roots[: len(features)])
    grown = math.exp(0.5 * min(rate * margin_error(objective, point.w), 1.0))
    return min(found, grown * factor.error(point.error, len(features), widest))


def nearness(objective: Objective, point: Point, free: FreeHessian, off: np.ndarray) -> float:
    """Bound the decrement D of the coefficients that nothing holds, for a smaller Hessian.

    Within reach of the best ones it is nowhere larger than the Hessian, so they are within D of
    these here, in its norm, and the objective falls by D^2 / 2 at most on the way. Infinite where
    that is not known.

    Parameters
    ----------
    off : (m,) array
        Bounds on the errors of the gradient's entries.
    """
    factor, rate = free.factor, objective.loss.self_concordance
    if not factor.proves:
        return math.inf
    decrement = factor.decrement(point.gradient[free.entries])
    decrement += rounding_error(objective, point, free, off)
    if rate == 0.0 or not math.isfinite(decrement):
        return decrement
    moved = change(objective, free) * decrement
    if math.isinf(rate):
        return decrement if moved < free.reach else math.inf
    grown = rate * (GROWN * moved + margin_error(objective, point.w))
    return decrement * math.exp(0.5 * grown) if grown <= LARGEST_CHANGE else math.inf


def moved_gradient(objective: Objective, free: FreeHessian, near: float) -> np.ndarray:
    """Bound how much the gradient by each feature changes on the way to the best coefficients.

    Parameters
    ----------
    near : float
        The bound of `nearness`.

    Returns
    -------
    (d,) array
    """
    d, rounding, smoothness = objective.n_features, objective.rounding, objective.loss.smoothness
    if near == 0.0:
        return np.zeros(d)
    with np.errstate(over="ignore"):
        found = GROWN * free.curvature * rounding.largest**2
        if free.diagonal is not None:
            found = np.minimum(found, GROWN * free.diagonal)
        if math.isfinite(smoothness):
            squares = rounding.sums_of_squares(objective.total_weight)
            found = np.minimum(found, objective.C * smoothness * squares)
        if not objective.penalty.quadratic.is_diagonal:
            found = found + objective.penalty.quadratic.diagonal(d)
    return near * np.sqrt(found)


class FreeBlock(Free):
    """Free coefficients of one margin: the intercept, and features by a block of the Hessian."""

    waits = True

    @property
    def wants_hessian(self) -> bool:
        """False: their block is enough."""
        return False

    def may_prove(self, point: Point) -> bool:
        """Return whether a Hessian may bound a point: that of all, or their block."""
        known = point.hessian is not None and math.isfinite(self.loss.self_concordance)
        return known or can_settle(self.bounds, point)

    def can_ask(self, point: Point) -> bool:
        """Return whether the rows may say how near the intercept is: if there is one."""
        return self.objective.fit_intercept

    def is_unknown(self, point: Point) -> bool:
        """Return whether there are features whose block is not known."""
        return len(features_of(self.objective, point.w)) > 0 and block_of(point) is None

    def hides(self, point: Point, wanted: float) -> bool:
        """Return whether a bound is above `wanted`, and a survey may lower it, for rounding.

        Or whether most of it is rounding: then nobody sees what a point proves.
        """
        if self.is_unknown(point):
            return False
        if self._exact(point) <= wanted:
            return True
        settled = self.at_best(point)
        return self._exact(settled) <= HIDDEN * self.bounds.of(settled)

    def settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> Settled | None:
        """Return the tangent as if the coefficients that nothing holds were the best ones.

        That is so where `point.near` is zero, and else where the block says how near they are; if
        it does not, or there are no such features: None.
        """
        objective, near = self.objective, point.near
        features = features_of(objective, point.w)
        if not len(features):
            return None
        if near > 0.0:
            block = block_of(point)
            if block is None:
                return None
            errors = np.append(off, np.full(objective.size - len(off), constant))
            near = nearness(objective, point, block, errors[block.entries])
            if not math.isfinite(near):
                return None
            # where other slopes have changed
            off = off + moved_gradient(objective, block, near)
        gradient, off = gradient.copy(), off.copy()
        gradient[features] = off[features] = 0.0
        return gradient, off, 0.5 * near * near


def entry_errors(bounds: ByTangent, point: Point, entries: np.ndarray) -> np.ndarray:
    """Bound the errors of some entries of the gradient."""
    off, constant, _ = bounds.errors(point, point.error, point.value)
    return np.append(off, np.full(bounds.objective.size - len(off), constant))[entries]


@FAR_OUT
def settle(bounds: ByTangent, point: Point, wanted: float) -> Point:
    """Return the point with its block, or one with better coefficients in it.

    Newton's method on the block alone, until a bound of `wanted` is proved. Cost: 1 pass, and 2
    for each step.
    """
    objective = bounds.objective
    best = now = with_block(objective, point)
    for _ in range(STEPS):
        if now.free_hessian is None:
            break
        known, off = now.free_hessian, entry_errors(bounds, now, now.free_hessian.entries)
        if bounds.of(best) <= wanted or not known.factor.proves:
            break
        before, reach = now.gradient[known.entries], 0.0
        step, square = known.factor.step(before)
        proved = known.reach > 0.0 or math.isfinite(objective.loss.self_concordance)
        if proved and math.sqrt(square) <= rounding_error(objective, now, known, off):
            break  # rounding hides what a step would change
        w = now.w.copy()
        w[known.entries] += step
        trial = objective.at(w, beside=now)
        after = trial.gradient[known.entries]
        steep = length(after)
        if not math.isfinite(trial.value + steep):
            break
        if math.isinf(objective.loss.self_concordance):
            left = known.factor.decrement(after) + rounding_error(objective, trial, known, off)
            reach = ALLOWED * change(objective, known) * left + margin_error(objective, trial.w)
            if not math.isfinite(reach):
                break
        trial = with_block(objective, trial, reach)
        if bounds.of(trial) < bounds.of(best):
            best = trial
        if not steep < NEWTON_FALL * length(before):
            break
        now = trial
    return best
