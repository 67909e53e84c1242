"""Paths: one problem solved for a sequence of strengths of its penalty, from strong to weak.

Each solve begins at the solution before it, with the Hessian there. For least squares the sums of
one pass tell all of them; paths of other losses can share their passes with those of other folds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from daskglm.certificates.tangent import ByTangent
from daskglm.core.engine import Engine
from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Solution, StoppingRule, solve
from daskglm.fitting.fold_sums import least_point
from daskglm.fitting.penalised import scale_of
from daskglm.fitting.report import Report
from daskglm.fitting.runner import WarmStart
from daskglm.fitting.shared_paths import shared_path, solution_at
from daskglm.fitting.warm_path import WarmPath
from daskglm.losses.base import Loss
from daskglm.objectives.many import Place, adapted
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.objectives.quadratic_model import LossSums, predicted
from daskglm.penalties.builtin import penalty_of
from daskglm.penalties.descent import UNIT, minimise
from daskglm.penalties.resolved import ResolvedPenalty
from daskglm.solvers import costs
from daskglm.solvers.batched_proximal_newton import Found, Trials, shared_newton
from daskglm.solvers.proximal_newton import SPEC, proximal_newton, takes_sets

# Share of the L1 part that stands for none where the largest strength is asked for, as in glmnet.
LEAST_RATIO = 1e-3
# Gap of the model without penalised features, on whose gradient strengths depend to the first
# order: so they are known to about its root. Newton's method takes at most a step more for it,
# where 1e-14, which rounding hides, took twice the passes of four folds (2026-11-25).
NULL_TOL = 1e-12
# By so much the largest strength is larger than that at which a coefficient leaves zero, so that
# rounding leaves none.
ABOVE = 1.0 + 1e-10
# Share of the largest target by which a mean of equal ones may differ from it: sums are rounded.
EQUAL = 1e-12
# Residuals, as a share of the largest target or beside 1, whose squares are a mean loss that is
# rounding: exact fits left 1e-16, and 3e-13 where terms of 1e4 cancel (2026-11-25). Chosen.
RESIDUAL = 1e-12
# Unit roundoffs of the sums of absolute values by which sums that cancel may be off: 20 at 1,000
# rows (2026-11-25).
SUM_ROUNDING = 100.0
NO_EFFECT = "no feature changes the loss of the model without features"
# How the fits of a path are solved, unless a report says otherwise.
IN_TURN = "each from the solution before it"


@dataclass(frozen=True)
class Fitted:
    """One solution of a path.

    Parameters
    ----------
    alpha : float
        Strength of the penalty beside the mean loss.
    w : (size,) array
    objective : float
        Mean loss plus penalty.
    gap : float
        Proved bound on the relative suboptimality; nan where nothing is proved.
    loss : float
        Weighted sum of the losses, half the deviance.
    n_iter : int
    reason : Reason
        Why the solve ended.
    """

    alpha: float
    w: np.ndarray
    objective: float
    gap: float
    loss: float
    n_iter: int
    reason: Reason

    @property
    def converged(self) -> bool:
        """Whether the stopping rule was met."""
        return self.reason.converged


class PathProblem:
    """A problem whose penalty's strength varies.

    Parameters
    ----------
    engine : Engine
    problem : Problem
    sides : tuple of float
        Weights of positive and negative rows; of a regression of all rows, and 0.
    loss : Loss
    settings : FitConfig
        Its penalty is for arrays of columns, see `penalised.with_columns`.
    sums : LossSums, optional
        Of least squares, if they are known.
    """

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        sides: tuple[float, ...],
        loss: Loss,
        settings: FitConfig,
        sums: LossSums | None = None,
    ) -> None:
        self.engine, self.problem, self.loss, self.settings = engine, problem, loss, settings
        self.sides, self.sums = (sides[0], sides[1]), sums
        self.total = sum(sides)
        self.asked = settings.penalty.for_features(engine.facts.n_features or 0, None)
        self.scale, self.passes = scale_of(engine, problem, self.asked)
        is_part = problem.fold is not None and loss.bends
        self.intercept_radius = (
            math.inf if is_part else loss.intercept_radius_of(engine.facts, *self.sides)
        )
        self.tol = float(settings.tol)
        self.max_iter = SPEC.max_iter if settings.max_iter is None else int(settings.max_iter)
        self.place = Place(-1 if problem.fold is None else problem.fold)
        self.warm = WarmPath()

    def with_ratio(self, l1_ratio: float) -> PathProblem:
        """Return the same problem with another mix of both parts of the penalty."""
        found = object.__new__(PathProblem)
        vars(found).update(vars(self))
        found.asked = replace(self.asked, l1_ratio=l1_ratio)
        found.passes = 0.0
        return found

    def objective(self, alpha: float) -> Objective:
        """Return mean loss plus alpha times the penalty."""
        return self._with(self.asked, alpha)

    def _with(self, asked: ResolvedPenalty, strength: float, C: float | None = None) -> Objective:
        """Return C times the losses (default: their mean) plus so many times a penalty."""
        size = len(self.scale) + bool(self.settings.fit_intercept)
        return Objective(
            self.engine,
            self.problem,
            self.loss,
            C=1.0 / self.total if C is None else C,
            fit_intercept=bool(self.settings.fit_intercept),
            intercept_radius=self.intercept_radius,
            sides=self.sides,
            start=self.loss.start(self.engine.facts),
            penalty=penalty_of(asked, self.scale, size, strength=strength),
            any_penalty=True,
        )

    def known(self, objective: Objective) -> Point | None:
        """Return the point of all sums at zero, of least squares with short rows; else None.

        Cost: 1 pass the first time.
        """
        wide = objective.n_features > costs.LARGEST_HESSIAN
        if self.sums is None and self.loss.is_quadratic and not wide:
            unbounded = replace(self.asked, lower=None, upper=None)
            origin = self._with(unbounded, 0.0, C=1.0)
            point = origin.at(np.zeros(origin.size), gram=True, exact=True)
            self.sums = LossSums(point.value, point.gradient, np.asarray(point.hessian))
            self.passes += origin.passes
        return None if self.sums is None else self.sums.point(objective)

    def loss_of(self, point: Point) -> float:
        """Return the sum of the losses at a point of one of the objectives."""
        objective = point.objective
        found: float = (point.value - objective.penalty.value(point.w)) / objective.C
        return found

    # ---- where a path begins
    def unpenalised(self) -> Point:
        """Return the optimum with all features at zero that have a penalty.

        Cost: some passes, 1 if only the intercept is free and no row has an offset.
        """
        objective = self._without_features()
        begin = self.known(objective)
        if begin is not None:
            assert begin.hessian is not None
            # strengths are of first order in what is left
            found = minimise(begin.hessian, begin.gradient, begin.w, objective.penalty.kinks, 0.0)
            return predicted(begin, found.w)
        state: dict[str, Any] = {}
        kinks = objective.penalty.feature_kinks
        if (kinks.lower == kinks.upper).all() and not takes_sets(objective):
            # the best constant may be known: samples, which solves begin with, lead away from it
            point = objective.at(objective.origin, gram=True)
            if not point.relative_gap <= min(NULL_TOL, self.tol):
                point = objective.bounds.with_near_constants(point)
            if point.relative_gap <= min(NULL_TOL, self.tol):
                self.passes += objective.passes
                return point
            state["begin"] = point
        begun = WarmStart(objective.origin, state)
        solved: Point = self._solved(objective, begun, tol=NULL_TOL).point
        return solved

    def unpenalised_shared(self) -> Trials[Found]:
        """Return the same, where other folds share the passes.

        Cost: about 3 passes.
        """
        objective = adapted(self._without_features())
        found = yield from shared_newton(
            objective,
            self.place,
            objective.origin,
            tol=min(NULL_TOL, self.tol),
            max_iter=self.max_iter,
        )
        return found if found.solved else found._replace(point=self.unpenalised())

    def _without_features(self) -> Objective:
        """Return the objective where all features that have a penalty are held at zero."""
        objective = self.objective(1.0)
        penalised = (objective.penalty.kinks.strengths > 0.0) | objective.penalty.kinks.is_grouped
        penalised |= objective.penalty.quadratic.diagonal(objective.size) > 0.0
        dual = self.loss.dual
        known = self.loss.classifies and dual is not None and dual.best_constant is not None
        if known and objective.fit_intercept and min(self.sides) > 0.0:
            objective.start = self.loss.best_constant(*self.sides)
        return objective.held(penalised)

    def largest_alpha(self, point: Point, *, within: bool = True) -> float:
        """Return the least strength at which all penalised coefficients are zero.

        `point` is that of `unpenalised`. Where a coefficient cannot be zero this is the strength
        at which all others are. `within` says whether coefficients stay within their bounds.
        """
        ratio = max(self.asked.l1_ratio, LEAST_RATIO)
        kinks = self._with(replace(self.asked, l1_ratio=ratio), 1.0).penalty.kinks
        pull = point.gradient - point.objective.penalty.quadratic.gradient(point.w)
        # a bound at zero holds a coefficient that would grow across it
        held = ((point.w <= kinks.lower) & (pull > 0.0)) | ((point.w >= kinks.upper) & (pull < 0.0))
        pull = np.where(held & within, 0.0, pull)
        alone = kinks.strengths > 0.0
        found = [0.0]
        if alone.any():
            found.append(float((np.abs(pull[alone]) / kinks.strengths[alone]).max()))
        if kinks.groups:
            positive = kinks.group_strengths > 0.0
            norms = kinks.group_norms(pull)
            found.append(float((norms[positive] / kinks.group_strengths[positive]).max(initial=0)))
        return max(found) * ABOVE

    def grid(
        self, count: int, eps: float, point: Point, *, otherwise: float | None = None
    ) -> np.ndarray:
        """Return `count` strengths from the largest to `eps` of it, evenly in their logarithm.

        Where bounds hold every coefficient at zero at any strength, the largest is that of the
        problem without them. Where all of them would be zero, or rounding, it is `otherwise`;
        ValueError without.
        """
        point, why = self._explained(point)
        largest = self.largest_alpha(point) or self.largest_alpha(point, within=False)
        if not why and not 0.0 < largest < math.inf:
            why = NO_EFFECT
        if why and otherwise is not None:
            largest = otherwise
        elif why:
            raise ValueError(
                f"the largest strength of the penalty is {largest:g}: {why}, so that all features "
                "stay out of the model; give alphas as numbers, or other targets"
            )
        return largest * np.geomspace(1.0, eps, count)

    def _explained(self, point: Point) -> tuple[Point, str]:
        """Return the point of `unpenalised`, and why nothing is left to features, or "".

        Cost: nothing; 1 pass where sums that tell the point cancel, which evaluates it.
        """
        facts, limit, base = self.engine.facts, SUM_ROUNDING * UNIT, None
        if point.prediction is not None:
            base = point.prediction.base
            assert base.hessian is not None
            sums = np.abs(base.gradient) + np.abs(base.hessian) @ np.abs(point.w)
            cancel = (np.abs(point.gradient) <= limit * sums).all()
            if cancel or point.value <= limit * base.value:
                point = point.objective.at(point.w)
                self.passes += 1.0
        mean = facts.target_sum / facts.weight
        alone = self.settings.fit_intercept and not (self.loss.classifies or facts.largest_offset)
        if alone and abs(mean) >= facts.largest_target * (1.0 - EQUAL):
            return point, f"all targets are {mean:.10g}, which the intercept alone predicts"
        largest = facts.largest_target if self.loss.is_quadratic else 1.0
        if point.value <= (RESIDUAL * largest) ** 2:
            return point, "what is not penalised predicts the targets but for rounding"
        if base is not None and point.prediction is None:
            assert base.hessian is not None
            # by Cauchy and Schwarz, of columns and residuals
            most = np.sqrt(base.hessian.diagonal() * 2.0 * point.value)
            if (np.abs(point.gradient) <= limit * most).all():
                return point, NO_EFFECT
        if base is None and self._is_rounding(point):
            return point, NO_EFFECT
        return point, ""

    def _is_rounding(self, point: Point) -> bool:
        """Return whether the gradient by features is rounding, or what the intercept has left."""
        objective, bounds = point.objective, point.objective.bounds
        assert isinstance(bounds, ByTangent)
        d = objective.n_features
        off = bounds.errors(point, point.error, point.value)[0]
        if objective.fit_intercept and point.gradient.size == d + 1:
            off = off + abs(float(point.gradient[-1])) * objective.rounding.columns
        known = bool(np.isfinite(off).all())
        return known and bool((np.abs(point.gradient[:d]) <= off).all())

    # ---- the path
    def solve(self, alphas: Sequence[float], begin: Point | np.ndarray) -> Iterator[Fitted]:
        """Solve for each strength in turn, from the solution before.

        Parameters
        ----------
        alphas : sequence of float
        begin : Point or (size,) array
            Where to begin: a point of an objective with another penalty, or coefficients.

        Cost: of least squares with few features nothing beside the sums; else about 1 or 2 passes
        for each.
        """
        path = self.warm
        w = begin.w if isinstance(begin, Point) else begin
        path.add(begin if isinstance(begin, Point) else None)
        for alpha in alphas:
            objective = self.objective(float(alpha))
            base = self.known(objective)
            solution = None if base is None else self._of_sums(objective, base, w)
            if solution is None:
                start = path.begin(objective) or WarmStart(objective.penalty.kinks.clip(w))
                solution = self._solved(objective, start)
            path.add(solution.point)
            w = solution.point.w
            yield self._fitted(alpha, solution)

    def solve_shared(
        self,
        alphas: Sequence[float],
        begin: Found | np.ndarray,
        done: Callable[[Fitted], None],
    ) -> Trials[None]:
        """Solve for each strength in turn, where other folds share the passes.

        What shared steps do not solve is solved by itself. `begin` is what `unpenalised_shared`
        returned, or coefficients; `done` takes each fit as it is finished. Cost: about 1 pass for
        each strength.
        """
        left: dict[int, Solution] = {}

        def alone(k: int, at: Found) -> Point:
            objective, more = self.objective(float(alphas[k])), self.max_iter - at.steps
            left[k] = self._solved(objective, WarmStart(at.point.w), more)
            point: Point = left[k].point
            return point

        def finished(k: int, found: Found) -> None:
            solution = left.pop(k) if k in left else solution_at(found.point)
            done(self._fitted(alphas[k], solution, found.steps))

        yield from shared_path(
            [partial(self.objective, float(alpha)) for alpha in alphas],
            self.place,
            begin,
            alone,
            tol=self.tol,
            max_iter=self.max_iter,
            finished=finished,
        )

    def _fitted(self, alpha: float, solution: Solution, steps: int = 0) -> Fitted:
        """Make the record of a solution; it took `steps` beside those of its history."""
        point = solution.point
        return Fitted(
            float(alpha),
            point.w,
            point.value,
            solution.relative_gap,
            self.loss_of(point),
            steps + max(len(solution.history) - 1, 0),
            solution.reason,
        )

    def _of_sums(self, objective: Objective, base: Point, w: np.ndarray) -> Solution | None:
        """Minimise least squares by its sums; None where rounding hides a bound of `tol`."""
        point = least_point(objective, base, w, self.tol)
        return None if point is None else solution_at(point)

    def _solved(
        self,
        objective: Objective,
        start: WarmStart,
        max_iter: int | None = None,
        tol: float | None = None,
    ) -> Solution:
        tol = self.tol if tol is None else min(tol, self.tol)
        iterates = proximal_newton(objective, start.w, tol=tol, **start.state)
        most = self.max_iter if max_iter is None else max_iter
        rule = StoppingRule(tol, most, by_default=self.settings.max_iter is None)
        solution = solve(objective, iterates, rule)
        self.passes += objective.passes
        return solution


def relaxed(problem: PathProblem, fitted: Fitted) -> Fitted:
    """Fit the features of a solution again without the penalty, but within the bounds.

    As glmnet's `relax`. Cost: some passes.
    """
    objective = problem.objective(0.0)
    out = fitted.w == 0.0
    out[objective.n_features :] = False
    objective = objective.held(out)
    base = problem.known(objective)
    solution = None if base is None else problem._of_sums(objective, base, fitted.w)
    if solution is None:
        solution = problem._solved(objective, WarmStart(fitted.w))
    return problem._fitted(fitted.alpha, solution)


def path_report(
    engine: Engine,
    found: Sequence[Fitted],
    passes: float,
    loading: float,
    began: float,
    how: str = IN_TURN,
    resumed: int = 0,
) -> Report:
    """Make the report of several fits of a path: the last one's values, and the cost of all.

    The gap is the largest of all, and the reason that of the first that missed `tol`. `loading` are
    seconds, `began` the reading of the clock at the beginning, `how` says how they were solved;
    `resumed` are iterations of fits that a checkpoint had.
    """
    facts, last = engine.facts, found[-1]
    missed = [fitted for fitted in found if not fitted.converged]
    if not any(fitted.n_iter for fitted in found):
        how = "all by the products of the columns, which one pass added up"
    return Report(
        solver=SPEC.name,
        why=f"a path of {len(found)} fits, {how}",
        converged=not missed,
        reason=(missed[0] if missed else last).reason.value,
        objective=last.objective,
        relative_gap=max(fitted.gap for fitted in found),
        gradient_ratio=math.nan,
        n_iter=sum(fitted.n_iter for fitted in found),
        passes=passes,
        rounds=engine.rounds,
        bytes_reduced=engine.bytes_reduced,
        seconds=time.perf_counter() - began,
        seconds_loading=loading,
        n_rows=facts.n_rows,
        n_features=facts.n_features or 0,
        workers=engine.capabilities.workers,
        device=engine.capabilities.device,
        repairs=engine.repairs,
        deviance=2.0 * last.loss,
        resumed=resumed,
    )
