"""The losses of this package. A new one is a module beside this and an entry here."""

from __future__ import annotations

from daskglm.losses.binomial import LOSSES as BINOMIAL
from daskglm.losses.epsilon_insensitive import LOSS as EPSILON_INSENSITIVE
from daskglm.losses.gamma import LOSSES as GAMMA
from daskglm.losses.gaussian import LOSSES as GAUSSIAN
from daskglm.losses.hinge import LOSS as HINGE
from daskglm.losses.huber import LOSS as HUBER
from daskglm.losses.inverse_gaussian import LOSSES as INVERSE_GAUSSIAN
from daskglm.losses.logistic import LOSS as LOGISTIC
from daskglm.losses.negative_binomial import LOSS as NEGATIVE_BINOMIAL
from daskglm.losses.poisson import LOSSES as POISSON
from daskglm.losses.quantile import LOSS as QUANTILE
from daskglm.losses.smoothed_hinge import LOSS as SMOOTHED_HINGE
from daskglm.losses.squared import LOSS as SQUARED
from daskglm.losses.squared_epsilon_insensitive import LOSS as SQUARED_EPSILON_INSENSITIVE
from daskglm.losses.squared_hinge import LOSS as SQUARED_HINGE
from daskglm.losses.tweedie import LOSSES as TWEEDIE

BUILTIN = (
    *(LOGISTIC, SQUARED_HINGE, HINGE, SMOOTHED_HINGE),
    *(SQUARED, *GAUSSIAN, *BINOMIAL, *POISSON, *GAMMA, *INVERSE_GAUSSIAN),
    *(*TWEEDIE, NEGATIVE_BINOMIAL),
    *(HUBER, QUANTILE, EPSILON_INSENSITIVE, SQUARED_EPSILON_INSENSITIVE),
)
