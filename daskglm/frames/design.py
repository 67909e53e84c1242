"""A fitted design: from columns by name to rows by codes and numbers, and names of coefficients."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskglm.core.warn import warn
from daskglm.data.values import Place
from daskglm.frames.describe import text_of
from daskglm.frames.read import Codes, RawFrame, read, width_of
from daskglm.frames.terms import Coding, Factor, Interaction, Table, Term
from daskglm.kernels.coded_rows import Coded, Tables

# Features that an error or a warning names.
NAMED = 8


class UnseenLevelWarning(UserWarning):
    """Rows have levels that the fit has not seen, and were taken as the schema says."""


@dataclass(frozen=True)
class Numbers:
    """Columns of numbers: names, and what stands for those that are missing (nan: an error)."""

    names: tuple[str, ...] = ()
    fills: tuple[float, ...] = ()
    small: bool = False


@dataclass(frozen=True)
class Design:
    """How columns become coefficients: factors first, then combinations, then numbers.

    Parameters
    ----------
    columns : tuple of str
        Those of the table that are features, in their order.
    terms : tuple of terms
        With codes, in the order of their coefficients.
    numbers : Numbers
    numeric : tuple of str
        Columns that are numbers whatever their dtype.
    roles : dict of str to str
        Columns beside the features: exposure, offset, sample_weight, clusters.
    aliased : tuple of str
        Coefficients that are left out, since their columns depend on others.
    """

    columns: tuple[str, ...]
    terms: tuple[Term, ...] = ()
    numbers: Numbers = Numbers()
    numeric: tuple[str, ...] = ()
    roles: dict[str, str] = field(default_factory=dict)
    aliased: tuple[str, ...] = ()

    @functools.cached_property
    def all_names(self) -> tuple[str, ...]:
        """Names of the coefficients, also of those that are left out."""
        return tuple(name for term in self.terms for name in term.names) + self.numbers.names

    def __str__(self) -> str:
        return text_of(self)

    # what a dataclass shows of itself would have all levels of all columns
    __repr__ = __str__

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        if not self.aliased:
            return self.all_names
        left_out = set(self.aliased)
        return tuple(name for name in self.all_names if name not in left_out)

    @functools.cached_property
    def _kept(self) -> np.ndarray:
        """Whether each of the coefficients with codes stays."""
        left_out = set(self.aliased)
        return np.array([n not in left_out for term in self.terms for n in term.names], bool)

    @functools.cached_property
    def _numbers(self) -> tuple[str, ...]:
        """Columns of numbers that have a coefficient."""
        left_out = set(self.aliased)
        return tuple(name for name in self.numbers.names if name not in left_out)

    @functools.cached_property
    def factors(self) -> tuple[str, ...]:
        """Columns that are read by codes."""
        return tuple(term.name for term in self.terms if term.kind in ("factor", "basis"))

    @property
    def bases(self) -> dict[str, Any]:
        """Levels without a coefficient, by factor."""
        factors = [term for term in self.terms if isinstance(term, Factor) and term.base >= 0]
        return {factor.name: factor.slots[factor.base] for factor in factors}

    @property
    def groups(self) -> list[list[int]]:
        """Numbers of the coefficients of each term that has several, for a group lasso."""
        place = {name: k for k, name in enumerate(self.names)}
        found = [[place[n] for n in term.names if n in place] for term in self.terms]
        return [group for group in found if group]

    def columns_of(self, name: str) -> list[str]:
        """Names of the coefficients of a column of the table; empty: it is none."""
        found = [n for term in self.terms if term.name == name for n in term.names]
        found += [name] * (name in self.numbers.names)
        return [n for n in found if n not in self.aliased]

    def read(self, frame: Any, place: Place) -> RawFrame:
        """Read the columns of the fit from a pandas frame, in any order, without others.

        Raises ValueError for columns that are missing, and what `read.read` refuses.
        """
        if missing := [name for name in self.columns if name not in frame.columns]:
            raise ValueError(
                f"{place}X lacks {len(missing):,} of the columns of the fit: "
                f"{', '.join(map(repr, missing[:NAMED]))}"
            )
        numeric = (*self.numeric, *self.numbers.names)
        return read(frame[list(self.columns)], self.factors, numeric, place)

    def encode(self, raw: RawFrame, place: Place) -> Any:
        """Return rows of one partition: `Coded`, or (n, d) floats where no column has codes.

        Raises
        ------
        ValueError
            For missing values and unseen levels that are not to be taken, with their place.

        Warns
        -----
        UnseenLevelWarning
            With the number of rows whose levels the fit has not seen.
        """
        dense = self._dense(raw, place)
        if not self.terms:
            return dense
        joined = self._tables
        parts, columns = _room(joined.sizes, raw.n)
        coded: dict[str, np.ndarray] = {}
        tables: list[Table | None] = []
        for term, column in zip(self.terms, columns, strict=True):
            coding = term.code(raw.columns.get(term.name), coded, place)
            tables.append(coding.table)
            if coding.codes.dtype == column.dtype:  # as it is but for values that the fit lacks
                column[:] = coding.codes
            else:
                column = coding.codes
            coded[term.name] = column
            if coding.unseen is not None:
                _warn_unseen(term, coding, place)
        if any(table is not None for table in tables):
            joined = self._joined(
                [own or term.table for term, own in zip(self.terms, tables, strict=True)]
            )
            parts, columns = _room(joined.sizes, raw.n)
            for term, column in zip(self.terms, columns, strict=True):
                column[:] = coded[term.name]
        narrow, middle, wide = parts
        return Coded(narrow, middle, wide, dense, joined.tables)

    def _dense(self, raw: RawFrame, place: Place) -> np.ndarray:
        numbers = self.numbers
        fills = dict(zip(numbers.names, numbers.fills, strict=True))
        dtype = np.float32 if numbers.small else np.float64
        rows = np.empty((raw.n, len(self._numbers)), dtype)
        for j, name in enumerate(self._numbers):
            fill = fills[name]
            values = raw.columns[name]
            if isinstance(values, Codes):  # of a partition without any number
                values = np.full(raw.n, np.nan)
            rows[:, j] = values
            if (absent := np.isnan(rows[:, j])).any():
                if np.isnan(fill):
                    i = int(np.argmax(absent))
                    raise ValueError(
                        f"X contains NaN: {place.row(i)}, column {name!r}. Drop or impute before "
                        "fit, or fit with missing='mean'"
                    )
                rows[absent, j] = fill
        return rows

    @functools.cached_property
    def _tables(self) -> _Joined:
        return self._joined([term.table for term in self.terms])

    def _joined(self, tables: Sequence[Table]) -> _Joined:
        """Join the tables of all terms, in the order of their codes."""
        sizes = [len(table.lengths) for table in tables]
        firsts = np.cumsum([0, *(len(term.names) for term in self.terms)])
        order = [k for places in _by_width(sizes) for k in places]
        lengths = np.concatenate([tables[k].lengths for k in order])
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        columns = np.concatenate([tables[k].columns + firsts[k] for k in order]).astype(np.int64)
        values = np.concatenate([tables[k].values for k in order]).astype(np.float64)
        if self.aliased:
            stays = self._kept[columns]
            indptr = np.concatenate([[0], np.cumsum(stays)])[indptr]
            columns = (np.cumsum(self._kept) - 1)[columns[stays]]
            values = values[stays]
        found = Tables(
            first=np.cumsum([0, *(sizes[k] for k in order)])[:-1].astype(np.int64),
            indptr=indptr,
            columns=columns,
            values=values,
            ranks=np.array(order, np.int64),
            width=int(self._kept.sum()),
        )
        return _Joined(sizes, found)


@dataclass(frozen=True)
class _Joined:
    """Tables of all terms, and the number of codes of each."""

    sizes: list[int]
    tables: Tables


def _by_width(sizes: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Return which terms have codes of one byte, of two and of four."""
    widths = [width_of(size) for size in sizes]
    one, two, four = (
        [k for k, width in enumerate(widths) if width is dtype]
        for dtype in (np.uint8, np.uint16, np.uint32)
    )
    return one, two, four


def _room(sizes: Sequence[int], n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return arrays for codes of n rows, by their widths, and the column of each term there."""
    parts, columns = [], [np.empty(0)] * len(sizes)
    for places, dtype in zip(_by_width(sizes), (np.uint8, np.uint16, np.uint32), strict=True):
        parts.append(np.empty((n, len(places)), dtype))
        for j, k in enumerate(places):
            columns[k] = parts[-1][:, j]
    return parts, columns


def _warn_unseen(term: Term, coding: Coding, place: Place) -> None:
    assert coding.unseen is not None
    levels = coding.unseen.levels[:NAMED]
    taken = (
        "none"
        if getattr(term, "unseen", "zero") == "zero" or isinstance(term, Interaction)
        else ("the reference level")
    )
    warn(
        f"{place}{coding.unseen.rows:,} rows have levels of {term.name!r} that the fit has "
        f"not seen ({', '.join(map(str, levels))}); they are taken for {taken}",
        UnseenLevelWarning,
    )
