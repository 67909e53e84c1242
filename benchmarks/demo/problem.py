"""The rows of the demonstration: a raw table of two classes, or a file of the user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SHARE_HELD_OUT = 0.2
# A column of text that has this many levels, another for more than half of the rows, names rows.
NAMES_ROWS = 100


@dataclass(frozen=True)
class Problem:
    """Rows and classes 0 and 1, in random order.

    `table` is a data frame as it was read, or a sparse matrix. Of its columns `categories` are
    numbers that are levels, and `pairs` have a coefficient for each combination of their levels.
    The last `held_out` rows are not trained on. `dropped` are columns that were left out.
    """

    title: str
    question: str
    table: Any
    y: np.ndarray
    categories: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def held_out(self) -> int:
        """Rows at the end that are not trained on."""
        return int(SHARE_HELD_OUT * len(self.y))

    @property
    def training(self) -> tuple[Any, np.ndarray]:
        """Rows and classes to train on."""
        n = len(self.y) - self.held_out
        return take(self.table, slice(n)), self.y[:n]

    @property
    def later(self) -> tuple[Any, np.ndarray]:
        """Rows and classes that are held out."""
        n = len(self.y) - self.held_out
        return take(self.table, slice(n, None)), self.y[n:]

    @property
    def schema(self) -> dict[str, Any]:
        """How daskglm reads the table: rows held out may have levels that the others have not."""
        return {
            "categories": self.categories,
            "interactions": self.pairs,
            "unseen": "zero",
            "missing": ("level", "indicator"),
        }


def from_file(path: Path) -> Problem:
    """Read a CSV or Parquet file whose last column is the class, or an svmlight file."""
    table: Any
    dropped: tuple[str, ...] = ()
    if path.name.endswith((".csv", ".csv.gz", ".parquet")):
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        frame = frame.dropna(subset=frame.columns[-1])
        table, y = frame.iloc[:, :-1], frame.iloc[:, -1].to_numpy()
        dropped = tuple(str(name) for name in table if _is_no_feature(table[name]))
        table = table.drop(columns=list(dropped))
    else:
        from sklearn.datasets import load_svmlight_file

        table, y = load_svmlight_file(str(path))
    classes = np.unique(y)
    if len(classes) != 2:
        raise ValueError(f"{path}: {len(classes)} classes; the demonstration takes two")
    table, y = shuffled(table, (y == classes[1]).astype(int))
    question = f"Which rows are of class {classes[1]}, not {classes[0]}? Logistic regression."
    return Problem(path.name, question, table, y, dropped=dropped)


def take(table: Any, rows: Any) -> Any:
    """Return rows of a frame or a matrix, by their numbers or as a slice."""
    return table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]


def shuffled(table: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Put the rows in random order: files are often sorted, by time or by class."""
    order = np.random.default_rng(0).permutation(len(y))
    return take(table, order), y[order]


def _is_no_feature(column: pd.Series) -> bool:
    """Whether a column has dates, or seems to name rows."""
    if pd.api.types.is_numeric_dtype(column):
        return False
    if not (pd.api.types.is_string_dtype(column) or isinstance(column.dtype, pd.CategoricalDtype)):
        return True
    return column.nunique() >= max(NAMES_ROWS, len(column) / 2)
