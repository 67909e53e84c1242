"""Whether data fit into memory: what they take, by their shape or by the partitions that have been
read, and what is.

Nothing is refused that is merely tight: only data of which it is clear that they cannot be there
all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from daskglm.data.blocks import Block
from daskglm.data.partitions import Partitions, check_widths
from daskglm.system.memory import memory_of_machine

# Share of the free memory for rows that are read at every pass.
STREAMED_SHARE = 0.6
# Bytes of a fit over those of its rows.
BESIDE = 1.1
HERE = "this machine has"
# One partition of 20, and at least three, are read to estimate the size of all.
SAMPLE, LEAST = 20, 3


def sample_of(partitions: int) -> int:
    """Return how many partitions are read before the size of all is estimated."""
    return max(LEAST, partitions // SAMPLE)


def check_room(
    needed: float, there: int, whose: str, *, taken: int = 0, read: tuple[int, int] | None = None
) -> None:
    """Raise MemoryError where data are larger than memory.

    Parameters
    ----------
    needed : float
        Bytes of all rows.
    there : int
        Bytes of memory; 0: no limit is known.
    whose : str
        Memory.
    taken : int
        Bytes of it that are in use by other things than the rows.
    read : tuple of int, optional
        Partitions that have been read to estimate `needed`, and how many there are.
    """
    if not there or BESIDE * needed <= there - taken:
        return
    how = "" if read is None else f" (estimated from {read[0]} of {read[1]} partitions)"
    left = f", of which {_gib(taken)} are in use" if taken else ""
    raise MemoryError(
        f"the data need {_gib(BESIDE * needed)} of memory{how}: {_gib(needed)} of rows, and a "
        f"tenth beside them; {whose} {_gib(there)}{left}. Take more or larger workers, or float32 "
        "rows, or out_of_core=True to read them at every pass"
    )


def _gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


def load_here(data: Partitions, threads: int) -> list[Block]:
    """Load data in this process, unless they cannot fit; so many threads read rows in memory."""
    if data.arrays is not None:
        return data.load(threads)
    if data.nbytes is not None:
        check_room(data.nbytes, memory_of_machine(), HERE)
        return data.load()
    blocks: list[Block] = compute_here(data.lazy, lambda block: block.facts.nbytes)
    check_widths([(block.facts.n_rows, block.facts.n_features) for block in blocks])
    return blocks


def compute_here(lazy: Sequence[Any], size: Callable[[Any], int]) -> list[Any]:
    """Compute partitions in this process, unless the first ones tell that all cannot fit.

    `size` says how many bytes one takes.
    """
    import dask

    first = sample_of(len(lazy))
    found = list(dask.compute(*lazy[:first]))
    if len(lazy) > first:
        needed = sum(map(size, found)) / first * len(lazy)
        # not what is left: chunks of an array in memory are views of it, and take nothing more
        check_room(needed, memory_of_machine(), HERE, read=(first, len(lazy)))
        found += dask.compute(*lazy[first:])
    return found
