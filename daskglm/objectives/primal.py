"""The objective 1/2 |w|^2 + C sum_i s_i loss(y_i, x_i.w + b): the solvers' only interlocutor.

It adds penalty and C to the sums that an engine takes over the rows, counts passes, and bounds how
far a point can be from the optimum. w holds the features' coefficients and, where there is an
intercept, b as its last entry.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from daskglm.core.device import gpu, on_device, to_host
from daskglm.core.engine import Engine
from daskglm.core.matrices import mirror_upper
from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    Problem,
    Request,
    Sampled,
    Totals,
    TrustRegionStep,
)
from daskglm.core.summation import AT_ONCE, SUMMED_ROWS
from daskglm.losses.base import Loss
from daskglm.objectives.bounds import (
    EXACT,
    GradientError,
    HessianFactor,
    Norms,
    Rounding,
    Vector,
    relative_gap,
)
from daskglm.objectives.convex import Seen, least_point
from daskglm.penalties.ridge import Ridge

SAME_VALUE = 1e-12  # relative differences of the objective that may be rounding in sums over rows
# widths tried around an intercept, in steps of Newton's method for it alone
BRACKETS = 4.0 ** np.arange(4)
tokens = itertools.count()


@dataclass(frozen=True, eq=False)
class Point:
    """What is known at w: value and gradient of the objective, and its Hessian or Hessian diagonal
    where asked.

    `near` bounds how far the intercept is from the best one for these coefficients, where that was
    looked for. `exact` says that the Hessian was summed in float64, whatever the dtype of the rows.
    A point of a dual solver has no gradient (nan). Its `gap` is primal less dual value; `certify`,
    where there is one, says that both are estimates and gives the point with the true ones. `by`
    names the solver where two took turns. `norms`, where they are known, are those of w and of the
    gradient, and `beside` names the point that was evaluated before this one, with the distance
    from it. `resume` gives the keyword arguments, numbers and arrays, with which its solver goes on
    from here; `save_rows`, where there is one, writes what the solve keeps beside the rows to a
    folder.
    """

    objective: Objective
    w: np.ndarray
    value: float
    gradient: np.ndarray
    token: int
    gram: np.ndarray | None = None
    diagonal: np.ndarray | None = None
    exact: bool = False
    near: float = math.inf
    gap: float | None = None
    certify: Callable[[], Point] | None = None
    by: str = ""
    resume: Callable[[], dict[str, Any]] = dict
    save_rows: Callable[[str], None] | None = None
    norms: tuple[Norms, Norms] | None = None
    beside: tuple[int, float] | None = None
    # the best point of a solve is found among all of them, by value
    replaces_earlier: ClassVar[bool] = False

    @property
    def vectors(self) -> tuple[Vector, Vector]:
        """W and the gradient, as bounds want them: their norms where they are known."""
        return self.norms or (self.w, self.gradient)

    @property
    def gradient_norm(self) -> float:
        """Norm of the gradient. Cost: nothing."""
        if self.norms is None:
            return float(np.linalg.norm(self.gradient))
        return math.hypot(*self.norms[1])

    def distance(self, other: Point) -> float:
        """Norm of the difference of the coefficients. Cost: nothing."""
        if self.beside is not None and self.beside[0] == other.token:
            return self.beside[1]
        if on_device(self.w):
            return float(np.linalg.norm(self.w - other.w))
        # as long as w is: not made whole
        runs = (slice(k, k + AT_ONCE) for k in range(0, len(self.w), AT_ONCE))
        return float(
            np.linalg.norm([float(np.linalg.norm(self.w[run] - other.w[run])) for run in runs])
        )

    def hessian_vector(self, v: np.ndarray) -> np.ndarray:
        """Hessian of the objective at w times v. Cost: 1 pass, 1 round."""
        return self.objective.hessian_vector(self, v)

    @property
    def relative_gap(self) -> float:
        """Bound on (value - optimum) / optimum; nan without a penalty. Cost: nothing.

        By the duality gap where a point has one, else by the objective's bound.
        """
        bound = self.objective.bound(self) if self.gap is None else self.gap
        return relative_gap(bound, self.value)

    @cached_property
    def error(self) -> GradientError:
        """Bounds on the rounding errors of the gradient. Cost: nothing."""
        objective = self.objective
        return objective.rounding.gradient(
            self.vectors[0], self.value, scale=objective.scale, weight=objective.total_weight
        )

    @cached_property
    def factor(self) -> HessianFactor:
        """The Hessian, factorised; for points that have one. Cost: nothing."""
        return HessianFactor.of(to_host(self.gram), self.objective.rounding.gram(exact=self.exact))

    @property
    def is_doubtful(self) -> bool:
        """Whether rounding may have changed the Hessian so much that a step by it leads elsewhere.
        Cost: nothing.
        """
        return self.factor.is_doubtful(self.objective.rounding.gram(exact=self.exact, likely=True))

    @cached_property
    def excess(self) -> float:
        """Bound on the distance of the value from the optimum by the Hessian; infinite without one.
        Cost: nothing.
        """
        objective = self.objective
        if self.gram is None or not math.isfinite(objective.loss.self_concordance):
            return math.inf
        return objective.rounding.by_hessian(self.factor, to_host(self.gradient), self.error)


class Objective:
    """Penalty plus C times the sum of losses, over the rows of an engine.

    Parameters
    ----------
    engine : Engine
    problem : Problem
        Labels to targets, class weights.
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
    """

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
    ) -> None:
        self.engine, self.problem, self.loss = engine, problem, loss
        self.scale = 1.0 if math.isinf(C) else C
        self.fit_intercept = fit_intercept
        self.n_features = engine.facts.n_features or 0
        self.size = self.n_features + fit_intercept
        self.penalty = penalty or Ridge(self.n_features, 0.0 if math.isinf(C) else 1.0)
        if not self.penalty.is_uniform and engine.capabilities.device != "cpu":
            raise ValueError("a penalty with a strength for each feature wants rows on the CPU")
        self.sides = sides
        self.total_weight = engine.facts.weight if sides is None else sum(sides)
        self.span = span
        self.passes = self.waited = 0.0
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
    def is_penalised(self) -> bool:
        """Whether the penalty holds all coefficients of features, so that points can be bounded."""
        return self.penalty.strong_convexity > 0.0

    @property
    def only_side(self) -> float:
        """1 or -1 where only the rows of that sign have weight and an intercept can tell it, so no
        solver; else 0.
        """
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
        """Evaluate at w; `gram` asks for the Hessian too, `diagonal` for its diagonal. Cost: 1
        pass, 1 round.

        The Hessian of dense rows is summed in their dtype over a few rows at a time, `exact` in
        float64. Unless margins are kept (8 bytes a row), to search between points or multiply by
        the Hessian is a pass more. Those of two points are, the last and the last but one, or the
        point `beside`, to which a search may go back. `curved` keeps what products want (8 bytes a
        row).
        """
        token = next(tokens)
        exact = gram and (exact or self.rounding.is_exact)
        totals = self.ask(
            Evaluate(
                w, token, gram, diagonal, keep, curved, beside.token if beside else None, exact
            )
        )
        hessian = None
        if gram:
            hessian = self._hessian(totals["gram"])
        if self.xp is not np:
            return self._point_there(w, token, totals, hessian, beside, exact=exact)
        penalty, pull = self.penalty.value_and_gradient(w)
        curvatures = None
        if diagonal:
            curvatures = self.scale * totals["diagonal"] + self.penalty.diagonal(self.size)
        return Point(
            self,
            w,
            self.scale * float(totals["value"]) + penalty,
            self.scale * totals["gradient"] + pull,
            token,
            hessian,
            curvatures,
            exact,
        )

    def _hessian(self, gram: Any) -> Any:
        """The Hessian of the objective, from the upper triangle of that of the losses."""
        ridge = self.penalty.diagonal(self.size, self.xp)
        if self.xp is not np:
            upper = self.xp.triu(gram)
            return self.scale * (upper + self.xp.triu(upper, 1).T) + self.xp.diag(ridge)
        hessian: np.ndarray = self.scale * gram
        mirror_upper(hessian)
        hessian.flat[:: self.size + 1] += ridge
        return hessian

    def _point_there(
        self, w: Any, token: int, totals: Totals, hessian: Any, beside: Point | None, *, exact: bool
    ) -> Point:
        """A point whose vectors stay on the device: one wait for all its scalars."""
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

    def hessian_vector(self, point: Point, v: np.ndarray) -> np.ndarray:
        """Hessian at an evaluated point times v. Cost: 1 pass, 1 round."""
        product = self.ask(HessianVector(v, (point.token, point.w)))["product"]
        return self.scale * product + self.penalty.hessian_vector(v)

    def trust_region_step(self, point: Point, metric: Any, radius: float) -> Totals:
        """See `requests.TrustRegionStep`. Cost: 1 pass per product, 1 round."""
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
        """Objective at combinations of evaluated points, with derivatives in the coefficients.

        Row m of `coefficients` (m, k + 1) means sum_j c_j w_j plus c_k on the intercept; the c_j
        must sum to one where there is an intercept. Returns values (m,), slopes (m, k + 1) and
        Hessians (m, k + 1, k + 1). Margins are affine in w, so cached ones serve. Cost: 0 passes, 1
        round.
        """
        coefficients = np.atleast_2d(coefficients)
        totals = self.ask(EvaluateAlong(tuple((p.token, p.w) for p in points), coefficients))
        # the last: the intercept, which is not penalised
        inner = np.zeros((len(points) + 1, len(points) + 1))
        for i, p in enumerate(points):
            pulled = self.penalty.hessian_vector(p.w)
            for j, q in enumerate(points[: i + 1]):
                inner[i, j] = inner[j, i] = float(pulled @ q.w)
        pc = coefficients @ inner
        values = self.scale * totals["values"] + 0.5 * np.einsum("mk,mk->m", pc, coefficients)
        return values, self.scale * totals["slopes"] + pc, self.scale * totals["hessians"] + inner

    def between(self, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Objective at a + t (b - a) for each t of `steps`. Cost: 0 passes, 1 round."""
        return self.along((a, b), np.stack([1 - steps, steps, np.zeros(len(steps))], axis=1))[0]

    # ---- how good a point is
    def certificate(self, tol: float) -> Callable[[Point], tuple[Point, float]]:
        """The driver's way to bound the points of one solve; see `Certificate`."""
        return Certificate(self, tol)

    def bound(self, point: Point) -> float:
        """Bound on the distance of a point's value from the optimum; nan without a penalty. Cost:
        nothing.

        The least of three, none of which takes the gradient or the Hessian for exact (see
        `bounds`): by strong convexity, by the Hessian where it is known, and the value itself,
        since losses are not negative.
        """
        if not self.is_penalised:
            return math.nan
        convex = self.rounding.convex(
            *point.vectors, point.value, point.error, self.span, point.near
        )
        return min(convex, point.value, point.excess)

    def nominal_bound(self, point: Point) -> float:
        """What the bound by strong convexity would be in exact arithmetic: to steer by, not a
        proof. Cost: nothing.
        """
        return self.rounding.convex(*point.vectors, point.value, EXACT, self.span, point.near)

    def feature_bound(self, point: Point) -> float:
        """The part of the bound due to the coefficients of features: |g_w|^2 / (2 lambda)."""
        if not self.is_penalised:
            return math.nan
        norm = self.rounding.features(point.vectors[1], point.error)
        return norm * norm / (2.0 * self.penalty.strong_convexity)

    def survey(self) -> None:
        """Learn what bounds rounding errors of unusual rows better; see `Rounding.survey`. Cost: 1
        or 2 passes.
        """
        self.rounding.survey(self.ask, self.engine.facts)

    def is_hidden(self, point: Point, tol: float) -> bool:
        """Whether rounding hides a relative suboptimality of `tol` that a survey may show."""
        if not self.is_penalised:
            return False
        wanted = tol * point.value
        return self.rounding.hides(wanted, point.w, point.value, point.error, self.span, point.near)

    def with_near_intercept(self, point: Point) -> Point:
        """The same point, with a bound on how far the best intercept for its coefficients is. Cost:
        0 passes, 2 rounds.

        Slopes rise with the intercept: the best one lies between two where they differ in sign
        beyond rounding.
        """
        _, slopes, hessians = self.along((point,), np.array([[1.0, 0.0]]))
        slope, curvature = abs(float(slopes[0, -1])), float(hessians[0, -1, -1])
        error = 2.0 * (
            point.error.slopes + self.rounding.in_turn / self.rounding.terms * point.error.adding
        )
        if not curvature > 0.0:
            return point
        steps = 2.0 * (slope + error) / curvature * BRACKETS
        _, slopes, _ = self.along((point,), np.array([[1.0, step] for step in (*steps, *-steps)]))
        up, down = slopes[: len(steps), -1], slopes[len(steps) :, -1]
        sure = np.flatnonzero((up > error) & (down < -error))
        return replace(point, near=float(steps[sure[0]])) if len(sure) else point

    def with_best_intercept(self, point: Point) -> Point:
        """The same coefficients with the intercept that fits them best. Cost: 1 pass, a few rounds.

        Afterwards the intercept's part of the bound is negligible.
        """
        w = point.w.copy()
        w[-1] += self.best_intercept(point)
        return self.at(w)

    def best_intercept(self, point: Point, start: float = 0.0) -> float:
        """What to add to a point's intercept to minimise over it. Cost: 0 passes, a few rounds.

        A search on cached margins from `start`: see `convex.least_point`.
        """

        def ask(shifts: list[float]) -> list[Seen]:
            found = self.along((point,), np.array([[1.0, shift] for shift in shifts]))
            values, slopes, hessians = (to_host(part) for part in found)
            return [
                Seen(shift, float(values[k]), float(slopes[k, -1]), float(hessians[k, -1, -1]))
                for k, shift in enumerate(shifts)
            ]

        return least_point(ask, start, smooth=self.loss.differentiable)

    def sample(self, fraction: float, seed: int) -> Sample:
        """The objective on a random part of the rows, its losses scaled up to the whole; see
        `requests.Sampled`.
        """
        return Sample(self, fraction, seed)

    def ask(self, request: Request) -> Totals:
        """Pass a request to the engine, counting passes."""
        totals = self.engine.total(self.problem, request)
        self.passes += totals["rows"] / max(self.engine.facts.n_rows, 1)
        self.waited += totals.get("waited", 0.0)
        return totals


