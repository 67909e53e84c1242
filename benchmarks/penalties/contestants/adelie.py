"""adelie: group elastic net paths by coordinate descent; gaussian, binomial and Poisson."""

from __future__ import annotations

from typing import Any

import adelie as package
import numpy as np
import scipy.sparse as sp

from benchmarks.contestants import NotApplicable
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import FOLDS, Problem

packages = ("adelie",)
LAWS = {
    "gaussian": package.glm.gaussian,
    "binomial": package.glm.binomial,
    "poisson": package.glm.poisson,
}


def prepare(problem: Problem, **_: Any) -> Any:
    """Lay rows out by columns, in float64."""
    X = sp.csc_matrix(problem.X) if sp.issparse(problem.X) else np.asfortranarray(problem.X)
    return X.astype(np.float64, copy=False)


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit at all alphas; by folds as its `cv_grpnet` does, whose alphas would be others."""
    if problem.family not in LAWS:
        raise NotApplicable("adelie has no gamma fits")
    y = (problem.y > 0) * 1.0 if problem.family == "binomial" else problem.y.astype(np.float64)
    n, m = len(y), len(problem.alphas)
    matrix = package.matrix.sparse if sp.issparse(rows) else package.matrix.dense
    X = matrix(rows, method="naive", n_threads=threads)

    def path(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        state = package.grpnet(
            X,
            LAWS[problem.family](y, weights=weights),
            alpha=problem.l1_ratio,
            lmda_path=problem.alphas,
            intercept=problem.fit_intercept,
            tol=tol,
            irls_tol=tol,
            n_threads=threads,
            early_exit=False,
            progress_bar=False,
        )
        return state.betas.toarray(), np.asarray(state.intercepts)

    coefs, intercepts = path(np.full(n, 1.0 / n))
    if problem.task != "folds":
        return Answer(coefs, intercepts, "")
    errors = np.empty((m, FOLDS))
    for fold, held in enumerate(np.array_split(np.arange(n), FOLDS)):
        weights = np.ones(n)
        weights[held] = 0.0
        W, b = path(weights / weights.sum())
        errors[:, fold] = np.mean((rows[held] @ W.T + b - y[held, None]) ** 2, axis=0)
    best = int(np.argmin(errors.mean(axis=1)))
    alpha = float(problem.alphas[best])
    return one(coefs[best], intercepts[best], "", alpha=alpha, errors=errors)
