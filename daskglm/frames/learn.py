"""What partitions say of their columns, and what they say together: levels, counts and means."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from daskglm.frames.columns import Codes, Level, RawFrame
from daskglm.frames.schema import Schema
from daskglm.kernels.codes import count


class Levels(NamedTuple):
    """Levels of a column, sorted, rows of each, and rows that miss it."""

    levels: tuple[Level, ...]
    counts: np.ndarray
    missing: int


class Spread(NamedTuple):
    """Of a column of numbers: rows that have one and that miss it, their sum, and whether float32
    holds them.
    """

    rows: int
    missing: int
    total: float
    small: bool


class Seen(NamedTuple):
    """What is known of columns, by name, and combinations of levels, by the names of factors.

    A level of None in a combination is missing.
    """

    n: int
    columns: dict[str, Levels | Spread]
    combinations: dict[tuple[str, ...], frozenset[tuple[Level | None, ...]]]


def seen(raw: RawFrame, schema: Schema) -> Seen:
    """Say what one partition has."""
    columns = {name: _of_column(column) for name, column in raw.columns.items()}
    combinations = {}
    for names in map(tuple, schema.interactions or ()):
        parts = [raw.columns.get(name) for name in names]
        if all(isinstance(part, Codes) for part in parts):
            combinations[names] = _combinations(parts)
    return Seen(raw.n, columns, combinations)


def together(parts: Sequence[Seen]) -> Seen:
    """Say what all partitions have; ValueError for text in some and numbers in others."""
    columns = {}
    for name in parts[0].columns:
        columns[name] = _joined(name, [part.columns[name] for part in parts])
    names = {names for part in parts for names in part.combinations}
    combinations = {
        key: frozenset().union(*(part.combinations.get(key, ()) for part in parts))
        for key in sorted(names)
    }
    return Seen(sum(part.n for part in parts), columns, combinations)


# ---- pieces
def _of_column(column: Any) -> Levels | Spread:
    if isinstance(column, Codes):
        counts = count(column.codes, len(column.levels) + 1)
        kept = np.flatnonzero(counts[:-1])  # a category may have levels that no row has
        return Levels(tuple(column.levels[k] for k in kept), counts[kept], int(counts[-1]))
    absent = np.isnan(column)
    missing = int(absent.sum())
    total = (
        float(np.nansum(column, dtype=np.float64))
        if missing
        else float(column.sum(dtype=np.float64))
    )
    return Spread(len(column) - missing, missing, total, column.dtype == np.float32)


def _combinations(parts: Sequence[Any]) -> frozenset[tuple[Level | None, ...]]:
    key, base = np.zeros(len(parts[0].codes), np.int64), 1
    for part in parts:
        key += base * part.codes.astype(np.int64)
        base *= len(part.levels) + 1
    found = set()
    for one in np.unique(key).tolist():
        levels: list[Level | None] = []
        for part in parts:
            one, at = divmod(one, len(part.levels) + 1)
            levels.append(part.levels[at] if at < len(part.levels) else None)
        found.add(tuple(levels))
    return frozenset(found)


def _joined(name: str, parts: list[Levels | Spread]) -> Levels | Spread:
    levels = [part for part in parts if isinstance(part, Levels)]
    numbers = [part for part in parts if isinstance(part, Spread)]
    if not levels:
        return Spread(
            sum(part.rows for part in numbers),
            sum(part.missing for part in numbers),
            math.fsum(part.total for part in numbers),
            all(part.small or not part.rows for part in numbers),
        )
    if (
        other := next(
            (i for i, part in enumerate(parts) if isinstance(part, Spread) and part.rows), None
        )
    ) is not None:
        first = next(i for i, part in enumerate(parts) if isinstance(part, Levels))
        raise ValueError(
            f"column {name!r} has levels in partition {first} and numbers in partition {other}: "
            "convert it to one of both, or name it in categories or numeric"
        )
    missing = sum(part.missing for part in parts)
    _refuse_kinds(name, itertools.chain.from_iterable(part.levels for part in levels))
    if len(levels) == 1:
        order = tuple(sorted(levels[0].levels))
        rank = {level: k for k, level in enumerate(levels[0].levels)}
        counts = levels[0].counts[[rank[level] for level in order]] if order else levels[0].counts
        return Levels(order, counts, missing)
    rows: dict[Level, int] = {}
    for level, number in itertools.chain.from_iterable(
        zip(part.levels, part.counts.tolist(), strict=True) for part in levels
    ):
        rows[level] = rows.get(level, 0) + number
    order = tuple(sorted(rows))
    return Levels(order, np.array([rows[level] for level in order], np.int64), missing)


def _refuse_kinds(name: str, levels: Iterable[Level]) -> None:
    """Raise ValueError for text, booleans and numbers in one column: True would be 1."""
    types = {type(level) for level in levels}
    if len(types) > 1 and types != {int, float}:
        kinds = sorted(kind.__name__ for kind in types)
        raise ValueError(
            f"column {name!r} has levels of several types ({', '.join(kinds)}), which have no "
            "order: convert it to one, such as by astype(str)"
        )
