"""Snap ML: L1 logistic regression by primal coordinate descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.contestants import NotApplicable
from benchmarks.contestants.snap_ml import MAX_ITER, snapml
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import Problem

packages = ("snapml",)


def prepare(problem: Problem, **_: Any) -> Any:
    """Return rows in float32, all that it takes."""
    if problem.family != "binomial" or problem.l1_ratio < 1.0 or problem.fit_intercept:
        raise NotApplicable("Snap ML has L1 or L2, not both, and penalises the bias")
    return problem.X.astype(np.float32)


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit; `tol` bounds the change of a coefficient."""
    model = snapml.LogisticRegression(
        penalty="l1",
        dual=False,
        regularizer=1.0 / problem.C,
        fit_intercept=False,
        tol=tol,
        max_iter=MAX_ITER,
        n_jobs=threads,
    )
    model.fit(rows, problem.y)
    return one(np.ravel(model.coef_).astype(np.float64), 0.0, "")
