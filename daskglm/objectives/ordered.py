"""The margins of ordered classes: x.w less each of the thresholds t_1 < ... < t_(K-1).

Solvers see one vector: the coefficients w of the features, then the thresholds, which have no
penalty. Where thresholds do not increase the objective is infinite, and line searches turn back.
Requests add up the logistic terms; the barriers between thresholds are added here. Of links other
than the logit they add up all, and no bounds are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daskglm.certificates.constants import Thresholds, hessian_of_gaps
from daskglm.certificates.free import Free
from daskglm.certificates.hessian_factor import UNIT
from daskglm.certificates.rounding import Rounding
from daskglm.core.facts import DataSummary
from daskglm.core.requests import EvaluateAlong, Totals
from daskglm.core.summation import SUMMED_ROWS
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import OrderedLink, barrier, barrier_curvature, barrier_slope
from daskglm.objectives.margins import Margins, Sums
from daskglm.objectives.point import ByThresholds
from daskglm.penalties.penalty import Penalty

if TYPE_CHECKING:
    from daskglm.objectives.point import Point
    from daskglm.objectives.primal import Objective

# Steps of Newton's method for the thresholds alone, and lengths that are tried of each.
THRESHOLD_STEPS = 60
LENGTHS = 0.25 ** np.arange(6.0)
# Relative fall of the value, as Newton's step foresees it, that values cannot show: that step is
# the last one.
LEVEL = 1e-14


@dataclass(frozen=True, eq=False)
class Ordered(Margins):
    """The margins of K ordered classes.

    Parameters
    ----------
    width : int
    classes : tuple
        Two or more labels, in their order. Other labels must have no weight.
    shares : (K,) array
        Total weights of these classes, all above zero.
    link : OrderedLink
        Of the loss.
    """

    classes: tuple[Any, ...]
    shares: np.ndarray
    link: OrderedLink

    free = Free

    @property
    def outputs(self) -> int:
        """One: all thresholds move the same margin."""
        return 1

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes."""
        return self.classes

    @property
    def constants(self) -> int:
        """The thresholds, K - 1."""
        return len(self.classes) - 1

    @property
    def weight(self) -> float:
        """Total weight of the classes."""
        return float(self.shares.sum())

    def rounding(
        self, facts: DataSummary, loss: Loss, penalty: Penalty, C: float, *, on_device: bool
    ) -> Rounding:
        """Return the bounds on rounding errors of an objective's sums."""
        constants = Thresholds.of(self.shares, loss, C, facts.largest_offset)
        run = None if facts.sparse else SUMMED_ROWS
        return Rounding(
            facts, loss, constants, on_device=on_device, run=run, penalty=penalty.quadratic
        )

    def origin(self, objective: Objective) -> np.ndarray:
        """Return coefficients of zero, and thresholds by the shares of the classes."""
        facts, start = objective.engine.facts, objective.rounding.constants.start
        mean = facts.offset_sum / max(facts.weight, 1e-300)
        return np.concatenate([np.zeros(self.width), start + mean])

    def is_inside(self, w: np.ndarray) -> bool:
        """Return whether an objective is finite at w: whether thresholds increase."""
        return bool((np.diff(w[self.width :]) > 0.0).all())

    def only_side(self, objective: Objective) -> float:
        """Return 0, since two classes at least have weight."""
        return 0.0

    def _parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients of features, and thresholds."""
        w = np.asarray(w, float)
        return w[: self.width], w[self.width :]

    def _weights(self, totals: Totals, *, is_sample: bool) -> np.ndarray:
        """Return the weights of the classes, (K,), of the rows that a reply is about."""
        # those of a sample, so that its parts belong together
        weights: np.ndarray = totals["weights"] if is_sample else self.shares
        return weights

    # ---- what replies leave out: barriers where a loss splits, else nothing
    def _barrier(self, thresholds: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Add up the barriers of each row of thresholds (..., K - 1), without C.

        They are infinite where thresholds do not increase, with any link.
        """
        gaps = np.diff(thresholds)
        if not self.link.splits:
            return np.where((gaps > 0.0).all(axis=-1), 0.0, np.inf)
        found: np.ndarray = barrier(gaps) @ weights[1:-1]
        return found

    def _barrier_slopes(self, thresholds: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return derivatives of the barriers by thresholds (K - 1,), without C."""
        if not self.link.splits:
            return np.zeros(len(thresholds))
        by_gap = weights[1:-1] * barrier_slope(np.diff(thresholds))
        return np.append(0.0, by_gap) - np.append(by_gap, 0.0)

    def _by_gaps(
        self, thresholds: np.ndarray, weights: np.ndarray, of_rows: np.ndarray | None
    ) -> np.ndarray:
        """Return curvatures by the gaps of thresholds (K - 2,), without C.

        They are those of barriers, or of a reply's rows.
        """
        if of_rows is not None:
            return of_rows
        found: np.ndarray = weights[1:-1] * barrier_curvature(np.diff(thresholds))
        return found

    # ---- requests, and what comes back
    def sums(self, w: np.ndarray, totals: Totals, *, is_sample: bool) -> Sums:
        """Return the sums of a reply at w, and the barriers."""
        t, weights = self._parts(w)[1], self._weights(totals, is_sample=is_sample)
        gradient = np.array(totals["gradient"])
        gradient[self.width :] += self._barrier_slopes(t, weights)
        each = totals["curvatures"]
        gaps = self._by_gaps(t, weights, totals.get("between"))
        by_thresholds = hessian_of_gaps(gaps) + np.diag(each)
        diagonal = totals.get("diagonal")
        return Sums(
            float(totals["value"]) + float(self._barrier(t, weights)),
            gradient,
            self._whole(totals, by_thresholds) if "gram" in totals else None,
            None if diagonal is None else np.append(diagonal, np.diag(by_thresholds)),
            ByThresholds(each, gaps),
        )

    def _whole(self, totals: Totals, by_thresholds: np.ndarray) -> np.ndarray:
        """Form the upper triangle of the Hessian from its blocks."""
        d = self.width
        hessian = np.zeros((self.size, self.size))
        hessian[:d, :d], hessian[:d, d:] = totals["gram"], totals["cross"]
        hessian[d:, d:] = by_thresholds
        return hessian

    def known(self, objective: Objective, point: Point) -> Point:
        """Return the point with the bound by its thresholds, if any is known. Cost: nothing."""
        if not self.link.splits:
            return point
        rounding, curvatures = objective.rounding, point.by_thresholds
        constants = rounding.constants
        assert isinstance(constants, Thresholds)
        assert curvatures is not None
        with np.errstate(over="ignore", invalid="ignore"):  # far out
            near = constants.near(
                rounding.of_constants(point.w),
                objective.C * curvatures.each,
                rounding.of_constants(point.gradient),
                point.error.slopes + point.error.adding,
                rounding.terms * UNIT + rounding.hessian(point.w, exact=True),
            )
        return replace(point, near=near)

    def product(self, totals: Totals, point: Point, v: np.ndarray) -> np.ndarray:
        """Return the losses' Hessian at a point times v, without C, of a reply."""
        assert point.by_thresholds is not None
        product = np.array(totals["product"])
        product[self.width :] += hessian_of_gaps(point.by_thresholds.gaps) @ v[self.width :]
        return product

    def between(self, objective: Objective, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Return sums of losses at a + t (b - a), without C. Cost: 0 passes, 1 round."""
        coefficients = np.stack([1 - steps, steps], axis=1)
        thresholds = np.stack([self._parts(a.w + s * (b.w - a.w))[1] for s in steps])
        totals = self._along(objective, (a, b), coefficients, thresholds)
        weights = self._weights(totals, is_sample=objective.is_sample)
        found: np.ndarray = totals["values"] + self._barrier(thresholds, weights)
        return found

    def _along(
        self,
        objective: Objective,
        points: Sequence[Point],
        coefficients: np.ndarray,
        thresholds: np.ndarray,
    ) -> Totals:
        at = tuple((point.token, point.w) for point in points)
        return objective.ask(EvaluateAlong(at, coefficients, thresholds))

    # ---- thresholds
    def near_constants(self, objective: Objective, point: Point) -> Point:
        """Return the point, which knows how near its thresholds are. Cost: nothing."""
        return point

    def best_constants(self, objective: Objective, point: Point) -> Point:
        """Evaluate the same coefficients with the thresholds that fit them best.

        Cost: 1 pass, some rounds.
        """
        features, t = self._parts(point.w)
        return objective.at(np.append(features, self.best_thresholds(objective, point, t)[0]))

    def best_thresholds(
        self, objective: Objective, point: Point, thresholds: np.ndarray, share: float = 1.0
    ) -> tuple[np.ndarray, float]:
        """Return the best thresholds for `share` of a point's margins, and the loss without C.

        By Newton's method on cached margins, from `thresholds`, which increase. Cost: 0 passes,
        some rounds.
        """
        t, shares = thresholds, self.shares

        def ask(tried: np.ndarray) -> tuple[np.ndarray, Totals]:
            totals = self._along(objective, (point,), np.full((len(tried), 1), share), tried)
            return totals["values"] + self._barrier(tried, shares), totals

        values, totals = ask(t[None])
        best = 0
        for _ in range(THRESHOLD_STEPS):
            slope = totals["slopes"][best] + self._barrier_slopes(t, shares)
            of_rows = totals["between"][best] if "between" in totals else None
            gaps = self._by_gaps(t, shares, of_rows)
            hessian = hessian_of_gaps(gaps) + np.diag(totals["curvatures"][best])
            step = -np.linalg.lstsq(hessian, slope, rcond=1e-14)[0]
            value, trials = values[best], t + LENGTHS[:, None] * step
            values, totals = ask(trials)
            if -0.5 * float(slope @ step) <= LEVEL * abs(value):
                return trials[0], float(values[0])
            best = int(np.argmin(values))
            if not values[best] < value:
                return t, float(value)
            t = trials[best]
        return t, float(values[best])
