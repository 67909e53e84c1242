"""Terms of a design: what codes a column has, and the table that makes coefficients of them.

A table has a row for each code, with the columns of coefficients it meets and their values; its
last row meets none. Kernels know no more than that: a reference level is a row without columns, the
basis of a spline one with several.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from daskglm.core.arguments import shown
from daskglm.data.values import Place
from daskglm.frames.columns import Codes, Level, plain_level, width_of

RARE, MISSING = "(rare)", "(missing)"
# Degree of splines.
CUBIC = 3
# Functions of numbers.
BASES_OF = ("spline", "power")


class Table(NamedTuple):
    """Columns (nnz,) and values (nnz,) of rows, of which each has so many (rows,)."""

    lengths: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def of_columns(cls, column_of: np.ndarray) -> Table:
        """Return a table of ones, one in each row whose column is not below 0, and an empty row."""
        has = column_of >= 0
        kept = column_of[has]
        return cls(np.append(has, False).astype(np.int64), kept, np.ones(len(kept)))


class Unseen(NamedTuple):
    """Rows of a block whose level the fit had not: their number, and some of the levels."""

    rows: int
    levels: tuple[Any, ...]


class Coding(NamedTuple):
    """Codes (n,) of a block, the table if it is another than the term's, and what is unseen.

    `left_out` are the rows, a mask (n,), whose level the fit has left out; None: there are none.
    """

    codes: np.ndarray
    table: Table | None = None
    unseen: Unseen | None = None
    left_out: np.ndarray | None = None


@dataclass(frozen=True)
class Factor:
    """Levels of a column, each with a coefficient but the base.

    Parameters
    ----------
    name : str
    levels : tuple
        Sorted; without those that are rare.
    rare : tuple
        Levels that share the slot "(rare)".
    has_missing : bool
        Whether rows without a level have the slot "(missing)".
    base : int
        Slot without a coefficient; -1: all have one.
    unseen : str
        As of `Schema`.
    usual : int
        Slot that "reference" means where all have coefficients.
    left_out : tuple
        Levels whose rows are left out of the fit, since they say nothing of it; None: missing ones.
    """

    kind: ClassVar[str] = "factor"
    name: str
    levels: tuple[Level, ...]
    rare: tuple[Level, ...] = ()
    has_missing: bool = False
    base: int = -1
    unseen: str = "error"
    usual: int = 0
    left_out: tuple[Level | None, ...] = ()

    @functools.cached_property
    def slots(self) -> tuple[Any, ...]:
        """What each code means."""
        return (
            *self.levels,
            *([RARE] if self.rare else []),
            *([MISSING] if self.has_missing else []),
        )

    @functools.cached_property
    def places(self) -> dict[Level, int]:
        """Code of each level."""
        places = {level: k for k, level in enumerate(self.levels)}
        return places | dict.fromkeys(self.rare, len(self.levels))

    @functools.cached_property
    def _by_name(self) -> dict[str, int]:
        """Code of each level by its text: numbers of Parquet are text where files are CSV."""
        return {str(level): code for level, code in self.places.items()}

    @functools.cached_property
    def table(self) -> Table:
        """One column for each slot but the base."""
        column_of = np.arange(len(self.slots))
        if self.base >= 0:
            column_of[self.base] = -1
            column_of[self.base + 1 :] -= 1
        return Table.of_columns(column_of)

    @functools.cached_property
    def names_of_slots(self) -> tuple[str, ...]:
        """Names of all slots; that of the base is of no coefficient."""
        return tuple(f"{self.name}[{slot}]" for slot in self.slots)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(name for k, name in enumerate(self.names_of_slots) if k != self.base)

    @property
    def spare(self) -> int:
        """Code of the row without columns."""
        return len(self.slots)

    def without(self, slots: np.ndarray, counts: np.ndarray) -> Factor:
        """Return the factor whose rows of these slots, a mask, are left out.

        If the base is one of them, the most frequent of the others is, by `counts`.
        """
        if not slots.any():
            return self
        stay = np.flatnonzero(~slots)
        base, usual = (
            int(np.searchsorted(stay, k))
            if k >= 0 and not slots[k]
            else int(np.argmax(counts[stay]))
            for k in (self.base, self.usual)
        )
        n = len(self.levels)
        has_rare = bool(self.rare) and not slots[n]
        has_missing = self.has_missing and not slots[-1]
        gone: list[Level | None] = [
            level for level, out in zip(self.levels, slots, strict=False) if out
        ]
        gone += self.rare if not has_rare else ()
        gone += [None] if self.has_missing and not has_missing else []
        return replace(
            self,
            levels=tuple(self.levels[k] for k in stay if k < n),
            rare=self.rare if has_rare else (),
            has_missing=has_missing,
            base=base if self.base >= 0 else -1,
            usual=usual,
            left_out=(*self.left_out, *gone),
        )

    def code(self, column: Any, coded: Mapping[str, np.ndarray], place: Place) -> Coding:
        """Code a column; ValueError, with the place, for levels that are not known."""
        column = as_codes(column)
        instead = self.spare
        if self.unseen == "reference":
            instead = self.base if self.base >= 0 else self.usual
        last = len(self.slots) - 1 if self.has_missing else -1
        known = map(self.places.get, column.levels, itertools.repeat(-1))
        to = np.fromiter(itertools.chain(known, [last]), np.int64, len(column.levels) + 1)
        for k in np.flatnonzero(to[:-1] < 0).tolist():
            to[k] = self._by_name.get(str(column.levels[k]), -1)
        left_out = None
        if self.left_out:
            gone = set(self.left_out)
            levels = (*column.levels, None)
            out = np.fromiter(map(gone.__contains__, levels), bool, len(levels))
            to[out] = self.spare
            left_out = _exchange(column.codes, out)
        absent, unseen = to < 0, None
        if absent.any() and (unknown := _exchange(column.codes, absent)).any():
            which = np.unique(column.codes[unknown])
            levels = tuple(column.levels[k] if k < len(column.levels) else None for k in which)
            if self.unseen == "error":
                i = int(np.argmax(unknown))
                raise ValueError(_unseen_error(self, column, int(column.codes[i]), place.row(i)))
            unseen = Unseen(int(unknown.sum()), levels)
        to[absent] = instead
        codes = _exchange(column.codes, to.astype(width_of(len(self.slots) + 1)))
        return Coding(codes, None, unseen, left_out)


def _unseen_error(factor: Factor, column: Codes, code: int, row: str) -> str:
    if code == len(column.levels):
        return (
            f"X contains NaN: {row}, column {factor.name!r} is missing, which the fit has not "
            "seen. Drop or impute, or fit with schema={'missing': 'level'}"
        )
    levels = factor.levels
    known = ", ".join(map(repr, levels[:8])) + (", ..." if len(levels) > 8 else "")
    return (
        f"{row}, column {factor.name!r} has the level {shown(column.levels[code])}, which the fit "
        f"has not seen; its {len(levels):,} levels are {known}. Fit with "
        "schema={'unseen': 'reference'} or 'zero' to take such rows"
    )


def _exchange(codes: np.ndarray, to: np.ndarray) -> np.ndarray:
    from daskglm.kernels.codes import exchange  # whose package imports numba

    return exchange(codes, to)


def as_codes(column: Any) -> Codes:
    """Return a column of numbers by codes of its values; one of codes as it is."""
    if isinstance(column, Codes):
        return column
    levels, codes = np.unique(column[~np.isnan(column)], return_inverse=True)
    places = np.full(len(column), len(levels), width_of(len(levels) + 1))
    places[~np.isnan(column)] = codes
    return Codes(places, tuple(map(plain_level, levels.tolist())))


@dataclass(frozen=True)
class Basis:
    """A column of numbers by functions of it: a cubic spline, or powers.

    Parameters
    ----------
    name : str
    of : {"spline", "power"}
    columns : int
        Number of functions.
    numbers : tuple of float
        Knots; or mean and standard deviation.
    values : tuple of float
        Those of the fit, which have a code each.
    """

    kind: ClassVar[str] = "basis"
    name: str
    of: str
    columns: int
    numbers: tuple[float, ...]
    values: tuple[float, ...]

    @functools.cached_property
    def table(self) -> Table:
        """Functions of the values, and an empty row."""
        return self._table(np.array(self.values, float))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        of = "spline" if self.of == "spline" else "power"
        return tuple(f"{self.name}[{of} {k + 1}]" for k in range(self.columns))

    def evaluated(self, values: np.ndarray) -> np.ndarray:
        """Return the functions (n, columns) of values (n,); constant beyond the outer knots."""
        if self.of == "power":
            mean, scale = self.numbers
            return ((values - mean) / scale)[:, None] ** np.arange(1, self.columns + 1)
        from sklearn.preprocessing import SplineTransformer  # which imports many others

        knots = np.array(self.numbers)[:, None]
        splines = SplineTransformer(degree=CUBIC, knots=knots, include_bias=False)
        return np.asarray(splines.fit(knots).transform(values[:, None]), float)

    def code(self, column: Any, coded: Mapping[str, np.ndarray], place: Place) -> Coding:
        """Code a column; other values than those of the fit have a table of their own."""
        column = as_codes(column)
        if (column.codes == len(column.levels)).any():
            i = int(np.argmax(column.codes == len(column.levels)))
            raise ValueError(
                f"X contains NaN: {place.row(i)}, column {self.name!r}. Drop or impute before fit"
            )
        wrong = [level for level in column.levels if isinstance(level, str)]
        if wrong:
            raise ValueError(
                f"{place}column {self.name!r} has {shown(wrong[0])}, which is no number"
            )
        places = {value: k for k, value in enumerate(self.values)}
        values = list(self.values)
        to = np.zeros(len(column.levels) + 1, np.int64)
        for k, level in enumerate(column.levels):
            if level not in places:
                places[level] = len(values)
                values.append(float(level))
            to[k] = places[level]
        table = None if len(values) == len(self.values) else self._table(np.array(values))
        return Coding(_exchange(column.codes, to.astype(width_of(len(values) + 1))), table)

    def _table(self, values: np.ndarray) -> Table:
        rows = np.zeros((len(values) + 1, self.columns))
        rows[:-1] = self.evaluated(values)
        has = rows != 0.0
        return Table(has.sum(axis=1), np.nonzero(has)[1], rows[has])


@dataclass(frozen=True)
class Indicator:
    """Rows that miss a number."""

    kind: ClassVar[str] = "indicator"
    name: str

    @property
    def table(self) -> Table:
        """A column for the second code."""
        return Table.of_columns(np.array([-1, 0]))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the coefficient."""
        return (f"{self.name}[{MISSING}]",)

    def code(self, column: Any, coded: Mapping[str, np.ndarray], place: Place) -> Coding:
        """Code a column of numbers."""
        return Coding(np.isnan(column).astype(np.uint8))


