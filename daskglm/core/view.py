"""Which rows and columns a question is about: an argument of the question, beside the request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np


@dataclass(frozen=True)
class Columns:
    """Some columns of X, k of them.

    Parameters
    ----------
    key : int
        Names the set: equal keys, equal columns.
    places : (k,) int64 array
        Numbers of the columns, ascending.

    Raises
    ------
    ValueError
        If the columns are not ascending integers from 0 on.
    """

    key: int
    places: np.ndarray = field(compare=False)

    def __post_init__(self) -> None:
        """Refuse columns of the wrong kind, before any work."""
        places = self.places
        if not (isinstance(places, np.ndarray) and places.dtype == np.int64 and places.ndim == 1):
            kind = getattr(places, "dtype", type(places).__name__)
            raise ValueError(
                f"columns is {kind} of shape {np.shape(places)}: give a one-dimensional int64 "
                "array of NumPy"
            )
        if len(places) and (places[0] < 0 or (np.diff(places) <= 0).any()):
            at = int(np.argmax(np.diff(places, prepend=-1) <= 0))
            after = f", after {places[at - 1]}" if at else ""
            raise ValueError(
                f"columns[{at}] is {places[at]}{after}: give numbers of columns from 0 on in "
                "ascending order, each once"
            )


class Part(Protocol):
    """Some rows of each block. It is compared by value, and travels to workers."""

    @property
    def share(self) -> float:
        """About which share of all rows: a pass costs as much of a pass."""

    def rows(self, n: int, partition: int, first: int) -> np.ndarray:
        """Return which of the n rows of a block these are, at least one, ascending.

        `partition` and `first` say where the block is in the user's data.
        """


class Soon(NamedTuple):
    """A part of the rows that is asked about next, by about so many requests."""

    part: Part
    requests: float


@dataclass(frozen=True)
class Drawn:
    """A random part of the rows: the same ones for one seed, on whatever worker a block is.

    They are drawn evenly over each block, one at random of every 1 / share, so that sorted data are
    read at all their places.

    Parameters
    ----------
    share : float
    seed : int
    """

    share: float
    seed: int

    def rows(self, n: int, partition: int, first: int) -> np.ndarray:
        """Return the rows of a block; see `Part`."""
        many = min(max(round(self.share * n), 1), n)
        jitter = np.random.default_rng([self.seed, partition + 1, first]).random(many)
        found = ((np.arange(many) + jitter) * (n / many)).astype(np.int64)
        return np.minimum(found, n - 1)


@dataclass(frozen=True)
class View:
    """A part of the rows, of the columns, or of both.

    Parameters
    ----------
    part : Part, optional
        Default: all rows.
    soon : tuple of Soon
        Parts that are asked about next, this one among them: those that travel go in one message,
        and none travels that takes longer than so many rounds of messages. Of a part that is not
        among them many requests are expected.
    columns : Columns, optional
        Vectors of requests have k entries, or k + 1 with intercept, and tokens are those of this
        set. Each worker copies the columns once and keeps them, whatever is asked about all columns
        meanwhile, until another set is asked for. Out of core the copy is kept, too, and the source
        is read no more. The copy costs 1 pass, and a pass over it their share of all stored values.
        Replies tell also `stored`, the number of values that these columns have.
    """

    part: Part | None = None
    columns: Columns | None = None
    soon: tuple[Soon, ...] = ()


ALL = View()
