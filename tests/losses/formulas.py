"""The losses by other formulas than those of the package."""

import numpy as np


def reference(loss, y, z):
    """Value, slope and curvature in float64 by other formulas than the kernels'."""
    m = y * z
    if loss == "logistic":
        from scipy.special import expit

        return np.logaddexp(0, -m), -y * expit(-m), expit(m) * expit(-m)
    if loss == "squared_hinge":
        return np.maximum(0, 1 - m) ** 2, -2 * y * np.maximum(0, 1 - m), 2.0 * (m < 1)
    if loss == "hinge":
        return np.maximum(0, 1 - m), -y * (m < 1), np.zeros_like(z)
    if loss == "smoothed_hinge":
        parabola = (m < 1) & (1 - m <= 1)
        return (
            np.where(parabola, 0.5 * (1 - m) ** 2, np.maximum(0.5 - m, 0) * (m <= 0)),
            -y * np.clip(1 - m, 0, 1),
            1.0 * parabola,
        )
    return 0.5 * (z - y) ** 2, z - y, np.ones_like(z)
