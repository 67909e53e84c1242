"""Penalties in long double, formed from their definition."""

from dataclasses import dataclass

import numpy as np

from daskglm.penalties.config import PenaltyConfig
from tests.oracle.descent import INF, LONG, Kinks


@dataclass
class Penalty:
    """1/2 w.Q w, and kinks and bounds, of coefficients w of features."""

    Q: np.ndarray
    kinks: Kinks

    @classmethod
    def of(cls, given: PenaltyConfig, X, s, C):
        """What a fit of rows X of weights s has; of an infinite C only bounds are left."""
        d = X.shape[1]
        strength, rho = LONG(0 if np.isinf(C) else 1), LONG(given.l1_ratio)
        factor = np.ones(d, LONG)
        if given.penalty_factor is not None:
            factor = np.asarray(given.penalty_factor, LONG)
        held = np.isinf(factor)
        factor = np.where(held, 0, factor)
        size = deviations(X, s) if given.standardize else np.ones(d, LONG)
        P2 = np.diag(factor) if given.P2 is None else np.asarray(given.P2, LONG)
        l1, groups = strength * rho * factor * size, []
        if given.groups is not None:
            l1 = np.zeros(d, LONG)
            labels = np.asarray(given.groups)
            for label in np.unique(labels):
                group = np.flatnonzero(labels == label)
                each = strength * rho * factor[group[0]] * np.sqrt(LONG(len(group)))
                groups.append((group, each, np.ones(len(group), LONG)))
        lower, upper = (
            np.where(held, 0, np.broadcast_to(np.asarray(none if ends is None else ends, LONG), d))
            for ends, none in ((given.lower_bounds, -INF), (given.upper_bounds, INF))
        )
        Q = strength * (1 - rho) * P2 * size[:, None] * size
        return cls(Q, Kinks(l1, lower, upper, groups))


def deviations(X, s):
    """Standard deviations of columns, 1 of those that are constant."""
    share = s / s.sum()
    variance = share @ (X - share @ X) ** 2
    return np.sqrt(np.where(variance <= LONG(1e-13) * (share @ X**2), 1, variance))
