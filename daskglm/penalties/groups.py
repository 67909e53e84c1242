"""The group lasso: a strength times the norm of each group of coefficients."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from daskglm.penalties.kinks import Kinks
from daskglm.penalties.resolved import ResolvedPenalty


def part(given: ResolvedPenalty, scale: np.ndarray, strength: float, size: int) -> Kinks:
    """Return strength rho sqrt(size of G) v_G |w_G| of the groups.

    The size is the number of features; a multinomial fit has a coefficient of each class for it.
    Groups of one coefficient are plain L1, and so are those that are left out. Larger ones take no
    scale: `config` refuses it.
    """
    nothing = Kinks.nothing(size)
    if given.groups is None:
        return nothing
    single, members, strengths = np.zeros(size), [], []
    for group in given.groups:
        factors = given.finite_factors
        factor = 1.0 if factors is None else float(factors[group[0]])
        of_group = strength * given.l1_ratio * factor
        # bounds, which a group cannot have, leave features out
        out = given.left_out[group[0]] if len(given.left_out) > 1 else False
        if len(group) == 1 or out:
            single[group] = of_group * scale[group]
        else:
            members.append(group.astype(np.int64))
            strengths.append(of_group * math.sqrt(len(group) // given.outputs))
    return replace(
        nothing,
        strengths=single,
        groups=tuple(members),
        group_strengths=np.array(strengths, np.float64),
    )
