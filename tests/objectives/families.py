"""Random problems of families."""

import numpy as np
import scipy.sparse as sp

from daskglm.losses.table import find
from tests.losses.formulas import BOUNDED, POSITIVE
from tests.oracle.problem import Reference

LOSS_NAMES = (
    *("poisson", "gamma", "tweedie(1.1)", "tweedie(1.5)", "tweedie(1.9)"),
    *("negative_binomial(0.01)", "negative_binomial(1.0)", "negative_binomial(20.0)", "binomial"),
)
# those whose curvature changes at no bounded rate
LOCAL_NAMES = (
    *("poisson_identity", "poisson_sqrt", "gamma_inverse", "inverse_gaussian_squared"),
    *("binomial_cloglog", "binomial_probit", "binomial_log", "binomial_identity"),
)


def rows(rng):
    """Rows that make floating point suffer: near copies of columns, means, scales, empty cells."""
    n, d = int(rng.integers(5, 200)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d))
    if rng.random() < 0.4:
        X = rng.standard_normal((n, 1)) + 10 ** rng.uniform(-6, -1) * X
    if rng.random() < 0.3:
        X = X + 10 ** rng.uniform(1, 4) * rng.choice([-1, 1], d)
    if rng.random() < 0.3:
        X[:, 0] = rng.random(n) < 0.1  # a rare level
    if rng.random() < 0.4:
        X = X * 10 ** rng.uniform(-6, 6, d)
    dtype = rng.choice(["float32", "float64"])
    X = X.astype(dtype)
    if rng.random() < 0.25:
        X = sp.csr_matrix(X * (rng.random(X.shape) < 0.5).astype(dtype))
    return X


def targets(rng, loss, X):
    """Targets whose mean follows the rows, at a scale of 1e-6 to 1e6; sometimes separable."""
    columns = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    spread = np.maximum(columns.std(axis=0), 1e-300)
    z = (columns - columns.mean(axis=0)) / spread @ rng.standard_normal(columns.shape[1])
    z *= rng.choice([0.3, 1.0, 2.0])
    n, family = len(z), find(loss).family.name
    if family == "binomial":
        if rng.random() < 0.2:
            return (z > 0).astype(float)
        trials, mean = rng.integers(1, 20), 1 / (1 + np.exp(-z))
        if loss in BOUNDED and rng.random() < 0.6:
            # as the link has it: else the optimum is mostly where some margin is at an end
            centre = {"binomial_log": -1.0, "binomial_identity": 0.5}[loss]
            mean = find(loss).link.mean(centre + 0.4 * np.tanh(z))
        return rng.binomial(trials, mean, n) / trials
    mean = np.exp(np.clip(z, -20, 20)) * 10 ** rng.uniform(-6, 6)
    if loss in POSITIVE and rng.random() < 0.6:
        # as the link has it: else the optimum is mostly where some margin is zero
        mean = find(loss).link.mean(1.0 + 0.5 * np.tanh(z)) * 10 ** rng.uniform(-2, 6)
    if family == "inverse_gaussian":
        return rng.wald(mean, mean * 4.0) + 1e-6 * mean
    if family == "gamma":
        return np.maximum(mean * rng.gamma(1 / 0.5, 0.5, n), 1e-200)
    if family == "tweedie":
        y = mean * rng.gamma(1.0, 1.0, n) * (rng.random(n) < 0.7)
    else:
        y = rng.poisson(np.minimum(mean, 1e15)).astype(float)
    if rng.random() < 0.2:
        y[columns[:, 0] > np.median(columns[:, 0])] = 0.0  # empty cells
    return y


def draw(seed, loss=None):
    """One random problem, and how to solve it."""
    rng = np.random.default_rng(seed)
    loss = loss or str(rng.choice(LOSS_NAMES))
    X = rows(rng)
    y = targets(rng, loss, X)
    n = len(y)
    weight = rng.exponential(1.0, n) * (rng.random(n) < 0.9) if rng.random() < 0.3 else None
    offset = rng.standard_normal(n) * rng.choice([0.3, 3.0]) if rng.random() < 0.4 else None
    if offset is not None and loss in POSITIVE:
        # of the size of margins
        offset *= 0.1 * float(find(loss).link.of_mean(y.mean() or 1.0))
    elif offset is not None and loss in BOUNDED:
        # beyond this no intercept may be inside for all rows, which is refused
        offset = np.clip(0.05 * offset, -0.45, 0.45)
    C = (
        float("inf")
        if rng.random() < 0.3
        else float(10 ** rng.uniform(-3, 4) / max(y.mean(), 1e-6))
    )
    intercept = bool(rng.integers(2)) or loss in BOUNDED
    problem = Reference(loss, X, y, C, intercept, weight, offset)
    solver = str(rng.choice(["auto", "newton", "newton", "lbfgs", "tron"]))
    return problem, solver, float(10 ** rng.uniform(-12, -1))
