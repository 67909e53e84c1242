"""A point that an objective has evaluated, with bounds on how far it is from the optimum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from daskglm.certificates.hessian_factor import UNIT, GradientError, HessianFactor
from daskglm.certificates.local_rates import LocalRates
from daskglm.certificates.relative import relative_gap
from daskglm.certificates.rounding import Norms, Vector
from daskglm.certificates.tangent import ByTangent
from daskglm.core.block_hessian import BlockHessian
from daskglm.core.device import on_device, to_host
from daskglm.core.summation import AT_ONCE

if TYPE_CHECKING:
    from daskglm.certificates.free_block import FreeHessian
    from daskglm.objectives.primal import Objective
    from daskglm.objectives.quadratic_model import Prediction

# Share of a value that was not evaluated by which it may be off; else it is evaluated. Where least
# squares start far from targets with little noise, values cancel: 4e-3 of one was lost. Chosen.
WELL_KNOWN = 1e-3
# That of points of a dual solver.
NO_GRADIENT = np.array([math.nan])
# What is kept of a point, once known, where another `near` is known.
APART_FROM_NEAR = ("residual", "gradient_norm", "error", "factor")


class ByThresholds(NamedTuple):
    """Curvatures of an objective of ordered classes by its K - 1 thresholds, without C.

    Parameters
    ----------
    each : (K - 1,) array
        By each threshold, of rows.
    gaps : (K - 2,) array
        By the gaps of thresholds.
    """

    each: np.ndarray
    gaps: np.ndarray


@dataclass(frozen=True, eq=False)
class Point:
    """The objective at w: value and gradient, and the Hessian or its diagonal if asked for.

    Parameters
    ----------
    objective : Objective
    w : (size,) array
    value : float
        Value of the objective; for points with `certify` an estimate.
    gradient : (size,) array
        Gradient of the objective; `NO_GRADIENT` for points of a dual solver.
    token : int
        Names the margins at w that workers keep.
    hessian : (size, size) array or BlockHessian, optional
    diagonal : (size,) array, optional
        Diagonal of the Hessian.
    exact : bool
        Whether the Hessian was summed in float64, whatever the dtype of the rows.
    near : float
        Bound on the distance of the intercept from the best one for these coefficients; of ordered
        classes on that of the value from the one at the best thresholds.
    free_hessian : free_block.FreeHessian, optional
        The Hessian by the coefficients that neither a penalty nor bounds hold.
    gap : float, optional
        Primal less dual value, for points of a dual solver; with `certify` an estimate.
    certify : callable, optional
        Returns the point with the true value and gap.
    norms : pair of Norms, optional
        Those of w and of the gradient.
    rates : LocalRates, optional
        What the curvatures of the rows say of the Hessian; see `Bounds.with_rates`.
    beside : tuple of (int, float), optional
        Token of the point that was evaluated before this one, and the distance from it.
    prediction : quadratic_model.Prediction, optional
        For a point that was not evaluated: what is known of it.
    by_thresholds : ByThresholds, optional
        Of ordered classes.
    """

    objective: Objective
    w: np.ndarray
    value: float
    gradient: np.ndarray
    token: int
    hessian: Any = None
    diagonal: np.ndarray | None = None
    exact: bool = False
    near: float = math.inf
    free_hessian: FreeHessian | None = None
    gap: float | None = None
    certify: Callable[[], Point] | None = None
    norms: tuple[Norms, Norms] | None = None
    beside: tuple[int, float] | None = None
    rates: LocalRates | None = None
    prediction: Prediction | None = None
    by_thresholds: ByThresholds | None = None
    # the best point of a solve is found among all of them, by value
    replaces_earlier: ClassVar[bool] = False

    @property
    def vectors(self) -> tuple[Vector, Vector]:
        """The norms of w and the gradient if they are known, else the vectors: input of bounds."""
        return self.norms or (self.w, self.gradient)

    @property
    def known_hessian(self) -> Any:
        """The Hessian, of a point that was evaluated with it."""
        assert self.hessian is not None
        return self.hessian

    @cached_property
    def residual(self) -> np.ndarray:
        """The gradient: of objectives with kinks the shortest subgradient. Cost: nothing."""
        if self.gradient is NO_GRADIENT:
            return self.gradient
        found: np.ndarray = self.objective.residual(self)
        return found

    @cached_property
    def gradient_norm(self) -> float:
        """Norm of the residual. Cost: nothing.

        It is known without the residual: of a million features that is as large as some rows.
        """
        if self.norms is not None:
            return math.hypot(*self.norms[1])
        objective = self.objective
        with np.errstate(over="ignore"):  # far out
            if objective.penalty.is_smooth or self.gradient is NO_GRADIENT:
                return float(np.linalg.norm(self.gradient))
            return objective.penalty.kinks.residual_norm(self.w, self.gradient)

    def distance(self, other: Point) -> float:
        """Norm of the difference of the coefficients. Cost: nothing."""
        if self.beside is not None and self.beside[0] == other.token:
            return self.beside[1]
        if on_device(self.w):
            return float(np.linalg.norm(self.w - other.w))
        # in runs, since the whole difference would be another vector as long as w
        runs = (slice(k, k + AT_ONCE) for k in range(0, len(self.w), AT_ONCE))
        parts = [float(np.linalg.norm(self.w[run] - other.w[run])) for run in runs]
        return float(np.linalg.norm(parts))

    def with_near(self, near: float) -> Point:
        """Return it with another `near`, and with all that is known and does not follow from that.

        Of large Hessians the factor is what takes time. Cost: nothing.
        """
        found, known = replace(self, near=near), vars(self)
        vars(found).update({name: known[name] for name in APART_FROM_NEAR if name in known})
        return found

    def hessian_vector(self, v: np.ndarray) -> np.ndarray:
        """Multiply v by the Hessian of the objective at w. Cost: 1 pass, 1 round."""
        product: np.ndarray = self.objective.hessian_vector(self, v)
        return product

    @property
    def relative_gap(self) -> float:
        """Bound on (value - optimum) / optimum; nan without a penalty. Cost: nothing.

        It follows from the duality gap of points that have one, else from `Bounds.of`.
        """
        bound = self.objective.bounds.of(self) if self.gap is None else self.gap
        if self.prediction is not None:
            off = self.prediction.value_error
            known = off <= WELL_KNOWN * self.value
            # the coefficients are rounded, and nothing was evaluated at them
            bound += UNIT * abs(self.value)
            return relative_gap(bound, self.value - off) if known else math.inf
        if not bound >= self.value:
            return relative_gap(bound, self.value)
        objective = self.objective
        zero = objective.rounding.zero(
            self.vectors[0],
            self.value,
            C=objective.C,
            weight=objective.total_weight,
            curvature=None if self.rates is None else self.rates.curvature,
        )
        return relative_gap(bound, self.value, zero)

    @cached_property
    def error(self) -> GradientError:
        """Bounds on the rounding errors of the gradient. Cost: nothing."""
        if self.prediction is not None:
            found: GradientError = self.prediction.error
            return found
        objective = self.objective
        return objective.rounding.gradient(
            self.vectors[0], self.value, C=objective.C, weight=objective.total_weight
        )

    @cached_property
    def factor(self) -> HessianFactor:
        """Cholesky factor of the Hessian, for points that have one. Cost: nothing."""
        return HessianFactor.of(to_host(self.hessian), self.entry_error)

    @property
    def entry_error(self) -> float:
        """Bound on the error of an entry (j, k) of the Hessian as a share of sqrt(H_jj H_kk)."""
        rounding = self.objective.rounding
        found = rounding.hessian(self.vectors[0], exact=self.exact)
        # by blocks rows are added up one after another
        more = rounding.in_turn * UNIT if isinstance(self.hessian, BlockHessian) else 0.0
        return float(found + more)

    @property
    def is_doubtful(self) -> bool:
        """Whether rounding may have changed the Hessian so much that its step leads elsewhere.

        Cost: nothing.
        """
        return self.factor.is_doubtful(self.objective.rounding.gram(exact=self.exact, likely=True))

    @cached_property
    def excess(self) -> float:
        """Bound on the distance of the value from the optimum by the Hessian.

        It is infinite for points without one. Cost: nothing.
        """
        return math.inf if self.hessian is None else float(self.objective.bounds.by_hessian(self))

    @cached_property
    def nominal_bound(self) -> float:
        """`Bounds.nominal` of this point, which several ask for. Cost: nothing."""
        found: float = self.objective.bounds.nominal(self)
        return found

    @cached_property
    def tangent_bound(self) -> float:
        """Bound on the distance of the value from the optimum by the gradient. Cost: nothing.

        Of objectives that are bounded by the tangent.
        """
        bounds = self.objective.bounds
        assert isinstance(bounds, ByTangent)
        return bounds.by_tangent(self, self.error)
