"""The objective 1/2 |w|^2 + C sum_i s_i l(y_i, x_i.w, t) of an ordinal loss, with thresholds t.

Solvers see one vector: the coefficients w of the features, then the thresholds t_1 < ... < t_(K-1),
which have no penalty. Where thresholds do not increase the objective is infinite, and line searches
turn back. Requests add up the logistic terms; the barriers between thresholds are added here. Of
links other than the logit they add up all, and no bounds are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.certificates.bounds import Bounds
from daskglm.certificates.ordinal import OrdinalByConvexity
from daskglm.certificates.ordinal_rounding import OrdinalRounding, hessian_of_gaps
from daskglm.core.engine import Engine
from daskglm.core.matrices import mirror_upper
from daskglm.core.ordinal_requests import EvaluateOrdinal, OrdinalAlong, OrdinalHessianVector
from daskglm.core.requests import Problem, Totals
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import (
    LINKS,
    barrier,
    barrier_curvature,
    barrier_slope,
    link_of_loss,
)
from daskglm.objectives.point import ByThresholds, Point
from daskglm.objectives.primal import tokens
from daskglm.objectives.several_intercepts import SeveralIntercepts
from daskglm.penalties.penalty import Penalty

# Steps of Newton's method for the thresholds alone, and lengths that are tried of each.
THRESHOLD_STEPS = 60
LENGTHS = 0.25 ** np.arange(6.0)
# Relative fall of the value, as Newton's step foresees it, that values cannot show: that step is
# the last one.
LEVEL = 1e-14


class OrdinalObjective(SeveralIntercepts):
    """Penalty plus C times the sum of ordinal losses, over the rows of an engine.

    Parameters
    ----------
    engine : Engine
    problem : Problem
        Its `positive` is None.
    loss : Loss
        One of `losses.ordinal`.
    classes : tuple
        Two or more labels, in their order. Other labels must have no weight.
    weights : sequence of float
        Total weights of these classes, all above zero.
    C : float
        Weight of the losses; infinity means no penalty.
    penalty : Penalty, optional
        As of `Objective`, for vectors with the thresholds.
    bounded : callable, default OrdinalByConvexity
        As of `Objective`.
    """

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        loss: Loss,
        *,
        classes: tuple[Any, ...],
        weights: Sequence[float],
        C: float,
        penalty: Penalty | None = None,
        bounded: type[Bounds] = OrdinalByConvexity,
    ) -> None:
        problem = replace(problem, classes=classes)
        how: Any = {"penalty": penalty, "bounded": bounded}
        super().__init__(engine, problem, loss, C=C, fit_intercept=True, **how)
        self.classes = classes
        self.link = link_of_loss(loss.name)
        self.shares = np.asarray(weights, float)
        self.size = self.n_features + len(classes) - 1
        self.penalty = penalty or self._ridge(C)
        self.total_weight = float(self.shares.sum())
        self.rounding: OrdinalRounding = OrdinalRounding(
            engine.facts,
            loss,
            self.shares,
            self.scale,
            self.penalty.quadratic,
            on_device=engine.capabilities.device != "cpu",
        )
        self.xp = np  # thresholds are compared and moved here, wherever the rows are

    @property
    def only_side(self) -> float:
        """Sign of the only class that has weight: 0, since there are two at least."""
        return 0.0

    @property
    def typical_curvature(self) -> float:
        """The largest curvature of a row's loss by its margin, or what is to be expected."""
        return min(self.loss.smoothness, 1.0)

    @property
    def origin(self) -> Any:
        """Where solves start: coefficients of zero, or the nearest ones within the bounds, and
        thresholds by the shares of the classes.
        """
        facts = self.engine.facts
        mean = facts.offset_sum / max(facts.weight, 1e-300)
        w = np.concatenate([np.zeros(self.n_features), self.rounding.constants + mean])
        return self.penalty.kinks.clip(w)

    def is_inside(self, w: Any) -> bool:
        """Return whether the objective is finite at w: whether thresholds increase."""
        return bool((np.diff(w[self.n_features :]) > 0.0).all())

    def _parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients of features, and thresholds."""
        w = np.asarray(w, float)
        return w[: self.n_features], w[self.n_features :]

    def class_weights(self, totals: Totals) -> np.ndarray:
        """Return the weights of the classes, (K,), of the rows that a reply is about."""
        # those of a sample, so that its parts belong together
        weights: np.ndarray = totals["weights"] if self.is_sample else self.shares
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

    def _between(
        self, thresholds: np.ndarray, weights: np.ndarray, between: np.ndarray | None
    ) -> np.ndarray:
        """Return curvatures by the gaps of thresholds (K - 2,), times C.

        They are those of barriers, or of a reply's rows.
        """
        if between is not None:
            return self.scale * between
        found: np.ndarray = self.scale * weights[1:-1] * barrier_curvature(np.diff(thresholds))
        return found

    # ---- points
    def at(
        self,
        w: np.ndarray,
        *,
        gram: bool = False,
        diagonal: bool = False,
        keep: bool = True,
        curved: bool = False,
        beside: Point | None = None,
        exact: bool = False,
    ) -> Point:
        """Evaluate the objective and its gradient at w; see `Objective.at`. Cost: 1 pass, 1 round.

        `curved` is without effect: curvatures are made anew from margins. Where thresholds do not
        increase only margins are made, for a search from there.
        """
        w = self.penalty.kinks.clip(w)
        inside = self.is_inside(w)
        gram, diagonal, keep = gram and inside, diagonal and inside, keep or not inside
        exact = gram and (exact or self.rounding.is_exact)
        token, other = next(tokens), beside.token if beside else None
        features, t = self._parts(w)
        totals = self.ask(EvaluateOrdinal(features, t, token, gram, diagonal, keep, other, exact))
        if not inside:
            return Point(self, w, math.inf, np.full(self.size, math.nan), token)

        weights = self.class_weights(totals)
        penalty, pull = self.penalty.quadratic.value_and_gradient(w)
        slopes = totals["slopes"] + self._barrier_slopes(t, weights)
        value = float(totals["value"]) + float(self._barrier(t, weights))
        curvatures = self.scale * totals["curvatures"]
        between = self._between(t, weights, totals.get("between"))
        by_thresholds = hessian_of_gaps(between) + np.diag(curvatures)
        whole = None
        if diagonal:
            own = np.append(self.scale * totals["diagonal"], np.diag(by_thresholds))
            whole = own + self.penalty.quadratic.diagonal(self.size)
        point = Point(
            self,
            w,
            self.scale * value + penalty,
            self.scale * np.append(totals["gradient"], slopes) + pull,
            token,
            self._whole(totals, by_thresholds) if gram else None,
            whole,
            exact,
            by_thresholds=ByThresholds(curvatures, between),
        )
        # near the best thresholds by the losses alone
        near = self.with_near(point)
        return replace(near, value=near.value + self.penalty.kinks.value(w))

    def _whole(self, totals: Totals, by_thresholds: np.ndarray) -> np.ndarray:
        """Form the Hessian from its blocks."""
        d = self.n_features
        hessian = np.empty((self.size, self.size))
        hessian[:d, :d] = self.scale * totals["gram"]
        hessian[:d, d:] = self.scale * totals["cross"]
        hessian[d:, d:] = by_thresholds
        mirror_upper(hessian)
        self.penalty.quadratic.add_to(hessian)
        return hessian

    def with_near(self, point: Point) -> Point:
        """Return the point with the bound by its thresholds, if any is known. Cost: nothing."""
        if not self.link.splits:
            return point
        assert point.by_thresholds is not None
        with np.errstate(over="ignore", invalid="ignore"):  # far out
            near = self.rounding.near_thresholds(
                point.w, point.by_thresholds.each, point.gradient, point.error
            )
        return replace(point, near=near)

    def hessian_vector(self, point: Point, v: np.ndarray) -> np.ndarray:
        """Multiply v by the Hessian at an evaluated point. Cost: 1 pass, 1 round."""
        (features, t), (along, shifts) = self._parts(point.w), self._parts(v)
        request = OrdinalHessianVector(along, shifts, t, (point.token, features))
        totals = self.ask(request)
        assert point.by_thresholds is not None
        by_thresholds = (
            self.scale * totals["by"] + hessian_of_gaps(point.by_thresholds.gaps) @ shifts
        )
        product = np.append(self.scale * totals["product"], by_thresholds)
        return product + self.penalty.quadratic.hessian_vector(v)

    def between(self, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Evaluate a + t (b - a) for each t of `steps`. Cost: 0 passes, 1 round."""
        coefficients = np.stack([1 - steps, steps], axis=1)
        thresholds = np.stack([self._parts(a.w + s * (b.w - a.w))[1] for s in steps])
        totals = self._along((a, b), coefficients, thresholds)
        barriers = self._barrier(thresholds, self.class_weights(totals))
        penalties = [self.penalty.value(a.w + s * (b.w - a.w)) for s in steps]
        values: np.ndarray = self.scale * (totals["values"] + barriers) + penalties
        return values

    def _along(
        self, points: Sequence[Point], coefficients: np.ndarray, thresholds: np.ndarray
    ) -> Totals:
        at = tuple((point.token, self._parts(point.w)[0]) for point in points)
        return self.ask(OrdinalAlong(at, coefficients, thresholds))

    # ---- how good a point is
    def hessian_error(self, point: Point) -> float:
        """Bound the error of a point's Hessian. Cost: nothing."""
        return self.rounding.hessian(point.w, exact=point.exact)

    def by_hessian(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum by its Hessian. Cost: nothing."""
        if not (self.bounds.proves and math.isfinite(point.value)):
            return math.inf
        rounding = self.rounding
        return rounding.by_thresholds_too(point.factor, point.w, point.residual, point.error)

    def best_thresholds(
        self, point: Point, thresholds: np.ndarray, share: float = 1.0
    ) -> tuple[np.ndarray, float]:
        """Return the best thresholds for `share` of a point's margins, and the loss without C.

        By Newton's method on cached margins, from `thresholds`, which increase. Cost: 0 passes,
        some rounds.
        """
        t = thresholds

        def ask(tried: np.ndarray) -> tuple[np.ndarray, Totals]:
            totals = self._along((point,), np.full((len(tried), 1), share), tried)
            return totals["values"] + self._barrier(tried, self.shares), totals

        values, totals = ask(t[None])
        best = 0
        for _ in range(THRESHOLD_STEPS):
            slope = totals["slopes"][best] + self._barrier_slopes(t, self.shares)
            curvatures = self.scale * totals["curvatures"][best]
            of_gaps = totals["between"][best] if "between" in totals else None
            between = self._between(t, self.shares, of_gaps)
            hessian = hessian_of_gaps(between) + np.diag(curvatures)
            step = -np.linalg.lstsq(hessian, self.scale * slope, rcond=1e-14)[0]
            value, trials = values[best], t + LENGTHS[:, None] * step
            values, totals = ask(trials)
            if -0.5 * float(slope @ step) <= LEVEL * abs(value):
                return trials[0], float(values[0])
            best = int(np.argmin(values))
            if not values[best] < value:
                return t, float(value)
            t = trials[best]
        return t, float(values[best])

    def with_near_intercept(self, point: Point) -> Point:
        """Return the point, which knows how near its thresholds are. Cost: nothing."""
        return point

    def with_best_intercept(self, point: Point) -> Point:
        """Evaluate the same coefficients with the thresholds that fit them best.

        Cost: 1 pass, some rounds.
        """
        features, t = self._parts(point.w)
        return self.at(np.append(features, self.best_thresholds(point, t)[0]))

    def with_logit(self, w: np.ndarray) -> tuple[OrdinalObjective, np.ndarray]:
        """Return the objective of the same rows with the logit, and w as it is there, nearly.

        That is by slope and value of the logit of F at its median. Cost: nothing.
        """
        loss, ones = LINKS["logit"].loss, np.ones(1)
        problem = replace(self.problem, loss=loss.ref)
        more: Any = {"classes": self.classes, "weights": self.shares, "penalty": self.penalty}
        made = OrdinalObjective(self.engine, problem, loss, C=self.scale, **more)
        features, t = self._parts(w)
        moved = np.append(features, t - self.link.quantiles(ones, ones))
        return made, self.link.steepness * moved
