"""The request by which random parts of the rows travel to who asks, and its reply."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from daskglm.core.facts import DataSummary
from daskglm.core.view import Part

# Bytes of sampled rows that one process takes from others, in one round. Through a scheduler on the
# same machine they take 0.09 s (2 workers on 2 cores, 2026-11-28), over 1 Gbit/s half a second:
# less than the some ten to forty rounds that trials and samples take otherwise. Chosen.
TRAVELLING_BYTES = 64 * 2**20
# Bytes beside the stored values of a row: its target, weight, offset and number.
ROW_BYTES = 32


@dataclass(frozen=True)
class DrawRows:
    """Draw parts of the rows, and send them. 0 passes: who gets them counts what is read there.

    Parameters
    ----------
    parts : tuple of Part
    codes : bool
        Whether the classes of all rows (a byte each) go with them, by which folds are assigned.

    Reply: drawn, `DrawnRows`. Only for rows in host memory.
    """

    parts: tuple[Part, ...]
    codes: bool = False


@dataclass(frozen=True)
class DrawnRows:
    """Parts of rows, packed as they travel; adding joins them.

    Each worker packs its rows into one run of bytes: as fifty arrays they took half as long again.
    """

    packed: tuple[bytes, ...]

    def __add__(self, other: DrawnRows) -> DrawnRows:
        return DrawnRows(self.packed + other.packed)

    @classmethod
    def pack(cls, blocks: dict[tuple[int, int, int], Any]) -> DrawnRows:
        """Pack blocks by (number of the part, partition, first row of the block)."""
        return cls((pickle.dumps(blocks, pickle.HIGHEST_PROTOCOL),))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, as packed."""
        return sum(map(len, self.packed))

    def parts(self) -> dict[int, list[Any]]:
        """Return the blocks of each part, in the order of the data, whichever workers answered."""
        blocks: dict[tuple[int, int, int], Any] = reduce(or_, map(pickle.loads, self.packed), {})
        found: dict[int, list[Any]] = {}
        for key in sorted(blocks):
            found.setdefault(key[0], []).append(blocks[key])
        return found


def bytes_of(share: float, facts: DataSummary) -> float:
    """Return about how many bytes a share of the rows takes to travel."""
    return share * (facts.nbytes + ROW_BYTES * facts.n_rows)


def fitting(parts: Sequence[Part], facts: DataSummary, most: int) -> tuple[Part, ...]:
    """Return those of some parts, the smallest first, that take at most so many bytes together."""
    found: list[Part] = []
    for part in sorted(parts, key=lambda part: part.share):
        most -= int(bytes_of(part.share, facts))
        if most < 0:
            break
        found.append(part)
    return tuple(found)
