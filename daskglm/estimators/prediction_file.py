"""Predictions of a model written to a CSV or Parquet file, partition by partition, with a score on
the way.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from daskglm.core.warn import warn
from daskglm.data.beside import numbers_beside
from daskglm.data.values import Place
from daskglm.estimators import deviance_score
from daskglm.estimators.choices import PREDICTION_FORMATS
from daskglm.estimators.families import FamilyRegressor
from daskglm.estimators.fitted_data import lacks
from daskglm.frames.design import UnseenLevelWarning


class Part(NamedTuple):
    """Rows and targets (None: absent) of a partition, identifiers that are written beside the
    predictions, and how errors name it.
    """

    X: Any
    y: Any = None
    ids: Any = None
    where: str = ""


NOTHING: Mapping[str, str] = MappingProxyType({})


def format_of(path: str | os.PathLike) -> str:
    """Return the format that the name of a file asks for; ValueError for a name of none."""
    kind = PREDICTION_FORMATS.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(
            f"path={str(path)!r} does not say the format of predictions: let it end in "
            f"{', '.join(PREDICTION_FORMATS)}"
        )
    return kind


def write_predictions(
    path: Path,
    model: Any,
    parts: Iterable[Part],
    method: str,
    beside: Mapping[str, str] = NOTHING,
    ids: Any = None,
) -> str:
    """Write one row for each row to a file, and return the score, empty without targets.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    path : path
        Its end tells the format: see `PREDICTION_FORMATS`.
    model : fitted estimator
    parts : iterable of Part
    method : {"predict", "predict_proba", "decision_function"}
        Method of the model whose values are written.
    beside : mapping, optional
        Names of the columns with offsets, exposures and weights of the score, by "offset",
        "exposure" and "sample_weight".
    ids : DataFrame, optional
        The columns of identifiers that parts have, without rows.

    Raises
    ------
    ValueError
        For a name of another format, identifiers named as predictions are, and bad data.
    """
    kind, absent = format_of(path), lacks(model, beside)
    added = {role: name for role, name in beside.items() if role != "sample_weight"}
    score: Any = _Score(model, beside.get("sample_weight"))
    if isinstance(model, FamilyRegressor):
        score = _Deviances(model, beside)
    values = partial(getattr(model, method), **added)
    targets, header = False, _header(model, method)
    ids = pd.DataFrame() if ids is None else ids
    if both := [name for name in ids.columns if name in header]:
        raise ValueError(f"{both[0]!r} is an identifier, and the name of a column of predictions")
    with _replaced_when_complete(path) as file, _writer(kind, file, header, ids) as write:
        for part in parts:
            X, y = part.X, part.y
            if not X.shape[0]:
                continue
            with _named(part.where):
                found = np.asarray(values(X))
                write(found, part.ids)
                targets |= y is not None
                if y is not None and absent is None:
                    score.add(X, y, found if method == "predict" else model.predict(X, **added))
    if absent is not None and targets:
        return f"no score: the model was fitted with an {absent}, which is not given"
    return score.text()


def _header(model: Any, method: str) -> list[str]:
    if method == "predict":
        return ["prediction"]
    classes = [str(label) for label in model.classes_.tolist()]
    return ["decision"] if method == "decision_function" and len(classes) == 2 else classes


@contextlib.contextmanager
def _named(where: str) -> Iterator[None]:
    """Raise errors of bad values, and give warnings, with the partition that has them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnseenLevelWarning)
        try:
            yield
        except ValueError as error:
            raise (ValueError(f"{where}{error}") if where else error) from error
    # values that are written and those that are scored warn of the same
    for text, category in dict.fromkeys((str(each.message), each.category) for each in caught):
        warn(f"{where}{text}", category)


def _write_csv(file: Any, values: Any) -> None:
    pd.DataFrame(values).to_csv(file, index=False, header=False)


@contextlib.contextmanager
def _writer(
    kind: str, file: Any, header: list[str], ids: pd.DataFrame
) -> Iterator[Callable[[np.ndarray, Any], None]]:
    """Give a function that writes the predictions of a partition to an open file, after its
    identifiers.
    """
    if kind == "csv":
        _write_csv(file, [[*ids.columns, *header]])
        yield lambda values, ids: _write_csv(file, _beside(ids, values, header))
        return
    writer = None

    def write(values: np.ndarray, ids: Any) -> None:
        nonlocal writer
        table = pa.Table.from_pandas(_beside(ids, values, header), preserve_index=False)
        writer = writer or pq.ParquetWriter(file, _with_types(table.schema))
        writer.write_table(_as_written(table, writer.schema))

    try:
        yield write
        if writer is None:  # no rows
            write(np.empty((0, len(header))), ids)
    finally:
        if writer is not None:
            writer.close()


