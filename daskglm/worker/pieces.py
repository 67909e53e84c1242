"""Cut the rows of blocks into runs of equal work, one for each thread."""

from __future__ import annotations

from collections.abc import Sequence

from daskglm.data.blocks import Block
from daskglm.kernels.storages import arrays_of, row_at

# Stored values below which threads cost more than they save.
INLINE_WORK = 200_000

Piece = tuple[int, int, int]  # block, first row, one past the last


def divide(blocks: Sequence[Block], threads: int) -> list[list[Piece]]:
    """Cut the rows of all blocks into `threads` runs of about equal stored values, in order."""
    work = [block.facts.nonzeros + len(block.y) for block in blocks]
    total = sum(work)
    if total < INLINE_WORK or threads == 1:
        return [[(i, 0, len(block.y)) for i, block in enumerate(blocks)]]
    parts: list[list[Piece]] = [[] for _ in range(threads)]
    done = 0.0
    for i, block in enumerate(blocks):
        n = len(block.y)
        # boundaries between threads that fall within this block, as rows
        first = int(done * threads / total)
        last = int(min((done + work[i]) * threads / total, threads - 1e-9))
        cuts = [
            _row_at(block, (k * total / threads - done) / work[i])
            for k in range(first + 1, last + 1)
        ]
        for k, lo, hi in zip(range(first, last + 1), [0, *cuts], [*cuts, n], strict=True):
            if hi > lo:
                parts[min(k, threads - 1)].append((i, lo, hi))
        done += work[i]
    return [part for part in parts if part]


def _row_at(block: Block, share: float) -> int:
    """Row before which about `share` of a block's work lies."""
    return row_at(arrays_of(block.X), share)
