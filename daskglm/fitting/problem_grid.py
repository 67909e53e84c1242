"""A family of problems on the same rows, one for each class, fold and C: solved together where that
can be done.

From checked arguments to an engine, folds and solutions; `crossvalidated` and `fit` make estimators
of them.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskglm.core.device import to_host
from daskglm.core.engine import Engine
from daskglm.core.outcome import Reason
from daskglm.core.requests import Folds, Problem
from daskglm.data.partitions import Partitions, partitions
from daskglm.fitting.config import Settings
from daskglm.fitting.cv_splits import divide
from daskglm.fitting.report import Report, combine
from daskglm.fitting.runner import Begin, solve_one
from daskglm.fitting.setup import loaded
from daskglm.losses.base import Loss
from daskglm.objectives.batched import Columns, Joint
from daskglm.objectives.primal import Objective
from daskglm.solvers.batched_newton import Solved, together

DENSE_FEATURES = 1000  # up to which Hessians are formed
SPARSE_FEATURES = 500
JOINT_ITERATIONS = 100


@dataclass(frozen=True)
class Solutions:
    """Coefficients (P, size) and reports; of the rows held out losses (P,) and counts (P, 4), see
    `joint`.
    """

    columns: Columns
    W: np.ndarray
    reports: list[Report]
    losses: np.ndarray
    counts: np.ndarray


@dataclass
class Family:
    """Rows, and what is solved on them. `problems` has one problem per class, `classes` all labels
    in order.
    """

    engine: Engine
    loss: Loss
    settings: Settings
    classes: np.ndarray | None
    problems: list[Problem]
    folds: Folds | None
    loading: float
    data: Partitions
    joint: Joint = field(init=False)

    def __post_init__(self) -> None:
        self.n_folds = 0 if self.folds is None else len(self.folds.roles[0])
        names = () if self.classes is None else tuple(problem.positive for problem in self.problems)
        labels = (
            ()
            if self.classes is None
            else tuple(label for label, _, _ in self.engine.facts.classes)
        )
        problem = replace(self.problems[0], positive=None, folds=self.folds)
        self.joint = Joint(
            self.engine,
            problem,
            self.loss,
            names,
            labels,
            fit_intercept=bool(self.settings.fit_intercept),
        )
        for fold in range(self.n_folds):
            if not sum(self.joint.sides(0, fold)) > 0:
                raise ValueError(f"cv: all rows that fold {fold} trains on have weight zero")

    def columns(self, Cs: np.ndarray) -> Columns:
        """Problems of all classes, folds and values of C, in this order, C fastest; without folds
        those of all rows.
        """
        folds = np.arange(self.n_folds) if self.n_folds else np.array([-1])
        grid = np.meshgrid(np.arange(len(self.problems)), folds, np.arange(len(Cs)), indexing="ij")
        of, fold, c = (axis.ravel() for axis in grid)
        return Columns(of, fold, Cs[c])

    def solve(self, columns: Columns, start: np.ndarray | None = None) -> Solutions:
        """Solve problems, those together that can be, the others one by one.

        `start` (P, size) is where to start.
        """
        W = np.zeros((len(columns), self.joint.size)) if start is None else start.copy()
        losses, counts = np.zeros(len(columns)), np.zeros((len(columns), 4))
        reports: list[Report | None] = [None] * len(columns)
        alone = self._one_sided(columns)  # these need no solver
        jointly = np.flatnonzero(~alone) if self._can_be_joint(columns) else np.empty(0, int)
        if len(jointly):
            began, passes, rounds = time.perf_counter(), self.joint.passes, self.joint.rounds
            max_iter = (
                JOINT_ITERATIONS if self.settings.max_iter is None else int(self.settings.max_iter)
            )
            begin = None if start is None else start[jointly]
            solved = together(
                self.joint,
                columns.take(jointly),
                begin,
                tol=float(self.settings.tol),
                max_iter=max_iter,
            )
            W[jointly], losses[jointly], counts[jointly] = (
                solved.found.W,
                solved.found.losses,
                solved.found.counts,
            )
            spent = (
                time.perf_counter() - began,
                self.joint.passes - passes,
                self.joint.rounds - rounds,
            )
            for k, p in enumerate(jointly.tolist()):
                if solved.reasons[k] is not Reason.NO_PROGRESS:
                    reports[p] = self._report(solved, k, spent)
        left = [p for p, report in enumerate(reports) if report is None]
        # what suits a problem suits it in other folds
        chosen: dict[tuple[int, float], tuple[str, str]] = {}
        for p in sorted(left, key=lambda p: (columns.of[p], columns.fold[p], columns.C[p])):
            kind = (int(columns.of[p]), float(columns.C[p]))
            solver, why = chosen.get(kind, (None, ""))
            begin = Begin(self._start(columns, p, W, reports), solver=solver, why=why)
            W[p], report = self._alone(columns, p, begin)
            reports[p] = report
            if not alone[p]:
                chosen[kind] = report.solver.split("+")[0], report.why
        if left and self.n_folds and (columns.fold >= 0).any():
            losses, counts = self.joint.score(columns, W)
        return Solutions(
            columns, W, [report for report in reports if report is not None], losses, counts
        )

    def means(self, paths: np.ndarray) -> np.ndarray:
        """Means (problems, size) over the folds (problems, folds, size) that train on two classes;
        else zero.
        """
        columns = self.columns(np.ones(1))
        two = ~self._one_sided(columns).reshape(len(paths), -1, 1)
        mean: np.ndarray = (paths * two).sum(axis=1) / np.maximum(two.sum(axis=1), 1)
        return mean

    def _one_sided(self, columns: Columns) -> np.ndarray:
        """Problems (a mask) with weight on one side only and an intercept to tell it; see
        `Objective.only_side`.
        """
        alone = np.zeros(len(columns), bool)
        if self.loss.classifies and self.joint.fit_intercept:
            for of, fold in set(zip(columns.of.tolist(), columns.fold.tolist(), strict=True)):
                if min(self.joint.sides(of, fold)) <= 0.0:
                    alone |= (columns.of == of) & (columns.fold == fold)
        return alone

    def _can_be_joint(self, columns: Columns) -> bool:
        facts, d = self.engine.facts, self.joint.n_features
        return (
            self.settings.solver in ("auto", "newton")
            and self.settings.stop == "gap"
            and self.engine.device == "cpu"
            and math.isfinite(self.loss.smoothness)
            and bool(np.isfinite(columns.C).all())
            and d <= (SPARSE_FEATURES if facts.sparse else DENSE_FEATURES)
        )

    def _start(
        self, columns: Columns, p: int, W: np.ndarray, reports: Sequence[Report | None]
    ) -> np.ndarray:
        """Where a problem starts: where it is, or if that is nowhere at the solution of the next
        smaller C.
        """
        if W[p].any():
            return np.asarray(W[p])
        same = (
            (columns.of == columns.of[p])
            & (columns.fold == columns.fold[p])
            & (columns.C[p] > columns.C)
        )
        before = [q for q in np.flatnonzero(same).tolist() if reports[q] is not None]
        return W[max(before, key=lambda q: float(columns.C[q]))] if before else W[p]

    def _alone(self, columns: Columns, p: int, begin: Begin) -> tuple[np.ndarray, Report]:
        """Solve one problem with a solver for one."""
        of, fold, C = int(columns.of[p]), int(columns.fold[p]), float(columns.C[p])
        problem = (
            self.problems[of]
            if fold < 0
            else replace(self.problems[of], folds=self.folds, fold=fold)
        )
        sides = self.joint.sides(of, fold)
        span = self.loss.intercept_span(*sides, self.engine.facts.largest_target)
        objective = Objective(
            self.engine,
            problem,
            self.loss,
            C=C,
            fit_intercept=self.joint.fit_intercept,
            span=span,
            sides=sides,
        )
        settings = replace(self.settings, C=C, progress=False)
        solution, report = solve_one(objective, begin, settings, self.loading, 0, None)
        return to_host(solution.point.w), report

    def _report(self, solved: Solved, p: int, spent: tuple[float, float, int]) -> Report:
        reason, facts = solved.reasons[p], self.engine.facts
        return Report(
            solver="newton",
            why=f"{len(solved.gaps)} problems together, which share passes over X",
            converged=reason.converged,
            reason=reason.value,
            objective=float(solved.found.values[p]),
            relative_gap=float(solved.gaps[p]),
            gradient_ratio=math.nan,
            n_iter=int(solved.n_iter[p]),
            passes=spent[1],
            rounds=spent[2],
            bytes_reduced=self.engine.bytes_reduced,
            seconds=spent[0],
            seconds_loading=self.loading,
            n_rows=facts.n_rows,
            n_features=self.joint.n_features,
            workers=self.engine.workers,
            device=self.engine.device,
            repairs=self.engine.repairs,
        )

    def report(self, parts: Sequence[Report], began: float) -> Report:
        """One report of all problems: passes, rounds and seconds are those of all of them
        together.
        """
        whole = combine(list(parts))
        alone = [part for part in parts if "together" not in part.why]
        return replace(
            whole,
            passes=self.joint.passes + sum(part.passes for part in alone),
            rounds=self.engine.rounds,
            bytes_reduced=self.engine.bytes_reduced,
            seconds=time.perf_counter() - began,
            parts=tuple(parts),
        )


@contextlib.contextmanager
def opened(
    X: Any,
    y: Any,
    settings: Settings,
    *,
    sample_weight: Any = None,
    client: Any = None,
    cv: Any = False,
    split_params: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Family]:
    """Load the rows for as long as the context lasts.

    Parameters
    ----------
    X, y, sample_weight, client
        As of `runner.train`.
    cv : int, splitter, iterable of (train, test), None or False
        Folds: None is 5, False none at all. Dask collections take numbers only.
    split_params : mapping
        Arguments of the splitter's `split`, such as groups.

    Raises
    ------
    ValueError
        For arguments out of range, before any work; for bad data; for folds whose rows to train on
        have no weight.
    """
    loss = settings.check()
    data = partitions(X, y, sample_weight, classify=loss.classifies)
    folds = None if cv is False else divide(data, cv, settings.random_state, split_params)
    with loaded(data, settings, client) as on:
        if on.engine.device != "cpu" and folds is not None:
            raise ValueError(
                "cross-validation in one pass wants rows in host memory: give device='cpu'"
            )
        problems = [problem for problem, _ in on.problems]
        yield Family(on.engine, loss, settings, on.classes, problems, folds, on.seconds, data)


def warn(reports: Sequence[Report], tol: float) -> None:
    """Tell in a ConvergenceWarning of the problems that did not reach `tol`."""
    failed = [report for report in reports if not report.converged]
    if failed:
        worst = max(failed, key=lambda report: report.relative_gap)
        warnings.warn(
            f"{len(failed)} of {len(reports)} problems stopped before tol={tol:g}; the worst: "
            f"{worst.reason} (reached: "
            f"relative gap {worst.relative_gap:.1e}). Raise max_iter or tol, or scale the columns "
            "of X.",
            ConvergenceWarning,
            stacklevel=4,
        )
