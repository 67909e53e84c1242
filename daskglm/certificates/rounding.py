"""Bounds on the distance of a value from the optimum, by a gradient or a Hessian with rounding.

`docs/certificates.md` has the proofs. Nothing here knows of engines: a `Rounding` is made from the
summary of the rows, a `HessianFactor` from a matrix.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from daskglm.certificates.ball import Ball, widest
from daskglm.certificates.constants import Constants
from daskglm.certificates.far_columns import lost
from daskglm.certificates.hessian_factor import (
    FAR_OUT,
    FEW,
    UNIT,
    GradientError,
    HessianFactor,
    excess,
)
from daskglm.core.column_requests import ColumnMoments
from daskglm.core.device import to_host
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Spread, Totals
from daskglm.core.summation import MOMENT
from daskglm.losses.base import Loss
from daskglm.penalties.ridge import Ridge
from daskglm.penalties.tikhonov import Tikhonov

# Unit roundoff of float32.
FLOAT32 = 2.0**-24
# Rows of a tile whose products the CPU's Gram adds up one after another in the rows' precision.
MOST_SUMMED = 128
# Features up to which a device adds up products of dense rows over tiles, and rows of such a tile.
DEVICE_NARROW, DEVICE_TILE = 63, 256.0
# Entries of the rows that a device's Gram multiplies at once (64 MiB of float32).
DEVICE_SUMMED = 1 << 24
# Size of both parts of a slope over that of its curvature, beside the slope itself: 4 for shares,
# 2 for other families.
CANCELLED = 4.0
# Sums of n terms are off by so many times sqrt(n) roundings at most, if these have independent
# signs, but for a probability of 1e-13 (Higham & Mary 2019, theorem 2.4).
RANDOM_SIGNS = 8.0
# Share of a wanted bound from which rounding errors count.
HIDDEN = 0.25
# Change of a margin, times the loss's self-concordance, up to which a Hessian serves a bound.
LARGEST_EXPONENT = 2.0
# Largest |log| of a float64 that is not zero: of a mean, or of the odds of a share.
LARGEST_LOG = 745.0
# Size over the doubled largest row norm below which the power MOMENT of it underflows.
LEAST_SIZE = 1e-9
# How often the bound on the norm of the best coefficients is improved. Each time is valid.
IMPROVED = 3


EXACT = GradientError(0.0, 0.0, 0.0, 0.0)


class Norms(NamedTuple):
    """Norms of a vector on a device: all that bounds use of it, since rows there have no survey."""

    features: float  # Euclidean norm of the part by features
    intercept: float  # zero where there is none


Vector = np.ndarray | Norms


class Rounding:
    """Bounds for one set of rows: on rounding errors, and on the suboptimality of points.

    Parameters
    ----------
    facts : DataSummary
    loss : Loss
    constants : Constants
        Those of the margins.
    on_device : bool
        Whether the sums are made on a GPU.
    run : int, optional
        Rows whose gradients are added up before they are added to those of others; default: all of
        a block.
    penalty : Ridge or Tikhonov, optional
        Default: of strength one.

    Attributes
    ----------
    ball : Ball
        Holds all rows: around zero, until `survey` finds a better one.
    columns : (n_features,) array or float
        Bound on the values of each column: the largest row norm, until `survey` finds better ones.
    squares, means : (n_features,) arrays or None
        Weighted sums of squares of each column, and weighted means, once `measure` has found them.
        Each set of coefficients has the same columns.
    """

    def __init__(
        self,
        facts: DataSummary,
        loss: Loss,
        constants: Constants,
        *,
        on_device: bool,
        run: int | None = None,
        penalty: Ridge | Tikhonov | None = None,
    ) -> None:
        self.loss, self.constants, self.on_device = loss, constants, on_device
        penalty = penalty or Ridge(facts.n_features or 0)
        # curvature of the penalty along features, at least and at most
        self.strong = penalty.strong_convexity
        self.strongest = penalty.largest
        # bound on the weighted sum of curvatures where each row's loss is least, over all rows
        rest = loss.rest_curvature
        self.rest = 0.0 if rest is None else rest(facts.weight, facts.target_sum, loss.p1)
        self.offset, self.radius = facts.largest_offset, facts.largest_row_norm
        self.ball = Ball(None, self.radius)
        self.columns: Any = self.radius
        self.squares: np.ndarray | None = None
        self.means: np.ndarray | None = None
        # a device has no survey, and rows of zeros need none
        self.is_surveyed = on_device or not self.radius > 0.0
        self.width = facts.n_features or 0  # features of a row
        # those of which a row has one at most, a one
        self.factors = facts.factors if constants.sets == 1 else ()
        self.n_rows = facts.n_rows
        self.largest_target = facts.largest_target
        self.is_narrow = constants.has_kernels and self.width <= DEVICE_NARROW and not facts.sparse
        self.row = facts.longest_row + 3 + constants.row  # roundings of a margin
        self.roundoff = facts.gram_roundoff

        # additions that a term of a sum goes through: row after row of all blocks of a thread, and
        # of one after another
        self.in_turn = facts.n_rows + facts.n_blocks + FEW
        # the same of a gradient, which is added up over short runs of rows first
        self.terms: float = self.in_turn
        if run is not None and not on_device:
            runs = facts.n_rows / run + facts.n_blocks
            self.terms = min(self.terms, 2 * run + runs + FEW)
        self.terms += constants.term
        # and those of a Gram's entry: tile after tile of dense rows, row after row of others
        self.tiles = facts.n_rows / MOST_SUMMED + facts.n_blocks
        if facts.sparse:
            self.tiles = float(self.in_turn)

    @property
    def n_features(self) -> int:
        """Coefficients of features, of all sets."""
        return self.constants.sets * self.width

    def survey(self, ask: Callable[[Spread], Totals], facts: DataSummary) -> None:
        """Bound the values of each column and, with an intercept, find a ball around all rows.

        This improves bounds for rows far from zero, or with columns of unlike scales. Cost: 1 pass,
        or 2 with an intercept, a round each.
        """
        d, scale = self.width, 2.0 * self.radius
        more = 1.0 + FEW * d * UNIT  # roundings of the sums
        found = ask(Spread(np.zeros(d), scale))
        largest = np.maximum(found["columns"] ** (1.0 / MOMENT), LEAST_SIZE)
        self.columns = np.tile(more * scale * largest, self.constants.sets)
        self.is_surveyed = True
        if self.constants.count:
            # high moments of the distances from the mean bound the largest distance
            mean = found["sums"] / max(facts.n_rows, 1)
            moment = float(ask(Spread(mean, scale))["moment"])
            self.ball = Ball(mean, more * scale * max(moment ** (1.0 / MOMENT), LEAST_SIZE))

    def measure(self, ask: Callable[[ColumnMoments], Totals]) -> None:
        """Measure the weighted sums of squares of the columns, and means. Cost: 1 pass, 1 round."""
        totals = ask(ColumnMoments())
        means = np.asarray(totals["sums"]) / max(float(totals["weight"]), 1e-300)
        squares = np.asarray(totals["squares"]) * (1.0 + lost(self.in_turn))
        self.squares, self.means = (np.tile(each, self.constants.sets) for each in (squares, means))

    def take_survey(self, other: Rounding) -> None:
        """Take what a survey of the same rows has found."""
        self.columns, self.ball, self.is_surveyed = other.columns, other.ball, other.is_surveyed
        self.squares, self.means = other.squares, other.means

    def restricted(self, columns: np.ndarray) -> Rounding:
        """Return the same for some features; `columns` are their entries, of all sets."""
        found = copy.copy(self)
        found.width = len(columns) // self.constants.sets
        found.ball, found.factors = Ball(None, self.radius), ()
        if np.ndim(self.columns):
            found.columns = self.columns[columns]
        if self.squares is not None and self.means is not None:
            found.squares, found.means = self.squares[columns], self.means[columns]
        return found

    @property
    def largest(self) -> np.ndarray:
        """The bounds on the values of each column, (n_features,)."""
        return np.broadcast_to(self.columns, self.n_features)

    def sums_of_squares(self, weight: float) -> np.ndarray:
        """Bound the weighted sums of squares of each column, of rows of this total weight."""
        return weight * self.largest**2 if self.squares is None else self.squares

    # ---- parts of vectors
    def of_features(self, v: Vector) -> np.ndarray:
        """Return the coefficients of features, (sets, width)."""
        assert not isinstance(v, Norms)
        return np.asarray(v[: self.n_features]).reshape(self.constants.sets, self.width)

    def of_constants(self, v: Vector) -> np.ndarray:
        """Return the constants of a vector, which may be on a device; of norms, the intercept's."""
        if isinstance(v, Norms):
            return np.array(v[1:])
        found: np.ndarray = v[self.n_features :]
        return found if isinstance(found, np.ndarray) else to_host(found)

    def norm(self, v: Vector) -> float:
        """Return the norm of a vector without its constants."""
        if isinstance(v, Norms):
            return v.features
        part = v[: self.n_features]
        with np.errstate(over="ignore"):  # an infinite norm proves nothing
            return math.sqrt(float(part @ part))

    def _lengths(self, w: Vector) -> np.ndarray:
        """Return the norms of the coefficients of each feature, over the sets."""
        found: np.ndarray = np.hypot.reduce(self.of_features(w), axis=0)
        return found

    def size(self, w: Vector) -> float:
        """Bound the size of the terms of any row's margin at w: of several their norm."""
        features = self.norm(w) * self.radius
        if np.ndim(self.columns):
            features = min(features, float(self._lengths(w) @ self.columns[: self.width]))
        return features + self.constants.size(self.of_constants(w)) + self.offset

    # ---- errors
    def gradient(self, w: Vector, value: float, *, C: float, weight: float) -> GradientError:
        """Bound the error of the gradient at w.

        Parameters
        ----------
        w : (d,) or (d + 1,) array, or its norms
        value : float
            The objective there.
        C, weight : float
            C, and the sum of the rows' weights.
        """
        margin = self.row * UNIT * self.size(w)
        slopes, curvature = self._slopes(value, C, weight)
        if self.loss.bends:
            # slopes are differences, off by roundings of the curvature and of themselves
            margin += CANCELLED * FEW * UNIT
        if not math.isfinite(self.loss.smoothness):
            # the curvature grows within the error of a margin
            grown = self.loss.self_concordance * margin
            curvature *= math.exp(2.0 * grown) if grown <= LARGEST_EXPONENT else math.inf
        return GradientError(
            margins=margin * math.sqrt(curvature),
            slopes=curvature * margin,
            adding=self.terms * UNIT * slopes + self.constants.adding(self.of_constants(w)),
            penalty=2.0 * UNIT * self.strongest * self.norm(w),
        )

    def of_random_signs(self, error: GradientError) -> GradientError:
        """Return the bounds on a gradient's error with roundings of independent signs.

        See `gap` for the probability with which they hold.
        """
        return error._replace(
            slopes=error.slopes * min(1.0, RANDOM_SIGNS / math.sqrt(self.row)),
            adding=error.adding * min(1.0, RANDOM_SIGNS / math.sqrt(self.terms)),
        )

    def margin_error(self, w: Vector) -> float:
        """Bound the error of any margin at w, with roundings of independent signs."""
        return min(self.row, RANDOM_SIGNS * math.sqrt(self.row)) * UNIT * self.size(w)

    def margin_errors(self, w: np.ndarray, squares: np.ndarray, weight: float) -> float:
        """Bound the root of the weighted sum of the squared errors of all margins at w.

        Roundings have independent signs, and coefficients of zero make none. `squares`
        (n_features,) are the columns' weighted sums of squares, `weight` is the sum of the rows'
        weights.
        """
        sizes = self._lengths(w)
        constant = self.constants.size(self.of_constants(w)) + self.offset
        size = float(sizes @ np.sqrt(squares[: self.width])) + constant * math.sqrt(weight)
        terms = min(self.row, int(np.count_nonzero(sizes)) + 3 + self.constants.change)
        return min(terms, RANDOM_SIGNS * math.sqrt(terms)) * UNIT * size

    def _slopes(self, value: float, C: float, weight: float) -> tuple[float, float]:
        """Bound the sum of the sizes of all slopes, and that of all curvatures.

        The arguments are those of `gradient`. With smoothness L, slope^2 <= 2 L loss. Else with
        |third derivative| <= M curvature, and r the curvature where a row's loss is least:
        curvature <= r + M |slope|, and so |slope| <= 2 M loss + sqrt(2 r loss). Infinite where
        neither is known. The r of all rows are taken, of which a fold has some.
        """
        L, M = self.loss.smoothness, self.loss.self_concordance
        value = max(value, 0.0)
        if math.isfinite(L):
            mass = C * weight
            return math.sqrt(2.0 * L * mass * value), mass * L
        if not (math.isfinite(M) and math.isfinite(value)):
            return math.inf, math.inf
        rest = C * self.rest
        slopes = 2.0 * M * value + math.sqrt(2.0 * rest * value)
        return slopes, rest + M * slopes

    def zero(
        self,
        w: Vector,
        value: float,
        *,
        C: float,
        weight: float,
        curvature: float | None = None,
    ) -> float:
        """Return the objective of targets that an intercept alone fits, but for its rounding.

        `curvature` is the sum of all curvatures, if it is known; else it is bounded.
        `FEW` roundings of the intercept are in each margin. 0 without an intercept, and for labels,
        whose losses have their least value far from any label or are exactly zero.
        """
        if self.loss.classifies or not self.constants.count:
            return 0.0
        off = FEW * UNIT * (self.constants.size(self.of_constants(w)) + self.offset)
        if not self.loss.differentiable:
            return C * weight * off  # slopes are at most one
        if math.isinf(self.loss.smoothness) and not off < 1.0:
            return 0.0  # curvatures within that are not known
        if curvature is None:
            curvature = self._slopes(value, C, weight)[1]
        return 0.5 * curvature * off * off if math.isfinite(curvature) else 0.0

    def gap(
        self,
        w: np.ndarray,
        primal: float,
        dual: float,
        *,
        C: float,
        weight: float,
        drift: float = 1.0,
    ) -> float:
        """Bound on the error of a duality gap at w, the sum of the dual variables times their rows.

        Sums over rows are taken to have roundings of independent signs: the bound of Higham & Mary
        2019, theorem 2.4, with lambda = 8, which such sums exceed with a probability of 1e-13.
        `drift` says how many such sums, by their multiples, the shared vector has been added up
        from. The sizes of slopes, times C and weights, add up to at most `slopes`, those of the
        dual variables to at most `duals` (see `docs/certificates.md`). Conjugates have terms of
        either sign, dual variables times targets, which for labels are no larger than the sum.
        """
        size = self.size(w)
        mass = C * weight
        L, M, left = self.loss.smoothness, self.loss.self_concordance, max(primal - dual, 0.0)
        if math.isfinite(L):
            slopes = math.sqrt(2.0 * L * mass * max(primal, 0.0))
            duals = slopes + math.sqrt(2.0 * L * mass * left)
        elif math.isfinite(M):
            # a row's share of the gap bounds how far its dual variable is from minus its slope
            slopes, curvatures = self._slopes(primal, C, weight)
            duals = slopes + 2.0 * M * left + math.sqrt(2.0 * curvatures * left)
        else:
            # slopes and dual variables are at most one
            slopes, duals = mass, 2.0 * max(primal, 0.0) if self.loss.classifies else mass

        adding = RANDOM_SIGNS * math.sqrt(self.in_turn) * UNIT
        margins = (slopes * self.row * UNIT + duals * drift * adding) * size
        # dual variables are multiplied by the margin at which the row's loss is least
        rest = LARGEST_LOG if self.loss.bends else self.largest_target
        terms = 0.0 if self.loss.classifies else 2.0 * duals * rest
        return margins + adding * (abs(primal) + abs(dual) + terms)

    def gram(self, *, exact: bool, likely: bool = False) -> float:
        """Bound the error of an entry (j, k) of a Gram G as a share of sqrt(G_jj G_kk).

        `exact` Grams are summed in float64. `likely` returns the error to be expected instead, by
        roundings of random signs.
        """
        summed = float(MOST_SUMMED)
        if self.on_device and not self.is_narrow:
            summed = max(summed, min(DEVICE_SUMMED / (self.n_features + 1.0), self.n_rows))
        elif self.on_device:
            summed = DEVICE_TILE

        roundoff = UNIT if exact else self.roundoff
        if likely:
            return math.sqrt(summed + FEW) * roundoff
        # tiles are added up in float64
        adding = (summed + self.tiles) * UNIT
        return (summed + FEW) * roundoff + adding + self.constants.entry

    @property
    def is_exact(self) -> bool:
        """Whether Grams are summed in float64 without being asked to."""
        return self.roundoff <= UNIT

    # ---- bounds
    @FAR_OUT
    def features(self, gradient: Vector, error: GradientError) -> float:
        """Bound the norm of the exact gradient by the features, with the constants as they are.

        With constants rows are taken less the ball's centre.
        """
        centre, radius = self.ball
        adding = error.adding * self.radius + error.penalty
        if centre is None:
            norm = self.norm(gradient)
        else:
            # the slopes of all rows, added up
            total = self.constants.moves @ self.of_constants(gradient)
            norm = self.norm((self.of_features(gradient) - np.outer(total, centre)).ravel())
            adding += error.adding * float(np.linalg.norm(centre))
        return norm + adding + error.slopes * radius

    def steepest(self, gradient: Vector, error: GradientError, near: float = math.inf) -> float:
        """Bound |grad F|, the exact gradient by the features at the best constants: `convex`.

        It is infinite where nothing is known of those.
        """
        features, off = self.features(gradient, error), error.slopes + error.adding
        if not self.constants.count:
            return features
        return self._moved(features, self.of_constants(gradient), off, near)

    def _moved(self, features: float, slopes: np.ndarray, off: float, near: float) -> float:
        """Return the norm by the features at the best constants, of that at these ones."""
        moved = self.constants.moved(slopes, off, near)
        return features + self.ball.radius * moved if math.isfinite(moved) else math.inf

    def cost(
        self, w: Vector, slopes: np.ndarray, off: float, ball: Ball, intercept_radius: float
    ) -> tuple[float, float]:
        """Bound g_c.(c - c*), by a number and another times a norm; see `Constants.cost`.

        Parameters
        ----------
        w : (size,) array, or its norms
        slopes : (count,) array
            g_c, computed.
        off : float
            Bound on the norm of its error.
        ball : Ball
            Holds all rows.
        intercept_radius : float
            Of one intercept.
        """
        constants = self.constants
        if not (off > 0.0 or slopes.any()):
            return 0.0, 0.0
        apart = self.of_constants(w) - constants.start
        if ball.centre is not None:
            apart = apart + constants.moves.T @ (self.of_features(w) @ ball.centre)
        farther = intercept_radius if constants.offset is None else constants.offset
        if not (math.isfinite(farther) and np.isfinite(apart).all()):
            return math.inf, 0.0  # as a class without weight has no best intercept
        return constants.cost(apart, slopes, off, ball.radius, farther)

    @FAR_OUT
    def convex(
        self,
        w: Vector,
        gradient: Vector,
        value: float,
        error: GradientError,
        intercept_radius: float,
        near: float = math.inf,
    ) -> float:
        """Bound the excess at w by strong convexity of F(w) = min over c of f(w, c).

        The penalty is at least 1/2 mu |w|^2. F(w) - min F is at most |grad F|^2 / (2 mu), and f(w,
        c) - F(w) at most g_c.(c - c(w)), or what `near` says; see `Constants` for both. Or, without
        grad F: |g|^2 / (2 mu) bounds the excess at the constants as they are, but for g_c.(c - c*).
        The norm |w*|, on which that depends, is at most sqrt(2 f / mu), since the penalty at the
        optimum is at most the objective here. And it is at most |w| + |w - w*|, whose square times
        mu is at most |g| |w - w*| + g_c.(c - c*).
        """
        features = self.features(gradient, error)
        if not self.constants.count or not self.strong:
            return self._fall(features)

        slopes, off = self.of_constants(gradient), error.slopes + error.adding
        first, second = self.cost(w, slopes, off, self.ball, intercept_radius)
        norm, largest = self.norm(w), math.sqrt(2.0 * max(value, 0.0) / self.strong)
        settled = self.constants.excess(slopes, off, near)
        here = min(first + second * norm, settled)
        bound = self._fall(self._moved(features, slopes, off, near)) + here
        for _ in range(IMPROVED):
            rest = 4.0 * self.strong * (first + second * largest)
            moved = (features + math.sqrt(features * features + rest)) / (2.0 * self.strong)
            largest = min(largest, norm + moved)
        return min(bound, self._fall(features) + first + second * largest)

    def _fall(self, norm: float) -> float:
        """Bound how far the objective can fall if the gradient by the features has this norm."""
        return 0.5 * norm * norm / self.strong if self.strong else math.inf

    def hides(
        self,
        wanted: float,
        w: np.ndarray,
        value: float,
        error: GradientError,
        intercept_radius: float,
        near: float = math.inf,
    ) -> bool:
        """Return whether a computed gradient of zero would not prove a wanted bound by `convex`.

        Then rounding stands in the way, and a `survey` may help, if there was none yet.
        """
        if self.is_surveyed:
            return False
        return self.convex(w, 0.0 * w, value, error, intercept_radius, near) > HIDDEN * wanted

    def hessian(self, w: Vector, *, exact: bool) -> float:
        """Bound the error of an entry of a Hessian at w, as `gram` does of a Gram."""
        margin = UNIT * self.row * self.size(w)
        return self.gram(exact=exact) + self.constants.bending(self.of_constants(w), margin)

    def by_hessian(
        self,
        factor: HessianFactor,
        gradient: np.ndarray,
        error: GradientError,
        moved: float = 0.0,
        at: Vector | None = None,
    ) -> float:
        """Bound the excess at a point by the Hessian H there, or at a point nearby.

        This is for losses whose curvature varies slowly. `moved` bounds how far any margin is from
        that where H was summed: curvatures then differ by factors within exp(+-moved
        self_concordance), so exp(moved self_concordance) H^-1 takes the place of the inverse
        Hessian. The bound is infinite where nothing is proved. Thresholds want to know the point.
        """
        if not (factor.proves and math.isfinite(self.loss.self_concordance)):
            return math.inf
        decrement = factor.decrement(gradient)
        decrement += factor.error(error, self.n_features, self.widest(factor.roots))
        return self.by_decrement(factor, decrement, moved, at)

    def by_decrement(
        self, factor: HessianFactor, decrement: float, moved: float, at: Vector | None = None
    ) -> float:
        """Bound the excess by a bound on the exact gradient's norm in that of H^-1."""
        rate = self.loss.self_concordance
        if not math.isfinite(decrement + rate) or (rate > 0.0 and not moved <= LARGEST_EXPONENT):
            return math.inf
        grown = math.sqrt(math.exp(rate * moved)) if rate > 0.0 else 1.0
        return excess(grown * decrement, rate * grown * self.reach(factor, at))

    def reach(self, factor: HessianFactor, at: Vector | None = None) -> float:
        """Bound the change of any margin by a step of norm one in that of the exact Hessian.

        At a point it is the rate of curvatures of barriers, too.
        """
        c = None if at is None else self.of_constants(at)
        found = self.constants.reach(factor, self.ball, self.n_features, c)
        if not self.factors or self.constants.count > 1:
            return found
        constants = factor.roots[self.n_features :]
        return min(found, self.widest(factor.roots) + float(constants.sum()))

    def widest(self, roots: np.ndarray) -> float:
        """Bound the sum of any row's values, by size, times the first of these numbers."""
        return widest(roots[: self.n_features], self.columns, self.factors)
