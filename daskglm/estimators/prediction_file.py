"""Predictions of a model written to a CSV file, partition by partition, with a score on the way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from daskglm.estimators import deviance_score
from daskglm.estimators.families import FamilyRegressor

NOTHING: Mapping[str, str] = MappingProxyType({})


def write_predictions(
    path: Path,
    model: Any,
    parts: Iterable[Any],
    method: str,
    beside: Mapping[str, str] = NOTHING,
) -> str:
    """Write one line for each row to a CSV file, and return the score, empty without targets.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    path : path
    model : fitted estimator
    parts : iterable of (X, y)
        Rows and targets of each partition; y is None if the data have no targets.
    method : {"predict", "predict_proba", "decision_function"}
        Method of the model whose values are written.
    beside : mapping, optional
        Names of the columns with offsets and exposures, by "offset" and "exposure".
    """
    score = _Deviances(model, beside) if isinstance(model, FamilyRegressor) else _Score(model)
    values = partial(getattr(model, method), **beside)
    with _replaced_when_complete(path) as file:
        _write_csv(file, [_header(model, method)])
        for X, y in parts:
            if not X.shape[0]:
                continue
            found = values(X)
            _write_csv(file, found)
            if y is not None:
                score.add(X, y, found if method == "predict" else model.predict(X, **beside))
    return score.text()


def _header(model: Any, method: str) -> list[str]:
    if method == "predict":
        return ["prediction"]
    classes = [str(label) for label in model.classes_.tolist()]
    return ["decision"] if method == "decision_function" and len(classes) == 2 else classes


def _write_csv(file: Any, values: Any) -> None:
    frame = pd.DataFrame(values if isinstance(values, list) else np.asarray(values))
    frame.to_csv(file, index=False, header=False)


@contextlib.contextmanager
def _replaced_when_complete(path: Path) -> Iterator[Any]:
    """Open a temporary text file beside `path`, and rename it to `path` at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8", newline="") as file:
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
