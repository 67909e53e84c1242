"""How the rows of a block lie in memory."""

from __future__ import annotations

from typing import NamedTuple

# Unit roundoff of float64.
UNIT = 2.0**-53


class Size(NamedTuple):
    """What the summary of a block says of its X; see `core.facts.DataSummary`."""

    nonzeros: int
    nbytes: int
    longest_row: int
    sparse: bool
    gram_roundoff: float
    # coefficients [start, stop) of which a row has one at most, and a value of one there
    factors: tuple[tuple[int, int], ...] = ()
