"""What an objective asks to bound how far its points are from the optimum.

There are two kinds: by strong convexity, and by the tangent where penalties have kinks, bounds or
strengths of their own. Whoever makes an objective says whether any penalty must be proved.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from daskglm.certificates.certificate import Certificate
from daskglm.certificates.hessian_factor import UNIT, length
from daskglm.certificates.local_rates import LocalRates
from daskglm.certificates.rounding import EXACT, HIDDEN, Rounding
from daskglm.core.block_hessian import BlockHessian
from daskglm.core.device import to_host
from daskglm.core.requests import RateSums

if TYPE_CHECKING:
    from daskglm.objectives.point import Point
    from daskglm.objectives.primal import Objective
    from daskglm.objectives.restriction import Restriction

# What the driver calls for each point of a solve: it returns the point, or one with a better bound,
# and its gap.
Certify = Callable[["Point"], tuple["Point", float]]

# Share of the value of least squares without a penalty that rounding may hide for a bound to count:
# targets that are fitted to nearly all digits have none. Chosen.
MOST_HIDDEN = 1e-9


class Bounds(ABC):
    """Bounds on points of an objective, with what both kinds share: losses with rates.

    Parameters
    ----------
    objective : Objective
    """

    # whether they hold for any penalty; then vectors are in host memory, wherever the rows are
    any_penalty: ClassVar[bool] = False

    def __init__(self, objective: Objective) -> None:
        self.objective, self.loss, self.penalty = objective, objective.loss, objective.penalty

    @property
    def rounding(self) -> Rounding:
        """Bounds on the rounding errors of the objective's sums."""
        return self.objective.rounding

    @property
    @abstractmethod
    def proves(self) -> bool:
        """Whether points can be bounded."""

    @property
    def is_local(self) -> bool:
        """Whether only rates of curvatures near a point bound it, at points with a Hessian."""
        loss = self.loss
        has_rates = loss.local_rate is not None and loss.link is not None
        return has_rates and not (loss.is_bounded and self.objective.is_penalised)

    @abstractmethod
    def certificate(self, tol: float) -> Certify:
        """Return what bounds the points of one solve, which is to end at a gap of `tol`."""

    @abstractmethod
    def of(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; nan where nothing is proved.

        Cost: nothing.
        """

    @abstractmethod
    def nominal(self, point: Point) -> float:
        """Bound a point as if arithmetic were exact: it steers, and proves nothing.

        Cost: nothing.
        """

    @abstractmethod
    def of_features(self, point: Point) -> float:
        """Return the features' part of a bound as if arithmetic were exact. Cost: nothing."""

    def centred(self, gradient: np.ndarray) -> np.ndarray:
        """Return a gradient's part by features, by columns as they are. Cost: nothing."""
        return gradient[: self.objective.n_features]

    def residual_of_features(self, point: Point) -> Any:
        """Return the shortest subgradient by features, of `centred` columns. Cost: nothing."""
        return point.residual[: self.objective.n_features]

    @abstractmethod
    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""

    @property
    def wants_hessian(self) -> bool:
        """Whether there are coefficients that only a Hessian of all can bound."""
        return False

    def survey(self) -> None:
        """Measure the columns, for better bounds on rounding errors; see `Rounding.survey`.

        Cost: 1 or 2 passes, once for all problems of the rows.
        """
        self.rounding.survey(self.objective.rows.spread, self.objective.engine.facts)

    def surveyed(self, point: Point) -> Point:
        """Measure the columns; return the point with bounds that know them."""
        self.survey()
        # a new point, since the old one caches its bounds
        return self.objective.margins.known(self.objective, replace(point))

    def by_hessian(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum by its Hessian. Cost: nothing."""
        residual = to_host(point.residual)
        if point.rates is not None:
            decrement = point.factor.decrement(residual)
            return point.rates.excess(self.rounding, point.factor, point.vectors[0], decrement)
        if not (math.isfinite(self.loss.self_concordance) and math.isfinite(point.value)):
            return math.inf
        at = point.vectors[0]
        if self._is_far(point):
            return math.inf
        return self.rounding.by_hessian(point.factor, residual, point.error, at=at)

    def _is_far(self, point: Point) -> bool:
        """Return whether a factor of a Hessian by blocks would prove nothing, without making it.

        The diagonal alone bounds its decrement and its reach from below. Cost: nothing.
        """
        hessian, rate = point.hessian, self.loss.self_concordance
        if rate == 0.0 or "factor" in vars(point) or not isinstance(hessian, BlockHessian):
            return False
        diagonal, rounding, gradient = hessian.diagonal(), self.rounding, point.residual
        if not (diagonal > 0.0).all():
            return False
        with np.errstate(all="ignore"):  # what overflows is looked at
            way, roots = gradient / diagonal, np.sqrt(1.0 / diagonal)
            least = float(gradient @ way) / np.sqrt(float(way @ (hessian @ way)))
            whole = rounding.ball.radius * length(roots[: rounding.n_features])
            return bool(rate * min(rounding.widest(roots), whole) * least >= 1.0)

    def with_near_constants(self, point: Point) -> Point:
        """Bound how far a point's constants are from the best ones for its coefficients.

        Returns the point with that bound, or as it is if none was found.
        """
        return self.objective.margins.near_constants(self.objective, point)

    def of_whole(self, found: Point, point: Point, part: Restriction) -> Point:
        """Return a point of all features with what is known of it as one of some features."""
        return found

    # ---- by rates of curvatures
    def _by_rates(self, point: Point) -> float:
        """Return the bound of a point of a loss with rates, or of one without a penalty.

        Without a Hessian there is none but the value, which says nothing.
        """
        return min(point.value, point.excess) if math.isfinite(point.excess) else math.nan

    def with_rates(self, point: Point) -> Point:
        """Let the rows say at which rates their curvatures fall near a point with a Hessian.

        Returns the point with what may bound it, or as it is where the Hessian is not known well
        enough. Cost: 0 passes, 1 round.
        """
        known = point.hessian is not None and math.isfinite(point.value) and point.factor.proves
        if point.rates is not None or not known:
            return point
        objective, rounding = self.objective, self.rounding
        totals = objective.ask(
            RateSums(
                (point.token, point.w),
                rounding.row * UNIT * rounding.size(point.vectors[0]),
                rounding.reach(point.factor),
                objective.C,
            )
        )
        found = replace(point, rates=LocalRates.of(totals, objective.C))
        vars(found)["factor"] = point.factor  # cached, as the point had it
        return found

    def _hides_rates(self, point: Point, wanted: float) -> bool:
        """Return whether rounding hides what rates would prove, and a survey may lower it."""
        rounding = self.rounding
        if point.rates is None or rounding.is_surveyed:
            return False
        left = point.rates.excess(rounding, point.factor, point.vectors[0], 0.0)
        return left > HIDDEN * wanted


class ByConvexity(Bounds):
    """Bounds on points of an objective whose penalty is a ridge of one strength, or nothing."""

    @property
    def proves(self) -> bool:
        """Whether points can be bounded: of families and least squares even without a penalty."""
        objective = self.objective
        can = objective.is_penalised or objective.can_go_without
        return self.loss.is_bounded and can

    def certificate(self, tol: float) -> Certify:
        """Return what the driver calls to bound the points of one solve; see `Certificate`."""
        return Certificate(self, tol)

    def of(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; nan where nothing is proved.

        That is so without a penalty, but for families and least squares at points with a Hessian,
        and for losses of which too little is known (see `Loss.is_bounded`); those that have a
        `Loss.local_rate` are bounded at points by `with_rates`. The least of three bounds, all of
        which allow for rounding in the gradient and the Hessian (see `rounding`): by strong
        convexity, by the Hessian where it is known, and the value itself, since losses are not
        negative. Cost: nothing.
        """
        objective = self.objective
        if not (self.proves or self.is_local):
            return math.nan
        if self.is_local or not objective.is_penalised:
            return math.nan if self._is_exact_fit(point) else self._by_rates(point)
        convex = self.rounding.convex(
            *point.vectors, point.value, point.error, objective.intercept_radius, point.near
        )
        return min(point.value, convex, point.excess)  # nan, far out, is never less than the first

    def _is_exact_fit(self, point: Point) -> bool:
        """Return whether rounding hides how well least squares without a penalty fit a point."""
        objective = self.objective
        if not self.loss.is_quadratic or objective.is_penalised or point.hessian is None:
            return False
        hidden = self._by_rounding(point)
        return self.rounding.is_surveyed and not hidden <= MOST_HIDDEN * point.value

    def _by_rounding(self, point: Point) -> float:
        """Return the bound by the Hessian if the computed gradient were zero."""
        nothing = np.zeros(self.objective.size)
        return self.rounding.by_hessian(point.factor, nothing, point.error)

    def nominal(self, point: Point) -> float:
        """Bound by strong convexity as if arithmetic were exact: it steers, and proves nothing.

        Cost: nothing.
        """
        objective = self.objective
        return self.rounding.convex(
            *point.vectors, point.value, EXACT, objective.intercept_radius, point.near
        )

    def of_features(self, point: Point) -> float:
        """Return the features' part of the bound by strong convexity: |g_w|^2 / (2 mu).

        Of losses of which too little is known for a bound, it is an estimate.
        """
        objective = self.objective
        if not objective.is_penalised:
            return math.nan
        error = point.error if self.loss.is_bounded else EXACT
        norm = self.rounding.features(point.vectors[1], error)
        return norm * norm / (2.0 * self.penalty.quadratic.strong_convexity)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        objective, wanted = self.objective, tol * point.value
        if self.is_local:
            return self._hides_rates(point, wanted)
        if self.loss.is_quadratic and not objective.is_penalised and point.hessian is not None:
            surveyed = self.rounding.is_surveyed
            return not surveyed and self._by_rounding(point) > HIDDEN * wanted
        if not (objective.is_penalised and self.loss.is_bounded):
            return False
        return self.rounding.hides(
            wanted, point.w, point.value, point.error, objective.intercept_radius, point.near
        )
