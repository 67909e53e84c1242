"""Decision values in kind: NumPy for data in memory (on a GPU too), lazy dask arrays or series for dask collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.blocks import Place, float_rows
from daskglm.kernels import for_rows, home_of, on_device

ROWS = 1 << 16  # rows multiplied at a time, so that a float32 X is never copied whole to float64

Finish = Callable[[np.ndarray], np.ndarray]


def decision_values(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """X coef' + intercept of rows in memory, (n,) for one problem and (n, k) for k.

    Raises
    ------
    ValueError
        Where a value is not finite: X has NaN or infinities.
    """
    if on_device(X):
        return _finite(_on_device(float_rows(X, Place()), coef) + intercept)
    X = X.to_numpy(dtype=np.float64, na_value=np.nan) if hasattr(X, "iloc") else X
    X = X if sp.issparse(X) or isinstance(X, np.ndarray) else X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    X = X.tocsr() if sp.issparse(X) else X
    scores = np.empty((X.shape[0], len(coef)))
    for lo in range(0, X.shape[0], ROWS):
        scores[lo : lo + ROWS] = X[lo : lo + ROWS] @ coef.T
    return _finite(scores + intercept)


def _finite(scores: np.ndarray) -> np.ndarray:
    if not np.isfinite(scores).all():
        raise ValueError("X contains NaN or infinity (inf) in rows to predict")
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _on_device(X: Any, coef: np.ndarray) -> np.ndarray:
    """X coef' of rows on a GPU, multiplied there and brought back."""
    home, (kernels, rows) = home_of(X), for_rows(X)
    scores, z = np.empty((X.shape[0], len(coef))), home.vector(None, rows)
    for k, w in enumerate(coef):
        kernels.margins(rows, *home.coefficients(w, len(w)), 0, len(scores), z)
        scores[:, k] = z.get()
    return scores


def in_kind(
    X: Any, coef: np.ndarray, intercept: np.ndarray, finish: Finish, *, like: np.ndarray, names: Any = None
) -> Any:
    """Apply `finish` to the decision values of X, lazily where X is a dask collection.

    Parameters
    ----------
    finish : callable
        From decision values to what is wanted of them, row by row.
    like : (0,) or (0, k) array
        Empty array of the result's kind.
    names : sequence, optional
        Column names of a two-dimensional result, for dataframes.
    """
    if hasattr(X, "map_partitions"):
        import pandas as pd

        index = X._meta.index
        meta = pd.Series(like, index=index) if like.ndim == 1 else pd.DataFrame(like, index=index, columns=names)
        return X.map_partitions(_frame_part, coef, intercept, finish, names, meta=meta)
    if hasattr(X, "map_blocks"):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        shape: dict[str, Any] = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
        return X.map_blocks(_part, coef, intercept, finish, dtype=like.dtype, meta=like, **shape)
    return _part(X, coef, intercept, finish)


def _part(X: Any, coef: np.ndarray, intercept: np.ndarray, finish: Finish) -> np.ndarray:
    return finish(decision_values(X, coef, intercept))


def _frame_part(frame: Any, coef: np.ndarray, intercept: np.ndarray, finish: Finish, names: Any) -> Any:
    import pandas as pd

    values = _part(frame, coef, intercept, finish)
    if values.ndim == 1:
        return pd.Series(values, index=frame.index)
    return pd.DataFrame(values, index=frame.index, columns=names)
