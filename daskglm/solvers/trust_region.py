"""The subproblem of a trust-region method: a quadratic model minimised within a radius."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.requests import CollectiveLost
from daskglm.objectives.primal import Point
from daskglm.solvers.linear_systems import Diagonal, Metric

# Curvature along a direction, relative to the direction's square, that counts as zero: the model
# then falls to the border of the region. The unit roundoff of float64.
FLAT_CURVATURE = 1e-16
# Share of the first residual, in the norm of M^-1, at which conjugate gradients end (LIBLINEAR
# 2.30 takes the same).
RESIDUAL_LEFT = 0.1
# Products that conjugate gradients may take in spaces of fewer dimensions than this (LIBLINEAR).
LEAST_PRODUCTS = 5


class RegionStep(NamedTuple):
    """A step s within a trust region, what is left of the residual r, and whether the step ends on
    the border.

    `length` is the root of s'Ms, `slope` the product of step and gradient and `left` that of step
    and residual.
    """

    step: Any
    residual: Any
    on_border: bool
    length: float
    slope: float
    left: float


def solve_in_region(point: Point, M: Metric, radius: float) -> RegionStep:
    """`steihaug_cg` for the model of the objective around a point, beside the rows where their
    devices can do that.
    """
    if point.objective.engine.capabilities.solves_trust_regions:
        # the engine has said why, and no longer offers it
        with contextlib.suppress(CollectiveLost):
            found = point.objective.trust_region_step(
                point, M.values if isinstance(M, Diagonal) else M.inverse, radius
            )
            return RegionStep(*(found[name] for name in RegionStep._fields))
    return steihaug_cg(point.hessian_vector, point.gradient, M, radius)


def steihaug_cg(
    product: Callable[[Any], Any], gradient: Any, M: Metric, radius: float
) -> RegionStep:
    """Minimise g's + s'Hs/2 for s'Ms <= radius^2 by conjugate gradients preconditioned by M.

    Ends at a tenth of the first residual in the norm of M^-1, on the border, or after max(d, 5)
    products, as LIBLINEAR 2.30 does (Steihaug's rule at the border). Products of steps and
    directions with M follow from what the method has (Conn, Gould & Toint 2000, section 7.5.1).
    Cost: 1 pass per product.
    """
    step = np.zeros_like(gradient)
    residual = -gradient
    z = M.solve(residual)
    direction = z
    zr = float(z @ residual)
    goal = RESIDUAL_LEFT * np.sqrt(zr)
    square, along, length = zr, 0.0, 0.0  # p'Mp, s'Mp and s'Ms of direction p and step s
    on_border = False
    for _ in range(max(len(gradient), LEAST_PRODUCTS)):
        if np.sqrt(zr) <= goal:
            break
        hd = product(direction)
        curvature = float(direction @ hd)
        flat = curvature <= FLAT_CURVATURE * square
        alpha = math.inf if flat else zr / curvature
        longer = length + alpha * (2.0 * along + alpha * square)
        on_border = flat or not longer <= radius * radius
        if on_border:
            alpha, longer = _to_border(along, square, radius * radius - length), radius * radius
        step, residual, length = step + alpha * direction, residual - alpha * hd, longer
        if on_border:
            break
        z = M.solve(residual)
        zr, old = float(z @ residual), zr
        beta = zr / old
        along, square = beta * (along + alpha * square), zr + beta * beta * square
        direction = z + beta * direction
    slope, left = float(gradient @ step), float(step @ residual)
    return RegionStep(step, residual, on_border, math.sqrt(length), slope, left)


def _to_border(along: float, square: float, room: float) -> float:
    """How far to go along a direction until |s|_M = radius: the positive root, written without
    cancellation.
    """
    root = math.sqrt(max(along * along + square * room, 0.0))
    return room / (along + root) if along >= 0 else (root - along) / square
