"""The softmax loss log(sum_k exp(z_k)) - z_y of a row with a margin for each class.

It is no function of one margin, so kernels have it apart (`kernels.softmax`) and this record is
what solvers and bounds may rely on. Two classes make it the logistic loss of the difference of the
margins, whose formulas `row` has; those fits take the logistic loss.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from daskglm.losses.base import Loss
from daskglm.losses.logistic import LOSS as LOGISTIC


class Softmax(NamedTuple):
    """The law of this loss, by whose class kernels know it; `p1` is not used."""

    p1: float


# `smoothness` is the largest eigenvalue of diag p - p p', at most 1/2 (Boehning 1992).
# `self_concordance` is by the Euclidean norm of a change u of the margins: the third derivative
# along u is at most (max u - min u) times the second, and max u - min u <= sqrt(2) |u|.
LOSS = Loss(
    "multinomial",
    LOGISTIC.row,
    classifies=True,
    smoothness=0.5,
    self_concordance=math.sqrt(2.0),
    rest_margin=LOGISTIC.rest_margin,
    attains_infimum=False,
    two_classes=LOGISTIC.name,
    intercept_radius=LOGISTIC.intercept_radius,
    of_margins=Softmax,
)