def _beside(ids: Any, values: np.ndarray, header: list[str]) -> pd.DataFrame:
    """Return identifiers and predictions as one frame."""
    found = pd.DataFrame(values.reshape(len(values), len(header)), columns=header)
    return found if ids is None else pd.concat([ids, found], axis=1)


def _with_types(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which columns that are all missing in the first partition are text."""
    fields = [f.with_type(pa.string()) if pa.types.is_null(f.type) else f for f in schema]
    return pa.schema(fields, metadata=schema.metadata)


def _as_written(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a partition with the types of the first one; ValueError where that is not exact."""
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        changed = [
            f"{new.name!r} from {old.type} to {new.type}"
            for old, new in zip(schema, table.schema, strict=True)
            if old.type != new.type
        ]
        raise ValueError(f"columns change their type: {', '.join(changed)} ({error})") from error


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

    def __init__(self, model: Any, weight: str | None = None) -> None:
        self.classifies = hasattr(model, "classes_")
        self.weight, self.total = weight, 0.0
        self.rows, self.correct = 0, 0.0
        self.residual = 0.0
        self.mean = 0.0
        self.deviation = 0.0

    def add(self, X: Any, y: np.ndarray, predicted: np.ndarray) -> None:
        weights = np.ones(len(y)) if self.weight is None else weights_beside(X[self.weight])
        total, self.rows = float(weights.sum()), self.rows + len(y)
        if not total:
            return
        self.total += total
        if self.classifies:
            self.correct += float(weights @ np.asarray(y == predicted, dtype=bool))
            return
        y = np.asarray(y, dtype=np.float64)
        self.residual += float(weights @ (y - predicted) ** 2)
        # Chan's update of mean and squared deviations does not cancel if the mean is large
        mean = float(weights @ y) / total
        shift, share = mean - self.mean, total / self.total
        self.deviation += float(weights @ (y - mean) ** 2)
        self.deviation += shift**2 * (self.total - total) * share
        self.mean += shift * share

    def text(self) -> str:
        if not self.rows:
            return ""
        if not self.total:
            return f"no score: all {self.rows:,} rows have a weight of 0"
        of = f"{self.rows:,} rows" + ("" if self.weight is None else f", weighted by {self.weight}")
        if self.classifies:
            share = self.correct / self.total
            count = f"{self.correct:,.0f} of " if self.weight is None else ""
            return f"accuracy {share:.6g} ({count}{of})"
        if not self.deviation:
            return f"R2 is not defined: all {self.rows:,} targets are equal"
        return f"R2 {1 - self.residual / self.deviation:.6g} ({of})"


def weights_beside(column: Any) -> np.ndarray:
    """Return weights of rows as floats; ValueError for what is no number or is negative."""
    weights = numbers_beside(column, "sample_weight", len(column), Place())
    if len(weights) and weights.min() < 0.0:
        raise ValueError(f"{Place().row(int(np.argmin(weights)))}: sample_weight is negative")
    return weights


class _Deviances:
    """D2 of a regression of a family, summed partition by partition."""

    def __init__(self, model: FamilyRegressor, beside: Mapping[str, str]) -> None:
        self.model, self.beside = model, dict(beside)
        self.weight = self.beside.pop("sample_weight", None)
        self.total = deviance_score.NONE

    def add(self, X: Any, y: np.ndarray, predicted: np.ndarray) -> None:
        part = deviance_score.total_of(self.model, X, y, self.weight, **self.beside)
        self.total = deviance_score.both(self.model.record_.of_loss, self.total, part)

    def text(self) -> str:
        if not self.total.rows:
            return ""
        if not self.total.of_mean > 0.0:
            return f"D2 is not defined: all {self.total.rows:,} targets are equal"
        weighted = "" if self.weight is None else f", weighted by {self.weight}"
        return f"D2 {deviance_score.share(self.total):.6g} ({self.total.rows:,} rows{weighted})"
