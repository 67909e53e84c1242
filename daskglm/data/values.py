"""Values as floats, and where they lie: what is no real number is refused by name and place instead
of converted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.data.row_files import Span

DATES = {"M": "dates", "m": "durations"}


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
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{name} has values that are not numbers ({error}); encode them before fit"
        ) from error
