"""A penalty of an objective: a quadratic part, and one with kinks and bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from daskglm.core.summation import AT_ONCE
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.ridge import Ridge
from daskglm.penalties.tikhonov import Tikhonov


@dataclass(frozen=True, eq=False)
class Penalty:
    """The sum of both parts. Vectors have the features first, then constants without a penalty.

    Parameters
    ----------
    quadratic : Ridge or Tikhonov
    kinks : Kinks
        For vectors with the constants.
    """

    quadratic: Ridge | Tikhonov
    kinks: Kinks

    @classmethod
    def ridge(cls, n_features: int, size: int, strength: Any = 1.0) -> Penalty:
        """Return the smooth penalty 1/2 sum_j s_j w_j^2 on the features of vectors of `size`."""
        return cls(Ridge(n_features, strength), Kinks.nothing(size))

    @property
    def n_features(self) -> int:
        """Number of coefficients that are not constants."""
        return self.quadratic.n_features

    @property
    def is_smooth(self) -> bool:
        """Whether there are neither kinks nor bounds."""
        return self.kinks.is_empty

    @property
    def is_plain(self) -> bool:
        """Whether it is a ridge of one strength for all features, or nothing."""
        return self.is_smooth and self.quadratic.is_uniform

    @property
    def is_grouped(self) -> bool:
        """Whether there is a norm of the coefficients of each group."""
        return len(self.kinks.groups) > 0

    @cached_property
    def threshold(self) -> float:
        """Strength of |w_j| over that of 1/2 w_j^2, if both are the same for all features.

        Else nan: then dual ascent does not know the dual problem.
        """
        kinks, ridge = self.feature_kinks, self.quadratic
        same = ridge.is_uniform and ridge.largest > 0.0 and not (kinks.is_bounded or kinks.groups)
        same = same and bool((kinks.strengths == kinks.strengths[:1]).all())
        return float(kinks.strengths[0]) / ridge.largest if same and self.n_features else math.nan

    @cached_property
    def feature_kinks(self) -> Kinks:
        """The kinks of vectors without constants."""
        return self.kinks.of_features(self.n_features)

    @cached_property
    def counted_curvature(self) -> np.ndarray:
        """Curvature of the quadratic part that conjugates of single features take, (d,).

        Zero where that part is counted with the losses instead.
        """
        d, quadratic = self.n_features, self.quadratic
        if quadratic.is_diagonal and not quadratic.is_uniform:
            diagonal = quadratic.diagonal(d)
        else:
            # of a matrix what is left is counted there
            diagonal = np.broadcast_to(quadratic.strong_convexity, d)
        grouped = self.feature_kinks.is_grouped
        return np.where(grouped, 0.0, diagonal) if grouped.any() else diagonal

    @cached_property
    def has_counted_curvature(self) -> bool:
        """Whether `counted_curvature` is above zero for any feature."""
        return bool(self.counted_curvature.any())

    @cached_property
    def may_be_free(self) -> np.ndarray:
        """The features that neither this nor bounds on both sides hold, (d,) of bool."""
        kinks = self.feature_kinks
        boxed = np.isfinite(kinks.lower) & np.isfinite(kinks.upper)
        held = boxed | (kinks.strengths > 0.0) | (self.counted_curvature > 0.0)
        for group, strength in zip(kinks.groups, kinks.group_strengths, strict=True):
            held[group] = strength > 0.0
        return ~held

    @cached_property
    def is_held(self) -> bool:
        """Whether this alone holds each feature near zero, or bounds on both sides do."""
        return not self.may_be_free.any()

    def value(self, w: np.ndarray) -> float:
        """Return the penalty at w, which is within the bounds."""
        return self.quadratic.value(w) + self.kinks.value(w) if self.n_features else 0.0

    def smooth_part(self, w: np.ndarray, losses: np.ndarray, C: float) -> tuple[float, np.ndarray]:
        """Return the quadratic part at w, and its gradient with C times that of the losses.

        `losses` is lost where it is long and there is no quadratic part: no other is made then.
        """
        if self.quadratic.largest > 0.0 or len(w) <= AT_ONCE or not losses.flags.writeable:
            value, gradient = self.quadratic.value_and_gradient(w)
            gradient += C * losses
            return value, gradient
        return 0.0, np.multiply(losses, C, out=losses)

    def held(self, features: np.ndarray) -> Penalty:
        """Return it with some features at zero, or as near to it as their bounds allow.

        Parameters
        ----------
        features : (size,) array of bool
            Of a group all members or none. Groups that are not held must have no strength.
        """
        kinks = self.kinks
        at = kinks.clip(np.zeros(len(kinks.strengths)))
        held = Kinks(
            np.where(features, 0.0, kinks.strengths),
            np.where(features, at, kinks.lower),
            np.where(features, at, kinks.upper),
        )
        return replace(self, kinks=held)

    def restricted(self, columns: np.ndarray, size: int) -> Penalty:
        """Return it for vectors of `size` with some features only, (k,) in increasing order."""
        return Penalty(self.quadratic.restricted(columns), self.kinks.restricted(columns, size))
