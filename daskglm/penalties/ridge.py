"""The squared penalty 1/2 sum_j s_j w_j^2 on the coefficients of features; an intercept is free."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from daskglm.penalties.quadratic import Quadratic
from daskglm.penalties.resolved import ResolvedPenalty


@dataclass(frozen=True, eq=False)
class Ridge(Quadratic):
    """1/2 sum_j s_j w_j^2 over the first `n_features` entries of w; what comes after is free.

    Vectors may be longer than `n_features` by an intercept. They may be on a GPU where the strength
    is one number.

    Parameters
    ----------
    n_features : int
    strength : float or (n_features,) array, default 1.0
        s, none below zero; zero for features that are not penalised.

    Raises
    ------
    ValueError
        For a strength below zero, or not finite, or of another length.
    """

    n_features: int
    strength: Any = 1.0
    is_diagonal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        values = np.asarray(self.strength, dtype=np.float64)
        if values.shape not in ((), (self.n_features,)):
            raise ValueError(
                f"strength has the shape {values.shape}; give one number, or one for each of the "
                f"{self.n_features:,} features"
            )
        if not (np.isfinite(values).all() and (values >= 0.0).all()):
            raise ValueError(f"strength={self.strength!r} must be finite and not below 0")

    @cached_property
    def is_uniform(self) -> bool:
        """Whether the strength is one number for all features."""
        return np.ndim(self.strength) == 0

    @cached_property
    def strong_convexity(self) -> float:
        """The least strength of all features.

        The penalty rises by at least half of it times the squared distance from its minimum.
        """
        return float(np.min(self.strength)) if self.n_features else 0.0

    @cached_property
    def largest(self) -> float:
        """The greatest strength, which is the greatest curvature."""
        return float(np.max(self.strength)) if self.n_features else 0.0

    def hessian_vector(self, v: Any) -> Any:
        """Multiply v by the Hessian, which is diagonal."""
        strength = self.strength
        if not self.is_uniform:
            strength = np.append(strength, np.zeros(len(v) - self.n_features))
        out = strength * v
        out[self.n_features :] = 0.0
        return out

    def diagonal(self, size: int, xp: Any = np) -> Any:
        """Return the Hessian's diagonal for vectors of this size, as an array of the namespace."""
        out = xp.full(size, 0.0)
        out[: self.n_features] = self.strength
        return out

    def add_to(self, hessian: np.ndarray) -> None:
        """Add the Hessian to one of vectors with or without an intercept, in place."""
        step = len(hessian) + 1
        hessian.flat[: self.n_features * step : step] += self.strength

    def restricted(self, columns: np.ndarray) -> Ridge:
        """Return the same for vectors of some features only, (k,) numbers in increasing order."""
        return Ridge(len(columns), self.strength if self.is_uniform else self.strength[columns])


def part(given: ResolvedPenalty, scale: np.ndarray, strength: float) -> Ridge:
    """Return 1/2 strength sum_j v_j (scale_j w_j)^2 of the features."""
    d = len(scale)
    if given.factors is None and (scale == 1.0).all():
        return Ridge(d, strength)
    factors = 1.0 if given.finite_factors is None else given.finite_factors
    return Ridge(d, strength * factors * scale**2)
