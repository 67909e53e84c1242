"""An objective on some features, where the coefficients of all others are zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective, tokens

O = TypeVar("O", bound=Objective)  # noqa: E741


@dataclass(frozen=True, eq=False)
class Restriction(Generic[O]):
    """A part of an objective's features.

    Parameters
    ----------
    whole : Objective
        On all features.
    columns : (k,) int array
        Entries of vectors of the whole, in increasing order; of a group all members or none.
    key : int
        That of the copy of these columns, which workers keep beside the rows until others are
        asked for; see `View`.
    objective : Objective
        On these features.
    """

    whole: O
    columns: np.ndarray
    key: int
    objective: O

    @classmethod
    def of(cls, whole: O, columns: np.ndarray, key: int | None = None) -> Restriction[O]:
        """Return an objective's restriction to some features. Cost: nothing.

        `key` is that of an earlier one with the same columns and rows, whose copy is used again.
        """
        key = next(tokens) if key is None else key
        return cls(whole, columns, key, whole.on_columns(columns, key))

    def take(self, w: np.ndarray) -> np.ndarray:
        """Return these features' entries of a vector of the whole, and the constants."""
        return np.append(w[self.columns], w[self.whole.n_features :])

    def put(self, w: np.ndarray) -> np.ndarray:
        """Return the coefficients of all features."""
        found = np.zeros(self.whole.size)
        found[self.columns] = w[: len(self.columns)]
        found[self.whole.n_features :] = w[len(self.columns) :]
        return found

    def at_whole(self, point: Point, beside: Point) -> Point:
        """Evaluate the coefficients of a point among all features, `beside` another point there.

        Cost: 1 pass, 1 round.
        """
        found = self.whole.at(self.put(point.w), beside=beside)
        return self.objective.bounds.of_whole(found, point, self)