class Certificate:
    """Bounds points, and settles the intercept where only that stands between a point and a bound
    of `tol`.
    """

    def __init__(self, objective: Objective, tol: float) -> None:
        self.objective, self.tol = objective, tol
        can_settle = objective.fit_intercept and objective.is_penalised
        self.settle_below = 0.5 * tol if can_settle else -1.0

    def __call__(self, point: Point) -> tuple[Point, float]:
        """The point, or a better one with the same coefficients of features, and its relative
        gap.
        """
        gap = point.relative_gap
        if not gap > self.tol or point.gap is not None:
            return point, gap
        features = self.objective.feature_bound(point) / max(point.value, np.finfo(float).tiny)
        settle = features <= self.settle_below
        if settle:
            # a settled point that still fails is not tried again at once
            self.settle_below = 0.1 * features
            point = self.objective.with_near_intercept(point)
            gap = point.relative_gap
        if gap > self.tol and self.objective.is_hidden(point, self.tol):
            self.objective.survey()
            point = replace(point)  # what its bounds were is kept with it
            gap = point.relative_gap
        if not (settle and gap > self.tol):
            return point, gap
        settled = replace(self.objective.with_best_intercept(point), by=point.by)
        settled = self.objective.with_near_intercept(settled)
        better = settled.relative_gap
        return (settled, better) if better < gap else (point, gap)


class Sample(Objective):
    """An objective on a random part of the rows; passes are counted, as parts of one, by the whole
    objective.
    """

    def __init__(self, whole: Objective, fraction: float, seed: int) -> None:
        vars(self).update(vars(whole))
        self.whole, self.fraction, self.seed = whole, fraction, seed
        self.scale = whole.scale / fraction

    def ask(self, request: Request) -> Totals:
        """Have part of the rows asked."""
        assert isinstance(request, (Evaluate, HessianVector, EvaluateAlong))
        return self.whole.ask(Sampled(request, self.fraction, self.seed))
