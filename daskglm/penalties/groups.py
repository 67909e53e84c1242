"""The group lasso: a strength times the norm of each group of coefficients."""

from __future__ import annotations

import math

import numpy as np

from daskglm.penalties.config import ResolvedPenalty
from daskglm.penalties.nonsmooth import NonSmooth


def part(given: ResolvedPenalty, scale: np.ndarray, size: int) -> NonSmooth:
    """Return rho sqrt(size of G) v_G |w_G| of the groups; those of one coefficient are plain L1.

    The size is the number of features; a multinomial fit has a coefficient of each class for it.
    Raises ValueError for columns of unlike deviations in one group, whose norm would be another.
    """
    found = NonSmooth.nothing(size)
    members, strengths = [], []
    for group in given.groups or ():
        factor = 1.0 if given.factors is None else float(given.factors[group[0]])
        if (scale[group] != scale[group[0]]).any():
            raise ValueError(
                f"standardize=True with the group of the features {group.tolist()} is not "
                "implemented, as their standard deviations differ; put a StandardScaler before the "
                "fit, or give groups of one feature"
            )
        strength = given.l1_ratio * factor * float(scale[group[0]])
        if len(group) == 1:
            found.strengths[group] = strength
        else:
            members.append(group.astype(np.int64))
            strengths.append(strength * math.sqrt(len(group) // given.outputs))
    return NonSmooth(
        found.strengths, found.lower, found.upper, tuple(members), np.array(strengths, np.float64)
    )
