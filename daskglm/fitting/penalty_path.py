"""Paths: one problem solved for a sequence of strengths of its penalty, from strong to weak.

Each solve begins at the solution before it, with the Hessian there. For least squares the sums of
one pass tell all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskglm.core.engine import Engine
from daskglm.core.outcome import Cost, Reason
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Solution, StoppingRule, solve
from daskglm.fitting.penalised import scale_of, with_strength
from daskglm.fitting.report import Report
from daskglm.losses.base import Loss
from daskglm.objectives.composite import Composite
from daskglm.objectives.point import Point
from daskglm.objectives.quadratic_model import LossSums, predicted
from daskglm.penalties.descent import UNIT, minimise
from daskglm.solvers import costs
from daskglm.solvers.proximal_newton import SPEC, KeptSet, proximal_newton

# Share of the L1 part that stands for none where the largest strength is asked for, as in glmnet.
LEAST_RATIO = 1e-3
# By so much the largest strength is larger than that at which a coefficient leaves zero, so that
# rounding leaves none.
ABOVE = 1.0 + 1e-10
# Share of the first residual that models of least squares may leave: what counts is the gap, which
# is of second order.
LEFT = 1e-9
# Share of the largest target by which a mean of equal ones may differ from it: sums are rounded.
EQUAL = 1e-12
# Residuals, as a share of the largest target or beside 1, whose squares are a mean loss that is
# rounding: exact fits left 1e-16, and 3e-13 where terms of 1e4 cancel (2026-11-29). Chosen.
RESIDUAL = 1e-12
# Unit roundoffs of the sums of absolute values by which sums that cancel may be off: 20 at 1,000
# rows (2026-11-29).
SUM_ROUNDING = 100.0
NO_EFFECT = "no feature changes the loss of the model without features"


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
        self.span = math.inf if is_part else loss.span(engine.facts, *self.sides)
        self.max_iter = SPEC.max_iter if settings.max_iter is None else int(settings.max_iter)
        self.kept = KeptSet()

    def with_ratio(self, l1_ratio: float) -> PathProblem:
        """Return the same problem with another mix of both parts of the penalty."""
        found = object.__new__(PathProblem)
        vars(found).update(vars(self))
        found.asked = replace(self.asked, l1_ratio=l1_ratio)
        found.passes = 0.0
        return found

    def objective(self, alpha: float) -> Composite:
        """Return mean loss plus alpha times the penalty."""
        return with_strength(
            self.engine,
            self.problem,
            self.loss,
            self.asked,
            self.scale,
            alpha,
            C=1.0 / self.total,
            fit_intercept=bool(self.settings.fit_intercept),
            span=self.span,
            sides=self.sides,
            start=self.loss.start(self.engine.facts),
        )

    def known(self, objective: Composite) -> Point | None:
        """Return the point of all sums at zero, of least squares with short rows; else None.

        Cost: 1 pass the first time.
        """
        wide = objective.n_features > costs.LARGEST_HESSIAN
        if self.sums is None and self.loss.is_quadratic and not wide:
            origin = with_strength(
                self.engine,
                self.problem,
                self.loss,
                replace(self.asked, lower=None, upper=None),
                self.scale,
                0.0,
                C=1.0,
                fit_intercept=objective.fit_intercept,
                sides=self.sides,
            )
            point = origin.at(np.zeros(origin.size), gram=True, exact=True)
            self.sums = LossSums(point.value, point.gradient, np.asarray(point.gram))
            self.passes += origin.passes
        return None if self.sums is None else self.sums.point(objective)

    def loss_of(self, point: Point) -> float:
        """Return the sum of the losses at a point of one of the objectives."""
        objective = point.objective
        found: float = (point.value - objective.penalty_value(point.w)) / objective.scale
        return found

    # ---- where a path begins
    def unpenalised(self) -> Point:
        """Return the optimum with all features at zero that have a penalty.

        Cost: some passes, 1 if only the intercept is free.
        """
        objective = self.objective(1.0)
        penalised = (objective.terms.strengths > 0.0) | objective.terms.is_grouped
        penalised |= objective.penalty.diagonal(objective.size) > 0.0
        objective = objective.held(penalised)
        begin = self.known(objective)
        if begin is not None:
            assert begin.gram is not None
            # strengths are of first order in what is left
            found = minimise(begin.gram, begin.gradient, begin.w, objective.terms, 0.0)
            return predicted(begin, found.w)
        tol = float(self.settings.tol)
        iterates = proximal_newton(objective, objective.origin, tol=tol)
        solution = solve(objective, iterates, StoppingRule(tol, self.max_iter))
        self.passes += objective.passes
        return solution.point

    def largest_alpha(self, point: Point) -> float:
        """Return the least strength at which all penalised coefficients are zero.

        `point` is that of `unpenalised`. Where a coefficient cannot be zero this is the strength
        at which all others are.
        """
        ratio = max(self.asked.l1_ratio, LEAST_RATIO)
        unit = with_strength(
            self.engine,
            self.problem,
            self.loss,
            replace(self.asked, l1_ratio=ratio),
            self.scale,
            1.0,
            C=1.0 / self.total,
            fit_intercept=bool(self.settings.fit_intercept),
        )
        terms = unit.terms
        pull = point.gradient - point.objective.penalty.gradient(point.w)
        # a bound at zero holds a coefficient that would grow across it
        held = ((point.w <= terms.lower) & (pull > 0.0)) | ((point.w >= terms.upper) & (pull < 0.0))
        pull = np.where(held, 0.0, pull)
        alone = terms.strengths > 0.0
        found = [0.0]
        if alone.any():
            found.append(float((np.abs(pull[alone]) / terms.strengths[alone]).max()))
        if terms.groups:
            positive = terms.group_strengths > 0.0
            norms = terms.group_norms(pull)
            found.append(float((norms[positive] / terms.group_strengths[positive]).max(initial=0)))
        return max(found) * ABOVE

    def grid(self, count: int, eps: float, point: Point) -> np.ndarray:
        """Return `count` strengths from the largest to `eps` of it, evenly in their logarithm.

        Raises ValueError where all of them would be zero, or rounding.
        """
        point, why = self._explained(point)
        largest = self.largest_alpha(point)
        if not why and not 0.0 < largest < math.inf:
            why = NO_EFFECT
        if why:
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
            assert base.gram is not None
            sums = np.abs(base.gradient) + np.abs(base.gram) @ np.abs(point.w)
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
            assert base.gram is not None
            # by Cauchy and Schwarz, of columns and residuals
            most = np.sqrt(base.gram.diagonal() * 2.0 * point.value)
            if (np.abs(point.gradient) <= limit * most).all():
                return point, NO_EFFECT
        return point, ""

    # ---- the path
    def solve(self, alphas: Sequence[float], begin: Point) -> Iterator[Fitted]:
        """Solve for each strength in turn, from the solution before; begins at a point of another.

        Cost: of least squares with few features nothing beside the sums; else about 1 or 2 passes
        for each.
        """
        point = begin
        for alpha in alphas:
            objective = self.objective(float(alpha))
            base = self.known(objective)
            solution = None if base is None else self._of_sums(objective, base, point.w)
            if solution is None:
                solution = self._solved(objective, point)
            point = solution.point
            yield Fitted(
                float(alpha),
                point.w,
                point.value,
                solution.relative_gap,
                self.loss_of(point),
                max(len(solution.history) - 1, 0),
                solution.reason,
            )

    def _of_sums(self, objective: Composite, base: Point, w: np.ndarray) -> Solution | None:
        """Minimise least squares by its sums; None where rounding hides a bound of `tol`."""
        assert base.gram is not None
        w = objective.terms.clip(w)
        found = minimise(base.gram, base.gradient + base.gram @ w, w, objective.terms, LEFT)
        point = predicted(base, found.w)
        gap = point.relative_gap
        if not gap <= float(self.settings.tol):
            return None
        nan = math.nan
        return Solution(point, Reason.CONVERGED, gap, nan, nan, [], Cost())

    def _solved(self, objective: Composite, point: Point) -> Solution:
        tol = float(self.settings.tol)
        begin: Point | None = None
        if point.prediction is None and (point.w == objective.terms.clip(point.w)).all():
            begin = objective.adopt(point)
        w = objective.terms.clip(point.w)
        iterates = proximal_newton(objective, w, tol=tol, begin=begin, kept=self.kept)
        solution = solve(objective, iterates, StoppingRule(tol, self.max_iter))
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
        iterates = proximal_newton(objective, fitted.w, tol=float(problem.settings.tol))
        rule = StoppingRule(float(problem.settings.tol), problem.max_iter)
        solution = solve(objective, iterates, rule)
        problem.passes += objective.passes
    point = solution.point
    return Fitted(
        fitted.alpha,
        point.w,
        point.value,
        solution.relative_gap,
        problem.loss_of(point),
        max(len(solution.history) - 1, 0),
        solution.reason,
    )


def path_report(
    engine: Engine, found: Sequence[Fitted], passes: float, loading: float, began: float
) -> Report:
    """Make the report of several fits of a path: the last one's values, and the cost of all.

    The gap is the largest of all, and the reason that of the first that missed `tol`. `loading` are
    seconds, `began` the reading of the clock at the beginning.
    """
    facts, last = engine.facts, found[-1]
    missed = [fitted for fitted in found if not fitted.converged]
    how = "each from the solution before it"
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
    )
