"""What a contestant's coefficients are worth, in float64, by formulas of the judge's own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from benchmarks.penalties.problems import Problem

# Rows that are judged at once.
STEP = 1 << 16


def objectives(problem: Problem, coefs: Any, intercepts: Any) -> np.ndarray:
    """Return the objective at each alpha: coefs (m, d), intercepts (m,)."""
    W, b = np.asarray(coefs, np.float64), np.asarray(intercepts, np.float64)
    total = np.zeros(len(W))
    for lo in range(0, len(problem.y), STEP):
        rows = problem.X[lo : lo + STEP].astype(np.float64)
        z = np.asarray(rows @ W.T) + b
        total += _losses(problem.family, problem.y[lo : lo + STEP, None], z).sum(axis=0)
    rho = problem.l1_ratio
    sizes = rho * np.abs(W).sum(axis=1) + 0.5 * (1.0 - rho) * (W * W).sum(axis=1)
    return total / len(problem.y) + problem.alphas * sizes


def _losses(family: str, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    y = y.astype(np.float64)
    if family == "gaussian":
        return 0.5 * (z - y) ** 2
    if family == "binomial":
        return np.logaddexp(0.0, -y * z)
    mean = np.exp(z)
    if family == "poisson":
        return mean - y + xlogy(y, np.where(y > 0, y, 1.0) / mean)
    return y / mean - 1.0 - np.log(y / mean)


def gaussian_gap(problem: Problem, alpha: float, coef: Any, intercept: float) -> float:
    """Return a bound on how far a gaussian fit is from its optimum, relative to its objective.

    The residuals times the best c of [0, 1] are the dual point; they sum to zero, since the
    intercept is made the best one first.
    """
    w, rho, n = np.asarray(coef, np.float64), problem.l1_ratio, len(problem.y)
    slopes = np.empty(n)
    for lo in range(0, n, STEP):
        rows = problem.X[lo : lo + STEP].astype(np.float64)
        slopes[lo : lo + STEP] = rows @ w + intercept - problem.y[lo : lo + STEP]
    if problem.fit_intercept:
        slopes -= slopes.mean()
    gradient = np.zeros(len(w))
    for lo in range(0, n, STEP):
        gradient += problem.X[lo : lo + STEP].astype(np.float64).T @ slopes[lo : lo + STEP]
    gradient /= n
    square, cross = float(slopes @ slopes) / n, float(slopes @ problem.y) / n
    primal = 0.5 * square + alpha * (
        rho * float(np.abs(w).sum()) + 0.5 * (1.0 - rho) * float(w @ w)
    )

    def dual(c: float) -> float:
        over = np.maximum(c * np.abs(gradient) - alpha * rho, 0.0)
        curved = float(over @ over) / (2.0 * alpha * (1.0 - rho)) if rho < 1.0 else 0.0
        return -0.5 * c * c * square - c * cross - curved

    most = 1.0 if rho < 1.0 else min(1.0, alpha * rho / float(np.abs(gradient).max()))
    between = minimize_scalar(
        lambda c: -dual(c), bounds=(0.0, most), method="bounded", options={"xatol": 1e-14}
    )
    best = max(dual(most), -float(between.fun))
    return max(primal - best, 0.0) / primal
