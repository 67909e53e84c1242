"""Cross-validation of the strength of a penalty, and of its mix of both parts.

All folds are paths on rows that are loaded once. For least squares one pass adds up the products
of the rows of each group of folds, which tell all paths and what the folds hold out. For other
losses the paths of all folds and mixes are solved at the same time, and share their passes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from daskglm.fitting.fold_sums import FoldSums
from daskglm.fitting.grid_checkpoint import digest
from daskglm.fitting.held_out import held_out, selected
from daskglm.fitting.path_checkpoint import PathFits, strengths_asked
from daskglm.fitting.penalty_path import IN_TURN, Fitted, PathProblem, path_report, relaxed
from daskglm.fitting.problem_grid import ProblemGrid
from daskglm.fitting.report import Report
from daskglm.fitting.shared_paths import can_share, run
from daskglm.solvers.batched_proximal_newton import Found
from daskglm.system.blas import one_thread


@dataclass(frozen=True)
class CrossValidated:
    """Paths of all folds, and the fit that was selected.

    Parameters
    ----------
    ratios : (ratios,) array
    alphas : (ratios, values) array
        Falling.
    W : (ratios, folds, values, size) array
        Coefficients, the intercept last.
    gaps : (ratios, folds, values) array
    deviance : (ratios, values, folds) array
        Weighted means of unit deviances on the rows held out.
    best : tuple of (int, int)
        The ratio and the value that were selected.
    final : Fitted
        The fit to all rows.
    report : Report
    """

    ratios: np.ndarray
    alphas: np.ndarray
    W: np.ndarray
    gaps: np.ndarray
    deviance: np.ndarray
    best: tuple[int, int]
    final: Fitted
    report: Report


def cross_validate(
    grid: ProblemGrid,
    ratios: Sequence[float],
    alphas: np.ndarray | int,
    eps: float,
    *,
    selection: str,
    relax: bool = False,
    fits: PathFits,
) -> CrossValidated:
    """Solve the paths of all folds, select a mix and a strength, and fit them to all rows.

    Parameters
    ----------
    grid : ProblemGrid
        With folds; its first problem is solved.
    ratios : sequence of float
        Values of l1_ratio.
    alphas : (values,) array, or int
        Strengths, or how many for each ratio, from the largest that all rows have to `eps` of it.
    eps : float
    selection : {"min", "1se"}
        See `held_out.selected`; "1se" selects a strength for the ratio with the least mean.
    relax : bool
        Whether the features that were selected are fitted again without the penalty.
    fits : PathFits
        Takes the fits of the folds, and has those of a checkpoint.
    """
    began = time.perf_counter()
    with one_thread():
        sums = grid.sums
        whole = _problem(grid, -1, sums)
        folds = [_problem(grid, fold, sums) for fold in range(grid.n_folds)]
        of_all = whole.objective(1.0)
        fits.begin(of_all, _asked(grid, ratios, alphas, eps))
        share = sums is None and can_share(grid.engine, grid.loss)
        by_ratio = [[each.with_ratio(ratio) for each in (whole, *folds)] for ratio in ratios]
        begins = _begins(grid, (whole, *folds), alphas, fits, len(ratios), share=share)
        if fits.alphas is None:
            rows = [
                each[0].grid(alphas, eps, begins[0].point, otherwise=1.0)
                if isinstance(alphas, int)
                else alphas
                for each in by_ratio
            ]
            fits.alphas = np.array(rows)
        strengths = fits.alphas
        solved = _paths(grid, by_ratio, begins, fits, share=share)
        fits.write()
        W = np.array([[[fitted.w for fitted in path] for path in paths] for paths in solved])
        deviance = np.array([_held_out(grid, sums, paths) for paths in W])
        r = int(deviance.mean(axis=2).min(axis=1).argmin())
        best = r, selected(deviance[r], strengths[r], selection)
        chosen = by_ratio[r][0]
        # a mean of the folds' models may be out of what links with bounded margins take
        bounded = grid.loss.link is not None and grid.loss.link.is_bounded
        start = W[r, 0 if bounded else slice(None), best[1]].reshape(-1, W.shape[-1]).mean(axis=0)
        (final,) = chosen.solve([float(strengths[r][best[1]])], start)
        if relax:
            final = relaxed(chosen, final)
    problems = [whole, *folds, *(each for of_ratio in by_ratio for each in of_ratio)]
    spent = grid.objective.passes + of_all.passes + sum(each.passes for each in problems)
    all_fits = [fitted for paths in solved for path in paths for fitted in path]
    how = f"{IN_TURN}, all folds and mixes at the same time" if share else IN_TURN
    report = path_report(
        grid.engine, [*all_fits, final], spent, grid.loading, began, how, fits.iterations_restored
    )
    gaps = np.array([[[fitted.gap for fitted in path] for path in paths] for paths in solved])
    return CrossValidated(
        np.asarray(ratios, float), strengths, W, gaps, deviance, best, final, report
    )


def _asked(
    grid: ProblemGrid, ratios: Sequence[float], alphas: np.ndarray | int, eps: float
) -> dict[str, Any]:
    """Return what tells these paths from others of the same problem, for checkpoints."""
    return {
        "l1_ratio": list(ratios),
        **strengths_asked(alphas, eps),
        "folds": None if grid.folds is None else digest(grid.folds),
    }


def _begins(
    grid: ProblemGrid,
    problems: Sequence[PathProblem],
    alphas: np.ndarray | int,
    fits: PathFits,
    ratios: int,
    *,
    share: bool,
) -> dict[int, Found]:
    """Find where the paths of all rows (0) and of the folds (from 1) begin, if they are to begin.

    In shared passes, or one by one.
    """
    wanted = [
        k
        for k in range(1, len(problems))
        if not all(fits.finished((r, k - 1)) for r in range(ratios))
    ]
    if fits.alphas is None and isinstance(alphas, int):
        wanted.insert(0, 0)
    if share and wanted:
        found = run(grid.objective, [problems[k].unpenalised_shared() for k in wanted])
    else:
        found = [Found(problems[k].unpenalised(), 0, False) for k in wanted]
    return dict(zip(wanted, found, strict=True))


def _paths(
    grid: ProblemGrid,
    by_ratio: Sequence[Sequence[PathProblem]],
    begins: Mapping[int, Found],
    fits: PathFits,
    *,
    share: bool,
) -> list[list[list[Fitted]]]:
    """Solve the paths of all folds and mixes.

    Parameters
    ----------
    grid : ProblemGrid
    by_ratio : sequence of sequences of PathProblem
        For each mix that of all rows, which is not solved here, and those of the folds.
    begins : dict of int to Found
        Of the folds, from 1, some of whose paths have no fit yet.
    fits : PathFits
        Which knows the strengths of each mix.
    share : bool
        Whether they are solved at the same time. Cost: then as many passes as the longest path
        takes, else the passes of all.

    Returns
    -------
    list of list of list of Fitted
        For each mix, fold and strength.
    """
    assert fits.alphas is not None
    works = []
    for r, (values, (_, *folds)) in enumerate(zip(fits.alphas.tolist(), by_ratio, strict=True)):
        for k, fold in enumerate(folds):
            key, had = (r, k), fits.finished((r, k))
            if not share:
                fits.solve(key, fold, values, None if had else begins[k + 1].point)
            elif len(had) < len(values):
                begin = had[-1].w if had else begins[k + 1]
                rest, done = values[len(had) :], partial(fits.add, key)
                works.append(fold.solve_shared(rest, begin, done))
    if works:
        run(grid.objective, works)
    return [
        [fits.finished((r, k)) for k in range(len(folds))] for r, (_, *folds) in enumerate(by_ratio)
    ]


def _problem(grid: ProblemGrid, fold: int, sums: FoldSums | None) -> PathProblem:
    """Return the problem of a fold; of all rows for -1."""
    problem = grid.problems[0]
    if fold >= 0:
        problem = replace(problem, folds=grid.folds, fold=fold)
    known = None if sums is None else sums.trained(fold)
    sides = grid.objective.sides(0, fold)
    return PathProblem(grid.engine, problem, sides, grid.loss, grid.settings, known)


def _held_out(grid: ProblemGrid, sums: FoldSums | None, paths: np.ndarray) -> np.ndarray:
    """Return mean deviances (values, folds) of models (folds, values, size) on rows held out."""
    if sums is None:
        return held_out(grid, paths).deviance
    weights = np.asarray(grid.objective.weights).sum(axis=1)
    found = []
    for fold, path in enumerate(paths):
        weight = float(weights[grid.objective.roles[:, fold] == 1].sum())
        if not weight > 0.0:
            raise ValueError(f"cv: all rows that fold {fold} holds out have weight zero")
        tested = sums.held_out(fold)
        found.append([max(2.0 * tested.loss(w), 0.0) / weight for w in path])
    return np.array(found).T
