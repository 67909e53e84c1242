"""Residuals and leverages: a number for each row, in the container of X, lazily where X is lazy.

Data are taken through the doors of `fit`, so rows are paired, and refused, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from daskglm.core.arguments import check_choice
from daskglm.data.array_api import in_library_of
from daskglm.data.containers import plain
from daskglm.data.partitions import Partitions
from daskglm.estimators.absorbed import coefficients_of
from daskglm.estimators.score_rows import taken
from daskglm.losses.base import Loss
from daskglm.losses.table import JOINT_LOSSES
from daskglm.worker.row_numbers import (
    KINDS,
    Fitted,
    Hat,
    check_kind,
    leverages_of,
    residuals_of,
)


def residuals(
    model: Any, loss: Loss, X: Any, y: Any, sample_weight: Any, kind: str, **beside: Any
) -> Any:
    """Return residuals of rows from a model with this loss; see `LinearModel.residuals`."""
    check_choice(kind, "kind", KINDS)
    coef = coefficients_of(model)
    if len(coef) > 1 or loss.name in JOINT_LOSSES:
        raise ValueError(
            f"residuals are of one vector of coefficients and one mean, and {type(model).__name__} "
            "was fitted to several classes or targets: give two classes, or one target"
        )
    check_kind(loss, kind)
    classes = tuple(np.asarray(getattr(model, "classes_", ())).tolist())
    data = taken(model, X, y, sample_weight, loss, method="residuals", **beside)
    fitted = Fitted(coef, np.atleast_1d(model.intercept_), loss.ref, classes, kind)
    return in_library_of(X, in_container(plain(X), data, residuals_of, fitted))


class _Features:
    """What is asked of a model about its features, of those of an inference."""

    def __init__(self, of: Any, count: int) -> None:
        self.n_features_in_, columns = count, of.columns
        if of.design is not None:
            self.schema_, self.roles_, columns = of.design, of.design.roles, of.design.columns
        if columns is not None:
            self.feature_names_in_ = np.asarray(columns, dtype=object)


def leverages(of: Any, X: Any, y: Any, sample_weight: Any, **beside: Any) -> Any:
    """Return leverages of rows; see `Inference.leverage`."""
    found, d = of.found, len(of.found.params) - of.fit_intercept
    features = _Features(of, d)
    data = taken(features, X, y, sample_weight, of.loss, **beside)
    intercept = found.params[d:] if of.fit_intercept else np.zeros(1)
    coef, curvature = found.params[None, :d], of.config.curvature
    hat = Hat(coef, intercept, found.problem, curvature, found.inverse)
    return in_library_of(X, in_container(plain(X), data, leverages_of, hat))


def in_container(X: Any, data: Partitions, of_block: Callable[..., np.ndarray], of: Any) -> Any:
    """Return what `of_block(block, of)` makes of the rows, (n,), in the container of X.

    That is NumPy for rows in memory, a lazy dask array, a dask series with X's index, or a list of
    delayed arrays.
    """
    if data.arrays is not None:
        return np.concatenate([of_block(block, of) for block in data.load()])
    import dask

    # once in the graph, however many partitions there are
    shared = dask.delayed(of, traverse=False)
    if data.frames:
        import dask.dataframe as dd
        import pandas as pd

        one = dask.delayed(_series)
        parts = [
            one(of_block, block, frame, shared)
            for block, frame in zip(data.lazy, data.frames, strict=True)
        ]
        meta = pd.Series(np.empty(0), index=X._meta.index)
        divisions = X.divisions if X.known_divisions else None
        return dd.from_delayed(parts, meta=meta, divisions=divisions)
    one = dask.delayed(of_block)
    parts = [one(block, shared) for block in data.lazy]
    if not hasattr(X, "chunks"):
        return parts
    import dask.array as da

    lengths = X.chunks[0]
    arrays = [
        da.from_delayed(part, (n,), dtype=np.float64)
        for part, n in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(arrays)


def _series(of_block: Callable[..., np.ndarray], block: Any, frame: Any, of: Any) -> Any:
    import pandas as pd

    return pd.Series(of_block(block, of), index=frame["X"].index)
