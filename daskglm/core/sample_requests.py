"""The request by which random parts of the rows travel to who asks, and its reply."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.view import Part

# Bytes of sampled rows that one process takes from others, in one round. Through a scheduler on the
# same machine they take 0.09 s (2 workers on 2 cores, 2026-11-28), over 1 Gbit/s half a second:
# less than the some ten to forty rounds that trials and samples take otherwise. Chosen.
TRAVELLING_BYTES = 64 * 2**20
# Bytes of sampled rows that take as long to travel as a round of messages: 23 MB took 0.1 to 0.16 s
# with the copies at both ends, a round 2 to 4 ms (2 workers on 2 busy cores, 2026-11-28). Over
# 1 Gbit/s a round is as long as a quarter of that. Chosen.
ROUND_BYTES = 2**20
# Bytes of rows that a thread reads in a round of messages: that takes 2 to 4 ms (2 workers on 2
# cores, 2026-11-28), and sparse rows are read at 4 to 5 GB/s. Chosen.
READ_BYTES = 16 * 2**20
# Bytes from a multiple of which on each array is packed: a cache line.
ALIGNED = 64
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
class Packed:
    """An object whose arrays are in one, `values`, each from a multiple of `ALIGNED` on."""

    pickled: bytes
    sizes: tuple[int, ...]
    values: np.ndarray

    @classmethod
    def of(cls, unpacked: Any) -> Packed:
        """Pack an object. Cost: a copy of its arrays."""
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(unpacked, protocol=5, buffer_callback=buffers.append)
        parts = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
        sizes = tuple(map(len, parts))
        found = cls(pickled, sizes, np.empty(_starts(sizes)[-1], np.uint8))
        for part, place in zip(parts, found.places, strict=True):
            found.values[place] = part
        return found

    def unpack(self) -> Any:
        """Return the object, whose arrays are views of this one."""
        return pickle.loads(self.pickled, buffers=[self.values[place] for place in self.places])

    @property
    def places(self) -> list[slice]:
        """Where each of the arrays is."""
        starts = _starts(self.sizes)
        return [slice(at, at + size) for at, size in zip(starts, self.sizes, strict=False)]

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        return len(self.pickled) + self.values.nbytes


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return where arrays of these sizes begin one after another, and where the last one ends."""
    return [0, *itertools.accumulate(-(-size // ALIGNED) * ALIGNED for size in sizes)]


@dataclass(frozen=True)
class DrawnRows:
    """Parts of rows, packed as they travel; adding joins them.

    Each worker packs the arrays of all blocks into one: as fifty arrays they took twice as long (30
    and 68 ms for 21 MB, 2026-11-28).
    """

    packed: tuple[Packed, ...]

    def __add__(self, other: DrawnRows) -> DrawnRows:
        return DrawnRows(self.packed + other.packed)

    @classmethod
    def pack(cls, blocks: dict[tuple[int, int, int], Any]) -> DrawnRows:
        """Pack blocks by (number of the part, partition, first row of the block)."""
        return cls((Packed.of(blocks),))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, as packed."""
        return sum(each.nbytes for each in self.packed)

    def parts(self) -> dict[int, list[Any]]:
        """Return the blocks of each part, in the order of the data, whichever workers answered."""
        blocks: dict[tuple[int, int, int], Any] = {}
        for each in self.packed:
            blocks |= each.unpack()
        found: dict[int, list[Any]] = {}
        for key in sorted(blocks):
            found.setdefault(key[0], []).append(blocks[key])
        return found


def bytes_of(share: float, facts: DataSummary) -> float:
    """Return about how many bytes a share of the rows takes to travel."""
    return share * (facts.nbytes + ROW_BYTES * facts.n_rows)


def fitting(requests: Mapping[Part, float], facts: DataSummary, most: int) -> tuple[Part, ...]:
    """Return those of some parts, the smallest first, that take at most so many bytes together.

    `requests` says by about how many each part is asked about: that travels only if it takes no
    longer than these many rounds.
    """
    found: list[Part] = []
    for part in sorted(requests, key=lambda part: part.share):
        nbytes = bytes_of(part.share, facts)
        if nbytes > min(most, requests[part] * ROUND_BYTES):
            continue
        most -= int(nbytes)
        found.append(part)
    return tuple(found)


def pays(facts: DataSummary, rounds: int, there: int, here: int) -> bool:
    """Return whether all rows are to travel after so many rounds.

    They take as long as these took, so that nobody waits more than twice as long as if it had been
    known how many rounds there are; and a pass by the threads `here` takes at most about a round
    longer than by those `there`.
    """
    nbytes = bytes_of(1.0, facts)
    slower = nbytes / here - nbytes / there
    return nbytes <= min(TRAVELLING_BYTES, rounds * ROUND_BYTES) and slower <= READ_BYTES
