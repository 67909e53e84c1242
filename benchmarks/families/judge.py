"""The objective of what a contestant of a race of means returns, in float64, by own formulas."""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from benchmarks.families.problems import Rows


def objective(rows: Rows, w: np.ndarray, b: float, *, family: str, alpha: float) -> float:
    """Return the weighted mean of half the unit deviances plus alpha/2 |w|^2."""
    w = np.asarray(w, np.float64)
    step, total = 1 << 18, 0.0
    for lo in range(0, rows.X.shape[0], step):
        run = slice(lo, lo + step)
        z, y = np.asarray(rows.X[run] @ w, np.float64) + b, rows.y[run]
        mu = np.exp(z)
        if family == "poisson":
            half = mu - y + xlogy(y, np.where(y > 0, y, 1.0) / mu)
        elif family == "gamma":
            half = y / mu - 1.0 - np.log(y / mu)
        else:
            half = 2.0 * y / np.sqrt(mu) + 2.0 * np.sqrt(mu) - 4.0 * np.sqrt(y)
        total += float(rows.weight[run] @ half)
    return total / float(rows.weight.sum()) + 0.5 * alpha * float(w @ w)
