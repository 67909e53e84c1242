"""The objective 1/2 |w|^2 + C sum_i s_i loss(y_i, x_i.w + b), which solvers ask for all they need.

It adds the penalty and C to the sums that an engine takes over the rows, counts passes, and bounds
how far a point can be from the optimum. w holds the features' coefficients and, where there is an
intercept, b as its last entry.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from daskglm.core.device import gpu, to_host
from daskglm.core.engine import Engine
from daskglm.core.inference_requests import InferenceSums
from daskglm.core.matrices import mirror_upper
from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    Problem,
    RateSums,
    Request,
    Totals,
    TrustRegionStep,
)
from daskglm.core.summation import SUMMED_ROWS
from daskglm.core.view import Drawn, Part
from daskglm.losses.base import Loss
from daskglm.objectives.bounds import EXACT, HIDDEN, Norms, Rounding
from daskglm.objectives.certificate import Certificate
from daskglm.objectives.convex import Seen, distance_to_best, least_of_several
from daskglm.objectives.hessian_factor import UNIT
from daskglm.objectives.local_rates import LocalRates
from daskglm.objectives.point import Point
from daskglm.objectives.rows import Rows
from daskglm.penalties.ridge import Ridge

# Relative differences of the objective that may be rounding in sums over rows.
SAME_VALUE = 1e-12
# Share of the value of least squares without a penalty that rounding may hide for a bound to count:
# targets that are fitted to nearly all digits have none. Chosen.
MOST_HIDDEN = 1e-9
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
    penalty : Ridge, optional
        Default: of strength one, or none where C is infinite.
    start : float
        Intercept of the `origin`.

    Attributes
    ----------
    outputs : int
        Margins of a row.
    threshold : float
        Strength of an L1 penalty on all features over that of `penalty`; zero: there is none.
    """

    outputs: int = 1
    threshold: float = 0.0
    # whether it is a `Composite`: its penalty may be more than a ridge of one strength, and vectors
    # are in host memory wherever the rows are
    is_composite: bool = False
    # whether the penalty has neither kinks nor bounds, and whether it has norms of groups
    is_smooth: bool = True
    is_grouped: bool = False

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
        penalty: Ridge | None = None,
        start: float = 0.0,
    ) -> None:
        self.rows = Rows(engine, problem)
        self.loss = loss
        self.scale = 1.0 if math.isinf(C) else C
        self.fit_intercept = fit_intercept
        self.n_features = engine.facts.n_features or 0
        self.size = self.n_features + fit_intercept
        self.penalty = penalty or Ridge(self.n_features, 0.0 if math.isinf(C) else 1.0)
        on_device = engine.capabilities.device != "cpu" and not self.is_composite
        if on_device and not self.penalty.is_uniform:
            raise ValueError("a penalty with a strength for each feature wants rows on the CPU")
        self.sides = sides
        self.total_weight = engine.facts.weight if sides is None else sum(sides)
        self.span = span
        self.start = start if fit_intercept else 0.0
        self.inside: Any = None  # coefficients to start from, where zero is outside of a domain
        self.prepared = 0.0  # passes that the penalty took, before the solve
        self.xp = engine.capabilities.xp
        self.rounding = Rounding(
            engine.facts,
            loss,
            fit_intercept=fit_intercept,
            on_device=engine.capabilities.device != "cpu",
            run=None if engine.facts.sparse else SUMMED_ROWS,
            penalty=self.penalty,
        )

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
        return self.penalty.strong_convexity > 0.0

    @property
    def solves_trust_regions(self) -> bool:
        """Whether subproblems of a trust region may be solved where the rows are."""
        return self.engine.capabilities.solves_trust_regions

    @property
    def has_dual(self) -> bool:
        """Whether the dual problem is known: not with offsets, unless targets take them in."""
        has_offset = self.engine.facts.largest_offset > 0.0 and not self.loss.shifts
        return self.loss.has_dual and not has_offset

    @property
    def typical_curvature(self) -> float:
        """The largest curvature of a row's loss, or what is to be expected where there is none."""
        facts = self.engine.facts
        return self.loss.expected_curvature(facts.target_sum / max(facts.weight, 1e-300))

    @property
    def proves(self) -> bool:
        """Whether points can be bounded: of families and least squares even without a penalty."""
        return self.loss.is_bounded and (self.is_penalised or self.can_go_without)

    @property
    def is_local(self) -> bool:
        """Whether only rates of curvatures near a point bound it, at points with a Hessian."""
        loss = self.loss
        has_rates = loss.local_rate is not None and loss.link is not None
        return has_rates and not (loss.is_bounded and self.is_penalised)

    @property
    def can_go_without(self) -> bool:
        """Whether a Hessian alone bounds points, without a penalty."""
        loss = self.loss
        return (loss.family is not None or loss.is_quadratic) and loss.is_bounded

    @property
    def origin(self) -> Any:
        """Where solves start: coefficients of zero, and the intercept `start`, or `inside`."""
        if self.inside is not None:
            return self.inside
        w = self.xp.zeros(self.size)
        if self.fit_intercept:
            w[-1] = self.start
        return w

    def is_origin(self, w: Any) -> bool:
        """Return whether these are the coefficients of the `origin`."""
        if self.inside is not None:
            return bool((w == self.inside).all())
        intercept = float(w[-1]) if self.fit_intercept else 0.0
        return intercept == self.start and not w[: self.n_features].any()

    def kinks(self, w: Any) -> float:
        """Return the part of the penalty at w that is not quadratic: there is none."""
        return 0.0

    def penalty_value(self, w: np.ndarray) -> float:
        """Return the whole penalty at w, in host memory."""
        return self.penalty.value(w) + self.kinks(w) if self.n_features else 0.0

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
        """Evaluate the objective and its gradient at w. Cost: 1 pass, 1 round.

        Parameters
        ----------
        w : (size,) array
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
        token = next(tokens)
        exact = gram and (exact or self.rounding.is_exact)
        other = beside.token if beside else None
        totals = self.ask(Evaluate(w, token, gram, diagonal, keep, curved, other, exact))
        hessian = self._hessian(totals["gram"]) if gram else None
        if self.xp is not np:
            return self._point_there(w, token, totals, hessian, beside, exact=exact)

        penalty, gradient = self.penalty.value_and_gradient(w)
        gradient += self.scale * totals["gradient"]
        curvatures = None
        if diagonal:
            curvatures = self.scale * totals["diagonal"] + self.penalty.diagonal(self.size)
        return Point(
            self,
            w,
            self.scale * float(totals["value"]) + penalty,
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
            ridge = self.xp.diag(self.penalty.diagonal(self.size, self.xp))
            return self.scale * (upper + self.xp.triu(upper, 1).T) + ridge
        hessian: np.ndarray = self.scale * gram
        mirror_upper(hessian)
        self.penalty.add_to(hessian)
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
            self.penalty.largest,  # of all features
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
        return self.scale * product + self.penalty.hessian_vector(v)

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
                self.penalty.diagonal(self.size, self.xp),
            )
        )

    def along(
        self, points: Sequence[Point], coefficients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate combinations of evaluated points, with derivatives in the coefficients.

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
            pulled = self.penalty.hessian_vector(p.w)
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
        return self.along((a, b), coefficients)[0]

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
    def certificate(self, tol: float) -> Callable[[Point], tuple[Point, float]]:
        """Return what the driver calls to bound the points of one solve; see `Certificate`."""
        return Certificate(self, tol)

    def bound(self, point: Point) -> float:
        """Bound the distance of a point's value from the optimum; nan where nothing is proved.

        That is so without a penalty, but for families and least squares at points with a Hessian,
        and for losses of which too little is known (see `Loss.is_bounded`); those that have a
        `Loss.local_rate` are bounded at points by `with_rates`. The least of three bounds, all of
        which allow for rounding in the gradient and the Hessian (see `bounds`): by strong
        convexity, by the Hessian where it is known, and the value itself, since losses are not
        negative. Cost: nothing.
        """
        if not (self.proves or self.is_local):
            return math.nan
        if self.is_local or not self.is_penalised:
            # without a Hessian there is no bound but the value, which says nothing
            if self._is_exact_fit(point):
                return math.nan
            return min(point.value, point.excess) if math.isfinite(point.excess) else math.nan
        convex = self.rounding.convex(
            *point.vectors, point.value, point.error, self.span, point.near
        )
        return min(convex, point.value, point.excess)

    def _is_exact_fit(self, point: Point) -> bool:
        """Return whether rounding hides how well least squares without a penalty fit a point."""
        if not self.loss.is_quadratic or self.is_penalised or point.gram is None:
            return False
        hidden = self._by_rounding(point)
        return self.rounding.is_surveyed and not hidden <= MOST_HIDDEN * point.value

    def residual(self, point: Point) -> Any:
        """Return the gradient at a point. Cost: nothing."""
        return point.gradient

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

    def _by_rounding(self, point: Point) -> float:
        """Return the bound by the Hessian if the computed gradient were zero."""
        return self.rounding.by_hessian(point.factor, np.zeros(self.size), point.error)

    def with_rates(self, point: Point) -> Point:
        """Let the rows say at which rates their curvatures fall near a point with a Hessian.

        Returns the point with what may bound it, or as it is where the Hessian is not known well
        enough. Cost: 0 passes, 1 round.
        """
        known = point.gram is not None and math.isfinite(point.value) and point.factor.proves
        if point.rates is not None or not known:
            return point
        totals = self.ask(
            RateSums(
                (point.token, point.w),
                self.rounding.row * UNIT * self.rounding.size(point.vectors[0]),
                self.rounding.reach(point.factor),
                self.scale,
            )
        )
        found = replace(point, rates=LocalRates.of(totals, self.scale))
        vars(found)["factor"] = point.factor  # cached, as the point had it
        return found

    def nominal_bound(self, point: Point) -> float:
        """Bound by strong convexity as if arithmetic were exact: it steers, and proves nothing.

        Cost: nothing.
        """
        return self.rounding.convex(*point.vectors, point.value, EXACT, self.span, point.near)

    def feature_bound(self, point: Point) -> float:
        """Return the features' part of the bound by strong convexity: |g_w|^2 / (2 mu).

        Of losses of which too little is known for a bound, it is an estimate.
        """
        if not self.is_penalised:
            return math.nan
        error = point.error if self.loss.is_bounded else EXACT
        norm = self.rounding.features(point.vectors[1], error)
        return norm * norm / (2.0 * self.penalty.strong_convexity)

    def survey(self) -> None:
        """Measure the columns, for better bounds on rounding errors; see `Rounding.survey`.

        Cost: 1 or 2 passes.
        """
        self.rounding.survey(self.ask, self.engine.facts)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Return whether rounding hides a proof of `tol`, and a survey may lower its bounds."""
        wanted = tol * point.value
        if point.rates is not None and not self.rounding.is_surveyed:
            left = point.rates.excess(self.rounding, point.factor, point.vectors[0], 0.0)
            return left > HIDDEN * wanted
        if self.loss.is_quadratic and not self.is_penalised and point.gram is not None:
            return not self.rounding.is_surveyed and self._by_rounding(point) > HIDDEN * wanted
        if not (self.is_penalised and self.loss.is_bounded):
            return False
        return self.rounding.hides(wanted, point.w, point.value, point.error, self.span, point.near)

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
        found = copy.copy(self)
        found.rows = self.rows.on(part)
        found.scale = self.scale / part.share
        found.rounding = copy.copy(self.rounding)  # what is learnt there is not of all rows
        return found

    @property
    def is_sample(self) -> bool:
        """Whether it is about a part of the rows."""
        return self.rows.view.part is not None

    def ask(self, request: Request) -> Totals:
        """Pass a request about these rows to the engine, counting passes."""
        return self.rows.ask(request)
