"""A grid of multinomial problems on the same rows, one for each fold and C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import Problem
from daskglm.fitting.grid_checkpoint import digest
from daskglm.fitting.joint import JointFit, joint_fit
from daskglm.fitting.joint_checkpoint import JointCheckpoints
from daskglm.fitting.problem_grid import ProblemGrid, Solutions
from daskglm.fitting.report import Report
from daskglm.fitting.runner import WarmStart, objective_of, solve_one
from daskglm.fitting.warm_path import selected_alone
from daskglm.losses.table import find
from daskglm.objectives.batched import ProblemBatch


@dataclass
class JointGrid(ProblemGrid):
    """Rows, and multinomial problems to solve on them, one after another.

    To those who score and lay out solutions it is a grid of one class against the rest: a model has
    K rows of coefficients, one for each class. All K problems of a fold and a C have one report.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.joint.settings(self.settings)  # raises ValueError for what no such fit takes

    @property
    def joint(self) -> JointFit:
        """What multinomial fits have of their own."""
        found = joint_fit(find("multinomial"))
        assert found is not None
        return found

    def solve(
        self, batch: ProblemBatch, start: np.ndarray | None = None, *, resumable: bool = False
    ) -> Solutions:
        """Solve the problems of each fold from the smallest C to the largest.

        Parameters
        ----------
        batch : ProblemBatch
            Of all classes, as of `batch`.
        start : (P, size) array, optional
            Where to start; default: the solution for the next smaller C.
        resumable : bool
            Whether checkpoints are read and written as the settings ask for.

        Raises
        ------
        ValueError
            For a checkpoint of other fits.
        """
        asked = self.checkpoints if resumable else (None, None)
        checkpoints = JointCheckpoints(self.settings, asked)
        W = np.zeros((len(batch), self.objective.size))
        reports: dict[int, Report] = {}
        for fold in sorted(set(batch.fold.tolist())):
            w: np.ndarray | None = None
            for C in sorted(set(batch.C[batch.fold == fold].tolist())):
                here = np.flatnonzero((batch.fold == fold) & (batch.C == C))
                here = here[np.argsort(batch.of[here], kind="stable")]
                begin = None if start is None else start[here]
                W[here], w, report = self._solve_one(fold, C, begin, w, checkpoints)
                reports |= dict.fromkeys(here.tolist(), report)
        nothing = np.zeros(len(batch)), np.zeros((len(batch), 4))
        return Solutions(batch, W, [reports[p] for p in range(len(batch))], *nothing)

    def relaxed(self, solutions: Solutions) -> Solutions:
        """Fit the features of each class again without the penalty; see `ProblemGrid.relaxed`."""
        C = np.full(len(solutions.W), math.inf)
        nowhere = JointCheckpoints(self.settings)
        W, _, report = self._solve_one(-1, math.inf, solutions.W, None, nowhere, only_selected=True)
        batch, reports = replace(solutions.batch, C=C), [report] * len(C)
        return replace(solutions, batch=batch, W=W, reports=reports)

    def _solve_one(
        self,
        fold: int,
        C: float,
        start: np.ndarray | None,
        before: np.ndarray | None,
        checkpoints: JointCheckpoints,
        *,
        only_selected: bool = False,
    ) -> tuple[np.ndarray, np.ndarray, Report]:
        """Return coefficients (K, size), the vector of the solver, and the report.

        With `only_selected` coefficients that are zero in `start` stay so.
        """
        assert self.classes is not None
        K, d = len(self.problems), self.objective.n_features
        loss = find("multinomial")
        problem = Problem(loss.ref, None, self.problems[0].class_weight)
        if fold >= 0:
            problem = replace(problem, folds=self.folds, fold=fold)
        weights = tuple(self.objective.sides(k, fold)[0] for k in range(K))
        settings = self.joint.settings(replace(self.settings, C=C))
        objective = objective_of(self.engine, problem, weights, loss, settings)
        if before is None:
            pair = None
            if start is not None:
                pair = start[:, :d], start[:, d] if settings.fit_intercept else np.zeros(K)
            before = self.joint.start(pair, objective, self.classes)
        begin = WarmStart(before)
        # contrasts of coefficients, which there are for smooth penalties, select none
        if only_selected and not settings.penalty.is_smooth:
            objective, begin = selected_alone(objective, before)
        folds = None if self.folds is None else digest(self.folds)
        named = {"C": C, "fold": fold, "folds": folds}
        begin, writer = checkpoints.next(objective, named, begin)
        solution, report = solve_one(objective, begin, settings, self.loading, 0, writer)
        self.single_passes += report.passes
        w = to_host(solution.point.w)
        coef, intercept = self.joint.coefficients(objective, w, self.classes)
        found = np.column_stack([coef, intercept]) if settings.fit_intercept else coef
        return found, w, report


def each_once(reports: Sequence[Report]) -> list[Report]:
    """Return the reports in their order, those of all classes of a joint fit once."""
    return list({id(report): report for report in reports}.values())
