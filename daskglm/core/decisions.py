"""What decision values say: the class that is predicted, and the probabilities of all classes.

Decision values are (n,) for two classes, those of the second one, or (n, classes): one class
against the rest, or the margins of a softmax; for ordered classes (n,), with thresholds between the
classes.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_ndtr, softmax

# Value of -log(1 - F) below which it is F to rounding, and largest exponent of a finite number.
SELDOM, LARGEST_EXPONENT = 1e-8, 708.0
# Distance from a threshold whose square is a number.
FAR = 1e150


def predicted(values: np.ndarray) -> np.ndarray:
    """Return the number of the predicted class of each row, (n,)."""
    chosen: np.ndarray = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    return chosen


def probabilities(values: np.ndarray) -> np.ndarray:
    """Probabilities (n, classes); those of more than two classes are normalised to sum to one."""
    if values.ndim == 1:
        return np.stack([expit(-values), expit(values)], axis=1)
    p = expit(values)
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / values.shape[1])


def softmax_probabilities(values: np.ndarray) -> np.ndarray:
    """Probabilities (n, classes) of a multinomial model, exp(z_k) over the sum of all."""
    if values.ndim == 1:
        return probabilities(values)
    found: np.ndarray = softmax(values, axis=1)
    return found


# ---- ordered classes, from x.w and the thresholds between them
def ordinal_log_probabilities(
    thresholds: np.ndarray, values: np.ndarray, link: str = "logit"
) -> np.ndarray:
    """Logarithms (n, K) of P(class <= k) - P(class < k), P(class <= k) = F(t_k - value).

    `link` names F: "logit", "probit" or "cloglog". A difference of two sigmas would cancel: it is
    sigma(t_k - z) sigma(z - t_(k-1)) (1 - exp(-g)), where g is the gap between both thresholds.
    -inf between equal thresholds.
    """
    if link != "logit":
        of = {"probit": _log_normal, "cloglog": _log_extreme}[link]
        return of(thresholds, np.asarray(values, np.float64)[:, None])
    z = np.asarray(values, np.float64)[:, None]
    found = np.zeros((len(z), len(thresholds) + 1))
    found[:, :-1] -= np.logaddexp(0.0, z - thresholds)
    found[:, 1:] -= np.logaddexp(0.0, thresholds - z)
    with np.errstate(divide="ignore"):
        found[:, 1:-1] += np.log(-np.expm1(-np.diff(thresholds)))
    return found


def _log_normal(thresholds: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Logarithms of differences of the normal distribution function, where both are small."""
    inner, end = np.clip(thresholds - z, -FAR, FAR), np.full((len(z), 1), np.inf)
    low, high = np.hstack([-end, inner]), np.hstack([inner, end])
    right = low + high > 0.0
    low, high = np.where(right, -high, low), np.where(right, -low, high)
    with np.errstate(divide="ignore"):
        found: np.ndarray = log_ndtr(high) + np.log(-np.expm1(log_ndtr(low) - log_ndtr(high)))
    return found


def _log_extreme(thresholds: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Logarithms of differences of 1 - exp(-exp(.)): -u + log(1 - exp(-grown))."""
    edges = thresholds - z
    u = np.exp(np.minimum(edges, LARGEST_EXPONENT))
    found = np.zeros((len(z), len(thresholds) + 1))
    found[:, 1:] -= u
    log_grown = edges.copy()
    with np.errstate(divide="ignore"):
        log_grown[:, 1:] += np.log(-np.expm1(-np.diff(thresholds)))
        grown = np.exp(np.minimum(log_grown, LARGEST_EXPONENT))
        far = np.log(-np.expm1(-grown))
    found[:, :-1] += np.where(grown < SELDOM, log_grown - 0.5 * grown, far)
    return found


def ordinal_probabilities(
    thresholds: np.ndarray, values: np.ndarray, link: str = "logit"
) -> np.ndarray:
    """Probabilities (n, K) of ordered classes; see `ordinal_log_probabilities`."""
    if link != "logit":
        return np.exp(ordinal_log_probabilities(thresholds, values, link))
    z = np.asarray(values, np.float64)[:, None]
    found = np.ones((len(z), len(thresholds) + 1))
    found[:, :-1] *= expit(thresholds - z)
    found[:, 1:] *= expit(z - thresholds)
    found[:, 1:-1] *= -np.expm1(-np.diff(thresholds))
    return found


def ordinal_predicted(
    thresholds: np.ndarray, values: np.ndarray, link: str = "logit"
) -> np.ndarray:
    """Return the number of the most likely of ordered classes, (n,), for each row."""
    chosen: np.ndarray = ordinal_log_probabilities(thresholds, values, link).argmax(axis=1)
    return chosen
