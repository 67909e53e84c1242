"""What an objective asks to bound how far its points are from the optimum.

There are two kinds: by strong convexity, and by the tangent where penalties have kinks, bounds or
strengths of their own. Whoever makes an objective says whether any penalty must be proved, and its
margins which bounds of that kind are theirs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from daskglm.certificates.hessian_factor import UNIT
from daskglm.certificates.local_rates import LocalRates
from daskglm.certificates.rounding import HIDDEN, Rounding
from daskglm.core.device import to_host
from daskglm.core.requests import RateSums
from daskglm.losses.base import Loss
from daskglm.penalties.penalty import Penalty

if TYPE_CHECKING:
    from daskglm.objectives.point import Point
    from daskglm.objectives.primal import Objective
    from daskglm.objectives.restriction import Restriction

# What the driver calls for each point of a solve: it returns the point, or one with a better bound,
# and its gap.
Certify = Callable[["Point"], tuple["Point", float]]


class Bounds(ABC):
    """Bounds on points of an objective, with what both kinds share: losses with rates.

    Parameters
    ----------
    objective : Objective
    """

    # whether they hold for any penalty; then vectors are in host memory, wherever the rows are
    any_penalty: ClassVar[bool] = False

    def __init__(self, objective: Objective) -> None:
        self.objective = objective

    @property
    def loss(self) -> Loss:
        """The loss of the objective."""
        return self.objective.loss

    @property
    def penalty(self) -> Penalty:
        """The penalty of the objective."""
        return self.objective.penalty

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

    @abstractmethod
    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""

    @property
    def wants_hessian(self) -> bool:
        """Whether there are coefficients that only a Hessian of all can bound."""
        return False

    def survey(self) -> None:
        """Measure the columns, for better bounds on rounding errors; see `Rounding.survey`.

        Cost: 1 or 2 passes.
        """
        self.rounding.survey(self.objective.ask, self.objective.engine.facts)

    def by_hessian(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum by its Hessian. Cost: nothing."""
        residual = to_host(point.residual)
        if point.rates is not None:
            decrement = point.factor.decrement(residual)
            return point.rates.excess(self.rounding, point.factor, point.vectors[0], decrement)
        if not (math.isfinite(self.loss.self_concordance) and math.isfinite(point.value)):
            return math.inf
        return self.rounding.by_own_hessian(point.factor, point.w, residual, point.error)

    def with_near_intercept(self, point: Point) -> Point:
        """Bound how far a point's constants are from the best ones for its coefficients.

        Returns the point with that bound, or as it is if none was found.
        """
        return self.objective.margins.near_constants(self.objective, point)

    def with_best_intercept(self, point: Point) -> Point:
        """Evaluate the same coefficients with the constants that fit them best."""
        return self.objective.margins.best_constants(self.objective, point)

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
                objective.scale,
            )
        )
        found = replace(point, rates=LocalRates.of(totals, objective.scale))
        vars(found)["factor"] = point.factor  # cached, as the point had it
        return found

    def _hides_rates(self, point: Point, wanted: float) -> bool:
        """Return whether rounding hides what rates would prove, and a survey may lower it."""
        rounding = self.rounding
        if point.rates is None or rounding.is_surveyed:
            return False
        left = point.rates.excess(rounding, point.factor, point.vectors[0], 0.0)
        return left > HIDDEN * wanted
