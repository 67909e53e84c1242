"""Predictions of a model written to a CSV or Parquet file, partition by partition, with a score on
the way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from daskglm.estimators import deviance_score
from daskglm.estimators.families import FamilyRegressor
from daskglm.estimators.fitted_data import lacks

NOTHING: Mapping[str, str] = MappingProxyType({})


# Formats of predictions, by how names of files end.
FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}


def format_of(path: str | os.PathLike) -> str:
    """Return the format that the name of a file asks for; ValueError for a name of none."""
    kind = FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(
            f"path={str(path)!r} does not say the format of predictions: let it end in "
            f"{', '.join(FORMATS)}"
        )
    return kind


def write_predictions(
    path: Path,
    model: Any,
    parts: Iterable[Any],
    method: str,
    beside: Mapping[str, str] = NOTHING,
) -> str:
    """Write one row for each row to a file, and return the score, empty without targets.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    path : path
        Its end tells the format: see `FORMATS`.
    model : fitted estimator
    parts : iterable of (X, y)
        Rows and targets of each partition; y is None if the data have no targets.
    method : {"predict", "predict_proba", "decision_function"}
        Method of the model whose values are written.
    beside : mapping, optional
        Names of the columns with offsets and exposures, by "offset" and "exposure".

    Raises
    ------
    ValueError
        For a name of another format, and bad data.
    """
    kind, absent = format_of(path), lacks(model, beside)
    score = _Deviances(model, beside) if isinstance(model, FamilyRegressor) else _Score(model)
    values = partial(getattr(model, method), **beside)
    targets = False
    with (
        _replaced_when_complete(path) as file,
        _writer(kind, file, _header(model, method)) as write,
    ):
        for X, y in parts:
            if not X.shape[0]:
                continue
            found = np.asarray(values(X))
            write(found)
            targets |= y is not None
            if y is not None and absent is None:
                score.add(X, y, found if method == "predict" else model.predict(X, **beside))
    if absent is not None and targets:
        return f"no score: the model was fitted with an {absent}, which is not given"
    return score.text()


def _header(model: Any, method: str) -> list[str]:
    if method == "predict":
        return ["prediction"]
    classes = [str(label) for label in model.classes_.tolist()]
    return ["decision"] if method == "decision_function" and len(classes) == 2 else classes


def _write_csv(file: Any, values: Any) -> None:
    pd.DataFrame(values).to_csv(file, index=False, header=False)


@contextlib.contextmanager
def _writer(kind: str, file: Any, header: list[str]) -> Iterator[Callable[[np.ndarray], None]]:
    """Give a function that writes the predictions of a partition to an open file."""
    if kind == "csv":
        _write_csv(file, [header])
        yield lambda values: _write_csv(file, values)
        return
    writer = None

    def write(values: np.ndarray) -> None:
        nonlocal writer
        frame = pd.DataFrame(values.reshape(len(values), len(header)), columns=header)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
        if writer is None:  # no rows
            write(np.empty((0, len(header))))
    finally:
        if writer is not None:
            writer.close()


@contextlib.contextmanager
def _replaced_when_complete(path: Path) -> Iterator[Any]:
    """Open a temporary file of bytes beside `path`, and rename it to `path` at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class _Score:
    """Accuracy of a classifier, or R2 of a regressor, summed partition by partition."""

    def __init__(self, model: Any) -> None:
        self.classifies = hasattr(model, "classes_")
        self.rows, self.correct = 0, 0
        self.residual = 0.0
        self.mean = 0.0
        self.deviation = 0.0

    def add(self, X: Any, y: np.ndarray, predicted: np.ndarray) -> None:
        n = self.rows + len(y)
        if self.classifies:
            self.correct += int(np.sum(np.asarray(y == predicted)))
        else:
            y = np.asarray(y, dtype=np.float64)
            self.residual += float(np.sum((y - predicted) ** 2))
            # Chan's update of mean and squared deviations does not cancel if the mean is large
            mean = float(y.mean())
            shift = mean - self.mean
            self.deviation += float(np.sum((y - mean) ** 2)) + shift**2 * self.rows * len(y) / n
            self.mean += shift * len(y) / n
        self.rows = n

    def text(self) -> str:
        if not self.rows:
            return ""
        if self.classifies:
            share = self.correct / self.rows
            return f"accuracy {share:.6g} ({self.correct:,} of {self.rows:,} rows)"
        if not self.deviation:
            return f"R2 is not defined: all {self.rows:,} targets are equal"
        return f"R2 {1 - self.residual / self.deviation:.6g} ({self.rows:,} rows)"


class _Deviances:
    """D2 of a regression of a family, summed partition by partition."""

    def __init__(self, model: FamilyRegressor, beside: Mapping[str, str]) -> None:
        self.model, self.beside = model, beside
        self.total = deviance_score.NONE

    def add(self, X: Any, y: np.ndarray, predicted: np.ndarray) -> None:
        part = deviance_score.total_of(self.model, X, y, None, **self.beside)
        self.total = deviance_score.both(self.model.record_.of_loss, self.total, part)

    def text(self) -> str:
        if not self.total.rows:
            return ""
        if not self.total.of_mean > 0.0:
            return f"D2 is not defined: all {self.total.rows:,} targets are equal"
        return f"D2 {deviance_score.share(self.total):.6g} ({self.total.rows:,} rows)"
