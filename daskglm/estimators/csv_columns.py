"""Types of the columns of CSV files, which have none: told beforehand, so that they are the same in
all partitions; and the value that is of another type, for errors.

Dask infers types from the beginning of the first file. Integers that are missing further down, or
codes such as "7" and "2A", would change the type from one partition to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from daskglm.core.arguments import shown
from daskglm.estimators.csv_dialect import Dialect
from daskglm.estimators.tables import design_of_model
from daskglm.frames.design import Design
from daskglm.frames.terms import Factor

TEXT, NUMBERS, BOOLEANS = "string", "float64", "boolean"
# Whole numbers below are exact as floats.
EXACT = 1 << 53
# Rows that are read at once in the search for a value of another type.
ROWS = 100_000
# What pandas and dask say of values of another type.
OF_TYPES = (
    "Mismatched dtypes",
    "could not convert string to float",
    "Need to pass bool-like values",
    "Integer column has NA values",
    "cannot safely convert",
)
_TRUE_FALSE = {"True", "TRUE", "true", "False", "FALSE", "false"}
_HAVE = {
    "f": "numbers or nothing",
    "i": "whole numbers",
    "u": "whole numbers",
    "b": "only True and False",
}


class Types(NamedTuple):
    """Columns whose type is known: of text, of numbers, of booleans, and as the sample has them."""

    text: Collection[str] = ()
    numbers: Collection[str] = ()
    booleans: Collection[str] = ()
    as_sampled: Collection[str] = ()

    def of(self, sampled: Mapping[str, Any]) -> dict[str, str]:
        """Return dtypes for the reader, by column, from the dtypes of a sample."""
        found = {}
        for name, dtype in sampled.items():
            kind = getattr(dtype, "kind", "O")
            if name in self.text:
                found[name] = TEXT
            elif name in self.numbers:
                found[name] = NUMBERS
            elif name in self.booleans:
                found[name] = BOOLEANS
            elif kind == "O":
                found[name] = TEXT
            elif name not in self.as_sampled:
                found[name] = BOOLEANS if kind == "b" else NUMBERS
        return found


def of_model(model: Any) -> Types:
    """Return the types that a fitted model wants of the columns of its fit."""
    design = design_of_model(model)
    return Types() if design is None else _of_design(design)


def _of_design(design: Design) -> Types:
    text, booleans = [], []
    numbers = {name for name in design.columns if name not in design.factors}
    for term in design.terms:
        if not isinstance(term, Factor):
            numbers |= {term.name} & set(design.columns)
            continue
        levels = (*term.levels, *term.rare)
        if all(isinstance(level, str) for level in levels):
            text.append(term.name)
        elif all(isinstance(level, bool) for level in levels):
            booleans.append(term.name)
        elif all(abs(level) < EXACT for level in levels if not isinstance(level, str)):
            numbers.add(term.name)
    return Types(text, numbers, booleans)


# ---- what is of another type
def first_other(file: Any, dtypes: Mapping[str, Any], dialect: Dialect) -> str | None:
    """Say which value of an open CSV file is first of another type than its column; None: none is.

    Lines count from 1, with the first one of names.
    """
    dtypes = {name: pd.api.types.pandas_dtype(dtype) for name, dtype in dtypes.items()}
    kinds = {name: getattr(dtype, "kind", "O") for name, dtype in dtypes.items()}
    kinds = {name: kind for name, kind in kinds.items() if kind in _HAVE}
    if not kinds:
        return None
    line = 2
    options: dict[str, Any] = {"dtype": TEXT, "usecols": list(kinds), **dialect.options()}
    for rows in pd.read_csv(file, chunksize=ROWS, **options):
        if found := sorted(_others(rows, kinds, dtypes, dialect.decimal)):
            i, name = found[0]
            value = rows[name].iloc[i]
            if pd.isna(value):  # of targets alone; features may be missing
                is_, do = "is missing", "fill it, or leave out such rows"
            else:
                is_ = f"is {shown(value)}"
                do = "correct it, or fit with the column in --categories if its values are levels"
            more = ", ".join(repr(other) for _, other in found[1:])
            return (
                f"line {line + i:,}, column {name!r} {is_}, but the first lines, or the "
                f"rows of the fit, have {_HAVE[kinds[name]]} there: {do}"
                + (f"; the same is true of {more}" if more else "")
            )
        line += len(rows)
    return None


def _others(
    rows: Any, kinds: Mapping[str, str], dtypes: Mapping[str, Any], decimal: str
) -> Iterator[tuple[int, str]]:
    """Yield the first row of each column whose value is of another type, and the column."""
    for name, kind in kinds.items():
        values = rows[name]
        missing = values.isna().to_numpy(bool)
        if kind == "b":
            wrong = ~values.isin(_TRUE_FALSE).to_numpy(bool)
        else:
            text = values if decimal == "." else values.str.translate({46: "?", ord(decimal): "."})
            numbers = pd.to_numeric(text, errors="coerce").to_numpy(float, na_value=float("nan"))
            wrong = numbers != numbers if kind == "f" else numbers % 1 != 0
        if kind == "f" or dtypes[name] == BOOLEANS:  # which can be missing
            wrong &= ~missing
        if wrong.any():
            yield int(wrong.argmax()), name
