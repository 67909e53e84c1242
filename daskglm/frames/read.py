"""Columns of one partition as they are: codes of its own levels, or numbers. Runs on workers."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from daskglm.core.arguments import shown
from daskglm.data.values import Place, refuse_no_numbers
from daskglm.frames.columns import Codes, Level, RawFrame, plain_level, width_of

# Rows from which threads read columns: text of as many takes a millisecond. Chosen.
SHARED_ROWS = 50_000
# Kinds of objects, as pandas names them, that are numbers, and that are text or booleans.
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "empty")
FACTORS = ("string", "boolean", "categorical")
TIMES = ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period", "interval")
# What to do with dates.
OF_TIMES = (
    "make numbers of it, such as days since a date, or parts of it, such as its month, and name "
    "those that are levels in categories"
)


def read(
    frame: Any,
    factors: Collection[str],
    numeric: Collection[str],
    place: Place,
    threads: int = 1,
) -> RawFrame:
    """Read the columns of a pandas frame.

    Parameters
    ----------
    factors, numeric
        Columns that are levels, or numbers, whatever their dtype.
    threads : int, default 1
        That read columns of many rows.

    Raises
    ------
    ValueError
        For dates, complex numbers, containers, columns of text and numbers, and infinite values,
        with their place.
    """

    def one(name: str) -> Any:
        wanted = True if name in factors else False if name in numeric else None
        return _column(frame[name], str(name), wanted, place)

    names = list(frame.columns)
    if threads == 1 or len(frame) < SHARED_ROWS:
        return RawFrame(len(frame), {name: one(name) for name in names})
    with ThreadPoolExecutor(threads) as pool:
        return RawFrame(len(frame), dict(zip(names, pool.map(one, names), strict=True)))


def is_text_view(dtype: Any) -> bool:
    """Return whether a dtype is Arrow's views of text, of which pandas tells no kind."""
    return isinstance(dtype, pd.ArrowDtype) and pa.types.is_string_view(dtype.pyarrow_dtype)


def is_plain(dtype: Any) -> bool:
    """Return whether a column of this dtype is numbers without a look at its values."""
    if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_complex_dtype(dtype):
        return False
    return not isinstance(dtype, pd.CategoricalDtype)


# ---- pieces
def _column(column: Any, name: str, factor: bool | None, place: Place) -> Any:
    """Return a column as `Codes` or numbers; `factor` says which, None: its dtype does."""
    where = f"{place}column {name!r}"
    if isinstance(column.dtype, pd.SparseDtype):
        column = column.sparse.to_dense()
    if is_text_view(column.dtype):
        column = pd.Series(pa.array(column).cast(pa.string()), dtype=pd.ArrowDtype(pa.string()))
    dtype = column.dtype
    refuse_times(dtype, where)
    if isinstance(dtype, pd.CategoricalDtype):
        refuse_times(dtype.categories.dtype, where)
        return (
            _numbers(column.astype(object), where, place)
            if factor is False
            else _coded(column, where)
        )
    if pd.api.types.is_bool_dtype(dtype) and not pd.api.types.is_object_dtype(dtype):
        return _numbers(column, where, place) if factor is False else _encoded(column, where)
    if pd.api.types.is_numeric_dtype(dtype):
        return _encoded(column, where) if factor else _numbers(column, where, place)
    kind = _kind(column, where, place)
    if factor is None:
        factor = kind in FACTORS
    return _encoded(column, where) if factor else _numbers(column, where, place)


def refuse_times(dtype: Any, where: str) -> None:
    """Raise ValueError for dates and durations, with what to do, and for complex numbers."""
    kind = getattr(dtype, "kind", "O")
    if kind in "Mm" or isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype)):
        raise ValueError(f"{where} has dtype {dtype}: dates are not numbers here; {OF_TIMES}")
    if kind == "c":
        refuse_no_numbers(dtype, where)


