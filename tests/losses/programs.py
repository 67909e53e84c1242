"""Quantile regression as a linear program for scipy, and values of losses in long double."""

import numpy as np
from scipy.optimize import linprog


def quantile_optimum(X, y, q, *, weight=None, intercept=True):
    """Coefficients, intercept and value of the best fit without a penalty, by HiGHS."""
    n = len(y)
    weight = np.ones(n) if weight is None else weight
    A = np.hstack([X, np.ones((n, 1))]) if intercept else X
    count = A.shape[1]
    found = linprog(
        np.concatenate([np.zeros(count), q * weight, (1 - q) * weight]),
        A_eq=np.hstack([A, np.eye(n), -np.eye(n)]),
        b_eq=y,
        bounds=[(None, None)] * count + [(0, None)] * (2 * n),
        method="highs",
    )
    assert found.success
    w = found.x[:count]
    coef, b = (w[:-1], float(w[-1])) if intercept else (w, 0.0)
    return coef, b, value("quantile", q, X, y, coef, b, weight)


def value(name, parameter, X, y, coef, intercept=0.0, weight=None):
    """Weighted sum of a loss in long double."""
    exact = np.longdouble
    r = y.astype(exact) - X.astype(exact) @ np.asarray(coef, exact) - exact(intercept)
    each = losses_of_numbers(name, exact(parameter), r)
    return float((each if weight is None else weight * each).sum())


def losses_of_numbers(name, parameter, r):
    """Losses of residuals y - z."""
    size = np.abs(r)
    if name == "quantile":
        return np.where(r > 0, parameter * r, (parameter - 1) * r)
    if name == "huber":
        half = parameter * size - parameter * parameter / 2
        return np.where(size <= parameter, r * r / 2, half)
    return np.maximum(size - parameter, 0) ** (2 if name.startswith("squared") else 1)
