"""Some columns of coded rows: the tables with fewer coefficients, and no copy of codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.kernels.coded_rows import Coded, Tables
from daskglm.kernels.dense import take_columns
from daskglm.kernels.records import read_only


def level_ranges(first: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first level of each code column, and one past its last."""
    order = np.argsort(first, kind="stable")
    ends = np.empty_like(first)
    ends[order] = np.append(first[order][1:], levels)
    return first, ends


def factor_ranges(
    first: np.ndarray, indptr: np.ndarray, columns: np.ndarray, values: np.ndarray
) -> list[tuple[int, int]]:
    """Return the coefficients [start, stop) of each code column of ones, of others (0, 0).

    A row has one of them at most, and a value of one there.
    """
    counts, found = np.diff(indptr), []
    for lo, hi in zip(*level_ranges(first, len(counts)), strict=True):
        stored, own = columns[indptr[lo] : indptr[hi]], values[indptr[lo] : indptr[hi]]
        ones = len(stored) > 0 and bool(counts[lo:hi].max() == 1 and (own == 1.0).all())
        found.append((int(stored.min()), int(stored.max()) + 1) if ones else (0, 0))
    return found


def restricted(tables: Tables, columns: np.ndarray) -> tuple[Tables, np.ndarray]:
    """Return tables with the coefficients `columns`, ascending, and which code columns have any.

    Those without are left out, with their levels.
    """
    place = np.full(tables.width, -1, np.int64)
    place[columns] = np.arange(len(columns))
    found = place[tables.columns]
    kept = found >= 0
    # values of each level that stay
    counts = np.diff(np.append(0, np.cumsum(kept))[tables.indptr])
    lows, highs = level_ranges(tables.first, len(counts))
    total = np.append(0, np.cumsum(counts))
    stays = total[highs] > total[lows]
    level = np.zeros(len(counts), bool)
    for lo, hi in zip(lows[stays], highs[stays], strict=True):
        level[lo:hi] = True
    first = np.append(0, np.cumsum(level))[lows[stays]].astype(np.int64)
    indptr = np.append(0, np.cumsum(counts[level])).astype(np.int64)
    ranks = np.argsort(np.argsort(tables.ranks[stays], kind="stable"), kind="stable")
    parts = found[kept], tables.values[kept], ranks.astype(np.int64)
    return Tables(first, indptr, *parts, len(columns)), stays


class ColumnsCopy:
    """A copy of some columns; see `dense.ColumnsCopy`.

    Codes are shared, unless a code column has none of the columns: then those of the others are
    copied, which is a byte or two of a row each.
    """

    def __init__(self, raw: Any, d: int, columns: np.ndarray, *, pattern: bool) -> None:
        self.codes, self.floats, width = raw[:3], raw[3], raw[9]
        coded = columns[columns < width]
        self.tables, stays = restricted(Tables(*raw[4:]), coded)
        ends = np.cumsum([part.shape[1] for part in self.codes])[:-1]
        self.kept = [np.flatnonzero(part) for part in np.split(stays, ends)]
        self.places = read_only(columns[columns >= width] - width)
        self.out: tuple[np.ndarray, ...] = ()

    def count(self, start: int, stop: int) -> None:
        """Do nothing: all rows have as many codes."""

    def allocate(self) -> None:
        """Make room for the copy."""
        n = len(self.floats)
        codes = [
            part if len(kept) == part.shape[1] else np.empty((n, len(kept)), part.dtype)
            for part, kept in zip(self.codes, self.kept, strict=True)
        ]
        self.out = *codes, np.empty((n, len(self.places)), self.floats.dtype)

    def fill(self, start: int, stop: int) -> None:
        """Copy the rows [start, stop)."""
        for part, kept, out in zip(self.codes, self.kept, self.out, strict=False):
            if out is not part:
                out[start:stop] = part[start:stop, kept]
        take_columns(self.floats, self.places, start, stop, self.out[3])

    @property
    def X(self) -> Coded:
        """The copy as rows of a block."""
        narrow, middle, wide, floats = self.out
        return Coded(narrow, middle, wide, floats, self.tables)