def _kind(column: Any, where: str, place: Place) -> str:
    """Return what the values of a column without a dtype of numbers are."""
    if isinstance(column.dtype, pd.StringDtype):
        return "string"
    if isinstance(column.dtype, pd.ArrowDtype):
        arrow = column.dtype.pyarrow_dtype
        if pa.types.is_dictionary(arrow):
            arrow = arrow.value_type
        if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
            return "string"
        if pa.types.is_null(arrow):
            return "empty"
        if pa.types.is_floating(arrow) or pa.types.is_integer(arrow) or pa.types.is_decimal(arrow):
            return "floating"
        raise ValueError(
            f"{where} has dtype {column.dtype}, whose values are neither levels nor "
            "numbers: make columns of them first"
        )
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind in TIMES:
        raise ValueError(f"{where} has dates ({kind}), which are not numbers here; {OF_TIMES}")
    if kind == "complex":
        raise ValueError(f"Complex data not supported: {where} has complex numbers")
    if kind in NUMBERS or kind in FACTORS:
        return kind
    raise _mixed(column, place)


def _mixed(column: Any, place: Place) -> ValueError:
    """Return the error of a column whose values are of several kinds, or no values of a column."""
    first: tuple[int, Any] | None = None
    for i, value in enumerate(column):
        where = f"{place.row(i)}, column {column.name!r} is {shown(value)}"
        if not pd.api.types.is_scalar(value):
            return ValueError(
                f"X has values that are not numbers: {where}, a {type(value).__name__}, which is "
                "no level either; make columns of it first"
            )
        if pd.isna(value):
            continue
        first = first or (i, value)
        if type(value) is not type(first[1]):
            return ValueError(
                f"X has values that are not numbers, or of several types: {where}, but row "
                f"{first[0] + place.first_row:,} {shown(first[1])}. Convert the column to one "
                "type: by astype(str) if its values are levels, else by pandas.to_numeric"
            )
    what = (
        "no values" if first is None else f"such as {shown(first[1])}, a {type(first[1]).__name__}"
    )
    return ValueError(
        f"{place}column {column.name!r} has values that are neither numbers nor levels, {what}"
    )


def _numbers(column: Any, where: str, place: Place) -> np.ndarray:
    """Return a column as floats, nan where it is missing: float32 where that is exact."""
    dtype = column.dtype
    small = isinstance(dtype, np.dtype) and (dtype.itemsize <= 2 or dtype == np.float32)
    try:
        values = column.to_numpy(dtype=np.float32 if small else np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError) as error:
        for i, value in enumerate(column):
            try:
                float("nan" if pd.isna(value) else value)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(
                    f"X has values that are not numbers: {place.row(i)}, column {column.name!r} is "
                    f"{shown(value)}; name the column in categories if it has levels"
                ) from error
        raise ValueError(f"{where} has values that are not numbers ({error})") from error
    if np.isinf(values).any():
        i = int(np.argmax(np.isinf(values)))
        raise ValueError(
            f"X contains infinity (inf): {place.row(i)}, column {column.name!r}. Drop or impute "
            "before fit"
        )
    return values


def _coded(column: Any, where: str) -> Codes:
    """Return a pandas categorical by its own codes."""
    levels = _plain_levels(column.cat.categories.tolist(), where)
    given = column.cat.codes.to_numpy()
    codes = given.astype(width_of(len(levels) + 1))
    codes[given < 0] = len(levels)
    return Codes(codes, levels)


def _encoded(column: Any, where: str) -> Codes:
    """Return a column of text, booleans or numbers by codes of its levels."""
    try:
        values = pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"{where} has values of several types ({error})") from error
    if isinstance(values, pa.ChunkedArray):
        values = values.unify_dictionaries() if pa.types.is_dictionary(values.type) else values
        values = values.combine_chunks()
    if pa.types.is_null(values.type):  # whose dictionary would have a null for a level
        return Codes(np.zeros(len(values), np.uint8), ())
    if pa.types.is_dictionary(values.type):
        known = values.dictionary
        if known.null_count or len(known.unique()) < len(known):  # Arrow allows both
            values = values.dictionary_decode()
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    levels = _plain_levels(values.dictionary.to_pylist(), where)
    codes = values.indices.fill_null(len(levels)) if values.null_count else values.indices
    return Codes(codes.to_numpy(zero_copy_only=False).astype(width_of(len(levels) + 1)), levels)


def _plain_levels(values: list[Any], where: str) -> tuple[Level, ...]:
    """Return levels as `plain_level` does; ValueError for what is none."""
    if set(map(type, values)) <= {str, bool, int}:
        return tuple(values)
    found = []
    for value in values:
        try:
            found.append(plain_level(value))
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"{where} has the level {shown(value)}, a {type(value).__name__}: levels are text, "
                "booleans or finite numbers"
            ) from error
    return tuple(found)
