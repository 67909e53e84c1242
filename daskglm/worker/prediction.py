"""Decision values in kind: NumPy for data in memory (on a GPU too), lazy dask arrays or series for
dask collections.

A list of delayed blocks gives a list of delayed arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from daskglm.core.device import on_device
from daskglm.data.alignment import bundles, is_frame, same_divisions, unbundle
from daskglm.data.beside import added_to_margins, numbers_beside
from daskglm.data.blocks import float_rows
from daskglm.data.containers import plain
from daskglm.data.frames import frame_rows, numbers, refuse_category, with_features
from daskglm.data.partitions import is_lazy, like_blocks, like_partitions, whole_rows
from daskglm.data.sparse_rows import check_csr, is_sparse, to_csr
from daskglm.data.values import (
    Place,
    as_float,
    constant,
    refuse_masked,
    refuse_no_numbers,
)
from daskglm.frames.design import Design
from daskglm.kernels import backend_of, for_rows
from daskglm.kernels.coded_rows import Coded

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
    if isinstance(X, Coded):
        X = float_rows(X, place)
    else:
        X = checked_rows(X, place)
        X = frame_rows(X, place) if hasattr(X, "iloc") else X
        X = X if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != coef.shape[1]:
        width = f"{X.shape[1]} features" if X.ndim == 2 else f"{X.ndim} dimension(s)"
        raise ValueError(
            f"{place}X has {width}, but the model is expecting {coef.shape[1]} features"
        )
    if isinstance(X, Coded):
        return _finite(X @ coef.T + intercept)
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
        For masked values, complex numbers, dates, categories, text, other than two dimensions of
        a frame, and indices of a sparse matrix that are out of range.
    """
    X = plain(X)
    if is_sparse(X):
        X = to_csr(X, place)
        check_csr(X, place)
        data = as_float(X.data, f"{place}X")
        return X if data is X.data else type(X)((data, X.indices, X.indptr), shape=X.shape)
    refuse_masked(X, "X", place)
    if hasattr(X, "iloc") and X.ndim != 2:
        raise ValueError(
            f"{place}X is a {type(X).__name__}, of {X.ndim} dimension(s); expected rows and "
            "columns: give a dataframe of one row or one column, by X.to_frame()"
        )
    if isinstance(X, np.ndarray) and X.dtype.kind in "OUST" and X.ndim == 2:
        X = numbers(X, place)
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
        else:
            refuse_category(dtype, f"{place}column {name!r}")
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


class Margins(NamedTuple):
    """What turns rows into predictions: see `in_kind`.

    `features` are the names of the columns of frames, in the order of `coef`; None: their places
    tell. `design` is that of tables with levels.
    """

    coef: np.ndarray
    intercept: np.ndarray
    finish: Finish
    names: Any = None
    features: Sequence[str] | None = None
    design: Design | None = None


class Beside(NamedTuple):
    """What is added to the margins: a `constant`, and "offset" and "exposure" with a value a row.

    The logarithm of the exposure is added; "y", where it is there, is subtracted.
    """

    constant: float = 0.0
    values: Mapping[str, Any] = MappingProxyType({})


def in_kind(X: Any, of: Margins, *, like: np.ndarray, beside: Beside) -> Any:
    """Apply `finish` to the decision values of X, lazily if X is lazy.

    Lazy are dask collections and lists of delayed blocks. What is beside them is brought to their
    partitions, and its index compared with that of X, as in `fit`.

    Parameters
    ----------
    of : Margins
        Coefficients and intercepts, and `finish`, which takes decision values, row by row, and
        returns the result; `names` are those of the columns of a two-dimensional result, for
        dataframes.
    like : (0,) or (0, k) array
        Empty array of the result's kind.
    beside : Beside
        See `with_offset`.

    Raises
    ------
    ValueError
        For what is beside X in partitions that cannot be those of X; lazily for other rows.
    """
    _check_width(beside.values.get("offset"), len(of.coef))
    of = of._replace(intercept=of.intercept + beside.constant)
    if hasattr(X, "map_partitions"):
        return _of_frame(X, of, like, beside.values)
    if isinstance(X, list):
        import dask

        part = dask.delayed(_part)
        columns = {name: like_blocks(X, given, name) for name, given in beside.values.items()}
        return [
            part(rows, {name: given[i] for name, given in columns.items()}, of, Place(i))
            for i, rows in enumerate(X)
        ]
    if hasattr(X, "map_blocks"):
        return _of_array(X, of, like, beside.values)
    return _part(X, beside.values, of, HERE)


def _check_width(offset: Any, outputs: int) -> None:
    """Raise ValueError for offsets of another number of columns than 1 or decision values."""
    if getattr(offset, "ndim", 1) != 2 or offset.shape[1] in (1, outputs):
        return
    each = f", or one for each of the {outputs} classes" if outputs > 1 else ""
    raise ValueError(f"offset should be one column{each}, not {offset.shape[1]}")


