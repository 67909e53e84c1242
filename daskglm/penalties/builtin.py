"""All penalties: what a user asks for becomes a quadratic part, and one with kinks and bounds.

A new penalty is a module with a function `part` and an entry here.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from daskglm.penalties import bounds, groups, l1, ridge, tikhonov
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.penalty import Penalty
from daskglm.penalties.resolved import ResolvedPenalty

# Each takes what is asked for and the columns' scales; the first that has an answer is taken.
QUADRATIC = (tikhonov.part, ridge.part)
# All of these are added up.
KINKED = (l1.part, bounds.part, groups.part)


def penalty_of(
    given: ResolvedPenalty, scale: np.ndarray, size: int, *, strength: float = 1.0
) -> Penalty:
    """Return the penalty that is asked for.

    Parameters
    ----------
    given : ResolvedPenalty
    scale : (d,) array
        What coefficients are multiplied by before they are penalised: standard deviations of the
        columns, or ones.
    size : int
        Of vectors: d, or more with intercepts, which are last.
    strength : float
        Factor of the whole penalty; 0: bounds are left.
    """
    quadratic = next(
        found
        for part in QUADRATIC
        if (found := part(given, scale, strength * (1.0 - given.l1_ratio))) is not None
    )
    parts = [part(given, scale, strength, size) for part in KINKED]
    return Penalty(quadratic, reduce(Kinks.plus, parts))
