"""CPU kernel for the loss of each row, beside sums of them for predictions and tables."""

from __future__ import annotations

import numpy as np

from daskglm.losses.dispatch import tile
from daskglm.system.compiled import compiled


@compiled(nogil=True, error_model="numpy")
def loss_values(law, y, z, out):  # type: ignore[no-untyped-def]
    """Values of the loss of targets y at margins z, all float64, into `out`."""
    slope, curvature, none = np.empty(1), np.empty(1), np.empty(0)
    for t in range(len(out)):
        out[t] = tile(law, y[t : t + 1], z[t : t + 1], none, slope, curvature)
