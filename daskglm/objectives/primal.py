"""The objective P(w) + C sum_i s_i loss(y_i, x_i.w + b), which solvers ask for all they need.

It adds the penalty P and C to the sums that an engine takes over the rows; `bounds` says how far a
point can be from the optimum. w holds the features' coefficients and, where there is an intercept,
b as its last entry. Points hold the gradient of the smooth part, losses and quadratic penalties.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from daskglm.certificates.bounds import Bounds, Certify
from daskglm.certificates.convexity import ByConvexity
from daskglm.certificates.rounding import Norms, Rounding
from daskglm.core.device import gpu, to_host
from daskglm.core.engine import Engine
from daskglm.core.inference_requests import InferenceSums
from daskglm.core.matrices import mirror_upper
from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    Problem,
    Request,
    Totals,
    TrustRegionStep,
)
from daskglm.core.summation import SUMMED_ROWS
from daskglm.core.view import Drawn, Part
from daskglm.losses.base import Loss
from daskglm.objectives.convex import Seen, distance_to_best, least_of_several
from daskglm.objectives.point import Point
from daskglm.objectives.rows import Rows
from daskglm.penalties.penalty import Penalty

# Relative differences of the objective that may be rounding in sums over rows.
SAME_VALUE = 1e-12
# What an objective caches.
CACHED = ("bounds", "unheld")
# Numbers that name the margins and dual variables that workers keep.
tokens = itertools.count()


class Objective:
    """Penalty plus C times the sum of losses, over the rows of an engine.

    Parameters
    ----------
    engine : Engine
    problem : Problem
        Loss, positive label and class weights.
    loss : Loss
    C : float
        Weight of the losses; infinity means no penalty (then the losses have weight one).
    fit_intercept : bool
        Whether w ends in an unpenalised intercept.
    span : float
        See `Loss.intercept_span`.
    sides : tuple of float, optional
        Total weights of positive and of negative rows (regression: of all, and 0), class weights
        included.
    penalty : Penalty, optional
        Default: a ridge of strength one, or none where C is infinite.
    start : float
        Intercept of the `origin`.
    bounded : callable, default ByConvexity
        Makes the bounds of points from an objective. Those by the tangent take any penalty, and
        vectors are in host memory then, wherever the rows are.

    Attributes
    ----------
    outputs : int
        Margins of a row.
    """

    outputs: int = 1

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        loss: Loss,
        *,
        C: float,
        fit_intercept: bool,
        span: float = 0.0,
        sides: tuple[float, float] | None = None,
        penalty: Penalty | None = None,
        start: float = 0.0,
        bounded: type[Bounds] = ByConvexity,
    ) -> None:
        there = engine.capabilities.xp is not np
        self.rows = Rows(engine, problem, moves=there and bounded.any_penalty)
        self.loss = loss
        self.scale = 1.0 if math.isinf(C) else C
        self.fit_intercept = fit_intercept
        self.n_features = engine.facts.n_features or 0
        self.size = self.n_features + fit_intercept
        self.penalty = penalty or self._ridge(C)
        self.bounded = bounded
        if there and not (bounded.any_penalty or self.penalty.is_plain):
            raise ValueError("a penalty with a strength for each feature wants rows on the CPU")
        self.sides = sides
        self.total_weight = engine.facts.weight if sides is None else sum(sides)
        self.span = span
        self.start = start if fit_intercept else 0.0
        self.inside: Any = None  # coefficients to start from, where zero is outside of a domain
        self.prepared = 0.0  # passes that the penalty took, before the solve
        self.xp = np if bounded.any_penalty else engine.capabilities.xp
        self.rounding = Rounding(
            engine.facts,
            loss,
            fit_intercept=fit_intercept,
            on_device=engine.capabilities.device != "cpu",
            run=None if engine.facts.sparse else SUMMED_ROWS,
            penalty=self.penalty.quadratic,
        )

    def _ridge(self, C: float) -> Penalty:
        """Return the penalty of strength one, or none where C is infinite."""
        return Penalty.ridge(self.n_features, self.size, 0.0 if math.isinf(C) else 1.0)

    @cached_property
    def bounds(self) -> Bounds:
        """How far points can be from the optimum, and what may be done to know it better."""
        return self.bounded(self)

    @property
    def engine(self) -> Engine:
        """The engine that has the rows."""
        return self.rows.engine

    @property
    def problem(self) -> Problem:
        """What turns stored labels into targets and row weights."""
        return self.rows.problem

    @property
    def passes(self) -> float:
        """Passes over all rows up to now."""
        return self.rows.meter.passes

    @property
    def waited(self) -> float:
        """Seconds that were waited for data up to now."""
        return self.rows.meter.waited

    @property
    def is_penalised(self) -> bool:
        """Whether the penalty is strongly convex in all features, so that points can be bounded."""
        return self.penalty.quadratic.strong_convexity > 0.0

    @property
    def threshold(self) -> float:
        """`Penalty.threshold`; nan where vectors are not where the rows are."""
        return math.nan if self.rows.moves else self.penalty.threshold

    @property
    def solves_trust_regions(self) -> bool:
        """Whether subproblems of a trust region may be solved where the rows are."""
        return self.engine.capabilities.solves_trust_regions and not self.bounded.any_penalty

    @property
    def has_dual(self) -> bool:
        """Whether dual ascent knows the dual: not with offsets, unless targets take them in."""
        has_offset = self.engine.facts.largest_offset > 0.0 and not self.loss.shifts
        known = self.threshold >= 0.0 or not self.bounded.any_penalty
        return self.loss.has_dual and not has_offset and known

    @property
    def typical_curvature(self) -> float:
        """The largest curvature of a row's loss, or what is to be expected where there is none."""
        facts = self.engine.facts
        return self.loss.expected_curvature(facts.target_sum / max(facts.weight, 1e-300))

    @property
    def can_go_without(self) -> bool:
        """Whether a Hessian alone bounds points, without a penalty."""
        loss = self.loss
        return (loss.family is not None or loss.is_quadratic) and loss.is_bounded

    @property
    def origin(self) -> Any:
        """Where solves start: coefficients of zero and the intercept `start`, or the nearest ones
        within the bounds; `inside` where it is known.
        """
        if self.inside is not None:
            return self.inside
        w = self.xp.zeros(self.size)
        if self.fit_intercept:
            w[-1] = self.start
        return self.penalty.kinks.clip(w)

    def is_origin(self, w: Any) -> bool:
        """Return whether these are the coefficients of the `origin`."""
        return bool((w == self.origin).all())

    @staticmethod
    def new_token() -> int:
        """Return a number that names margins of a point."""
        return next(tokens)

    def is_inside(self, w: Any) -> bool:
        """Return whether the objective can be finite at w: it is everywhere, but for overflow."""
        return True

    @property
    def only_side(self) -> float:
        """Sign of the only class that has weight, if an intercept can predict it; else 0."""
        if self.sides is None or not (self.loss.classifies and self.fit_intercept):
            return 0.0
        positive, negative = self.sides
        return float(negative == 0.0) - float(positive == 0.0)

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
        """Evaluate the objective and the gradient of its smooth part. Cost: 1 pass, 1 round.

        Parameters
        ----------
        w : (size,) array
            Where it is not within the bounds, the nearest point that is is evaluated.
        gram, diagonal : bool
            Whether to form the Hessian, and its diagonal.
        keep : bool
            Whether workers keep the margins (8 bytes a row) of this point and of one other. Without
            them a search between points, and a product with the Hessian, take one more pass.
        curved : bool
            Whether workers keep the curvatures, too (8 bytes a row), for products.
        beside : Point, optional
            The other point whose margins are kept, to which a search may go back; default: the last
            one evaluated.
        exact : bool
            Whether the Hessian is summed in float64; else in the dtype of dense rows, over a few
            rows at a time.
        """
        token, w = next(tokens), self.penalty.kinks.clip(w)
        exact = gram and (exact or self.rounding.is_exact)
        other = beside.token if beside else None
        totals = self.ask(Evaluate(w, token, gram, diagonal, keep, curved, other, exact))
        hessian = self._hessian(totals["gram"]) if gram else None
        if self.xp is not np:
            return self._point_there(w, token, totals, hessian, beside, exact=exact)

        quadratic, kinks = self.penalty.quadratic, self.penalty.kinks
        penalty, gradient = quadratic.value_and_gradient(w)
        gradient += self.scale * totals["gradient"]
        curvatures = None
        if diagonal:
            curvatures = self.scale * totals["diagonal"] + quadratic.diagonal(self.size)
        return Point(
            self,
            w,
            self.scale * float(totals["value"]) + penalty + kinks.value(w),
            gradient,
            token,
            hessian,
            curvatures,
            exact,
        )

    def _hessian(self, gram: Any) -> Any:
        """Form the Hessian of the objective from the upper triangle of that of the losses."""
        if self.xp is not np:
            upper = self.xp.triu(gram)
            ridge = self.xp.diag(self.penalty.quadratic.diagonal(self.size, self.xp))
            return self.scale * (upper + self.xp.triu(upper, 1).T) + ridge
        hessian: np.ndarray = self.scale * gram
        mirror_upper(hessian)
        self.penalty.quadratic.add_to(hessian)
        return hessian

    def _point_there(
        self, w: Any, token: int, totals: Totals, hessian: Any, beside: Point | None, *, exact: bool
    ) -> Point:
        """Make a point whose vectors stay on the device, with one wait for all its scalars."""
        found = gpu().finish(
            totals["value"],
            totals["gradient"],
            totals.get("diagonal"),
            w,
            None if beside is None else beside.w,
            self.n_features,
            self.scale,
            self.penalty.quadratic.largest,  # of all features
        )
        return Point(
            self,
            w,
            found.value,
            found.gradient,
            token,
            hessian,
            found.diagonal,
            exact,
            norms=(Norms(found.norm, found.intercept), Norms(found.gradient_norm, found.slope)),
            beside=None if beside is None else (beside.token, found.moved),
        )

    def expected_hessian(self, w: np.ndarray) -> np.ndarray:
        """Return the Hessian with expected curvatures, Fisher's. Cost: 1 pass, 1 round."""
        hessian: np.ndarray = self._hessian(self.ask(InferenceSums(w))["bread"])
        return hessian

    def hessian_vector(self, point: Point, v: np.ndarray) -> np.ndarray:
        """Multiply v by the Hessian at an evaluated point. Cost: 1 pass, 1 round."""
        product = self.ask(HessianVector(v, (point.token, point.w)))["product"]
        return self.scale * product + self.penalty.quadratic.hessian_vector(v)

    def trust_region_step(self, point: Point, metric: Any, radius: float) -> Totals:
        """Solve the subproblem of a trust region where the rows are: `requests.TrustRegionStep`.

        Cost: 1 pass per product, 1 round.
        """
        return self.ask(
            TrustRegionStep(
                (point.token, point.w),
                point.gradient,
                metric,
                radius,
                self.scale,
                self.penalty.quadratic.diagonal(self.size, self.xp),
            )
        )

    def along(
        self, points: Sequence[Point], coefficients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate the smooth part at combinations of points, with derivatives by coefficients.

        Row m of `coefficients` (m, k + 1) means sum_j c_j w_j plus c_k on the intercept; the c_j
        must sum to one where there is an intercept. Returns values (m,), slopes (m, k + 1) and
        Hessians (m, k + 1, k + 1). Margins are affine in w, so those that workers keep are enough.
        Cost: 0 passes, 1 round.
        """
        coefficients = np.atleast_2d(coefficients)
        totals = self.ask(EvaluateAlong(tuple((p.token, p.w) for p in points), coefficients))

        # products of the points in the penalty; the last is the intercept's, which has no penalty
        inner = np.zeros((len(points) + 1, len(points) + 1))
        for i, p in enumerate(points):
            pulled = self.penalty.quadratic.hessian_vector(p.w)
            for j, q in enumerate(points[: i + 1]):
                inner[i, j] = inner[j, i] = float(pulled @ q.w)
        pc = coefficients @ inner
        penalty = 0.5 * np.einsum("mk,mk->m", pc, coefficients)
        with np.errstate(over="ignore"):  # exponential losses, far from the optimum
            values = self.scale * totals["values"] + penalty
            slopes = self.scale * totals["slopes"] + pc
            hessians = self.scale * totals["hessians"] + inner
        return values, slopes, hessians

    def between(self, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Evaluate a + t (b - a) for each t of `steps`. Cost: 0 passes, 1 round."""
        coefficients = np.stack([1 - steps, steps, np.zeros(len(steps))], axis=1)
        smooth, kinks = self.along((a, b), coefficients)[0], self.penalty.kinks
        if self.penalty.is_smooth:
            return smooth
        return smooth + np.array([kinks.value(a.w + t * (b.w - a.w)) for t in steps])

    def slopes_between(self, a: Point, b: Point, steps: Sequence[float]) -> np.ndarray:
        """Return slopes along b - a at a + t (b - a) for each t of `steps`.

        Cost: 0 passes, 1 round.
        """
        way = np.array([[1.0 - t, t, 0.0] for t in steps])
        slopes = to_host(self.along((a, b), way)[1])
        found: np.ndarray = slopes[:, 1] - slopes[:, 0]
        return found

    def feature_sizes(self, w: np.ndarray) -> np.ndarray:
        """Return the sizes of the coefficients of each feature, of w in host memory."""
        return np.abs(w[: self.n_features])

    # ---- how good a point is
    def certificate(self, tol: float) -> Certify:
        """Return what the driver calls to bound the points of one solve."""
        return self.bounds.certificate(tol)

    def residual(self, point: Point) -> Any:
        """Return the shortest subgradient at a point. Cost: nothing."""
        if self.penalty.is_smooth:
            return point.gradient
        return self.penalty.kinks.residual(point.w, point.gradient)

    def hessian_error(self, point: Point) -> float:
        """Bound the error of a point's Hessian, relative to its diagonal. Cost: nothing."""
        return self.rounding.gram(exact=point.exact)

    def by_hessian(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum by its Hessian. Cost: nothing."""
        residual = to_host(point.residual)
        if point.rates is not None:
            decrement = point.factor.decrement(residual)
            return point.rates.excess(self.rounding, point.factor, point.vectors[0], decrement)
        if not math.isfinite(self.loss.self_concordance):
            return math.inf
        return self.rounding.by_hessian(point.factor, residual, point.error)

    def with_near_intercept(self, point: Point) -> Point:
        """Bound how far a point's intercept is from the best one for its coefficients.

        Returns the point with that bound, or as it is if none was found. Cost: 0 passes, 2 rounds.
        """

        def derivatives(shifts: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
            _, slopes, hessians = self.along((point,), np.array([[1.0, t] for t in shifts]))
            return slopes[:, -1], hessians[:, -1, -1]

        # slopes by `along` are added up row after row, unlike those of the gradient
        adding = self.rounding.in_turn / self.rounding.terms * point.error.adding
        near = distance_to_best(derivatives, 2.0 * (point.error.slopes + adding))
        return point if near is None else replace(point, near=near)

    def with_best_intercept(self, point: Point) -> Point:
        """Evaluate the same coefficients with the intercept that fits them best.

        There the intercept's part of the bound is negligible. Cost: 1 pass, a few rounds.
        """
        w = point.w.copy()
        w[-1] += self.best_intercept(point)
        return self.at(w)

    def best_intercept(self, point: Point, start: float = 0.0) -> float:
        """Find what to add to a point's intercept to minimise over it, from `start`.

        The search by `convex` takes cached margins. Cost: 0 passes, a few rounds.
        """

        def ask(shifts: list[float]) -> list[Seen]:
            found = self.along((point,), np.array([[1.0, shift] for shift in shifts]))
            values, slopes, hessians = (to_host(part) for part in found)
            return [
                Seen(shift, float(values[k]), float(slopes[k, -1]), float(hessians[k, -1, -1]))
                for k, shift in enumerate(shifts)
            ]

        loss = self.loss
        return least_of_several(ask, start, smooth=loss.differentiable, convex=loss.convex)

    def sample(self, fraction: float, seed: int) -> Self:
        """Return the objective on a random part of the rows; see `on`."""
        return self.on(Drawn(fraction, seed))

    def on(self, part: Part) -> Self:
        """Return the objective on a part of the rows, with losses scaled up to all rows.

        Its passes count with those of the whole.
        """
        # what is learnt there is not of all rows
        rounding = copy.copy(self.rounding)
        return self._with(rows=self.rows.on(part), scale=self.scale / part.share, rounding=rounding)

    def held(self, features: np.ndarray) -> Self:
        """Return the objective with some features at zero; see `Penalty.held`."""
        return self._with(rows=self.rows.metered_apart(), penalty=self.penalty.held(features))

    def on_columns(self, columns: np.ndarray, key: int) -> Self:
        """Return the objective on some features; see `Restriction`."""
        size = len(columns) + self.size - self.n_features
        return self._with(
            rows=self.rows.restricted(self.features_of(columns), key),
            n_features=len(columns),
            size=size,
            penalty=self.penalty.restricted(columns, size),
            rounding=self.rounding.restricted(columns),
        )

    def _with(self, **changed: Any) -> Self:
        """Return the objective with other attributes."""
        found = copy.copy(self)
        vars(found).update(changed)
        return found

    def __copy__(self) -> Self:
        """Return a copy without what is cached, which is of this one."""
        found = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name not in CACHED}
        vars(found).update(kept)
        return found

    def features_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the features that have these entries of vectors."""
        return columns

    def tied(self, values: np.ndarray) -> np.ndarray:
        """Return the largest of the values of coefficients that are in working sets together."""
        return values

    @property
    def is_sample(self) -> bool:
        """Whether it is about a part of the rows."""
        return self.rows.view.part is not None

    def ask(self, request: Request) -> Totals:
        """Pass a request about these rows to the engine, counting passes."""
        return self.rows.ask(request)
