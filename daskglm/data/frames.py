"""Columns of a frame as one array of floats, converted as scikit-learn does, with names in
errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.device import gpu, on_device
from daskglm.core.matrices import in_c_order
from daskglm.data.sparse_rows import canonical
from daskglm.data.values import Place, as_float, refuse_no_numbers, refuse_text


def frame_rows(frame: Any, place: Place) -> Any:
    """Return rows of a pandas or cuDF frame as C ordered floats, on the same device.

    Columns of objects and strings are converted if they hold numbers, as `np.asarray` does. A frame
    whose columns are sparse, most of them, becomes CSR.

    Raises
    ------
    ValueError
        For the first value that is missing or not a number, with its row and column, and for
        dates, complex numbers and categories.
    """
    kinds = [getattr(dtype, "kind", "O") for dtype in frame.dtypes]
    for name, dtype, kind in zip(frame.columns, frame.dtypes, kinds, strict=True):
        if kind not in "fiub":
            refuse_no_numbers(dtype, f"{place}column {name!r}")
            refuse_category(dtype, f"{place}column {name!r}")
    if on_device(frame):  # cuDF; missing values become NaN, which the check of values reports
        exact = all(
            dtype == np.float32 or (dtype.kind in "biu" and dtype.itemsize <= 2)
            for dtype in frame.dtypes
        )
        floats = frame.astype(np.float32 if exact else np.float64)
        return gpu().xp.ascontiguousarray(floats.to_cupy(na_value=np.nan))
    if is_sparse_frame(frame):
        return canonical(_csr(frame, place), place)
    if any(kind not in "fiub" for kind in kinds):
        return _converted(frame, kinds, place)
    # nullable columns: missing becomes NaN
    if any(not isinstance(dtype, np.dtype) for dtype in frame.dtypes):
        return in_c_order(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    return in_c_order(as_float(frame.to_numpy(), f"{place}X"))


def is_sparse_frame(frame: Any) -> bool:
    """Return whether more columns of a pandas frame are sparse, of numbers with 0 left out, than
    not.
    """
    in_memory = type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns")
    dtypes = list(frame.dtypes) if in_memory else []
    return 2 * sum(map(_leaves_out_zeros, dtypes)) > len(dtypes)


def _leaves_out_zeros(dtype: Any) -> bool:
    return _is_sparse(dtype) and dtype.kind in "fiub" and not dtype.fill_value


def _csr(frame: Any, place: Place) -> sp.csr_matrix:
    """Return a frame, some of whose columns are sparse, as CSR: no column becomes dense."""
    indices, values = [], []
    for j, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, j]
        if _leaves_out_zeros(dtype):
            array = column.array
            indices.append(array.sp_index.to_int_index().indices)
            values.append(np.asarray(array.sp_values))
        else:
            floats = frame_rows(frame.iloc[:, [j]].astype(_dense_dtype(dtype)), place)[:, 0]
            indices.append(np.flatnonzero(floats))
            values.append(floats[indices[-1]])
    data = as_float(np.concatenate(values), f"{place}X")
    indptr = np.cumsum([0, *map(len, indices)])
    return sp.csc_matrix((data, np.concatenate(indices), indptr), shape=frame.shape).tocsr()


def _dense_dtype(dtype: Any) -> Any:
    return dtype.subtype if _is_sparse(dtype) else dtype


def _is_sparse(dtype: Any) -> bool:
    """Return whether this is pandas' SparseDtype, which a worker without frames need not import."""
    return hasattr(dtype, "fill_value") and hasattr(dtype, "subtype")


def with_features(frame: Any, features: Sequence[str], *, place: Place) -> Any:
    """Return a frame with the columns of the fit, in their order, without others.

    Raises ValueError for columns that are missing.
    """
    columns = list(frame.columns)
    if columns == list(features):
        return frame
    if missing := [name for name in features if name not in columns]:
        raise ValueError(
            f"{place}X lacks {len(missing):,} of the columns of the fit: "
            f"{', '.join(map(repr, missing[:8]))}"
        )
    return frame[list(features)]


def refuse_category(dtype: Any, name: str) -> None:
    """Raise ValueError for a categorical dtype: levels are not one number, even if they look so."""
    if hasattr(dtype, "categories") and hasattr(dtype, "ordered"):
        raise ValueError(
            f"{name} has dtype category: its levels are no numbers of one column. Encode it before "
            "fit (sklearn.preprocessing.OneHotEncoder, pandas.get_dummies), or convert it by "
            "astype(float) where levels are quantities"
        )


def _converted(frame: Any, kinds: list[str], place: Place) -> np.ndarray:
    rows = np.empty(frame.shape)
    for j, kind in enumerate(kinds):
        column = frame.iloc[:, j]
        if kind in "fiub":
            rows[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        values = column.to_numpy(dtype=object)
        missing = column.isna().to_numpy()
        if missing.any():
            i = int(np.argmax(missing))
            raise ValueError(
                f"X contains NaN ({values[i]!r} is a missing value): {place.row(i)}, column "
                f"{frame.columns[j]!r}. Drop or impute before fit"
            )
        rows[:, j] = numbers(values, place, column=f", column {frame.columns[j]!r}")
    return rows


def numbers(values: np.ndarray, place: Place, column: str | None = None) -> np.ndarray:
    """Objects as floats, by NumPy's rules; (n,) with the name of their column, or (n, d).

    Raises
    ------
    ValueError or TypeError
        What NumPy raises for the first that is no number, with its place.
    """
    try:
        floats = values.astype(np.float64)
    except (TypeError, ValueError):
        for at in np.ndindex(values.shape):
            try:
                np.asarray(values[at]).astype(np.float64)
            except (TypeError, ValueError) as error:
                where = place.row(at[0]) + (
                    f", {place.column(at[1])}" if column is None else column
                )
                hint = ", or give a dataframe, whose text is levels" if column is None else ""
                raise type(error)(
                    f"X has values that are not numbers ({error}): {where} is {values[at]!r}; "
                    f"encode it before fit{hint}"
                ) from error
        raise
    if column is None:  # of a frame, a column of text that holds numbers is converted
        refuse_text(values, "X", place)
    return floats