def _of_frame(X: Any, of: Margins, like: np.ndarray, given: Mapping[str, Any]) -> Any:
    import pandas as pd

    index = X._meta.index
    if like.ndim == 1:
        meta: Any = pd.Series(like, index=index)
    else:
        meta = pd.DataFrame(like, index=index, columns=of.names)
    if not given:
        return X.map_partitions(_frame_part, names=("X",), of=of, meta=meta)
    import dask.dataframe as dd

    given = like_partitions(X, given)
    if not all(map(is_frame, given.values())):
        import dask

        part = dask.delayed(_bundled_part)
        found = [part(rows, of, Place(i)) for i, rows in enumerate(bundles(X, given))]
        divisions = X.divisions if X.known_divisions else None
        return dd.from_delayed(found, meta=meta, divisions=divisions, verify_meta=False)
    for name, values in given.items():
        same_divisions(values, X, name)
    # one expression with X, so that shuffles are shared and the result is known to be cut as X is
    return dd.map_partitions(
        _frame_part,
        X,
        *given.values(),
        names=("X", *given),
        of=of,
        meta=meta,
        enforce_metadata=False,
        align_dataframes=False,
    )


def _of_array(X: Any, of: Margins, like: np.ndarray, given: Mapping[str, Any]) -> Any:
    # before map_blocks, which joins the chunks of a row even where there is one
    X = whole_rows(X)
    more = like.shape[1:]
    if not given:
        shape: dict[str, Any] = {"chunks": (X.chunks[0], more)} if more else {"drop_axis": 1}
        return X.map_blocks(_chunk, of, dtype=like.dtype, meta=like, **shape)
    import dask
    import dask.array as da

    part = dask.delayed(_bundled_part)
    found = [
        part(rows, of, Place(i)) for i, rows in enumerate(bundles(X, like_partitions(X, given)))
    ]
    blocks = [
        da.from_delayed(block, (n, *more), dtype=like.dtype, meta=like)
        for block, n in zip(found, X.chunks[0], strict=True)
    ]
    return da.concatenate(blocks)


def with_offset(X: Any, offset: Any, exposure: Any) -> tuple[Any, Beside]:
    """Return X without the columns that are named, and what is added to its margins.

    Parameters
    ----------
    offset, exposure : (n,) array, collection cut as X is, name of a column of X, number, or None
        What is added is the offset plus the logarithm of the exposure; a number is that of all
        rows.

    Raises
    ------
    ValueError
        For names that X has no column of, and for numbers that `fit` refuses.
    """
    given = {"offset": plain(offset), "exposure": plain(exposure)}
    named = [values for values in given.values() if isinstance(values, str)]
    for name in named:
        if not hasattr(X, "columns") or name not in X.columns:
            raise ValueError(f"{name!r} would name a column for the offset, which X does not have")
    constant_offset, constant_exposure = (constant(values, name) for name, values in given.items())
    added = (constant_offset or 0.0) + math.log(constant_exposure or 1.0)
    values = {
        name: X[values] if isinstance(values, str) else values
        for name, values in given.items()
        if values is not None and constant(values, name) is None
    }
    X = X.drop(columns=list(dict.fromkeys(named))) if named else X
    if not is_lazy(X):
        values = {
            name: part.compute() if hasattr(part, "__dask_graph__") else part
            for name, part in values.items()
        }
    return X, Beside(added, values)


def _part(X: Any, given: Mapping[str, Any], of: Margins, place: Place = HERE) -> np.ndarray:
    """Return predictions of rows in memory, of one partition or of all."""
    if of.design is not None:
        X = of.design.encode(of.design.read(X, place), place)
    elif of.features is not None and hasattr(X, "iloc"):
        X = with_features(X, of.features, place=place)
    values = decision_values(X, of.coef, of.intercept, place)
    added = added_to_margins(given.get("offset"), given.get("exposure"), len(values), place)
    values = plus_offset(values, added)
    if (y := given.get("y")) is not None:
        values = values - numbers_beside(y, "y", len(values), place)
    return of.finish(values)


def plus_offset(values: np.ndarray, added: np.ndarray | None) -> np.ndarray:
    """Add offsets, a number for each row or for each class, to decision values (n,) or (n, K)."""
    if added is None:
        return values
    if added.ndim == 1:
        return values + (added if values.ndim == 1 else added[:, None])
    if added.shape != values.shape:
        raise ValueError(
            f"offset has shape {added.shape}, but decision values have {values.shape}: give a "
            "number for each row, or one for each class of a multinomial fit"
        )
    return values + added


def _bundled_part(parts: dict[str, Any], of: Margins, place: Place = HERE) -> Any:
    """Return predictions of a partition that `alignment.bundles` gave, as a frame if X is one."""
    X, given = unbundle(parts, place)
    values = _part(X, given, of, place)
    if not hasattr(X, "iloc"):
        return values
    import pandas as pd

    if values.ndim == 1:
        return pd.Series(values, index=X.index)
    return pd.DataFrame(values, index=X.index, columns=of.names)


def _frame_part(*parts: Any, names: Sequence[str], of: Margins) -> Any:
    return _bundled_part(dict(zip(names, parts, strict=True)), of)


def _chunk(X: Any, of: Margins, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
    return _part(X, {}, of, Place(block_id[0]))
