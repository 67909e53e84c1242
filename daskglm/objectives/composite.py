"""The objective with a penalty that may have kinks, bounds, or a strength for each feature.

Points hold the gradient of the smooth part: losses and quadratic penalties. All vectors are in host
memory, wherever the rows are.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from daskglm.core.column_requests import ColumnMoments
from daskglm.core.device import to_host
from daskglm.core.requests import Request, Totals
from daskglm.objectives import unheld
from daskglm.objectives.bounds import EXACT, FEW, RANDOM_SIGNS
from daskglm.objectives.composite_certificate import CompositeCertificate
from daskglm.objectives.free_bound import Tangent, largest_norm, lower_bound
from daskglm.objectives.hessian_factor import UNIT, GradientError
from daskglm.objectives.host_vectors import moved
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective, tokens
from daskglm.penalties.nonsmooth import NonSmooth

# What an objective caches of its penalty.
CACHED = (
    "feature_terms",
    "is_held",
    "may_be_unheld",
    "threshold",
    "unheld",
    "counted_curvature",
    "_has_counted_curvature",
)


class Composite(Objective):
    """Losses, a quadratic penalty, and kinks and bounds.

    Parameters are those of `Objective`, and

    Parameters
    ----------
    terms : NonSmooth
        For vectors of `size` entries.

    Attributes
    ----------
    whole : Composite or None
        Of an objective on some features: that on all of them.
    columns : (k,) int array
        These features.
    key : int
        That of the copy of their columns.
    stored : int or None
        Values of these columns, once anything has been asked of them.
    """

    terms: NonSmooth
    whole: Self | None = None
    columns: np.ndarray
    key: int
    stored: int | None = None
    is_composite = True
    # whether there are coefficients that only a Hessian of all can bound
    wants_hessian = False

    def __init__(self, *args: Any, terms: NonSmooth, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.terms = terms
        # weighted sums of squares of each column, and weighted means
        self.squares: np.ndarray | None = None
        self.means: np.ndarray | None = None
        self.rows_xp = self.xp
        self.xp = np

    @property
    def is_smooth(self) -> bool:  # type: ignore[override]
        """Whether there are neither kinks nor bounds."""
        return self.terms.is_empty

    @property
    def is_grouped(self) -> bool:  # type: ignore[override]
        """Whether the penalty has a norm of the coefficients of each group."""
        return len(self.terms.groups) > 0

    @property
    def solves_trust_regions(self) -> bool:
        """Whether subproblems of a trust region may be solved where the rows are: never."""
        return False

    @cached_property
    def threshold(self) -> float:  # type: ignore[override]
        """Strength of |w_j| over that of 1/2 w_j^2, if both are the same for all features.

        Else nan: then `objectives.dual` does not know the dual problem.
        """
        terms, ridge = self.feature_terms, self.penalty
        strengths = terms.strengths
        same = ridge.is_uniform and ridge.largest > 0.0 and not (terms.is_bounded or terms.groups)
        same = same and self.rows_xp is np and bool((strengths == strengths[:1]).all())
        return float(strengths[0]) / ridge.largest if same and len(strengths) else math.nan

    @property
    def has_dual(self) -> bool:
        """Whether the dual problem is known to `objectives.dual`."""
        return super().has_dual and self.threshold >= 0.0

    @property
    def proves(self) -> bool:
        """Whether points can be bounded."""
        return self.loss.is_bounded

    @cached_property
    def is_held(self) -> bool:
        """Whether the penalty alone holds each feature near zero, or bounds on both sides do."""
        return not self.may_be_unheld.any()

    @cached_property
    def may_be_unheld(self) -> np.ndarray:
        """The features that neither the penalty nor bounds on both sides hold, (d,) of bool."""
        terms = self.feature_terms
        boxed = np.isfinite(terms.lower) & np.isfinite(terms.upper)
        held = boxed | (terms.strengths > 0.0) | (self.counted_curvature > 0.0)
        for group, strength in zip(terms.groups, terms.group_strengths, strict=True):
            held[group] = strength > 0.0
        return ~held

    @cached_property
    def feature_terms(self) -> NonSmooth:
        """The terms of vectors without an intercept."""
        return self.terms.of_features(self.n_features)

    @property
    def origin(self) -> np.ndarray:
        """Where solves start: zero, or the nearest coefficients within the bounds."""
        return self.terms.clip(super().origin)

    def is_origin(self, w: np.ndarray) -> bool:
        """Return whether these are the coefficients of the `origin`."""
        return bool((w == self.origin).all())

    def kinks(self, w: np.ndarray) -> float:
        """Return the part of the penalty at w that is not quadratic."""
        return self.terms.value(w)

    def at(self, w: np.ndarray, **how: Any) -> Point:
        """Evaluate as `Objective.at` does, at the nearest coefficients within the bounds."""
        w = self.terms.clip(np.asarray(w, np.float64))
        point = super().at(w, **how)
        return replace(point, value=point.value + self.terms.value(w))

    def residual(self, point: Point) -> np.ndarray:
        """Return the shortest subgradient at a point. Cost: nothing."""
        return self.terms.residual(point.w, point.gradient)

    def between(self, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Evaluate a + t (b - a) for each t of `steps`. Cost: 0 passes, 1 round."""
        smooth = super().between(a, b, steps)
        return smooth + np.array([self.terms.value(a.w + t * (b.w - a.w)) for t in steps])

    # ---- how good a point is
    def certificate(self, tol: float) -> Callable[[Point], tuple[Point, float]]:
        """Return what the driver calls to bound the points of one solve."""
        if self.is_local:
            return super().certificate(tol)
        return CompositeCertificate(self, tol)

    def bound(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; nan where nothing is proved.

        By the Hessian and the shortest subgradient; where that proves nothing by the gradient alone
        (see `free_bound`), which cannot bound coefficients that nothing holds. The value is a bound
        itself, since losses are not negative. Cost: nothing.
        """
        if self.is_local:
            return min(point.value, point.excess) if math.isfinite(point.excess) else math.nan
        if not self.proves:
            return math.nan
        # a finite bound by the Hessian is of second order, and the other one lags behind it
        found = point.excess if math.isfinite(point.excess) else point.free_bound
        # where nothing but the Hessian can bound features, and that cannot: only the gradient tells
        curved = point.gram is not None and math.isfinite(self.loss.self_concordance)
        curved = curved or unheld.can_settle(self, point)
        if not (found < point.value or self.is_held or curved):
            return math.nan
        # losses of separable classes vanish as coefficients grow: a bound of zero has underflown
        if found == 0.0 and point.value > 0.0 and not self.is_held:
            return math.nan
        return min(found, point.value)

    def nominal_bound(self, point: Point) -> float:
        """Bound by the gradient as if arithmetic were exact: it steers, and proves nothing.

        Coefficients that nothing holds, of whose Hessian nothing is known, count as the best ones.
        """
        if self.unheld_features(point) and unheld.block_of(point) is None:
            point = replace(point, near=0.0)
        return self.by_tangent(point, EXACT)

    def unheld_features(self, point: Point) -> int:
        """Return the number of features that nothing holds at a point."""
        return 0 if self.is_held else len(unheld.features_of(self, point.w))

    def feature_bound(self, point: Point) -> float:
        """Return the bound by the gradient as if arithmetic were exact."""
        return self.nominal_bound(point)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        if self.is_local:
            return super().is_hidden(point, tol)
        unknown = self.unheld_features(point) and unheld.block_of(point) is None
        if self.squares is not None or unknown:
            return False
        by_hessian = math.inf
        if point.gram is not None:
            by_hessian = self.rounding.by_hessian(point.factor, point.residual, EXACT)
        return min(self.nominal_bound(point), by_hessian) <= tol * point.value

    def by_tangent(self, point: Point, error: GradientError) -> float:
        """Bound the distance of a point's value from the optimum by its tangent."""
        d = self.n_features
        features, gradient = point.w[:d], point.gradient[:d]
        curvature = self.counted_curvature
        with np.errstate(over="ignore", invalid="ignore"):
            value = point.value - self.terms.value(point.w)
            if self._has_counted_curvature:
                value -= 0.5 * float(curvature @ features**2)
                gradient = gradient - curvature * features
        if not (math.isfinite(value) and np.isfinite(gradient).all()):
            return math.inf

        off, constant, loose = self.errors(point, error, value)
        gradient, off, more = self._settled(point, gradient, off, constant)
        loose += more
        if not (math.isfinite(loose) and np.isfinite(off).all()):
            return math.inf
        quadratic = self.loss.is_quadratic
        tangent = Tangent(value, gradient, features, curvature, quadratic, loose, off)
        return point.value - lower_bound(tangent, self.feature_terms)

    def _settled(
        self, point: Point, gradient: np.ndarray, off: np.ndarray, constant: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Bound what the coefficients without any penalty add to the tangent.

        Parameters
        ----------
        gradient, off : (n_features,) arrays
            By the features, and bounds on its errors.
        constant : float
            Bound on the error of the gradient by the intercept.

        Returns
        -------
        tuple of (n_features,) array, (n_features,) array, float
            Gradient and errors to take instead, and by how much the tangent may lie lower.
        """
        if self.unheld_features(point):
            found = unheld.settled(self, point, gradient, off, constant)
            if found is not None:
                return found
        if not self.fit_intercept:
            return gradient, off, 0.0
        slope = abs(float(point.gradient[-1])) + constant
        if math.isfinite(point.near):
            # as if at the best intercept, where every slope has changed in the same direction
            changed = np.full(self.n_features, slope) * self.rounding.columns
            if self.squares is not None and math.isfinite(self.loss.smoothness):
                mass = self.scale * self.loss.smoothness * math.sqrt(self.total_weight)
                changed = np.minimum(changed, mass * point.near * np.sqrt(self.squares))
            return gradient, off + changed, slope * point.near
        if not slope > 0.0:
            return gradient, off, 0.0
        reach = self.rounding.radius * self._largest_norm(point.value) + self.span
        return gradient, off, slope * (abs(float(point.w[-1])) + reach)

    def errors(
        self, point: Point, error: GradientError, value: float
    ) -> tuple[np.ndarray, float, float]:
        """Bound errors: of the gradient by features and the intercept, and of the smooth value.

        `error` is that of the gradient, `value` that of the smooth part.
        """
        rounding, d = self.rounding, self.n_features
        if error is EXACT:
            return np.zeros(d), 0.0, 0.0
        # losses are added up as slopes are, and are off by errors of margins
        slopes = error.adding / (rounding.terms * UNIT)
        error = rounding.of_random_signs(error)
        of_value = error.adding / max(slopes, 1e-300) * abs(value)
        of_value += slopes * rounding.margin_error(point.w)
        constant = error.adding + error.slopes
        off = np.full(d, constant) * rounding.columns
        evaluated = point.prediction is None
        if self.squares is not None and evaluated and math.isfinite(self.loss.smoothness):
            # by Cauchy and Schwarz, with sums of squares of columns, margins' errors, slopes
            square = self.scale * self.loss.smoothness
            spread = rounding.margin_errors(point.w, self.squares, self.total_weight)
            slope = math.sqrt(2.0 * square * max(value, 0.0))
            share = min(1.0, RANDOM_SIGNS / math.sqrt(rounding.terms)) * rounding.terms * UNIT
            each = square * spread + share * slope
            off = np.minimum(off, each * np.sqrt(self.squares))
            constant = min(constant, each * math.sqrt(self.total_weight))
        if error.penalty > 0.0:
            # each entry of the penalty's gradient has errors of its own, if no others are in it
            own = np.full(d, error.penalty)
            if self.penalty.is_diagonal:
                pull = self.penalty.diagonal(self.size)[:d] * np.abs(point.w[:d])
                own = np.minimum(own, FEW * UNIT * pull)
            off = off + own
        return off, constant, of_value

    def survey(self) -> None:
        """Measure the columns, for better bounds on rounding errors. Cost: 2 or 3 passes."""
        if not self.rounding.is_surveyed:
            super().survey()
        totals = self.ask(ColumnMoments())
        self.squares = np.asarray(totals["squares"]) * (1.0 + 1e-9)
        self.means = np.asarray(totals["sums"]) / max(float(totals["weight"]), 1e-300)

    @cached_property
    def counted_curvature(self) -> np.ndarray:
        """Curvature of the quadratic penalty that conjugates of single features take, (d,).

        Zero where the penalty is counted with the losses instead.
        """
        d, penalty = self.n_features, self.penalty
        if penalty.is_diagonal and not penalty.is_uniform:
            diagonal = penalty.diagonal(self.size)[:d]
        else:
            # of a matrix what is left is counted there
            diagonal = np.broadcast_to(penalty.strong_convexity, d)
        grouped = self.feature_terms.is_grouped
        return np.where(grouped, 0.0, diagonal) if grouped.any() else diagonal

    @cached_property
    def _has_counted_curvature(self) -> bool:
        return bool(self.counted_curvature.any())

    def _largest_norm(self, value: float) -> float:
        """Bound the norm of the features' coefficients of the optimum, whose value is no larger."""
        return largest_norm(self.feature_terms, self.counted_curvature, value)

    @property
    def has_unheld(self) -> bool:
        """Whether there is a coefficient that nothing holds, of which points may say how near its
        best value it is: the intercept.
        """
        return self.fit_intercept

    def tied(self, values: np.ndarray) -> np.ndarray:
        """Return the largest of the values of coefficients that are in working sets together."""
        return values

    # ---- parts of the rows and of the columns
    def held(self, features: np.ndarray) -> Self:
        """Return the objective with some features at zero, or as near to it as their bounds allow.

        Parameters
        ----------
        features : (size,) array of bool
            Of a group all members or none. Groups that are not held must have no strength.
        """
        found = self._anew()
        found.rows = self.rows.metered_apart()
        terms = self.terms
        at = terms.clip(np.zeros(self.size))
        found.terms = NonSmooth(
            np.where(features, 0.0, terms.strengths),
            np.where(features, at, terms.lower),
            np.where(features, at, terms.upper),
        )
        return found

    def restricted(self, columns: np.ndarray, key: int | None = None) -> Self:
        """Return the objective on some features, where the coefficients of all others are zero.

        Workers keep the columns of these features beside the rows, until those of others are asked
        for; see `View`.

        Parameters
        ----------
        columns : (k,) int array
            Features in increasing order; of a group all members or none.
        key : int, optional
            That of an earlier objective with the same columns and rows, whose copy is used again.
        """
        found = self._anew()
        found.key = next(tokens) if key is None else key
        found.rows = self.rows.restricted(self.features_of(columns), found.key)
        found.whole, found.columns = self, columns
        found.n_features = len(columns)
        found.size = len(columns) + self.size - self.n_features
        found.penalty = self.penalty.restricted(columns)
        found.terms = self.terms.restricted(columns, found.size)
        found.measure()
        return found

    def features_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the features that have these entries of vectors."""
        return columns

    def measure(self) -> None:
        """Take what is known of the columns from the whole objective."""
        whole = self.whole
        assert whole is not None
        self.rounding = whole.rounding.restricted(self.columns)
        self.squares = None if whole.squares is None else whole.squares[self.columns]
        self.means = None if whole.means is None else whole.means[self.columns]

    def take(self, w: np.ndarray) -> np.ndarray:
        """Return these features' entries of a vector of the whole, and that of the intercept."""
        assert self.whole is not None
        return np.append(w[self.columns], w[self.whole.n_features :])

    def put(self, w: np.ndarray) -> np.ndarray:
        """Return the coefficients of all features."""
        assert self.whole is not None
        found = np.zeros(self.whole.size)
        found[self.columns] = w[: self.n_features]
        found[self.whole.n_features :] = w[self.n_features :]
        return found

    def at_whole(self, point: Point, beside: Point) -> Point:
        """Evaluate the coefficients of a point among all features, `beside` another point there.

        Cost: 1 pass, 1 round.
        """
        assert self.whole is not None
        return self.whole.at(self.put(point.w), beside=beside)

    def _anew(self) -> Self:
        """Return the same objective, without what is cached of its penalty."""
        found = copy.copy(self)
        for name in CACHED:
            vars(found).pop(name, None)
        return found

    def ask(self, request: Request) -> Totals:
        """Pass a request with vectors in host memory to the engine."""
        here = self.rows_xp is np
        totals = super().ask(request if here else moved(request, self.rows_xp.asarray))
        if "stored" in totals:
            self.stored = int(totals["stored"])
        return totals if here else {name: to_host(value) for name, value in totals.items()}
