"""The Gram [X 1]' D [X 1] of coded rows on a device, by sums of pairs of levels.

As `kernels.coded_gram`: curvatures are added up by pairs of levels, and by level times numbers, and
meet the tables of what levels stand for when all rows have been added. All sums are float64. A term
goes through the additions of its table, then through one for each other pair of levels that has
rows: no more than the rows are, in any order.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from daskglm.kernels.coded_columns import level_ranges
from daskglm.kernels.coded_rows import Tables
from daskglm.kernels.cuda.csr import lanes_for
from daskglm.kernels.cuda.launch import THREADS, clear, kernel, numbers, processors

FILES = "codes", "coded_gram"
# Threads of a block of coded_pairs, and rows of each at a time: ADDING and EACH there.
ADDING, EACH = 512, 6
# Bytes of shared memory in which a block adds up: a multiprocessor has 164 KiB or more as of sm_80,
# and 100 KiB on sm_86 and sm_89. An H100 has room for two such blocks.
BLOCK_BYTES = 96 << 10
# Copies of a table at most, when a warp's threads never meet, and share of those bytes for all of
# them. Chosen: tables of nine factors of 5 to 100 levels then are 12 groups.
COPIES, COPIED = 32, 3
# Side of a block of products that cuBLAS has one multiprocessor make, over all rows. Estimated:
# 10,000,000 rows of 316 columns took an H200 150 ms, which 15 such blocks take on as many.
SYRK_SIDE = 64
# Products of cuBLAS in the time of an addition. Estimated: a multiprocessor makes 128 in a clock,
# and a compare-and-swap in shared memory takes about 2 (32 lanes in 64).
ADDITION = 256
# Bytes of sums that are always worth it.
LEAST_BYTES = 64 << 20
# Sums of a table at most: its kernel numbers them by 32 bits.
MOST_PLACES = 1 << 32


class Plan:
    """What is added up for the Gram of rows of these tables beside k numbers, and where.

    Sums are one array: those by pairs of levels of code columns, those by level of each number and
    of a one (k + 1, levels), from `beside` on, and those of products of these (k + 1, k + 1), from
    `own` on. Factors are code columns in the order of their coefficients.
    """

    def __init__(self, tables: Tables, k: int) -> None:
        self.k, self.width, self.levels = k, int(tables.width), len(tables.indptr) - 1
        p, order = len(tables.first), np.argsort(tables.ranks)
        lows, highs = level_ranges(tables.first, self.levels)
        lows, counts = lows[order], (highs - lows)[order]
        sizes, above = np.outer(counts, counts), np.triu_indices(p, 1)
        ends = np.cumsum(sizes[above], dtype=np.int64)
        starts = np.zeros((p, p), np.int64)
        starts[above] = ends - sizes[above]
        self.beside = int(ends[-1]) if p > 1 else 0
        self.own = self.beside + (k + 1) * self.levels
        self.sums = self.own + (k + 1) ** 2
        self.most = int(sizes[above].max(initial=0))
        f, g = above
        i, j = np.triu_indices(k + 1)
        number, factor = (part.ravel() for part in np.indices((k + 1, p)))
        self.tasks, self.bases, self.ends, self.shared = _tasks(
            (i, j, -1, -1, 1, 1, self.own + i * (k + 1) + j),
            (
                number,
                k,
                order[factor],
                -1,
                1,
                counts[factor],
                self.beside + number * self.levels + lows[factor],
            ),
            (k, k, order[f], order[g], counts[g], sizes[above], starts[above]),
        )
        # less where the levels of both factors begin: these are numbered as in the tables
        self.offsets = starts - lows[:, None] * counts - lows
        self.counts = counts
        self.of_level = np.empty(self.levels, np.int32)
        for place, (low, count) in enumerate(zip(lows, counts, strict=True)):
            self.of_level[low : low + count] = place
        self.stored, each = len(tables.columns), np.diff(tables.indptr)
        # a coefficient of no level counts as the last factor's: its column of C T is zeros then
        self.of_column = np.full(self.width, max(p - 1, 0), np.int32)
        self.of_column[tables.columns] = np.repeat(self.of_level, each)
        stored = np.bincount(np.repeat(self.of_level, each), minlength=p)
        self.products = float(np.triu(np.outer(counts, stored), 1).sum())
        self.products += float(stored.sum()) * (self.width + k + 1)
        self.lanes = lanes_for(self.stored / max(self.width, 1))
        self._there: tuple[Any, ...] | None = None

    def pays(self, rows: int, side: int) -> bool:
        """Return whether these sums take less than cuBLAS's products of dense rows, and fit.

        Sums may take LEAST_BYTES, or twice the Gram's.
        """
        held = 8 * (self.sums + self.levels * self.width)
        if not self.stored or held > max(LEAST_BYTES, 16 * side * side) or self.most > MOST_PLACES:
            return False
        blocks = -(-side // SYRK_SIDE)
        multiplied = SYRK_SIDE**2 * max(blocks * (blocks + 1) // 2, processors())
        added = rows * len(self.tasks) + self.sums + self.products
        return ADDITION * added < rows * multiplied

    @property
    def there(self) -> tuple[Any, ...]:
        """The arrays on the device: tasks, their groups, factors of levels and columns, places."""
        if self._there is None:
            of_rows = self.tasks, self.bases, self.ends
            of_tables = self.of_level, self.of_column, self.counts, self.offsets
            self._there = tuple(map(cp.asarray, (*of_rows, *of_tables)))
        return self._there


def add(plan: Plan, part: Any, curvature: Any, gram: Any) -> None:
    """Add [X 1]' D [X 1] of coded rows to the upper triangle of `gram` (side, side)."""
    tasks, bases, ends, of_level, of_column, counts, offsets = plan.there
    get, options = part.workspace.get, (*part.options, numbers(curvature))
    sums, right = get("pairs", plan.sums), get("right", plan.levels * plan.width)
    clear(sums)
    function = kernel(FILES, "coded_pairs", *options)
    # no block has fewer rows than it has sums in shared memory
    a_block = max(ADDING * EACH, plan.shared // 8)
    blocks = function.grid(part.n * len(ends), a_block, ADDING, plan.shared)
    args = (*part.arrays, curvature, tasks, bases, ends, np.int32(len(ends)), sums)
    function((max(blocks, len(tasks)),), (ADDING,), args, shared_mem=plan.shared)

    tables, levels, lanes = part.tables.matrix, np.int64(plan.levels), np.int32(plan.lanes)
    copy, beside, own = tables.csc_copy, sums[plan.beside : plan.own], sums[plan.own :]
    columns = np.int32(plan.width), copy.data, copy.rows, copy.starts, copy.first
    of = of_level, of_column, counts, offsets, tables.indptr, tables.indices, tables.data
    alone = beside[-plan.levels :]
    function = kernel(FILES, "coded_right", *options)
    grid = function.grid(plan.levels * plan.width * plan.lanes, THREADS)
    args = (levels, np.int32(len(counts)), lanes, *of, *columns, sums, alone, right)
    function((grid,), (THREADS,), args)
    function = kernel(FILES, "coded_left", *options)
    grid = function.grid((plan.width + plan.k + 1) ** 2 * plan.lanes, THREADS)
    sizes = levels, np.int32(plan.k), np.int32(len(gram)), lanes
    function((grid,), (THREADS,), (*sizes, *columns, right, beside, own, gram))


def _tasks(*parts: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Lay out tasks, given by all of `Task` in coded_gram.cu but copies and offset, and by bases.

    Returns them, their bases, how many there are up to the end of each group, and bytes of shared
    memory. A group has as many one after another as fit. A table that does not has no copy there.
    """
    given = np.hstack([np.stack(np.broadcast_arrays(*part)) for part in parts]).astype(np.int64)
    of_bytes = 8 * given[5]
    near = of_bytes <= BLOCK_BYTES
    most = np.clip(BLOCK_BYTES // COPIED // of_bytes, 1, COPIES)
    copies = near * (1 << np.log2(most).astype(np.int64))
    offsets, ends, used, shared = [], [], 0, 0
    for place, held in enumerate((of_bytes * copies).tolist()):
        if used + held > BLOCK_BYTES:
            ends.append(place)
            used = 0
        offsets.append(used // 8)
        used += held
        shared = max(shared, used)
    ends.append(len(offsets))
    tasks = np.vstack([given[:5], near * given[5], copies, offsets]).T.astype(np.int32)
    return np.ascontiguousarray(tasks), given[6].copy(), np.array(ends, np.int32), shared
