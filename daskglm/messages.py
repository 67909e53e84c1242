"""What the solver side may ask of the data side, and how partial answers add up.

Requests are frozen, picklable and complete: a token names what a block may still remember, the vectors beside it
rebuild it where it was forgotten. Replies are dictionaries of sums; `rows` counts the rows of X that were read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

Totals = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """What turns stored labels into targets and row weights.

    Parameters
    ----------
    code : int
        Loss, see `losses.LOSSES`.
    positive : object
        Label that becomes +1, all others -1; None for a regression.
    class_weight : tuple of (label, float) pairs
        Factors of the row weights by label.
    """

    code: int
    positive: Any = None
    class_weight: tuple[tuple[Any, float], ...] = ()


@dataclass(frozen=True)
class Evaluate:
    """Loss and gradient at w (d,) or, with intercept, (d + 1,). Reply: value, gradient[, gram][, diagonal]. 1 pass."""

    w: np.ndarray
    token: int
    gram: bool = False
    diagonal: bool = False


@dataclass(frozen=True)
class HessianVector:
    """Hessian of the loss at a point times v. Reply: product. 1 pass."""

    v: np.ndarray
    at: tuple[int, np.ndarray]


@dataclass(frozen=True)
class OnHull:
    """Loss on affine combinations of evaluated points and the constant margin. 0 passes.

    `coefficients` (m, k + 1): row m asks for the margins sum_j c_j z_j + c_k. Reply: values (m,), slopes (m, k + 1)
    and hessians (m, k + 1, k + 1), derivatives in the coefficients.
    """

    points: tuple[tuple[int, np.ndarray], ...]
    coefficients: np.ndarray


Request = Evaluate | HessianVector | OnHull


@dataclass(frozen=True)
class Facts:
    """What the loading pass learnt of a set of rows. `classes` maps a label to (rows, weight)."""

    n_rows: int = 0
    n_features: int | None = None
    weight: float = 0.0
    largest_row_norm: float = 0.0
    largest_target: float = 0.0
    nonzeros: int = 0
    nbytes: int = 0
    sparse: bool = False
    classes: tuple[tuple[Any, int, float], ...] = ()

    def merge(self, other: Facts) -> Facts:
        """Facts of both sets of rows together."""
        classes = {label: (rows, weight) for label, rows, weight in self.classes}
        for label, rows, weight in other.classes:
            had = classes.get(label, (0, 0.0))
            classes[label] = (had[0] + rows, had[1] + weight)
        return Facts(
            self.n_rows + other.n_rows,
            other.n_features if self.n_features is None else self.n_features,
            self.weight + other.weight,
            max(self.largest_row_norm, other.largest_row_norm),
            max(self.largest_target, other.largest_target),
            self.nonzeros + other.nonzeros,
            self.nbytes + other.nbytes,
            self.sparse or other.sparse,
            tuple((label, *classes[label]) for label in classes),
        )


def add(parts: list[Totals]) -> Totals:
    """Sum replies key by key, in the order given: the same order gives the same bits."""
    return {key: reduce(np.add, [part[key] for part in parts]) for key in parts[0]} if len(parts) > 1 else parts[0]


def size_of(totals: Totals) -> int:
    """Bytes of the arrays in a reply."""
    return sum(value.nbytes for value in totals.values() if isinstance(value, np.ndarray))
