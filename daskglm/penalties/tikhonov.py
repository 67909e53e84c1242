"""The quadratic penalty 1/2 w'P w with a matrix P, on the coefficients of features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from daskglm.penalties.quadratic import Quadratic
from daskglm.penalties.resolved import ResolvedPenalty


@dataclass(frozen=True, eq=False)
class Tikhonov(Quadratic):
    """1/2 w'P w over the first `n_features` entries of w; what comes after is free.

    It offers what `Ridge` does.

    Parameters
    ----------
    n_features : int
    matrix : (n_features, n_features) array
        P, symmetric and positive semi-definite.
    """

    n_features: int
    matrix: np.ndarray
    is_uniform: ClassVar[bool] = False
    is_diagonal: ClassVar[bool] = False

    @cached_property
    def _eigenvalues(self) -> np.ndarray:
        found: np.ndarray = scipy.linalg.eigvalsh(self.matrix)
        return found

    @cached_property
    def strong_convexity(self) -> float:
        """A lower bound on the least eigenvalue; zero if rounding may have made it."""
        if not self.n_features:
            return 0.0
        rounding = 4.0 * self.n_features * 2.0**-52 * max(float(self._eigenvalues[-1]), 0.0)
        return max(float(self._eigenvalues[0]) - rounding, 0.0)

    @cached_property
    def largest(self) -> float:
        """An upper bound on the largest eigenvalue, by the norm."""
        return float(np.linalg.norm(self.matrix))

    def hessian_vector(self, v: Any) -> Any:
        """Multiply v by the Hessian."""
        out = np.zeros(len(v))
        out[: self.n_features] = self.matrix @ v[: self.n_features]
        return out

    def diagonal(self, size: int, xp: Any = np) -> Any:
        """Return the Hessian's diagonal for vectors of this size, as an array of the namespace."""
        out = np.zeros(size)
        out[: self.n_features] = self.matrix.diagonal()
        return xp.asarray(out)

    def add_to(self, hessian: np.ndarray) -> None:
        """Add the Hessian to one of vectors with or without an intercept, in place."""
        d = self.n_features
        hessian[:d, :d] += self.matrix

    def restricted(self, columns: np.ndarray) -> Tikhonov:
        """Return the same for vectors of some features only, (k,) numbers in increasing order."""
        return Tikhonov(len(columns), self.matrix[np.ix_(columns, columns)])


def part(given: ResolvedPenalty, scale: np.ndarray, strength: float) -> Tikhonov | None:
    """Return 1/2 strength (scale w)'P (scale w) of the features; None if no matrix is given."""
    if given.P2 is None:
        return None
    return Tikhonov(len(scale), strength * given.P2 * scale[:, None] * scale)
