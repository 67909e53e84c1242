"""What kernels take and give: plain tuples of arrays.

Not named ones: numba recognises the type of a plain tuple by a fingerprint of its parts, that of a
named one only after looking at its class, which takes longer than a kernel on a small block.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def read_only(values: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to.

    numba compiles a kernel again for arrays that are read-only, as memory maps and columns of
    pandas are; with such views of all that kernels only read, one compiled kernel serves both.
    """
    view = values.view()
    view.flags.writeable = False
    return view


# Outputs that are not wanted.
NOTHING = np.empty(0)
# Weights that are all one, and targets that labels take the place of.
NO_NUMBERS = read_only(NOTHING)

# (X, y, weight, offset): the rows as the kernels of their storage take them, targets (n,), and
# weights and offsets of margins, (n,) or an empty array, which means ones and zeros
RowData = tuple[Any, Any, Any, Any]

# (z, curvature, sums, diagonal, gram), what `evaluate` makes at a point:
# - z and curvature (n,) get margins and weighted curvatures; empty: not wanted;
# - sums (d + 2,) is added X' slope, the sum of slopes and that of losses;
# - diagonal (d + 1,) is added X.^2' curvature and its sum; empty: not wanted;
# - gram, square of side `gram_side(d)`, is added the upper triangle of [X 1]' D [X 1] in its
#   leading d + 1 rows; empty: not wanted
PointSums = tuple[Any, Any, Any, Any, Any]
