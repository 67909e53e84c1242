"""A fitted design: from columns by name to rows by codes and numbers, and names of coefficients."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daskglm.core.warn import warn
from daskglm.data.values import Place
from daskglm.frames.columns import Codes, RawFrame, width_of
from daskglm.frames.describe import text_of
from daskglm.frames.terms import Coding, Factor, Interaction, Table, Term

if TYPE_CHECKING:
    from daskglm.kernels.coded_rows import Coded, Tables

# Bytes of rows of numbers that are filled column by column at a time. Chosen for a second-level
# cache of 1 MiB.
RUN_BYTES = 1 << 18
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
    absorbed : tuple of str
        Factors whose coefficients are not reported.
    """

    columns: tuple[str, ...]
    terms: tuple[Term, ...] = ()
    numbers: Numbers = Numbers()
    numeric: tuple[str, ...] = ()
    roles: dict[str, str] = field(default_factory=dict)
    aliased: tuple[str, ...] = ()
    absorbed: tuple[str, ...] = ()

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
    def reported(self) -> np.ndarray:
        """Whether each of the coefficients is reported, (n,) of bool."""
        hidden = {name for factor in self.of_absorbed for name in factor.names}
        return np.array([name not in hidden for name in self.names], bool)

    def without(self, slots: Mapping[str, np.ndarray], counts: Mapping[str, np.ndarray]) -> Design:
        """Return the design of a fit that leaves out rows of these slots, masks by factor.

        `counts` are the rows of each slot, by which bases are chosen anew.
        """
        terms = tuple(
            term.without(slots[term.name], counts[term.name])
            if isinstance(term, Factor) and term.name in slots
            else term
            for term in self.terms
        )
        return replace(self, terms=terms)

    @property
    def of_absorbed(self) -> list[Factor]:
        """The factors that are absorbed."""
        factors = [term for term in self.terms if isinstance(term, Factor)]
        return [factor for factor in factors if factor.name in self.absorbed]

    @functools.cached_property
    def _kept(self) -> np.ndarray:
        """Whether each of the coefficients with codes stays."""
        left_out = set(self.aliased)
        return np.array([n not in left_out for term in self.terms for n in term.names], bool)

    @functools.cached_property
    def kept_numbers(self) -> tuple[str, ...]:
        """Columns of numbers that have a coefficient."""
        left_out = set(self.aliased)
        return tuple(name for name in self.numbers.names if name not in left_out)

    @functools.cached_property
    def factors(self) -> tuple[str, ...]:
        """Columns that are read by codes."""
        return tuple(term.name for term in self.terms if term.kind in ("factor", "basis"))

    @property
    def bases(self) -> dict[str, Any]:
        """Levels without a coefficient, by factor of those that are reported."""
        factors = [term for term in self.terms if isinstance(term, Factor) and term.base >= 0]
        return {
            factor.name: factor.slots[factor.base]
            for factor in factors
            if factor.name not in self.absorbed
        }

    @property
    def groups(self) -> list[list[int]]:
        """Numbers of the coefficients of each term that has several, for a group lasso."""
        place = {name: k for k, name in enumerate(self.names)}
        found = [
            [place[n] for n in term.names if n in place]
            for term in self.terms
            if term.name not in self.absorbed
        ]
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
        from daskglm.frames.read import read  # which imports pandas

        return read(frame[list(self.columns)], self.factors, numeric, place)

    def encode(self, raw: RawFrame, place: Place) -> Any:
        """Return rows of one partition: `Coded`, or (n, d) floats where no column has codes.

        Raises
        ------
        ValueError
            For missing values and levels that are unseen or were left out, which are not to be
            taken, with their place.

        Warns
        -----
        UnseenLevelWarning
            With the number of rows whose levels the fit has not seen, or has left out.
        """
        rows, left_out = self.encode_some(raw, place)
        if left_out is not None and left_out.any():
            count, i = int(left_out.sum()), int(np.argmax(left_out))
            told = (
                f"{count:,} rows have levels of {', '.join(map(repr, self.absorbed))} that the fit "
                "has left out, since their rows say nothing"
            )
            if any(factor.unseen == "error" for factor in self.of_absorbed):
                raise ValueError(
                    f"{place.row(i)} and {count - 1:,} others: {told}, so that their effects are "
                    "not known. Fit with schema={'unseen': 'zero'} to take such effects for zero"
                )
            warn(f"{place}{told}; their effects are taken for zero", UnseenLevelWarning)
        return rows

    def encode_some(
        self, raw: RawFrame, place: Place, dense: np.ndarray | None = None, threads: int = 1
    ) -> tuple[Any, np.ndarray | None]:
        """Return rows as `encode`, and which of them have levels that the fit has left out.

        These are a mask (n,), or None, and have no part of the factor. `dense` are the rows of
        `kept_numbers`, if they are known; else so many `threads` lay them out.

        Raises
        ------
        ValueError
            For missing values and unseen levels that are not to be taken, with their place.

        Warns
        -----
        UnseenLevelWarning
            With the number of rows whose levels the fit has not seen.
        """
        dense = self._dense(raw, place, threads) if dense is None else dense
        if not self.terms:
            return dense, None
        left_out = None
        joined = self._tables
        parts, columns = _room(joined.sizes, raw.n)
        coded: dict[str, np.ndarray] = {}
        tables: list[Table | None] = []
        for term, column in zip(self.terms, columns, strict=True):
            coding = term.code(raw.columns.get(term.name), coded, place)
            if coding.left_out is not None:
                left_out = coding.left_out if left_out is None else left_out | coding.left_out
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
        from daskglm.kernels.coded_rows import Coded  # whose package imports numba

        narrow, middle, wide = parts
        return Coded(narrow, middle, wide, dense, joined.tables), left_out

    def codes_of(self, rows: Coded, name: str) -> np.ndarray:
        """Return the codes (n,) of a factor in rows of this design."""
        place = [term.name for term in self.terms].index(name)
        by_width = _by_width(self._tables.sizes)
        for places, codes in zip(by_width, (rows.narrow, rows.middle, rows.wide), strict=True):
            if place in places:
                return codes[:, places.index(place)]
        raise KeyError(name)

    def _dense(self, raw: RawFrame, place: Place, threads: int) -> np.ndarray:
        numbers = self.numbers
        fills = dict(zip(numbers.names, numbers.fills, strict=True))
        dtype = np.float32 if numbers.small else np.float64
        columns = []
        for name in self.kept_numbers:
            values = raw.columns[name]
            if isinstance(values, Codes):  # of a partition without any number
                values = np.full(raw.n, np.nan)
            if (absent := np.isnan(values)).any():
                if np.isnan(fills[name]):
                    raise ValueError(_missing_error(name, raw, fills, place))
                values = np.where(absent, fills[name], values)
            columns.append(values)
        rows = np.empty((raw.n, len(columns)), dtype)
        step = max(RUN_BYTES // (8 * max(len(columns), 1)), 1)

        def fill(lo: int) -> None:
            for j, values in enumerate(columns):
                rows[lo : lo + step, j] = values[lo : lo + step]

        begins = range(0, raw.n if columns else 0, step)
        if threads == 1 or len(begins) == 1:
            list(map(fill, begins))
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(fill, begins))
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
        from daskglm.kernels.coded_rows import Tables  # whose package imports numba

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


def _missing_error(name: str, raw: RawFrame, fills: Mapping[str, float], place: Place) -> str:
    """Say where a column of numbers is missing, and which others are that nothing fills."""
    also = [
        other
        for other, values in raw.columns.items()
        if other != name
        and np.isnan(fills.get(other, 0.0))
        and not isinstance(values, Codes)
        and np.isnan(values).any()
    ]
    i = int(np.argmax(np.isnan(raw.columns[name])))
    more = f"; so are {', '.join(map(repr, also))}" if also else ""
    return (
        f"X contains NaN: {place.row(i)}, column {name!r}{more}. Drop or impute before fit, or fit "
        "with schema={'missing': 'mean'}"
    )
