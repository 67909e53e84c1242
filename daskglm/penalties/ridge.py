"""The squared penalty 1/2 sum_j s_j w_j^2 on the coefficients of features; an intercept is free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from daskglm.penalties.config import ResolvedPenalty


@dataclass(frozen=True, eq=False)
class Ridge:
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

    def _factors(self, size: int) -> Any:
        """Return the factors of a vector's entries; the last, of an intercept, is set after."""
        if self.is_uniform:
            return self.strength
        return np.append(self.strength, np.zeros(size - self.n_features))

    def hessian_vector(self, v: Any) -> Any:
        """Multiply v by the Hessian, which is diagonal."""
        out = self._factors(len(v)) * v
        out[self.n_features :] = 0.0
        return out

    def diagonal(self, size: int, xp: Any = np) -> Any:
        """Return the Hessian's diagonal for vectors of this size, as an array of the namespace."""
        out = xp.full(size, 0.0)
        out[: self.n_features] = self.strength
        return out

    def add_to(self, hessian: np.ndarray) -> None:
        """Add the Hessian to one of vectors with or without an intercept, in place."""
        hessian.flat[:: len(hessian) + 1] += self.diagonal(len(hessian))

    def restricted(self, columns: np.ndarray) -> Ridge:
        """Return the same for vectors of some features only, (k,) numbers in increasing order."""
        return Ridge(len(columns), self.strength if self.is_uniform else self.strength[columns])

    def value_and_gradient(self, w: Any) -> tuple[float, Any]:
        """Return the penalty at w and its gradient."""
        gradient = self.hessian_vector(w)
        return 0.5 * float(w @ gradient), gradient

    def value(self, w: Any) -> float:
        """Return the penalty at w."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: Any) -> Any:
        """Return the gradient at w."""
        return self.hessian_vector(w)

    def prox(self, w: Any, step: float) -> Any:
        """Return the v with the least step * penalty(v) + 1/2 |v - w|^2."""
        out = w / (1.0 + step * self._factors(len(w)))
        out[self.n_features :] = w[self.n_features :]
        return out

    def conjugate(self, u: np.ndarray) -> float:
        """Return the maximum over w of u.w - penalty(w).

        It is infinite if u is not zero at a coefficient without a penalty.
        """
        diagonal = self.diagonal(len(u))
        if (u[diagonal == 0.0] != 0.0).any():
            return math.inf
        held = diagonal > 0.0
        return 0.5 * float((u[held] ** 2 / diagonal[held]).sum())


def part(given: ResolvedPenalty, scale: np.ndarray, strength: float) -> Ridge:
    """Return 1/2 strength sum_j v_j (scale_j w_j)^2 of the features."""
    d = len(scale)
    if given.factors is None and (scale == 1.0).all():
        return Ridge(d, strength)
    factors = 1.0 if given.factors is None else given.factors
    return Ridge(d, strength * factors * scale**2)
