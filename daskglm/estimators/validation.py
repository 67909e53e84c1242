"""Scores of every fold and value of C, from solved problems and the way of scoring that they
need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_method_params

from daskglm.core.batch_requests import ScoreHeldOut
from daskglm.data.blocks import float_rows
from daskglm.data.values import Place
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.scorers import COUNTED, LOG_LOSS, SUMMED, Scoring, number
from daskglm.fitting.cv_splits import held_out
from daskglm.fitting.problem_grid import ProblemGrid, Solutions

# Bytes of decision values that one request gathers here.
GATHERED_BYTES = 1 << 28


def scores_of(
    grid: ProblemGrid,
    solutions: Solutions,
    Cs: np.ndarray,
    scoring: Scoring,
    params: Mapping[str, Any],
    *,
    as_trained: bool,
) -> np.ndarray:
    """Scores (folds, values of C) on the rows held out, of all classes together.

    Parameters
    ----------
    grid, solutions
        Problems of all classes, folds and values of C, and what they were solved to.
    scoring : Scoring
    params : mapping
        What the scorer is given besides rows: sample_weight, as a sign that rows are weighted, and
        others by row.
    as_trained : bool
        Whether rows have the same weights in scores as in training (but for class weights).
    """
    shape = (len(grid.problems), grid.n_folds, len(Cs))
    weighted = "sample_weight" in params
    if wants_rows(scoring, params):
        return _by_rows(grid, solutions.W.reshape(*shape, -1), Cs, scoring, params)
    # that sweep adds no offsets
    summed = len(grid.problems) == 1 and as_trained and not grid.engine.facts.largest_offset
    if scoring.name in SUMMED and summed:
        scores = SUMMED[scoring.name](solutions.losses, solutions.counts)
        return scores.reshape(shape[1:])
    W = solutions.W.reshape(*shape, -1).transpose(1, 2, 0, 3)
    # the workers' losses are of one class against the rest
    lost = scoring.name == LOG_LOSS and as_trained and not scoring.joint
    if scoring.name in COUNTED or lost:
        return _by_counts(grid, W, scoring, weighted)
    return _by_decision_values(grid, W, scoring, weighted)


def wants_rows(scoring: Scoring, params: Mapping[str, Any]) -> bool:
    """Return whether scores need the rows in memory here.

    That is for functions of rows, and arguments by row that workers lack.
    """
    return not scoring.by_decisions or bool(set(params) - {"sample_weight"})


def _by_counts(grid: ProblemGrid, W: np.ndarray, scoring: Scoring, weighted: bool) -> np.ndarray:
    """Compute scores from how often each class is predicted for each, or from sums of losses."""
    classes = grid.classes
    assert classes is not None
    totals = grid.objective.ask(ScoreHeldOut(np.ascontiguousarray(W), _labels(grid)))
    if scoring.name == LOG_LOSS:
        scores: np.ndarray = -totals["losses"] / totals["weights"].sum(axis=(2, 3))
        return scores
    scores = np.empty(W.shape[:2])
    for at in np.ndindex(scores.shape):
        counts = totals["counts"][at]
        weights = totals["weights"][at]
        scores[at] = scoring.score_counts(classes, counts, weights if weighted else counts)
    return scores


def _by_decision_values(
    grid: ProblemGrid, W: np.ndarray, scoring: Scoring, weighted: bool
) -> np.ndarray:
    """Compute scores by scikit-learn's scorer from the decision values of all rows held out.

    They are gathered here.
    """
    classes = grid.classes
    n_folds = W.shape[0]
    labels = _labels(grid)
    assert classes is not None
    # how often a row is held out, at most
    often = int((grid.objective.roles[:, :n_folds] == 1).sum(axis=1).max())
    each = 8 * grid.engine.facts.n_rows * often * W.shape[2]
    step = max(GATHERED_BYTES // max(each, 1), 1)
    scores = np.empty(W.shape[:2])
    for lo in range(0, W.shape[1], step):
        models = np.ascontiguousarray(W[:, lo : lo + step])
        rows = grid.objective.ask(ScoreHeldOut(models, labels, gather=True))["values"]
        for fold in range(n_folds):
            codes, weights, values = rows.of(fold)
            for model in range(models.shape[1]):
                z = values[:, model, 0] if W.shape[2] == 1 else values[:, model]
                scores[fold, lo + model] = scoring.score(
                    classes, codes, z, weights if weighted else None
                )
    return scores


def _labels(grid: ProblemGrid) -> tuple[Any, ...]:
    """Return all labels in the order of classes, as blocks have them."""
    return tuple(sorted(grid.objective.labels))


def _by_rows(
    grid: ProblemGrid,
    paths: np.ndarray,
    Cs: np.ndarray,
    scoring: Scoring,
    params: Mapping[str, Any],
) -> np.ndarray:
    """Compute scores by a function of (estimator, X, y) from rows in memory held out."""
    data, classes = grid.data, grid.classes
    assert data.arrays is not None
    assert classes is not None
    assert grid.folds is not None
    X = float_rows(data.arrays[0], Place(None, data.columns))
    y = np.asarray(data.arrays[1])
    given = {**params, **({"sample_weight": data.arrays[2]} if "sample_weight" in params else {})}
    scores = np.empty((grid.n_folds, len(Cs)))
    d = grid.objective.n_features
    for fold in range(grid.n_folds):
        test = held_out(grid.folds, fold)
        X_test = X[test]
        y_test = y[test]
        more = _check_method_params(X, given, test)
        for c, C in enumerate(Cs):
            model = LogisticRegression(
                C=float(C),
                l1_ratio=float(grid.settings.penalty.l1_ratio),
                fit_intercept=grid.objective.fit_intercept,
                multi_class="auto" if scoring.joint else "ovr",
            )
            W = paths[:, fold, c]
            model.classes_ = classes
            model.n_features_in_ = d
            model.coef_ = W[:, :d]
            model.intercept_ = W[:, d] if grid.objective.fit_intercept else np.zeros(len(W))
            scores[fold, c] = number(scoring.scorer(model, X_test, y_test, **more), scoring.given)
    return scores
