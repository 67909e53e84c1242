"""Steps of Newton's method by a Hessian of another point, where a new one costs many passes.

The chord method (Kelley 1995, section 5.4), corrected by what the gradients since then tell: L-BFGS
on that Hessian's inverse.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass

from daskglm.core.device import Array
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.iterate import Iterate
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.linear_systems import CurvaturePair, inverse_times, pair_of
from daskglm.solvers.workload import Workload

# Share of |g|^2 that a step leaves from which the next one would be poor. Chosen.
POOR = 0.25
# Pairs of L-BFGS. Chosen.
PAIRS = 20


@dataclass(frozen=True)
class Chord:
    """How a solve takes steps by Hessians of other points.

    Parameters
    ----------
    tol : float
        Wanted bound on relative suboptimality.
    hessian : float
        Steps by an old Hessian that a new one costs.
    most : float
        Steps that are worth the Hessians that they save.
    saves : bool
        Whether Hessians cost so much that a step of Newton's method should ask for none at first.
    keep : bool
        Whether workers keep margins; see `Objective.at`.
    """

    tol: float
    hessian: float
    most: float
    saves: bool
    keep: bool

    @classmethod
    def of(cls, objective: Objective, tol: float, *, keep: bool) -> Chord:
        """Return how to solve an objective. Cost: nothing."""
        workload = Workload.of(objective, tol)
        hessian = workload.hessian_step / workload.chord_step
        most = min(costs.HESSIANS_LEFT * hessian, costs.MOST_CHORDS)
        return cls(tol, hessian, most, workload.keeps_hessians, keep)

    def suffices(self, point: Point, fall: float, rate: float) -> bool:
        """Return whether the next step needs no Hessian at its end.

        Such steps are taken while they are expected to reach `tol` for less than the Hessians that
        are left: by their bound alone, or with the proof of a Hessian at the last one.

        Parameters
        ----------
        point : Point
        fall : float
            By how much the step is expected to lower its value.
        rate : float
            The share of bound and fall that a step leaves.
        """
        wanted = self.tol * point.value
        bound = point.objective.bounds.of_features(point)
        if not (wanted > 0.0 and 0.0 < rate < 1.0) or bound <= wanted:
            return False
        by_fall = math.log(max(fall / wanted, 1.0)) / -math.log(rate)
        # there is no such bound without a penalty
        by_bound = math.log(bound / wanted) / -math.log(rate) if bound > wanted else math.inf
        ends = by_fall <= 1.0 and by_bound > self.hessian
        return not ends and min(by_bound, by_fall + self.hessian) < self.most

    def steps(
        self, point: Point, inverse: Callable[[Array], Array], rate: float
    ) -> Generator[Iterate, None, Point]:
        """Take steps from a point without a Hessian; return a point with one.

        The bound of a step's end is `rate` times that of its start, at first; then by the mean of
        the last two. Where that is too slow the next trial point is evaluated with its Hessian, or
        this point is, if the next step would be poor.
        """
        objective, keep = point.objective, self.keep
        pairs: deque[CurvaturePair] = deque(maxlen=PAIRS)
        last = rate
        while True:
            yield Iterate(point)
            step = -inverse_times(pairs, inverse, point.gradient)
            gram = not self.suffices(point, -0.5 * float(point.gradient @ step), rate)
            if gram and rate > POOR:
                return objective.at(point.w, gram=True, keep=keep)
            trial = objective.at(point.w + step, gram=gram, keep=keep, beside=point)
            accepted = backtrack(objective, point, trial, gram=True, keep=keep)
            if accepted is None or accepted.hessian is not None:
                return accepted or objective.at(point.w, gram=True, keep=keep)

            pair = pair_of(accepted.w - point.w, accepted.gradient - point.gradient, inverse)
            if pair.curvature > 0.0:
                pairs.append(pair)
            before, last = last, rate_of(point, accepted)
            rate = math.sqrt(before * last)
            point = accepted


def rate_of(before: Point, after: Point) -> float:
    """Return the share of |g|^2 that a step left."""
    return float(after.gradient @ after.gradient) / float(before.gradient @ before.gradient)
