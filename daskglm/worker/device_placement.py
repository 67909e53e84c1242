"""Where a worker's rows go before anyone asks: tiny blocks are joined, and those for a GPU are
moved there.

What fits in the memory allowed on the device stays there; the rest stays in host memory and is
streamed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.device import gpu, on_device, to_host
from daskglm.data.blocks import Block, kind, merge
from daskglm.kernels import for_rows

# Stored values up to which neighbouring blocks are joined, TINY_RUN at most, at the cost of a copy.
TINY_VALUES = 4096
# The same for rows that go to a device, where a launch costs as much as a read of megabytes.
TINY_ON_DEVICE = 1 << 23
TINY_RUN = 64
# Each of the two streaming buffers takes at most one part in so many of the memory allowed.
BUFFER_SHARE = 8
LARGEST_BUFFER = 256 << 20
# Bytes per row that a solve keeps beside X: targets, weights, curvatures and margins.
VECTORS = 24
# The same if all of them are float64.
EXACT_VECTORS = 36
# Bytes per row of an offset, which is float64.
OFFSET = 8
# Bytes per row and class where all classes are solved together: margins of two points.
EACH_CLASS = 16


@dataclass(frozen=True)
class DeviceConfig:
    """Device of the rows: "cuda", "cpu" or None (where they are), and bytes allowed there.

    With `collective` "nccl" GPUs of several workers add up products among themselves.
    """

    device: str | None = None
    limit: int | None = None
    collective: str | None = None

    def is_cuda(self, blocks: Sequence[Block]) -> bool:
        """Return whether these blocks are to be on a GPU."""
        return self.device == "cuda" or (
            self.device is None and any(on_device(block.X) for block in blocks)
        )


AS_THEY_ARE = DeviceConfig()


def place(
    named: list[tuple[Any, Block]],
    where: DeviceConfig,
    placed: dict[Any, Block],
    *,
    rows_only: bool = False,
) -> tuple[list[Any], list[Block]]:
    """Join tiny neighbours and move rows, with their y and weights unless `rows_only`.

    Names of joined blocks become tuples. `placed` has blocks that were moved before, by name, and
    gets those that are moved now; where it has all of them, they stay as they are there.
    """
    if all(name in placed for name, _ in named):
        return [name for name, _ in named], [placed[name] for name, _ in named]
    blocks = [block for _, block in named]
    if not where.is_cuda(blocks):
        named = [(name, block._replace(X=to_host(block.X))) for name, block in named]
        return _without_tiny(named, TINY_VALUES)
    names, blocks = _without_tiny(named, TINY_ON_DEVICE)
    new = [(name, block) for name, block in zip(names, blocks, strict=True) if name not in placed]
    there = sum(_needed(block) for block in placed.values())
    moved = _to_device([block for _, block in new], where.limit, there, rows_only=rows_only)
    placed.update(zip([name for name, _ in new], moved, strict=True))
    return names, [placed[name] for name in names]


def _without_tiny(named: list[tuple[Any, Block]], tiny: int) -> tuple[list[Any], list[Block]]:
    """Join neighbouring tiny blocks, whose calls would cost more than their arithmetic.

    Names become tuples.
    """
    joined = []
    for group, run in itertools.groupby(
        named,
        lambda pair: _is_tiny(pair[1], tiny) and kind(pair[1]),
    ):
        members = list(run)
        size = TINY_RUN if group else 1
        for part in (members[i : i + size] for i in range(0, len(members), size)):
            single = len(part) == 1
            joined.append(
                part[0]
                if single
                else (tuple(n for n, _ in part), merge([block for _, block in part]))
            )
    return [name for name, _ in joined], [block for _, block in joined]


def _is_tiny(block: Block, tiny: int) -> bool:
    """Return whether a block is joined with its neighbours.

    Samples are not: which rows they are, and so their folds, is known for one block.
    """
    return block.facts.nonzeros <= tiny and not on_device(block.X) and block.drawn is None


def _vectors(block: Block) -> int:
    """Return the bytes of the vectors that a solve keeps beside a block."""
    a_row = EXACT_VECTORS if block.labels is None else VECTORS
    if block.labels is not None and len(block.labels) > 2:
        a_row += EACH_CLASS * len(block.labels)
    columns = block.facts.offset_columns
    if columns > 1:  # the softmax keeps them by class, too
        columns *= 2
    return (a_row + OFFSET * columns) * block.facts.n_rows


def _vectors_there(block: Block, dtype: Any, upload: Any) -> tuple[Any, Any, Any]:
    """Copy y, weight and offset of a block to the device, weights in the dtype of its vectors."""
    exact = np.dtype(np.float64) if block.labels is None else dtype
    weight = None if block.weight is None else upload.copy(block.weight, exact)
    offset = None if block.offset is None else upload.copy(block.offset, np.float64)
    return upload.copy(block.y), weight, offset


def _needed(block: Block) -> int:
    return _vectors(block) + block.facts.nbytes


def _budget(backend: Any, limit: int | None, to_move: int, there: int) -> int:
    """Return the bytes that may be taken beside the `there` of this fit's rows on the device.

    A limit counts those too; what is free does not contain them.
    """
    budget = backend.available(limit)
    if budget is None and to_move:
        raise ValueError(
            "device_memory_limit=None, and RMM's resource on this device does not tell how much "
            "of it is free for "
            f"{to_move:,} bytes of rows: give device_memory_limit, or let RMM count "
            "(rmm_track_allocations=True of "
            "dask-cuda, or a StatisticsResourceAdaptor around the pool)"
        )
    return (budget or 0) - (there if limit is not None else 0)


def _to_device(
    blocks: list[Block], limit: int | None, there: int, *, rows_only: bool
) -> list[Block]:
    """Move rows to the device as far as the memory allowed reaches; stream those beyond.

    Their y and weights follow unless `rows_only`, so that targets are made there: codes of classes
    are a byte a row. `there` is what this fit has there already; with a limit that counts too.
    """
    backend = gpu()
    vectors = sum(map(_vectors, blocks))
    already = sum(block.facts.nbytes for block in blocks if on_device(block.X))
    to_move = sum(block.facts.nbytes for block in blocks) - already
    budget = _budget(backend, limit, to_move, there + already)
    room = budget - vectors
    if to_move and room <= 0:
        raise MemoryError(
            f"rows of {to_move:,} bytes cannot even be streamed through {budget:,} bytes of "
            "device memory, of which "
            f"vectors with a number for each row take {vectors:,}: raise device_memory_limit, or "
            "use more workers"
        )
    if to_move <= room:
        buffer = 0
    else:
        buffer = max(min(LARGEST_BUFFER, budget // BUFFER_SHARE), 1)
        room -= 2 * buffer
    upload, placed = backend.Upload(), []
    for block in blocks:
        if on_device(block.X):
            rows = backend.for_rows(block.X)[1]
        else:
            raw = for_rows(block.X)[1]
            share = 1.0 if block.facts.nbytes <= room else max(room, 0) / block.facts.nbytes
            rows = backend.move(raw, block.X.shape, share, buffer, upload)
            room -= int(share * block.facts.nbytes)
        moved = None if rows_only else _vectors_there(block, backend.vector_dtype(rows), upload)
        placed.append(block._replace(X=rows, moved=moved))
    upload.finish()
    for block in placed:  # column copies of sparse rows, as long as there is memory for them
        room -= backend.add_csc_copy(block.X, room)
    return placed
