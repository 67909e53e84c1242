"""Iterations of proximal Newton: the model's Hessian is formed, or multiplied by vectors only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.device import Array
from daskglm.core.outcome import Reason
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.quadratic_model import predicted, with_same_hessian
from daskglm.penalties.descent import Minimum, minimise
from daskglm.penalties.product_descent import Enough, Sweeps, minimise_by_products
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING, backtrack
from daskglm.solvers.newton import is_inexact, keeps_margins
from daskglm.solvers.workload import Workload

# Coefficients up to which a model's minimum takes less time than a pass. Chosen.
SMALL_MODEL = 500
# Residual, as a share of the first one and of the root of `tol`, to which models are minimised at
# most; and at least. Chosen.
FINEST, COARSEST = 1e-3, 0.1
# Steps whose fall rounding hides that are still taken. Chosen.
HIDDEN_STEPS = 2
# Shares of its diagonal that are added to a Hessian by which rounding leads astray (Levenberg and
# Marquardt), one after another. Chosen.
DAMPINGS = (1e-10, 1e-6, 1e-2)
# Share of what is wanted of the bound to which the residual falls, since bounds are by the largest
# entry; and at most where the bound itself is asked for. Chosen.
ENOUGH, MOST_ENOUGH = 0.2, 0.02
# Share of the wanted bound that a model's point has where it is asked for: the model foretells it
# but for what curvatures change. Chosen.
FORETOLD = 0.5
# Coefficients whose Hessian may be formed at most: 200 MB. Chosen.
MOST_FORMED = 5000
# By how many times products may cost more than the Hessians instead, of so many models at most:
# dependent columns take thousands of products, and models that are not solved many steps. Chosen.
DEAR, MODELS = 2.0, 8
# How points are evaluated of which products with the Hessian are wanted.
FOR_PRODUCTS: dict[str, Any] = {"diagonal": True, "curved": True}


def with_hessians(
    objective: Objective,
    w: np.ndarray,
    tol: float,
    begin: Point | None = None,
    wanted: float = 0.0,
) -> Iterates:
    """Iterate with the Hessian of all features.

    If only a bound by the gradient is `wanted`, no Hessian is formed that is not likely to be used.
    """
    keep = keeps_margins(objective)
    known = begin is not None and begin.hessian is not None
    point = begin if known else objective.at(w, gram=True, keep=keep)
    assert point is not None
    exact, before, hessian = point.exact, None, point.known_hessian
    hidden = 0
    while True:
        hessian = hessian if point.hessian is None else point.hessian
        if before is None and point.hessian is not None and objective.loss.is_quadratic:
            # what a strong penalty leaves of coefficients counts, however little it changes values
            found = model_minimum(objective, point, hessian, tol)
            yield Iterate(point, more=change_of_model(objective, point, found) < 0.0)
        else:
            yield Iterate(point)
            found = model_minimum(objective, point, hessian, tol, before)
        found, fall = _falling(objective, point, found, hessian, tol)
        if point.hessian is not None and not point.exact and is_inexact(point, -fall, tol):
            # from here on all Hessians are summed in float64
            exact = True
            point = objective.at(point.w, gram=True, keep=keep, exact=True)
            continue
        if not fall < 0.0:
            # where rounding hides the fall gradients may still fall: this bounds it
            fall = -float((found.w - point.w) @ (found.slope - point.gradient))
            hidden += 1
            if not fall < 0.0 or hidden > HIDDEN_STEPS:
                return Reason.NO_PROGRESS
        if point.hessian is not None and objective.loss.is_quadratic:
            yield Iterate(predicted(point, found.w))
        # the Hessian of a point nearby may do once more
        same = objective.loss.is_quadratic and point.hessian is not None
        gram, known = not (known or same or _is_near(point, before, wanted)), False
        trial = objective.at(found.w, gram=gram, keep=keep, beside=point, exact=exact)
        if same:
            trial = with_same_hessian(trial, point)
        accepted = backtrack(objective, point, trial, slope=fall, gram=gram, keep=keep, exact=exact)
        if accepted is None and point.hessian is None:
            point = objective.at(point.w, gram=True, keep=keep, exact=exact)
            continue
        if accepted is None:
            return Reason.NO_PROGRESS
        before, point = point, accepted
        if not _is_better(point, before):
            yield Iterate(point)
            return Reason.NO_PROGRESS


def _falling(
    objective: Objective, point: Point, found: Minimum, hessian: Array, tol: float
) -> tuple[Minimum, float]:
    """Return a model's minimum with its `change_of_model`; where that rises, of a damped model.

    Such a step is rounding, along directions in which the model is flat.
    """
    fall = change_of_model(objective, point, found)
    for damping in DAMPINGS if fall > ROUNDING * abs(point.value) else ():
        damped = hessian + np.diag(damping * hessian.diagonal())
        found = model_minimum(objective, point, damped, tol)
        fall = change_of_model(objective, point, found)
        if fall < 0.0:
            break
    return found, fall


def _is_near(point: Point, before: Point | None, wanted: float) -> bool:
    """Return whether two steps by one Hessian are likely to reach the `wanted` bound.

    If each lowers it as much as the step from `before` did: Newton's lower it by more.
    """
    if before is None or not wanted > 0.0:
        return False
    rate = point.nominal_bound / max(before.nominal_bound, 1e-300)
    return rate * rate * point.nominal_bound <= FORETOLD * wanted


class Products:
    """Counts products with Hessians, and says when Hessians would have cost less."""

    def __init__(self) -> None:
        self.count = self.models = 0

    def of(self, point: Point) -> Callable[[np.ndarray], np.ndarray]:
        """Return what multiplies by the Hessian at a point, for one model."""
        self.models += 1

        def product(v: np.ndarray) -> np.ndarray:
            self.count += 1
            return point.hessian_vector(v)

        return product

    def sweeps_of(self, point: Point) -> Sweeps:
        """Return coordinate descent on the model at a point, whose sweeps count as products."""

        def sweeps(
            v: np.ndarray, slope: np.ndarray, wanted: float, most: int
        ) -> tuple[np.ndarray, int]:
            found = point.objective.column_sweeps(point, v, slope, wanted, most)
            self.count += found[1]
            return found

        return sweeps

    def are_dear(self, workload: Workload) -> bool:
        """Return whether to form the Hessian, which may be formed, from now on."""
        if workload.size > MOST_FORMED:
            return False
        hessians = min(self.models, MODELS) * (workload.gram + workload.factorisation)
        return self.count * workload.tron_product > DEAR * hessians


def with_products(
    objective: Objective,
    point: Point,
    tol: float,
    workload: Workload,
    products: Products,
    wanted: float,
    *,
    last: bool = True,
) -> Iterates:
    """Iterate with products of Hessians, which are not formed. Cost: 1 pass per product.

    Once they have cost more than Hessians would have, these are formed.

    Parameters
    ----------
    point : Point
        Where to start, evaluated as `FOR_PRODUCTS` says.
    workload : Workload
        Of the objective.
    products : Products
        Of this solve.
    wanted : float
        Bound on the suboptimality that is to be reached: no model is minimised farther.
    last : bool
        Whether no other features follow, so that models end as soon as they foretell that bound.
    """
    before, how = None, FOR_PRODUCTS
    # a copy by columns of all features is as large as the rows
    swept = objective.sweeps_columns and objective.rows.view.columns is not None
    while True:
        yield Iterate(point)
        if products.are_dear(workload):
            return (yield from with_hessians(objective, point.w, tol))
        assert point.diagonal is not None
        found = minimise_by_products(
            products.of(point),
            point.diagonal,
            point.gradient,
            point.w,
            objective.penalty.kinks,
            max(_share_left(point, tol, before), _share_wanted(point, wanted, last=last)),
            products.sweeps_of(point) if swept else None,
            _above(point, FORETOLD * wanted) if last else None,
        )
        fall = change_of_model(objective, point, found)
        if not fall < 0.0:
            return Reason.NO_PROGRESS
        trial = objective.at(found.w, **how, beside=point)
        accepted = backtrack(objective, point, trial, slope=fall, **how)
        if accepted is None:
            return Reason.NO_PROGRESS
        before, point = point, accepted
        if not _is_better(point, before):
            yield Iterate(point)
            return Reason.NO_PROGRESS


def _is_better(point: Point, before: Point) -> bool:
    """Return whether a step was worth it.

    Where values no longer fall, steps at least halve what is left until that is rounding.
    """
    return point.value < before.value or point.gradient_norm < 0.5 * before.gradient_norm


def model_minimum(
    objective: Objective, point: Point, hessian: Array, tol: float, before: Point | None = None
) -> Minimum:
    """Minimise the model around a point with a Hessian of it or of a point nearby.

    Small models are minimised to what `tol` allows, whatever the residual was.
    """
    share = FINEST * math.sqrt(min(tol, 1.0))
    if objective.size > SMALL_MODEL:
        share = _share_left(point, tol, before)
    return minimise(hessian, point.gradient, point.w, objective.penalty.kinks, share)


def _share_left(point: Point, tol: float, before: Point | None) -> float:
    """Return the share of the residual that a model's minimum may leave.

    A tenth at first, and then a share that falls as the square of the rate at which the residual
    fell from `before` (Eisenstat & Walker 1996, choice 2).
    """
    rate = 1.0 if before is None else point.gradient_norm / max(before.gradient_norm, 1e-300)
    return max(FINEST * math.sqrt(min(tol, 1.0)), min(COARSEST, 0.9 * rate * rate))


def _share_wanted(point: Point, wanted: float, *, last: bool) -> float:
    """Return the share of the residual below which the bound at a model's minimum is `wanted`.

    For the `last` model it is smaller: that asks for the bound itself.
    """
    left = min(wanted / max(point.nominal_bound, 1e-300), COARSEST)
    return (MOST_ENOUGH if last else ENOUGH) * left


def _above(point: Point, wanted: float) -> Enough:
    """Return what says how many times the bound at a model's point is what is wanted.

    As the model foretells value and gradient there: it steers, and proves nothing.
    """
    objective, kinks = point.objective, point.objective.penalty.kinks
    before = point.value - kinks.value(point.w)

    def times(v: np.ndarray, slope: np.ndarray) -> float:
        smooth = before + 0.5 * float((point.gradient + slope) @ (v - point.w))
        there = replace(point, w=v, value=smooth + kinks.value(v), gradient=slope, near=math.inf)
        return objective.bounds.nominal(there) / max(wanted, 1e-300)

    return times


def change_of_model(objective: Objective, point: Point, found: Minimum) -> float:
    """Return the change of the smooth part's tangent and of the penalty from the point.

    Armijo's rule for objectives with kinks compares with it (Tseng & Yun 2009, equation 9). Where
    it is rounding it is bounded by the step's square in the norm of the Hessian (Lee, Sun &
    Saunders 2014, proposition 2.4): gradients can still shrink there.
    """
    step = found.w - point.w
    before = objective.penalty.kinks.value(point.w)
    fall = float(point.gradient @ step) + (objective.penalty.kinks.value(found.w) - before)
    if abs(fall) <= ROUNDING * (float(np.abs(point.gradient) @ np.abs(step)) + before):
        return min(fall, -float(step @ (found.slope - point.gradient)))
    return fall
