"""Decision values in kind: NumPy for data in memory (on a GPU too), lazy dask arrays or series for
dask collections.

A list of delayed blocks gives a list of delayed arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.device import on_device
from daskglm.data.blocks import float_rows
from daskglm.data.containers import plain
from daskglm.data.frames import frame_rows
from daskglm.data.partitions import whole_rows
from daskglm.data.sparse_rows import check_csr, is_sparse, to_csr
from daskglm.data.values import Place, as_float, refuse_masked, refuse_no_numbers
from daskglm.kernels import backend_of, for_rows

# Rows that are multiplied at a time, so that a float32 X is never copied whole to float64.
ROWS = 1 << 16

HERE = Place()
Finish = Callable[[np.ndarray], np.ndarray]


def decision_values(
    X: Any, coef: np.ndarray, intercept: np.ndarray, place: Place = HERE
) -> np.ndarray:
    """X coef' + intercept of rows in memory, (n,) for one problem and (n, k) for k.

    `place` names the partition in errors.

    Raises
    ------
    ValueError
        Where a value is masked, no real number or not finite, or an index of a sparse matrix is out
        of range.
    """
    if on_device(X):
        return _finite(_on_device(float_rows(X, place), coef) + intercept)
    X = checked_rows(X, place)
    X = frame_rows(X, place) if hasattr(X, "iloc") else X
    X = X if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != coef.shape[1]:
        width = f"{X.shape[1]} features" if X.ndim == 2 else f"{X.ndim} dimension(s)"
        raise ValueError(
            f"{place}X has {width}, but the model is expecting {coef.shape[1]} features"
        )
    scores = np.empty((X.shape[0], len(coef)))
    for lo in range(0, X.shape[0], ROWS):
        part = X[lo : lo + ROWS]
        scores[lo : lo + ROWS] = (
            part if sp.issparse(part) else as_float(part, f"{place}X")
        ) @ coef.T
    return _finite(scores + intercept)


def dense(coef: Any) -> np.ndarray:
    """Coefficients as (problems, d), sparsified ones too."""
    return np.atleast_2d(coef.toarray() if sp.issparse(coef) else coef)


def checked_rows(X: Any, place: Place = HERE) -> Any:
    """Check rows in memory before they become floats; return sparse ones as CSR.

    Raises
    ------
    ValueError
        For masked values, complex numbers, dates, and indices of a sparse matrix that are out of
        range.
    """
    X = plain(X)
    if is_sparse(X):
        X = to_csr(X, place)
        check_csr(X, place)
        data = as_float(X.data, f"{place}X")
        return X if data is X.data else type(X)((data, X.indices, X.indptr), shape=X.shape)
    refuse_masked(X, "X", place)
    named = (
        X.dtypes.items()
        if hasattr(X, "dtypes")
        else [(None, X.dtype)]
        if hasattr(X, "dtype")
        else []
    )
    for name, dtype in named:
        if isinstance(dtype, np.dtype):
            refuse_no_numbers(dtype, f"{place}X" if name is None else f"{place}column {name!r}")
    return X


def _finite(scores: np.ndarray) -> np.ndarray:
    if not np.isfinite(scores).all():
        raise ValueError(
            "X contains NaN or infinity (inf) in rows to predict: impute or drop them, for example "
            "with sklearn.impute.SimpleImputer"
        )
    return scores[:, 0] if scores.shape[1] == 1 else scores


def _on_device(X: Any, coef: np.ndarray) -> np.ndarray:
    """X coef' of rows on a GPU, multiplied there and brought back."""
    backend, (kernels, rows) = backend_of(X), for_rows(X)
    scores = np.empty((X.shape[0], len(coef)))
    z = backend.vector(None, rows)
    for k, w in enumerate(coef):
        kernels.margins(rows, *backend.coefficients(w, len(w)), 0, len(scores), z)
        scores[:, k] = z.get()
    return scores


def in_kind(
    X: Any,
    coef: np.ndarray,
    intercept: np.ndarray,
    finish: Finish,
    *,
    like: np.ndarray,
    names: Any = None,
) -> Any:
    """Apply `finish` to the decision values of X, lazily if X is lazy.

    Lazy are dask collections and lists of delayed blocks.

    Parameters
    ----------
    finish : callable
        Takes decision values, row by row; returns the result.
    like : (0,) or (0, k) array
        Empty array of the result's kind.
    names : sequence, optional
        Column names of a two-dimensional result, for dataframes.
    """
    if hasattr(X, "map_partitions"):
        import pandas as pd

        index = X._meta.index
        if like.ndim == 1:
            meta = pd.Series(like, index=index)
        else:
            meta = pd.DataFrame(like, index=index, columns=names)
        return X.map_partitions(_frame_part, coef, intercept, finish, names, meta=meta)
    if isinstance(X, list):
        import dask

        part = dask.delayed(_part)
        return [part(rows, coef, intercept, finish, Place(i)) for i, rows in enumerate(X)]
    if hasattr(X, "map_blocks"):
        # before map_blocks, which joins the chunks of a row even where there is one
        X = whole_rows(X)
        shape: dict[str, Any] = (
            {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
        )
        return X.map_blocks(_chunk, coef, intercept, finish, dtype=like.dtype, meta=like, **shape)
    return _part(X, coef, intercept, finish)


def _part(
    X: Any, coef: np.ndarray, intercept: np.ndarray, finish: Finish, place: Place = HERE
) -> np.ndarray:
    return finish(decision_values(X, coef, intercept, place))


def _chunk(
    X: Any,
    coef: np.ndarray,
    intercept: np.ndarray,
    finish: Finish,
    block_id: tuple[int, ...] = (0,),
) -> np.ndarray:
    return _part(X, coef, intercept, finish, Place(block_id[0]))


def _frame_part(
    frame: Any, coef: np.ndarray, intercept: np.ndarray, finish: Finish, names: Any
) -> Any:
    import pandas as pd

    values = _part(frame, coef, intercept, finish)
    if values.ndim == 1:
        return pd.Series(values, index=frame.index)
    return pd.DataFrame(values, index=frame.index, columns=names)