@dataclass(frozen=True)
class Interaction:
    """Combinations of levels of several factors, those of the fit.

    Parameters
    ----------
    factors : tuple of Factor
    combinations : (m, factors) tuple of tuples
        Codes of the factors, sorted.
    bases : bool
        Whether combinations with the base of a factor have no coefficient, since the factor itself
        has those of its levels.
    """

    kind: ClassVar[str] = "interaction"
    factors: tuple[Factor, ...]
    combinations: tuple[tuple[int, ...], ...]
    unseen: str = "error"

    @property
    def name(self) -> str:
        """Names of the factors, joined as R does."""
        return ":".join(factor.name for factor in self.factors)

    @functools.cached_property
    def _has(self) -> np.ndarray:
        bases = np.array([factor.base for factor in self.factors])
        return (np.array(self.combinations).reshape(-1, len(bases)) != bases).all(axis=1)

    @functools.cached_property
    def table(self) -> Table:
        """A column for each combination, but those with a base level."""
        return Table.of_columns(np.where(self._has, np.cumsum(self._has) - 1, -1))

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return tuple(
            ":".join(
                f"{factor.name}[{factor.slots[k]}]"
                for factor, k in zip(self.factors, codes, strict=True)
            )
            for codes, has in zip(self.combinations, self._has, strict=True)
            if has
        )

    @functools.cached_property
    def _keys(self) -> np.ndarray:
        return _keys(
            [np.array(part) for part in zip(*self.combinations, strict=True)], self.factors
        )

    def code(self, column: Any, coded: Mapping[str, np.ndarray], place: Place) -> Coding:
        """Code rows by the codes of their factors."""
        spare = len(self.combinations)
        parts = [coded[factor.name].astype(np.int64) for factor in self.factors]
        keys = _keys(parts, self.factors)
        order = np.argsort(self._keys)
        at = np.searchsorted(self._keys, keys, sorter=order)
        codes = order[np.minimum(at, spare - 1)] if spare else np.zeros(len(keys), np.int64)
        unknown = self._keys[codes] != keys if spare else np.ones(len(keys), bool)
        unseen = None
        if unknown.any():
            known = np.all(
                [part < factor.spare for part, factor in zip(parts, self.factors, strict=True)],
                axis=0,
            )
            new = unknown & known
            if new.any():
                i = int(np.argmax(new))
                levels = ", ".join(
                    f"{factor.name}={shown(factor.slots[part[i]])}"
                    for factor, part in zip(self.factors, parts, strict=True)
                )
                if self.unseen == "error":
                    raise ValueError(
                        f"{place.row(i)} has the combination {levels}, which the fit has not seen; "
                        "fit with schema={'unseen': 'reference'} or 'zero' to take such rows"
                    )
                unseen = Unseen(int(new.sum()), (levels,))
            codes[unknown] = spare
        return Coding(codes.astype(width_of(spare + 1)), None, unseen)


def _keys(parts: Sequence[np.ndarray], factors: Sequence[Factor]) -> np.ndarray:
    """Return one number for each combination of codes."""
    keys = np.zeros(len(parts[0]) if parts else 0, np.int64)
    for part, factor in zip(parts, factors, strict=False):
        keys = keys * (factor.spare + 1) + part
    return keys


Term = Factor | Basis | Indicator | Interaction
