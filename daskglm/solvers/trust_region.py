"""The subproblem of a trust-region method: a quadratic model minimised within a radius."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from daskglm.core.device import Array
from daskglm.core.requests import CollectiveLost
from daskglm.objectives.point import Point
from daskglm.solvers.linear_systems import Diagonal, Metric
from daskglm.solvers.secant_pairs import QuasiNewton, SecantPairs

# Share of the first residual that conjugate gradients leave, as in LIBLINEAR 2.30.
SHARE = 0.1


class RegionStep(NamedTuple):
    """A step s within a trust region.

    `residual` is that of the linear system, and `on_border` whether the step ends at the region's
    border. `length` is the root of s'Ms, `slope` the product of step and gradient and `left` that
    of step and residual.
    """

    step: Array
    residual: Array
    on_border: bool
    length: float
    slope: float
    left: float


def solve_in_region(
    point: Point,
    M: Metric,
    radius: float,
    share: float = SHARE,
    pairs: SecantPairs | None = None,
    most: float = math.inf,
) -> RegionStep:
    """Solve the model of the objective around a point as `steihaug_cg` does, with pairs around M.

    Engines that can solve it where the rows are do so, in one round, if M has an inverse; they know
    no `most` products.
    """
    there = point.objective.solves_trust_regions
    metric = None if not there else M.values if isinstance(M, Diagonal) else M.inverse
    if metric is not None:
        # an engine that fails has warned, and no longer offers to
        with contextlib.suppress(CollectiveLost):
            found = point.objective.trust_region_step(point, metric, radius, share)
            return RegionStep(*(found[name] for name in RegionStep._fields))
    if pairs is None:
        return steihaug_cg(point.hessian_vector, point.gradient, M, radius, share, most)
    product = pairs.learning(point.hessian_vector)
    return steihaug_cg(product, point.gradient, pairs.around(M), radius, share, most)


def steihaug_cg(
    product: Callable[[Array], Array],
    gradient: Array,
    M: Metric | QuasiNewton,
    radius: float,
    share: float = SHARE,
    most: float = math.inf,
) -> RegionStep:
    """Minimise g's + s'Hs/2 for s'Ms <= radius^2 by conjugate gradients preconditioned by M.

    Ends at a share of the first residual in the norm of M^-1, on the border, or after max(d, 5)
    products, as LIBLINEAR 2.30 does (Steihaug's rule at the border), or `most`. Those of steps and
    directions with M follow from what the method has (Conn, Gould & Toint 2000, section 7.5.1).
    Cost: 1 pass per product.
    """
    step = np.zeros_like(gradient)
    residual = -gradient
    z = M.solve(residual)
    direction = z
    zr = float(z @ residual)
    goal = share * np.sqrt(zr)
    square, along, length = zr, 0.0, 0.0  # p'Mp, s'Mp and s'Ms of direction p and step s
    on_border = False
    for _ in range(int(min(max(len(gradient), 5), most))):
        if np.sqrt(zr) <= goal:
            break
        hd = product(direction)
        curvature = float(direction @ hd)

        # curvature within the unit roundoff is none: the model falls to the border of the region
        flat = curvature <= 1e-16 * square
        alpha = math.inf if flat else zr / curvature
        longer = length + alpha * (2.0 * along + alpha * square)
        on_border = flat or not longer <= radius * radius
        if on_border:
            alpha = _to_border(along, square, radius * radius - length)
            longer = radius * radius
        step = step + alpha * direction
        residual = residual - alpha * hd
        length = longer
        if on_border:
            break

        z = M.solve(residual)
        zr, old = float(z @ residual), zr
        beta = zr / old
        along = beta * (along + alpha * square)
        square = zr + beta * beta * square
        direction = z + beta * direction

    slope = float(gradient @ step)
    left = float(step @ residual)
    return RegionStep(step, residual, on_border, math.sqrt(length), slope, left)


def _to_border(along: float, square: float, room: float) -> float:
    """Find how far along a direction |s|_M = radius.

    It is the positive root of a quadratic, in the form that does not cancel.
    """
    # by parts, whose product may underflow
    root = math.hypot(along, math.sqrt(square) * math.sqrt(max(room, 0.0)))
    if along >= 0.0:
        # nothing is left to go where all of them vanish
        return room / (along + root) if along + root > 0.0 else 0.0
    return (root - along) / square
