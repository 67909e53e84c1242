"""Bounds by the inverse of a Hessian of rows of which each has one level of a factor at most.

`docs/certificates.md` has the proofs, under one large factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.certificates.constants import Constants
from daskglm.certificates.hessian_factor import GradientError, HessianFactor


@dataclass(frozen=True)
class ByFactors:
    """Factors, where rows are stored by codes, and what is beside them.

    Parameters
    ----------
    factors : tuple of (int, int)
        Features [start, stop) of which no row has more than one, with a value of one.
    width : int
        Features of a row.
    constants : Constants
    """

    factors: tuple[tuple[int, int], ...]
    width: int
    constants: Constants

    def reach(self, roots: np.ndarray, radius: float) -> float:
        """Bound the change of a row's margin by a step of norm one in that of a Hessian.

        `roots` are those of the diagonal of its inverse, `radius` bounds the norm of a row.
        Infinite without factors.
        """
        if not self._suits(roots):
            return math.inf
        others = float(np.linalg.norm(roots[: self.width][self._others]))
        return self._levels(roots) + radius * others

    def error(self, factor: HessianFactor, error: GradientError, columns: Any) -> float:
        """Bound a gradient's error in the norm of the inverse of the exact Hessian.

        `columns` are those of `Rounding`. Rows of different levels are different rows, whose slopes
        add up to those of all rows, once.
        """
        n_features, roots = self.constants.sets * self.width, factor.roots
        found = factor.error(error, n_features, columns)
        if not self._suits(roots):
            return found
        places = self._others
        others = float(roots[: self.width][places] @ np.broadcast_to(columns, self.width)[places])
        apart = factor.error(error._replace(adding=0.0), n_features, columns)
        return min(found, apart + error.adding * (self._levels(roots) + others))

    def _suits(self, roots: np.ndarray) -> bool:
        """Return whether there are factors, and roots of one margin with all features."""
        count = self.constants.count
        return bool(self.factors) and count <= 1 and len(roots) == self.width + count

    def _levels(self, roots: np.ndarray) -> float:
        """Return the largest root of each factor's levels and that of the intercept, added up."""
        largest = [float(roots[start:stop].max()) for start, stop in self.factors if stop > start]
        return sum(largest) + float(roots[self.width :].sum())

    @property
    def _others(self) -> np.ndarray:
        """Which features are no levels, (width,) of bool."""
        found = np.ones(self.width, bool)
        for start, stop in self.factors:
            found[start:stop] = False
        return found
