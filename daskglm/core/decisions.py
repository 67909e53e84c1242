"""What decision values say: the class that is predicted, and the probabilities of all classes.

Decision values are (n,) for two classes, those of the second one, or (n, classes), one class
against the rest.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit


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
