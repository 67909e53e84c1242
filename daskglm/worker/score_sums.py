"""What sums of scores are added to, run by run, and what adds them, by the shape of margins."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from daskglm.data.blocks import Block


class Scores(Protocol):
    """Adds up the scores of rows: derivatives of their losses by all coefficients."""

    @property
    def size(self) -> int:
        """Number of coefficients."""

    @property
    def side(self) -> int:
        """Side of the matrices that are added to, of which the first coefficients are wanted."""

    @property
    def width(self) -> int:
        """Length of vectors that are added to, likewise."""

    def rows_of_run(self, block: Block) -> int:
        """Return the rows of a block that are taken at a time."""

    def add(self, i: int, run: slice, out: Out, codes: np.ndarray | None) -> None:
        """Add the sums over some rows of block i, which are of these clusters."""


class Out(NamedTuple):
    """What one thread adds to.

    `sums` have an entry more than vectors, for whoever wants one. `scalars` are the value,
    Pearson's sum, the weight, rows used, and weights that are fractions.
    """

    sums: np.ndarray
    bread: np.ndarray
    meat: np.ndarray
    scalars: np.ndarray
    clusters: np.ndarray
    seen: np.ndarray

    @classmethod
    def zeros(cls, of: Scores, clusters: int, *, meat: bool) -> Out:
        """Return the sums of no rows, for so many clusters."""
        of_meat = of.side if meat else 0
        return cls(
            np.zeros(of.width + 1),
            np.zeros((of.side, of.side)),
            np.zeros((of_meat, of_meat)),
            np.zeros(5),
            np.zeros((clusters, of.width)),
            np.zeros(clusters, bool),
        )

    def add_scalars(self, value: float, pearson: float, weight: np.ndarray) -> None:
        """Add the scalars of rows with these weights."""
        used, fractions = np.count_nonzero(weight), np.count_nonzero(weight % 1.0)
        self.scalars[:] += value, pearson, weight.sum(), used, fractions
