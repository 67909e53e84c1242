"""Ends of solves at points of which nothing is proved, or not yet: docs/certificates.md.

A gradient says little there: its norm depends on the scales of columns and targets, and falls to
zero where a loss is flat. What says something at any scale is by how much Newton's step would lower
the objective, beside its value.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from daskglm.core.block_hessian import principal
from daskglm.core.device import to_host
from daskglm.objectives.batched import AnyObjective
from daskglm.objectives.point import Point
from daskglm.objectives.primal import SAME_VALUE, Objective
from daskglm.solvers.linear_systems import expected_fall, step_by_products

# Most features of a Hessian that is formed for this, and most multiplications: 32 MB, and about a
# second. Beyond, products with it tell. Chosen.
MOST_FEATURES, MOST_WORK = 2000, 1e10
# Products with the Hessian for one look at most, and the residual at which there are enough of
# them, as a share of the gradient: the fall is then known to a percent. Chosen.
MOST_PRODUCTS, ENOUGH = 50, 0.1
# Share of that fall that is asked for where a loss is not convex, whose Hessian is the expected
# one, and where curvatures jump: steps leave a part of what there is to gain there. Chosen.
NOT_EXACT = 0.01
# Steps that must lower the value by little there. Chosen.
RECENT = 3
# Share of what keeps a decrement from proving an optimum that one more of Newton's steps must leave
# for another one. Near an optimum a step squares it; of separated levels it stays as it is. Without
# a proof these are looked for, at ten times the cost of a step. Chosen.
FALLS = 0.5

Certify = Callable[[Point], tuple[Point, float]]


class Unproved:
    """Tells which points of one solve are as good as `tol` asks, where no bound says so.

    Parameters
    ----------
    objective : Objective
    tol : float
        Share of the value by which Newton's step may still be expected to lower it.

    Notes
    -----
    Points with a Hessian are looked at for nothing. Others where the last step lowered the value by
    less than that share, or the gradient's norm fell to `tol` times the first: then a Hessian is
    formed, 1 pass, or where that costs too much products with it tell. After a look that finds more
    to gain the next waits for twice as many iterations.
    """

    def __init__(self, objective: AnyObjective, tol: float) -> None:
        self.objective, self.tol = objective, tol
        self.first_value = self.first_norm = math.nan
        self.values: deque[float] = deque(maxlen=RECENT + 1)
        self.count, self.next_look, self.wait = 0, 0, 1
        self.apart = math.inf
        self.was_small = False
        loss = objective.loss
        smooth = loss.is_quadratic or loss.family is not None or loss.continuous_curvature
        smooth = smooth and objective.penalty.is_smooth
        self.has_corners = not (smooth or math.isfinite(loss.self_concordance))

    def judge(
        self, point: Point, certificate: Certify, *, ended: bool = False
    ) -> tuple[Point, float, bool]:
        """Return the next point, its gap where a Hessian proves one, and whether it is enough.

        `ended` says that the solver ended there because no step lowers the objective.
        """
        may = self.may_be_enough(point) or ended
        if not may:
            return point, math.nan, False
        seen, fall = self.look(point)
        point, gap = (seen, math.nan) if seen is point else certificate(seen)
        if not math.isnan(gap):  # the driver sees whether that is enough
            self._look_later()
            return point, gap, False
        enough = self.is_enough(point, fall, ended=ended)
        if enough and not ended and seen is point:
            enough = not self._may_prove(point)
        return point, gap, enough

    def _may_prove(self, point: Point) -> bool:
        """Return whether the next step's decrement may prove that there is an optimum nearby."""
        slow = math.isfinite(self.objective.loss.self_concordance)
        if not slow or point.hessian is None or not point.factor.proves:
            return False
        before, factor = self.apart, point.factor
        reach = self.objective.rounding.reach(factor, point.vectors[0])
        self.apart = reach * factor.decrement(to_host(point.residual))
        return 1.0 <= self.apart <= FALLS * before

    def may_be_enough(self, point: Point) -> bool:
        """Take note of the next point, and return whether a look at it may end the solve."""
        norm, value = point.gradient_norm, point.value
        if math.isnan(self.first_value):
            self.first_value, self.first_norm = value, norm
        self.values.append(value)
        self.count += 1
        fall = self.values[-2] - value if self.count > 1 else math.inf
        if point.hessian is not None:
            return True
        small = norm <= self.tol * self.first_norm or fall <= self._allowed(value)
        return small and self.count >= self.next_look

    def look(self, point: Point) -> tuple[Point, float]:
        """Return the point, with its Hessian where that is cheap, and the fall to be expected."""
        objective = self.objective
        assert isinstance(objective, Objective)  # of many problems there are always bounds
        work = float(objective.engine.facts.nonzeros) * objective.outputs * float(_width(objective))
        small = objective.size <= MOST_FEATURES or bool(objective.blocks)
        if point.hessian is None and small and work <= MOST_WORK:
            point = objective.at(point.w, gram=True, exact=True, beside=point)
        residual = to_host(point.residual)
        # coefficients that a kink or a bound holds stay where they are
        free = (residual != 0.0) | (to_host(point.w) != 0.0) | objective.penalty.is_smooth
        if point.hessian is None:
            # roughly: a pass for each product
            step = step_by_products(point, residual, free * 1.0, MOST_PRODUCTS, ENOUGH)
            fall = -0.5 * float(residual @ step)
            return point, fall if math.isfinite(fall) else math.inf
        if not free.any():
            return point, 0.0
        return point, expected_fall(principal(to_host(point.hessian), free), residual[free])

    def is_enough(self, point: Point, fall: float, *, ended: bool = False) -> bool:
        """Return whether the expected fall is small enough; else later looks wait for longer.

        A Hessian of zeros, where losses are flat, tells nothing. Curvatures that jump, kinks that
        hold coefficients, and losses that are not convex tell of the nearest surroundings only:
        there the last steps together must have lowered the value by as little, and as little must
        have been expected at the last look, since steps are short at corners where much is left;
        unless the solver `ended` since none lowers the value.
        """
        flat = (
            point.hessian is not None and not to_host(point.hessian).any() and self.objective.size
        )
        sure = self.objective.loss.convex and not self.has_corners
        share = 1.0 if sure else NOT_EXACT
        enough = fall <= share * self._allowed(point.value) and not (
            flat and self.objective.loss.bends
        )
        if not (sure or ended):
            known = len(self.values) > RECENT
            fell = self.values[0] - self.values[-1] if known else math.inf
            small = enough and fell <= share * self._allowed(point.value)
            enough, self.was_small = small and self.was_small, small
            if small and not enough:  # look again at the next point
                self.next_look = self.count + 1
                return False
        if not enough:
            self._look_later()
        return enough

    def _look_later(self) -> None:
        self.next_look = self.count + self.wait
        self.wait *= 2

    def _allowed(self, value: float) -> float:
        first = abs(self.first_value) if math.isfinite(self.first_value) else 0.0
        return max(self.tol * abs(value), SAME_VALUE * first)


def _width(objective: Objective) -> int:
    """Return the columns of a Hessian as it is formed."""
    return objective.size - sum(stop - start for start, stop in objective.blocks)
