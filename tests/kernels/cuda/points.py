"""Points of an objective on a device."""

from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.worker.device_placement import DeviceConfig


def prepared(X, y, device, C=1.0):
    """An objective over rows, and its point at zero."""
    loss = LOSSES["logistic"]
    where = DeviceConfig("cuda") if device == "cuda" else DeviceConfig()
    local = Local([to_block(X, y, place=Place(), classify=True)], where=where)
    asked = Objective(local, Problem(loss.ref, 1.0), loss, C=C, fit_intercept=True)
    return asked, asked.at(asked.xp.zeros(asked.size), diagonal=True, curved=True, gram=True)
