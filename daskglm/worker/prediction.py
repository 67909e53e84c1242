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
from daskglm.data.alignment import same_length
from daskglm.data.blocks import added_to_margins, float_rows
from daskglm.data.containers import plain
from daskglm.data.frames import frame_rows
from daskglm.data.partitions import is_lazy, whole_rows
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
    offset: Any = None,
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
    offset : (n,) array, or collection cut as X is, optional
        Added to the decision values.
    """
    if hasattr(X, "map_partitions"):
        import pandas as pd

        index = X._meta.index
        if like.ndim == 1:
            meta = pd.Series(like, index=index)
        else:
            meta = pd.DataFrame(like, index=index, columns=names)
        return X.map_partitions(_frame_part, coef, intercept, finish, names, offset, meta=meta)
    if isinstance(X, list):
        import dask

        part = dask.delayed(_part)
        beside = [None] * len(X) if offset is None else offset
        return [
            part(rows, coef, intercept, finish, Place(i), added)
            for i, (rows, added) in enumerate(zip(X, beside, strict=True))
        ]
    if hasattr(X, "map_blocks"):
        # before map_blocks, which joins the chunks of a row even where there is one
        X = whole_rows(X)
        shape: dict[str, Any] = (
            {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], (like.shape[1],))}
        )
        how = {"dtype": like.dtype, "meta": like, **shape}
        if offset is None:
            return X.map_blocks(_chunk, coef, intercept, finish, **how)
        import dask.array as da

        return da.map_blocks(_chunk_beside, X, offset[:, None], coef, intercept, finish, **how)
    return _part(X, coef, intercept, finish, HERE, offset)


def with_offset(X: Any, offset: Any, exposure: Any) -> tuple[Any, Any]:
    """Return X without the columns that are named, and what is added to its margins, or None.

    Parameters
    ----------
    offset, exposure : (n,) array, collection cut as X is, name of a column of X, or None
        What is added is the offset plus the logarithm of the exposure.

    Raises
    ------
    ValueError
        For names that X has no column of, for a number of values that is not that of the rows, and
        (lazily for lazy rows) for values that `fit` refuses.
    """
    named = [values for values in (offset, exposure) if isinstance(values, str)]
    for name in named:
        if not hasattr(X, "columns") or name not in X.columns:
            raise ValueError(f"{name!r} would name a column for the offset, which X does not have")
    parts = [
        X[values] if isinstance(values, str) else plain(values) for values in (offset, exposure)
    ]
    X = X.drop(columns=named) if named else X
    given = [part for part in parts if part is not None]
    if not given:
        return X, None
    if isinstance(X, (list, tuple)) and is_lazy(X):
        import dask

        add = dask.delayed(_added)
        columns = [[None] * len(X) if part is None else list(part) for part in parts]
        return X, [add(*pair) for pair in zip(*columns, strict=True)]
    if hasattr(X, "numblocks"):
        cut = [None if part is None else _cut_like(part, X) for part in parts]
        import dask.array as da

        return X, da.map_blocks(_added, *cut, dtype=np.float64, meta=np.empty(0))
    if is_lazy(X):
        if not all(hasattr(part, "map_partitions") for part in given):
            raise ValueError(
                "X is a dask dataframe: give the offset as a dask series with its partitions, or "
                "as the name of a column"
            )
        import dask.dataframe as dd

        return X, dd.map_partitions(_added, *parts, meta=("offset", np.float64))
    parts = [part.compute() if hasattr(part, "__dask_graph__") else part for part in parts]
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    return X, added_to_margins(parts[0], parts[1], n, HERE)


def _cut_like(part: Any, X: Any) -> Any:
    """Return an offset as a dask array with the chunks of the rows of a dask array X."""
    part = part.to_dask_array() if hasattr(part, "to_dask_array") else part
    chunks = X.chunks[0]
    if not hasattr(part, "numblocks"):
        part = np.asarray(part)
        if not np.isnan(chunks).any():
            same_length(len(part), sum(chunks), "the offset")
        import dask.array as da

        return da.from_array(part, chunks=(chunks,))
    part = part.ravel() if part.ndim == 2 and part.shape[1] == 1 else part
    if part.chunks[0] != chunks and not np.isnan((*chunks, *part.chunks[0])).any():
        same_length(part.shape[0], sum(chunks), "the offset")
        part = part.rechunk((chunks,))
    return part


def _added(offset: Any, exposure: Any) -> Any:
    """Return what is added to the margins of a partition, with the index of a series."""
    given = exposure if offset is None else offset
    added = added_to_margins(offset, exposure, len(given), HERE)
    if not hasattr(given, "iloc"):
        return added
    return type(given)(added, index=given.index, name="offset")


def _part(
    X: Any,
    coef: np.ndarray,
    intercept: np.ndarray,
    finish: Finish,
    place: Place = HERE,
    offset: Any = None,
) -> np.ndarray:
    values = decision_values(X, coef, intercept, place)
    if offset is not None:
        added = np.asarray(offset, dtype=np.float64).ravel()
        if len(added) != len(values):
            raise ValueError(f"{place}X has {len(values)} rows but the offset has {len(added)}")
        values = values + (added if values.ndim == 1 else added[:, None])
    return finish(values)


def _chunk_beside(
    X: Any,
    offset: Any,
    coef: np.ndarray,
    intercept: np.ndarray,
    finish: Finish,
    block_id: tuple[int, ...] = (0,),
) -> np.ndarray:
    return _part(X, coef, intercept, finish, Place(block_id[0]), offset)


def _chunk(
    X: Any,
    coef: np.ndarray,
    intercept: np.ndarray,
    finish: Finish,
    block_id: tuple[int, ...] = (0,),
) -> np.ndarray:
    return _part(X, coef, intercept, finish, Place(block_id[0]))


def _frame_part(
    frame: Any,
    coef: np.ndarray,
    intercept: np.ndarray,
    finish: Finish,
    names: Any,
    offset: Any = None,
) -> Any:
    import pandas as pd

    values = _part(frame, coef, intercept, finish, HERE, offset)
    if values.ndim == 1:
        return pd.Series(values, index=frame.index)
    return pd.DataFrame(values, index=frame.index, columns=names)
