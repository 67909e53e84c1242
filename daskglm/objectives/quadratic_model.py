"""Evaluate a quadratic objective anywhere by one evaluated point and its Hessian: without a pass.

The Hessian of least squares is the same everywhere, so that value and gradient follow from those at
the point. What rounding in the Hessian does to them is bounded, and counts in the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from daskglm.certificates.hessian_factor import FEW, UNIT, GradientError, HessianFactor
from daskglm.objectives.margins import Sums
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective

# Share of a scaled Hessian's least eigenvalue that may be in doubt for it to serve beside larger
# ones: its inverse is 1e5 at most then, in bounds of residuals that are 1e-9 squared. Chosen.
WELL_KNOWN = 1e-6


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sums of squared losses over some rows, at coefficients of zero, which tell them everywhere.

    Parameters
    ----------
    value : float
    gradient : (size,) array
    gram : (size, size) array
    """

    value: float
    gradient: np.ndarray
    gram: np.ndarray

    def plus(self, other: LossSums) -> LossSums:
        """Return the sums over the rows of both."""
        return LossSums(
            self.value + other.value, self.gradient + other.gradient, self.gram + other.gram
        )

    def loss(self, w: np.ndarray) -> float:
        """Return the sum of the losses at w."""
        return self.value + float((self.gradient + 0.5 * (self.gram @ w)) @ w)

    def point(self, objective: Objective) -> Point:
        """Return the point at zero of an objective with these losses, summed in float64.

        A penalty only adds to the Hessian, so that one factor, of the losses' alone, bounds all
        strengths, if columns are not nearly dependent.
        """
        sums = Sums(self.value, self.gradient, self.gram)
        w, token = np.zeros(objective.size), objective.new_token()
        found = objective.point_of(sums, w, token, exact=True)
        if "factor" not in vars(self):
            vars(self)["factor"] = HessianFactor.of(self.gram, objective.rounding.gram(exact=True))
        if vars(self)["factor"].doubt <= WELL_KNOWN:
            vars(found)["factor"] = vars(self)["factor"].times(objective.C)
        return found


@dataclass(frozen=True)
class Prediction:
    """What is known of a point that was not evaluated.

    Parameters
    ----------
    base : Point
        The evaluated one.
    error : GradientError
        Of the gradient.
    value_error : float
        Bound on the error of the value.
    """

    base: Point
    error: GradientError
    value_error: float


def predicted(point: Point, w: np.ndarray) -> Point:
    """Return the point at w as the Hessian of a quadratic objective at `point` predicts it.

    Cost: nothing.
    """
    objective, H = point.objective, point.hessian
    assert H is not None
    step = w - point.w
    change = H @ step
    linear, square = float(point.gradient @ step), 0.5 * float(step @ change)
    kinks = objective.penalty.kinks
    penalty = kinks.value(w) - kinks.value(point.w)

    # entry (j, k) is off by a share of sqrt(H_jj H_kk), and the product by its own rounding
    roots = np.sqrt(H.diagonal())
    off = objective.rounding.gram(exact=point.exact) + (FEW + len(w)) * UNIT
    reach = off * float(roots @ np.abs(step))  # bounds entry j over roots[j]
    d, base = objective.n_features, point.error
    live = roots > 0.0  # an empty column has no error, and its inverse is infinite
    error = GradientError(
        base.margins + reach * float(roots[live] @ point.factor.roots[live]),
        base.slopes + reach * float(roots[d:].sum()),
        base.adding,
        base.penalty + reach * float(np.linalg.norm(roots[:d])),
    )
    # values are sums like slopes, of numbers of one sign
    sums = objective.rounding.terms * UNIT * abs(point.value)
    value_error = 0.5 * reach * float(roots @ np.abs(step)) + sums
    value_error += FEW * UNIT * (abs(point.value) + abs(linear) + square)
    # and the gradient at the point is off
    columns = np.append(np.broadcast_to(objective.rounding.columns, d), np.ones(len(w) - d))
    value_error += (base.slopes + base.adding) * float(columns @ np.abs(step))
    value_error += base.penalty * float(np.linalg.norm(step))
    if not math.isfinite(value_error):
        value_error = math.inf
    found = replace(
        point,
        w=w,
        value=point.value + linear + square + penalty,
        gradient=point.gradient + change,
        token=objective.new_token(),
        near=math.inf,
        free_hessian=None,
        beside=None,
        prediction=Prediction(point, error, value_error),
    )
    vars(found)["factor"] = point.factor  # of the same Hessian
    return found


def with_same_hessian(trial: Point, point: Point) -> Point:
    """Return an evaluated point with the Hessian of another one of the same quadratic objective."""
    found = replace(trial, hessian=point.hessian, exact=point.exact)
    vars(found)["factor"] = point.factor
    return found
