"""A grid of problems on the same rows, one for each class, fold and C: solved together where that
can be done.

`open_grid` loads the rows; of the solutions `cross_validation` and `regularization_path` make
estimators.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.engine import Engine
from daskglm.core.outcome import Reason
from daskglm.core.requests import Folds, Problem
from daskglm.data.partitions import Partitions
from daskglm.fitting.checkpoint import CheckpointWriter, Saved
from daskglm.fitting.checkpoint_schema import BATCH
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Record, Solution, StoppingRule, solve
from daskglm.fitting.fold_sums import FoldSums, least_point
from daskglm.fitting.grid_checkpoint import GridState, grid_writer, restore
from daskglm.fitting.penalised import deviations
from daskglm.fitting.progress import progress_bar
from daskglm.fitting.report import Report, combine
from daskglm.fitting.runner import (
    WarmStart,
    objective_of,
    report_of,
    solve_one,
    start_of,
)
from daskglm.fitting.shared_paths import can_share, run, shared_path, solution_at
from daskglm.fitting.statistics import statistics_of
from daskglm.fitting.warm_path import WHY, WarmPath, selected_alone
from daskglm.losses.base import Loss
from daskglm.objectives.batched import BatchObjective, BatchPoint, ProblemBatch
from daskglm.objectives.many import Place
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.batched_newton import batched_newton
from daskglm.solvers.batched_proximal_newton import Found, Trials
from daskglm.solvers.proximal_newton import SPEC

# Features up to which problems are solved together, for dense and for sparse rows: a Hessian is
# formed for each problem.
DENSE_FEATURES, SPARSE_FEATURES = 1000, 500
# Default of `max_iter` for a batch.
MAX_ITER = 100
# How least squares are solved where sums over the rows tell them.
BY_SUMS = "by the products of the columns, which one pass added up for all problems"
# Label of the progress bar.
LABEL = "newton, problems together"


@dataclass(frozen=True)
class Solutions:
    """Coefficients (P, size) and reports of all problems.

    Of classifications and the rows held out losses (P,) and counts (P, 4), see `BatchEvaluation`;
    else zeros.
    """

    batch: ProblemBatch
    W: np.ndarray
    reports: list[Report]
    losses: np.ndarray
    counts: np.ndarray


@dataclass
class ProblemGrid:
    """Rows, and the problems to solve on them.

    `problems` has one problem for each class, `classes` all labels in order (None: a regression).
    """

    engine: Engine
    loss: Loss
    settings: FitConfig
    classes: np.ndarray | None
    problems: list[Problem]
    folds: Folds | None
    loading: float
    data: Partitions
    checkpoints: tuple[Saved | None, str | None] = (None, None)  # to resume from, to write to
    objective: BatchObjective = field(init=False)
    single_passes: float = 0.0  # of problems that were solved by themselves
    # of the columns that each fold trains on, where a penalty is standardised
    scales: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.n_folds = 0 if self.folds is None else len(self.folds.roles[0])
        names = () if self.classes is None else tuple(problem.positive for problem in self.problems)
        if self.classes is None:
            labels = ()
        else:
            labels = tuple(label for label, _, _ in self.engine.facts.classes)
        problem = replace(self.problems[0], positive=None, folds=self.folds)
        self.objective = BatchObjective(
            self.engine,
            problem,
            self.loss,
            names,
            labels,
            fit_intercept=bool(self.settings.fit_intercept),
        )
        for fold in range(self.n_folds):
            if not sum(self.objective.sides(0, fold)) > 0:
                raise ValueError(f"cv: all rows that fold {fold} trains on have weight zero")

    def set_l1_ratio(self, l1_ratio: float) -> None:
        """Have all further problems penalised with another share of the L1 penalty."""
        penalty = replace(self.settings.penalty, l1_ratio=l1_ratio)
        self.settings = replace(self.settings, penalty=penalty)

    def batch(self, Cs: np.ndarray) -> ProblemBatch:
        """Return the problems of all classes, folds and values of C, in this order, C fastest.

        Without folds all rows are trained on.
        """
        folds = np.arange(self.n_folds) if self.n_folds else np.array([-1])
        grid = np.meshgrid(np.arange(len(self.problems)), folds, np.arange(len(Cs)), indexing="ij")
        of, fold, c = (axis.ravel() for axis in grid)
        return ProblemBatch(of, fold, Cs[c])

    def solve(
        self, batch: ProblemBatch, start: np.ndarray | None = None, *, resumable: bool = False
    ) -> Solutions:
        """Solve problems, those together that can be, the others one by one.

        Parameters
        ----------
        batch : ProblemBatch
        start : (P, size) array, optional
            Where to start.
        resumable : bool
            Whether checkpoints are read and written as the settings ask for.
        """
        state, writer = self._begin(batch, start, resumable=resumable)
        W = state.W
        losses = np.zeros(len(batch))
        counts = np.zeros((len(batch), 4))
        reports: dict[int, Report] = {}
        together = np.setdiff1d(np.arange(len(batch)), state.left)
        point: BatchPoint | None = None
        if len(together):
            solution = self._solve_together(batch.take(together), together, state, start, writer)
            point = solution.point
            W[together] = point.w
            solved = np.flatnonzero(~point.given_up)
            state.left += together[point.given_up].tolist()
            together = together[solved]
            reports |= {
                int(p): self._report(solution, k, state.before)
                for p, k in zip(together, solved.tolist(), strict=True)
            }

        if writer is not None:
            writer.left = state.left
            writer.finished = list(W[together])
        self._solve_each(batch, state, reports, writer)
        # of regressions `held_out` asks
        if self.loss.classifies and self.n_folds and (batch.fold >= 0).any():
            if state.left or point is None:
                losses, counts = self.objective.score(batch, W)
            else:
                point = point.with_scores()
                losses, counts = point.losses, point.counts
        return Solutions(batch, W, [reports[p] for p in range(len(batch))], losses, counts)

    def relaxed(self, solutions: Solutions) -> Solutions:
        """Fit the features of each solution again without the penalty, but within the bounds.

        As glmnet's `relax`. Cost: some passes for each.
        """
        W, reports = solutions.W.copy(), []
        batch = replace(solutions.batch, C=np.full(len(W), math.inf))
        settings = replace(self.settings, C=math.inf)
        for p in range(len(W)):
            objective, begin = self._single_objective(batch, p), WarmStart(W[p])
            if objective.bounds.any_penalty:
                objective, begin = selected_alone(objective, W[p])
            solution, report = solve_one(objective, begin, settings, self.loading, p, None)
            W[p] = to_host(solution.point.w)
            reports.append(report)
            self.single_passes += report.passes
        return replace(solutions, batch=batch, W=W, reports=reports)

    def _begin(
        self, batch: ProblemBatch, start: np.ndarray | None, *, resumable: bool
    ) -> tuple[GridState, CheckpointWriter | None]:
        """Return where the problems start, and the writer of checkpoints."""
        order = np.lexsort((batch.C, batch.fold, batch.of))
        can = self._can_be_batched(batch)
        W = np.zeros((len(batch), self.objective.size)) if start is None else start.copy()
        state = GridState([p for p in order.tolist() if not can[p]], W)
        saved, folder = self.checkpoints
        if not resumable or (saved is None and folder is None):
            return state, None
        whole = ProblemBatch(np.zeros(1, int), np.array([-1]), np.ones(1))
        objective = self._single_objective(whole, 0)
        writer = grid_writer(objective, self.settings, batch, self.folds, self.checkpoints)
        self.single_passes += objective.passes
        return (state if saved is None else restore(saved, state)), writer

    def _solve_together(
        self,
        batch: ProblemBatch,
        together: np.ndarray,
        state: GridState,
        start: np.ndarray | None,
        writer: CheckpointWriter | None,
    ) -> Solution:
        """Solve all problems of a batch at once; some may be given up."""
        settings = self.settings
        tol = float(settings.tol)
        begin = None if start is None and not state.resumed else state.W[together]
        if writer is not None:
            writer.left = state.left
            writer.begin(BATCH, 0, state.before)
        max_iter = MAX_ITER if settings.max_iter is None else int(settings.max_iter)
        with progress_bar(settings.progress, settings.callback, tol, LABEL) as callback:
            return solve(
                self.objective,
                batched_newton(self.objective, batch, begin, tol=tol, resumed=state.resumed),
                StoppingRule(tol, max_iter),
                callback=callback,
                writer=writer,
            )

    def _solve_each(
        self,
        batch: ProblemBatch,
        state: GridState,
        reports: dict[int, Report],
        writer: CheckpointWriter | None,
    ) -> None:
        """Solve the problems that are left one by one, each from the one with the next smaller C.

        With kinks or bounds each begins at the point of the one before, with its Hessian: about 1.7
        passes for each of 50 values. The state's coefficients and `reports` are updated.
        """
        if writer is None:  # checkpoints are of problems solved one after another
            self._solve_by_sums(batch, state, reports)
            self._solve_sharing_passes(batch, state, reports)
        # what suits a problem suits it in other folds
        chosen: dict[tuple[int, float], tuple[str, str]] = {}
        before = len(batch) - len(state.left)
        path: WarmPath | None = None
        for k, p in enumerate(state.left):
            of, fold, C = batch[p]
            kind = of, C
            if p in reports:
                continue
            if path is None or path.of != (of, fold):
                path = WarmPath((of, fold))
            objective = self._single_objective(batch, p)
            begin = state.starts.get(p)
            if begin is None and not state.W[p].any():
                begin = path.begin(objective)
            if begin is None:
                solver, why = chosen.get(kind, (None, ""))
                at = self._start(batch, p, state.W, reports)
                at = to_host(objective.origin) if at is None else at
                begin = WarmStart(at, solver=solver, why=why)
            settings = replace(self.settings, C=C)
            solution, report = solve_one(
                objective, begin, settings, self.loading, before + k, writer
            )
            state.W[p], reports[p] = to_host(solution.point.w), report
            self.single_passes += report.passes
            if not objective.only_side:
                chosen[kind] = report.solver.split("+")[0], report.why
                path.add(solution.point, report.solver)

    def _solve_sharing_passes(
        self, batch: ProblemBatch, state: GridState, reports: dict[int, Report]
    ) -> None:
        """Solve the paths over C of all classes and folds at the same time, if they can share.

        The state's coefficients and `reports` are updated.
        """
        paths: dict[Place, list[int]] = {}
        for p in state.left:
            of, fold, _ = batch[p]
            if p not in reports:
                paths.setdefault(Place(fold, of), []).append(p)
        suits = (
            self._takes_newton
            and can_share(self.engine, self.loss)
            and not (self.settings.penalty.is_plain and self._is_wide)
            and len(paths) > 1
            and bool(np.isfinite(batch.C).all())
            and not self._one_sided(batch).any()
            # starts of their own take the place of those from the problems before
            and not any(state.W[p].any() for path in paths.values() for p in path[1:])
        )
        if not suits:
            return
        record = Record(self.objective)
        works = [self._shared_path(batch, state, reports, each) for each in paths.items()]
        solved = run(self.objective, works, record, by=self._newton)
        why = f"{len(paths)} paths at the same time, which share passes over X"
        for path, fits in zip(paths.values(), solved, strict=True):
            for p, found in zip(path, fits, strict=True):
                state.W[p] = found.point.w
                if p not in reports:
                    reports[p] = report_of(
                        self.objective,
                        solution_at(found.point, record),
                        (self._newton, why),
                        seconds_loading=self.loading,
                        n_iter=found.steps,
                    )

    def _solve_by_sums(
        self, batch: ProblemBatch, state: GridState, reports: dict[int, Report]
    ) -> None:
        """Solve least squares of all folds and strengths by the products of one pass.

        The state's coefficients and `reports` are updated, but of those whose gap rounding hides.
        """
        wanted = [p for p in state.left if math.isfinite(batch.C[p])]
        # what one pass has added up is there for further problems
        pays = len(wanted) > 1 or "sums" in vars(self)
        if not (self._takes_newton and pays) or self.sums is None:
            return
        for p in wanted:
            objective, tol = self._single_objective(batch, p), float(self.settings.tol)
            base = self.sums.trained(batch[p].fold).point(objective)
            if (point := least_point(objective, base, state.W[p], tol)) is not None:
                state.W[p] = point.w
                reports[p] = report_of(
                    objective,
                    solution_at(point),
                    (self._newton, BY_SUMS),
                    seconds_loading=self.loading,
                    solver=self._newton,
                    n_iter=1,
                    **statistics_of(objective, point),
                )

    @cached_property
    def sums(self) -> FoldSums | None:
        """Sums of squares of all groups of rows; None where they do not tell all. Cost: 1 pass."""
        return FoldSums.of(self.objective)

    @property
    def _takes_newton(self) -> bool:
        """Return whether the settings leave it to Newton's method how problems share passes."""
        settings, names = self.settings, ("auto", SPEC.name, self._newton)
        return settings.solver in names and settings.stop == "gap" and settings.callback is None

    @property
    def _newton(self) -> str:
        """Newton's method for the penalty, by its name."""
        return "newton" if self.settings.penalty.is_plain else SPEC.name

    @property
    def _is_wide(self) -> bool:
        """Whether there are more features than Hessians of many problems are formed for."""
        most = SPARSE_FEATURES if self.engine.facts.sparse else DENSE_FEATURES
        return self.objective.n_features > most

    def _shared_path(
        self,
        batch: ProblemBatch,
        state: GridState,
        reports: dict[int, Report],
        path: tuple[Place, list[int]],
    ) -> Trials[list[Found]]:
        """Solve the problems of one class and fold in turn, from strong penalties to weak.

        Those that shared steps do not solve are solved by themselves; `reports` gets theirs.
        """
        place, order = path
        first = state.W[order[0]]
        max_iter = SPEC.max_iter if self.settings.max_iter is None else int(self.settings.max_iter)

        def alone(k: int, at: Found) -> Point:
            p = order[k]
            settings = replace(self.settings, C=float(batch.C[p]), max_iter=max_iter - at.steps)
            begin = WarmStart(at.point.w, solver=self._newton, why=WHY)
            objective = self._single_objective(batch, p)
            solution, reports[p] = solve_one(objective, begin, settings, self.loading, 0, None)
            self.single_passes += reports[p].passes
            point: Point = solution.point
            return point

        # with bounds that hold for any penalty: those of shared passes do
        shared = replace(self.settings, solver=SPEC.name)
        return shared_path(
            [partial(self._single_objective, batch, p, shared) for p in order],
            place,
            first if first.any() else self._single_objective(batch, order[0]).origin,
            alone,
            tol=float(self.settings.tol),
            max_iter=max_iter,
        )

    def starts(self, given: Sequence[Any]) -> np.ndarray:
        """Return where problems without folds start, (P, size), from pairs for each C."""
        K = len(self.problems)
        rows = [start_of(each, k, K, self.objective) for k in range(K) for each in given]
        return np.array(rows)

    def means(self, paths: np.ndarray) -> np.ndarray:
        """Average (problems, folds, size) over the folds that train on two classes; else zero."""
        batch = self.batch(np.ones(1))
        two = ~self._one_sided(batch).reshape(len(paths), -1, 1)
        mean: np.ndarray = (paths * two).sum(axis=1) / np.maximum(two.sum(axis=1), 1)
        return mean

    def _one_sided(self, batch: ProblemBatch) -> np.ndarray:
        """Problems (a mask) that need no solver, see `Objective.only_side`."""
        alone = np.zeros(len(batch), bool)
        if self.loss.classifies and self.objective.fit_intercept:
            for of, fold in set(zip(batch.of.tolist(), batch.fold.tolist(), strict=True)):
                if min(self.objective.sides(of, fold)) <= 0.0:
                    alone |= (batch.of == of) & (batch.fold == fold)
        return alone

    def _can_be_batched(self, batch: ProblemBatch) -> np.ndarray:
        """Problems (a mask) that Newton's method can solve together.

        All of them or none, but for those that need no solver.
        """
        facts = self.engine.facts
        suits = (
            self.settings.solver in ("auto", "newton")
            and self.settings.stop == "gap"
            and self.engine.capabilities.device == "cpu"
            and self.loss.differentiable
            and self.settings.penalty.is_plain
            and not (self.loss.bends or self.settings.average or facts.largest_offset)
            and bool(np.isfinite(batch.C).all())
            and not self._is_wide
        )
        return ~self._one_sided(batch) if suits else np.zeros(len(batch), bool)

    def _start(
        self, batch: ProblemBatch, p: int, W: np.ndarray, reports: Mapping[int, Report]
    ) -> np.ndarray | None:
        """Return where a problem starts: at its point, or the solution for the next smaller C.

        None: at its origin.
        """
        if W[p].any():
            return np.asarray(W[p])
        same = (batch.of == batch.of[p]) & (batch.fold == batch.fold[p]) & (batch.C[p] > batch.C)
        before = [q for q in np.flatnonzero(same).tolist() if q in reports]
        return W[max(before, key=lambda q: float(batch.C[q]))] if before else None

    def _single_objective(
        self, batch: ProblemBatch, p: int, settings: FitConfig | None = None
    ) -> Objective:
        """Return the objective of one problem by itself, for solvers of one.

        `settings` take the place of the grid's, but for C.
        """
        of, fold, C = batch[p]
        problem = self.problems[of]
        if fold >= 0:
            problem = replace(problem, folds=self.folds, fold=fold)
        sides = self.objective.sides(of, fold)
        settings = replace(settings or self.settings, C=C)
        scale = self._scale(problem, fold)
        objective = objective_of(self.engine, problem, sides, self.loss, settings, scale)
        if fold >= 0 and self.loss.bends:
            # the mean target of these rows alone is not known
            objective.intercept_radius = math.inf
        return objective

    def _scale(self, problem: Problem, fold: int) -> np.ndarray | None:
        """Return what a standardised penalty multiplies coefficients by; None for others.

        Cost: 1 pass for each fold.
        """
        if not self.settings.penalty.standardize:
            return None
        if fold not in self.scales:
            self.scales[fold] = deviations(self.engine, problem)
            self.single_passes += 1.0
        return self.scales[fold]

    def _report(self, solution: Solution, k: int, before: int) -> Report:
        """Make the report of problem k of a batch, with the cost and history of all of them."""
        point = solution.point
        done = bool(point.gaps[k] <= float(self.settings.tol))
        reason = Reason.CONVERGED if done else solution.reason
        return report_of(
            self.objective,
            solution,
            ("newton", f"{len(point.values)} problems together, which share passes over X"),
            seconds_loading=self.loading,
            converged=reason.converged,
            reason=reason.value,
            objective=float(point.values[k]),
            relative_gap=float(point.gaps[k]),
            gradient_ratio=math.nan,
            coefficient_error=float(point.coefficient_errors[k]),
            n_iter=int(point.n_iter[k]),
            resumed=before,
        )

    def report(
        self, parts: Sequence[Report], began: float, beside: Sequence[Report] | None = None
    ) -> Report:
        """Combine the reports of several problems; the cost is that of all problems of the grid.

        `beside` are all that the report is to keep as `parts`; default: those that it combines.
        """
        return replace(
            combine(list(parts)),
            passes=self.objective.passes + self.single_passes,
            rounds=self.engine.rounds,
            bytes_reduced=self.engine.bytes_reduced,
            seconds=time.perf_counter() - began,
            parts=tuple(parts if beside is None else beside),
        )
