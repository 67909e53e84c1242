"""Small problems with penalties, which the package, the reference and peers solve.

Needs NumPy and SciPy alone: peers have environments of their own.
"""

import functools

import numpy as np
from scipy.special import expit

ROWS, COLUMNS = 300, 8
# Families, with Tweedie's power and the negative binomial's theta.
FAMILIES = {
    "gaussian": None,
    "binomial": None,
    "poisson": None,
    "gamma": None,
    "tweedie": 1.5,
    "negative_binomial": 0.5,
}
ALPHA = 0.05
_FACTORS = (0.0, 0.0, 0.5, 0.8, 1.1, 1.4, 1.7, 2.0)
_LOWER = (-0.1, -np.inf, -0.2, 0.0, -0.05, -np.inf, -0.3, -0.1)
_UPPER = (0.2, 0.1, np.inf, 0.15, 0.05, np.inf, 0.1, 0.3)


def _tikhonov():
    """A penalty on the differences of neighbours, and a little on each."""
    D = np.diff(np.eye(COLUMNS), axis=0)
    return D.T @ D + 0.1 * np.eye(COLUMNS)


# Arguments beside alpha, as `daskglm.fit` takes them. Arrays of rows are given by name.
CASES = {
    "lasso": {},
    "elastic net": {"l1_ratio": 0.5},
    "ridge": {"l1_ratio": 0.0},
    "factors": {"l1_ratio": 0.7, "penalty_factor": np.array(_FACTORS)},
    "factors of a ridge": {"l1_ratio": 0.0, "penalty_factor": np.array(_FACTORS)},
    "bounds": {
        "l1_ratio": 0.5,
        "lower_bounds": np.array(_LOWER),
        "upper_bounds": np.array(_UPPER),
    },
    "bounds alone": {"l1_ratio": 0.0, "lower_bounds": np.array(_LOWER), "upper_bounds": 0.25},
    "positive": {"positive": True},
    "standardised": {"standardize": True},
    "standardised net": {"l1_ratio": 0.5, "standardize": True},
    "groups": {"groups": [[0, 1, 2], [3, 4], [5, 6, 7]]},
    "some groups": {"groups": [[1, 4], [2, 7]]},
    "matrix": {"l1_ratio": 0.5, "P2": _tikhonov()},
    "matrix alone": {"l1_ratio": 0.0, "P2": _tikhonov()},
    "no intercept": {"l1_ratio": 0.5, "fit_intercept": False},
    "lasso without intercept": {"fit_intercept": False},
    "weights": {"l1_ratio": 0.5, "sample_weight": "weight"},
    "standardised with weights": {"standardize": True, "sample_weight": "weight"},
    "offset": {"l1_ratio": 0.5, "offset": "offset"},
}


@functools.cache
def rows():
    """Correlated columns of different scales, half of their values zero; margins; weights, offset."""
    rng = np.random.default_rng(22)
    X = rng.normal(size=(ROWS, COLUMNS)) @ (np.eye(COLUMNS) + 0.3 * rng.normal(size=(COLUMNS,) * 2))
    X *= np.linspace(0.7, 1.5, COLUMNS) * (rng.random(X.shape) < 0.5)
    w = np.array([0.5, -0.4, 0.0, 0.3, 0.0, 0.0, -0.25, 0.1])
    return X, X @ w + 0.3, rng.exponential(size=ROWS), 0.3 * rng.normal(size=ROWS)


@functools.cache
def targets(family):
    """Targets of a family, or numbers with heavy tails for "huber", or classes of -1 and +1."""
    z = rows()[1]
    rng = np.random.default_rng(1)
    mean = np.exp(z)
    if family == "gaussian":
        return z + rng.normal(size=ROWS)
    if family == "huber":
        return z + rng.standard_t(2, size=ROWS)
    if family in ("binomial", "squared_hinge"):
        y = (rng.random(ROWS) < expit(2 * z)).astype(float)
        return y if family == "binomial" else 2 * y - 1
    if family == "gamma":
        return rng.gamma(2.0, mean / 2)
    if family == "tweedie":
        return rng.poisson(2 * mean) * rng.gamma(1.5, 0.5, ROWS)
    if family == "negative_binomial":
        return rng.poisson(mean * rng.gamma(2.0, 0.5, ROWS)).astype(float)
    return rng.poisson(mean).astype(float)


def arguments(case):
    """The arguments of a case, with arrays where it names them."""
    _, _, weight, offset = rows()
    of_rows = {"weight": weight, "offset": offset}
    return {
        name: of_rows[given] if isinstance(given, str) else given
        for name, given in CASES[case].items()
    }
