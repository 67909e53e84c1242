"""Ridge regression whose strength has the least errors of rows that are left out one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import daskglm

# Bytes of what is computed of a run of rows. Chosen for a cache of some MiB.
RUN_BYTES = 1 << 22


class LeaveOneOut:
    """A search among strengths for `Ridge`, whose `report_` is that of the fit of the best.

    With X and y centred by weights s, and H = X'SX + alpha, the fit without row i misses it by
    (y_i - x_i'w) / (1 - s_i x_i'H^-1 x_i - s_i / sum(s)) (Rifkin and Lippert 2007, as scikit-learn
    has it; the last term is the intercept's). One decomposition X'SX = V diag(l) V' serves every
    alpha: a pass for it, and one for the errors.

    Parameters
    ----------
    alphas : (k,) array
        Positive.
    each : bool
        Whether each target has its own best strength.
    store : bool
        Whether the errors of all rows are kept.
    tol : float
        Proved relative gap of the last fit.

    Attributes
    ----------
    alpha_ : float, or (t,) array
    best_score_ : float, or (t,) array
        The mean of -s error^2.
    errors_ : (n, t, k) array, or None
        s error^2.
    """

    def __init__(
        self, alphas: np.ndarray, fit_intercept: bool, each: bool, store: bool, tol: float
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.each = each
        self.store = store
        self.tol = tol

    def fit(self, X: Any, y: np.ndarray, sample_weight: np.ndarray | None = None) -> LeaveOneOut:
        """Choose the strength, and fit it to all rows.

        Raises FloatingPointError where the fit follows a row whatever its target.
        """
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        targets = y.reshape(len(y), -1).astype(float)
        with np.errstate(all="ignore"):
            scores, self.errors_ = self._scores(X, targets, weight)
        if not np.isfinite(scores).all():
            raise FloatingPointError("a row that the fit follows whatever its target")
        by_target = self.each and targets.shape[1] > 1
        if not by_target:
            scores = scores.mean(axis=0, keepdims=True)
        best = scores.argmax(axis=1)
        alpha, score = self.alphas[best], scores.max(axis=1)
        self.alpha_: Any = alpha if by_target else float(alpha[0])
        self.best_score_: Any = score if by_target else score[0]
        ridge = daskglm.Ridge(
            self.alpha_, fit_intercept=self.fit_intercept, tol=self.tol, progress=False
        )
        ridge.fit(X, y, sample_weight=sample_weight)
        self.coef_, self.intercept_, self.report_ = ridge.coef_, ridge.intercept_, ridge.report_
        return self

    def _scores(
        self, X: Any, y: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Means of -s error^2 by target and strength, (t, k), and the terms if they are kept."""
        n, d = X.shape
        X = X.tocsr() if sp.issparse(X) else X
        total, mean, middle = weight.sum(), np.zeros(d), np.zeros(y.shape[1])
        if self.fit_intercept:
            mean, middle = (weight @ X) / total, weight @ y / total
        step = max(RUN_BYTES // (8 * max(d, y.shape[1] * len(self.alphas))), 64)
        runs = [slice(lo, lo + step) for lo in range(0, n, step)]
        gram, moment = np.zeros((d, d)), np.zeros((d, y.shape[1]))
        for run in runs:
            rows = _centred(X[run], mean)
            weighted = rows.T * weight[run]
            gram += weighted @ rows
            moment += weighted @ (y[run] - middle)
        values, vectors = np.linalg.eigh(gram)
        inverse = 1.0 / (values[:, None] + self.alphas)
        # (d, t, k)
        turned = (vectors.T @ moment)[:, :, None] * inverse[:, None, :]
        left = weight / total if self.fit_intercept else np.zeros(n)
        sums = np.zeros((y.shape[1], len(self.alphas)))
        kept = np.empty((n, *sums.shape)) if self.store else None
        for run in runs:
            rows = _centred(X[run], mean) @ vectors
            residual = (y[run] - middle)[:, :, None] - np.tensordot(rows, turned, axes=1)
            follows = weight[run, None] * (rows**2 @ inverse) + left[run, None]
            terms = weight[run, None, None] * (residual / (1.0 - follows)[:, None, :]) ** 2
            sums += terms.sum(axis=0)
            if kept is not None:
                kept[run] = terms
        return -sums / n, kept


def _centred(rows: Any, mean: np.ndarray) -> np.ndarray:
    """Rows less their mean, dense, in double precision."""
    dense: np.ndarray = (rows.toarray() if sp.issparse(rows) else rows) - mean
    return dense
