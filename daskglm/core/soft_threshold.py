"""The coefficients that belong to a shared vector of dual ascent with an L1 penalty."""

from __future__ import annotations

from typing import Any

import numpy as np


def soft_threshold(v: Any, threshold: float) -> Any:
    """Move the entries of shared vectors towards zero by a threshold, at most to zero.

    Parameters
    ----------
    v : (d + 1,) or (m, d + 1) array
        Of NumPy or CuPy. The last entry of each vector belongs to a constant feature, which has no
        L1 penalty, and stays.
    threshold : float
        With zero, v itself is returned, not a copy.
    """
    if threshold == 0.0:
        return v
    w = v - np.clip(v, -threshold, threshold)
    w[..., -1] = v[..., -1]
    return w
