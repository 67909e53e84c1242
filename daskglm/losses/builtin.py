"""The losses of this package. A new one is a module beside this and an entry here."""

from __future__ import annotations

from daskglm.losses.hinge import LOSS as HINGE
from daskglm.losses.logistic import LOSS as LOGISTIC
from daskglm.losses.smoothed_hinge import LOSS as SMOOTHED_HINGE
from daskglm.losses.squared import LOSS as SQUARED
from daskglm.losses.squared_hinge import LOSS as SQUARED_HINGE

BUILTIN = (LOGISTIC, SQUARED_HINGE, HINGE, SMOOTHED_HINGE, SQUARED)
