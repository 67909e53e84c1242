"""What dual ascent makes of shared vectors: coefficients, the penalty's conjugate, a feasible sum.

lam |w|_1 + mu/2 |w|^2 is mu times t |w|_1 + 1/2 |w|^2 with the threshold t = lam / mu. The
conjugate of the latter at v is 1/2 |w|^2, where w is v with all entries moved towards zero by t:
half of |v|^2 where t is zero, and never more curved than that. The last entry of v belongs to a
constant feature without an L1 penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.soft_threshold import soft_threshold
from daskglm.objectives.primal import Objective

# Halvings of a change, to 1e-9 of it, after which rounding is all that is left. Chosen.
MOST_HALVINGS = 30


@dataclass(frozen=True)
class Plane:
    """The conjugate on a plane of shared vectors.

    Parameters
    ----------
    penalty : DualPenalty
    vectors : (3, k) array
        A point of the plane and two directions, by the entries that count.
    gram : (3, 3) array
        Their inner products.
    xp : module
        NumPy or CuPy, which made the vectors.
    """

    penalty: DualPenalty
    vectors: Any
    gram: np.ndarray
    xp: Any

    def at(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate at multiples (m, 2) of both directions, in host memory.

        Returns values (m,), slopes (m, 2) along the directions and second derivatives (m, 2, 2), or
        (2, 2) where they are the same everywhere.
        """
        weights = np.column_stack([np.ones(len(coefficients)), coefficients])
        if not self.penalty.threshold:
            slopes = weights @ self.gram
            return 0.5 * (slopes * weights).sum(axis=1), slopes[:, 1:], self.gram[1:, 1:]
        directions = self.vectors[1:]
        values, slopes, products = [], [], []
        for each in self.xp.asarray(weights):
            end = self.penalty.coefficients(each @ self.vectors)
            bent = end != 0.0
            bent[-1] = True
            values.append(0.5 * float(end @ end))
            slopes.append(to_host(directions @ end))
            products.append(to_host((directions * bent) @ directions.T))
        return np.array(values), np.array(slopes), np.array(products)


@dataclass(frozen=True)
class DualPenalty:
    """strength (threshold |w|_1 + 1/2 |w|^2); conjugates are without the strength.

    Parameters
    ----------
    strength : float
        Above zero.
    threshold : float
        Zero: no L1 penalty.
    """

    strength: float
    threshold: float

    @classmethod
    def of(cls, objective: Objective) -> DualPenalty:
        """Return that of an objective; ValueError for strengths that differ, or are zero."""
        penalty = objective.penalty.quadratic
        if not (penalty.is_uniform and penalty.largest > 0.0):
            raise ValueError(
                "the dual wants a squared penalty of one strength above 0 for all features, not "
                f"{getattr(penalty, 'strength', 'a matrix')!r}: choose a solver of the primal"
            )
        return cls(penalty.largest, objective.threshold)

    def coefficients(self, v: Any) -> Any:
        """Return the coefficients of shared vectors, and the last entries as they are.

        Without a threshold this is v itself.
        """
        return soft_threshold(v, self.threshold)

    def value(self, w: Any) -> float:
        """Return the penalty of the coefficients (d,) of features."""
        value = 0.5 * float(w @ w)
        if self.threshold:
            value += self.threshold * float(abs(w).sum())
        return self.strength * value

    def conjugate(self, v: Any) -> float:
        """Return the conjugate at a shared vector (d + 1,), its last entry included."""
        w = self.coefficients(v)
        return 0.5 * float(w @ w)

    def plane(self, v: Any, directions: Sequence[Any], reach: float, xp: Any) -> Plane:
        """Return the conjugate at v + c1 * directions[0] + c2 * directions[1], |c1|, |c2| <= reach.

        Vectors are (d + 1,). Cost: a pass over them, so that points of the plane cost no more than
        the entries that are moved past the threshold somewhere in it.
        """
        if self.threshold:
            moved = abs(v)
            for direction in directions:
                moved = moved + reach * abs(direction)
            kept = moved > self.threshold
            kept[-1] = True
            v = v[kept]
            directions = [direction[kept] for direction in directions]
        vectors = xp.stack([v, *directions])
        return Plane(self, vectors, to_host(vectors @ vectors.T), xp)

    def share_that_rises(
        self, v: Any, change: Any, share: float, gain: float, slack: float
    ) -> float:
        """Halve a share of a change of v until the conjugate rises by no more than is gained.

        `gain` is that of the whole change; shares gain in proportion at least. `slack` is what
        may be rounding.
        """
        start = self.conjugate(v)
        for _ in range(MOST_HALVINGS):
            if self.conjugate(v + share * change) - start <= share * gain + slack:
                break
            share *= 0.5
        return share


def balanced(own: Any, side: Any, bias: float) -> tuple[Any, dict[str, float]]:
    """Scale the dual variables of one sign down until all of them sum to zero.

    Parameters
    ----------
    own : (d + 1,) array
        Shared vector of all dual variables.
    side : (d + 1,) array
        The part of those above zero; the last entry is their sum.
    bias : float
        Value of the constant feature, by which the last entry of `own` is that of a sum.

    Returns
    -------
    u : (d + 1,) array
        Shared vector of the scaled variables, by features.
    changed : dict
        Factors of `DualValue` that are not one.
    """
    positive = float(side[-1])
    negative = positive - float(own[-1]) / bias
    if positive > negative:
        share = max(negative, 0.0) / positive
        return own - (1.0 - share) * side, {"positive": share}
    if negative > positive:
        share = positive / negative
        return side + share * (own - side), {"negative": share}
    return own, {}
