"""Values as floats, and where they lie: what is no real number is refused by name and place instead
of converted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.core.arguments import is_number, shown
from daskglm.data.row_files import Span

DATES = {"M": "dates", "m": "durations"}
# What to do with the name of a file.
READ_FIRST = (
    "; a file is read first, such as by pandas.read_csv, dask.dataframe.read_parquet or "
    "daskglm.read_svmlight"
)


@dataclass(frozen=True)
class Place:
    """Where a partition lies in the user's data, for error messages."""

    partition: int | None = None
    columns: tuple[str, ...] | None = None
    first_row: int = 0

    def __str__(self) -> str:
        return "" if self.partition is None else f"partition {self.partition}, "

    def span(self, n: int) -> Span:
        """Which rows the n of this partition are."""
        return (-1 if self.partition is None else self.partition), self.first_row, n

    def row(self, i: int) -> str:
        """Return the name of row i of this partition."""
        return f"{self}row {i + self.first_row:,}"

    def column(self, j: int) -> str:
        """Return the name of column j."""
        return f"column {self.columns[j]!r}" if self.columns else f"column {j}"


def refuse_masked(values: Any, name: str, place: Place) -> None:
    """Raise ValueError if a masked array has masked values.

    NumPy would replace them by what is under the mask. A masked array without any passes.
    """
    if isinstance(values, np.ma.MaskedArray) and (mask := np.ma.getmaskarray(values)).any():
        i = int(np.argwhere(mask)[0][0])
        raise ValueError(
            f"{name} has {mask.sum():,} masked values, the first at {place.row(i)}: drop those "
            "rows, or fill them with numpy.ma.filled, before fit and predict"
        )


def refuse_no_numbers(dtype: np.dtype[Any], name: str) -> None:
    """Raise ValueError for dtypes that NumPy turns into floats with a loss.

    These are complex numbers, dates and durations. `name` says what has the dtype, with its place.
    """
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {dtype}")
    if dtype.kind in DATES:
        raise ValueError(
            f"{name} has dtype {dtype}: {DATES[dtype.kind]} are not numbers here; make numbers of "
            "them, such as days since a date, first"
        )


def refuse_text(values: Any, name: str, place: Place) -> None:
    """Raise ValueError for the first text of an array, even if it could be read as a number.

    NumPy would read it: labels such as postcodes would pass for quantities.
    """
    if values.dtype.kind not in "OUST":
        return
    texts = (at for at in np.ndindex(values.shape) if isinstance(values[at], (str, bytes)))
    if (at := next(texts, None)) is not None:
        value = values[at]
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        where = place.row(at[0]) + (f", {place.column(at[1])}" if len(at) > 1 else "")
        raise ValueError(
            f"{name} has values that are not numbers: {where} is the text "
            f"{shown(text)}. Convert text that means numbers first, by astype(float), "
            "and encode other text"
        )


def refuse_names(values: Any, name: str) -> None:
    """Raise ValueError for names where one is wanted: texts, each once, not as many as rows."""
    names = np.asarray(values, dtype=object).ravel().tolist()
    if names and all(isinstance(each, str) for each in names) and len(set(names)) == len(names):
        instead = f"give {name}={names[0]!r}" if len(names) == 1 else "give one of them alone"
        raise ValueError(
            f"{name}={shown(names)} is no value for each of the rows of X, nor the name of a "
            f"column: {instead}"
        )


# What a number that stands for all rows must be beyond finite, by the name of the argument.
CONSTANTS = {"sample_weight": " not below 0", "offset": "", "exposure": " above 0"}


def constant(value: Any, name: str) -> float | None:
    """Return a number that stands for all rows as a float, and None for anything else.

    Raises ValueError for numbers that no row may have.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not is_number(value):
        return None
    number = float(value)
    low = (name == "sample_weight" and number < 0.0) or (name == "exposure" and number <= 0.0)
    if low or not math.isfinite(number):
        raise ValueError(
            f"{name}={shown(value)} must be a finite number{CONSTANTS[name]}, or have a value for "
            "each row"
        )
    return number


def as_float(X: Any, name: str) -> Any:
    """Return X as float32 or float64, without a copy if it is already.

    Small integers and halves fit float32 exactly. Integers beyond 2^53 and extended precision are
    rounded to float64, as in scikit-learn.
    """
    if X.dtype in (np.float32, np.float64):
        return X
    refuse_no_numbers(X.dtype, name)
    if X.dtype.kind in "biuf":
        small = X.dtype.itemsize <= 2 or X.dtype.kind == "b"
        # extended precision beyond float64 becomes infinity, which is then refused
        with np.errstate(over="ignore"):
            return X.astype(np.float32 if small else np.float64)
    try:
        floats = X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name} has values that are not numbers ({error}); encode them before fit"
        ) from error
    refuse_text(X, name, Place())
    return floats
