"""What the dual of an elastic net of one strength makes of shared vectors: coefficients and values.

lam |w|_1 + mu/2 |w|^2 is mu times t |w|_1 + 1/2 |w|^2 with the threshold t = lam / mu. The
conjugate of the latter at v is 1/2 |w|^2, where w is v with all entries moved towards zero by t:
half of |v|^2 where t is zero, and never more curved than that. The last entry of v belongs to a
constant feature without an L1 penalty.

Steps of the dual want no more than that. To prove values `Dual` asks for `value`, its part
`value_of_kinks`, `proved`, `left_open` and `is_lost`, which `corrected.Corrected` has for other
penalties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.soft_threshold import soft_threshold
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective


class Sums(NamedTuple):
    """What the rows say of dual variables, from which feasible ones follow.

    Parameters
    ----------
    own : (d + 1,) array
        Shared vector of all of them.
    side : (d + 1,) array
        The part of those above zero; the last entry is their sum.
    bias : float
        Value of the constant feature, by which the last entry of `own` is that of a sum; zero
        without an intercept.
    losses : callable
        Takes factors of `DualValue`; returns the losses' part of the dual value.
    """

    own: Any
    side: Any
    bias: float
    losses: Callable[..., float]

    def balanced(self) -> tuple[Any, float]:
        """Scale the dual variables of one sign down until all of them sum to zero.

        Returns their shared vector (d + 1,), by features, and the losses' part of their value.
        Without an intercept those of all variables as they are. Cost: 1 round.
        """
        own, side, changed = self.own, self.side, self.factors
        if "positive" in changed:
            own = own - (1.0 - changed["positive"]) * side
        elif "negative" in changed:
            own = side + changed["negative"] * (own - side)
        return own, self.losses(**changed)

    @property
    def factors(self) -> dict[str, float]:
        """What dual variables of each sign are multiplied by then; left out: by one."""
        if not self.bias:
            return {}
        positive = float(self.side[-1])
        negative = positive - float(self.own[-1]) / self.bias
        if positive > negative:
            return {"positive": max(negative, 0.0) / positive}
        return {"negative": positive / negative} if negative > positive else {}


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

    # whether values are proved at points as they are, instead of at their best intercept
    keeps_points: ClassVar[bool] = False
    # whether `proved` balances dual variables, and asks for losses by their `Sums.factors`
    balances: ClassVar[bool] = True

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
        return self.strength * 0.5 * float(w @ w) + self.value_of_kinks(w)

    def value_of_kinks(self, w: Any) -> float:
        """Return the part of that which has kinks."""
        return self.strength * self.threshold * float(abs(w).sum()) if self.threshold else 0.0

    def conjugate(self, v: Any) -> float:
        """Return the conjugate at a shared vector (d + 1,), its last entry included."""
        w = self.coefficients(v)
        return 0.5 * float(w @ w)

    def plane(
        self, v: Any, directions: Sequence[Any], reach: float, xp: Any
    ) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the conjugate at v + c1 * directions[0] + c2 * directions[1], |c1|, |c2| <= reach.

        Vectors are (d + 1,), of the namespace xp. Cost: a pass over them, so that points of the
        plane cost no more than the entries that are moved past the threshold somewhere in it.

        Returns
        -------
        callable
            Takes multiples (m, 2) of both directions. Returns, in host memory, values (m,), slopes
            (m, 2) along the directions and second derivatives (m, 2, 2), or (2, 2) where they are
            the same everywhere.
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
        gram = to_host(vectors @ vectors.T)

        def at(coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            weights = np.column_stack([np.ones(len(coefficients)), coefficients])
            if not self.threshold:
                slopes = weights @ gram
                return 0.5 * (slopes * weights).sum(axis=1), slopes[:, 1:], gram[1:, 1:]
            along = vectors[1:]
            values, bends, products = [], [], []
            for each in xp.asarray(weights):
                end = self.coefficients(each @ vectors)
                bent = end != 0.0
                bent[-1] = True
                values.append(0.5 * float(end @ end))
                bends.append(to_host(along @ end))
                products.append(to_host((along * bent) @ along.T))
            return np.array(values), np.array(bends), np.array(products)

        return at

    # ---- what is proved
    def proved(self, sums: Sums, w: Any, primal: float) -> float:
        """Return the dual value, where the dual variables are balanced for an intercept.

        `w` (size,) are the coefficients that were evaluated, `primal` is the value there. Cost: 1
        round.
        """
        own, losses = sums.balanced()
        w = self.coefficients(own)[:-1]
        return losses - self.strength * 0.5 * float(w @ w)

    def left_open(self, inner: Point) -> float:
        """Foresee how much of the gap the gradient that a proximal step has left will make.

        Cost: nothing.
        """
        return float(inner.objective.bounds.nominal(inner))

    def is_lost(self, inner: Point, gap: float) -> bool:
        """Return whether the slopes that a proximal step has left are larger than the gap allows.

        Cost: nothing.
        """
        slope = inner.objective.bounds.residual_of_features(inner)
        return not 0.5 * float(slope @ slope) <= gap * self.strength
