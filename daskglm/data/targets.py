"""Labels, targets and weights beside rows in memory, taken as scikit-learn takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import _check_sample_weight

from daskglm.core.arguments import shown
from daskglm.core.device import to_host
from daskglm.data.partitions import is_lazy, two_dimensions
from daskglm.data.values import (
    READ_FIRST,
    Place,
    constant,
    refuse_masked,
    refuse_names,
    refuse_no_numbers,
    refuse_text,
)


def in_memory(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return rows, labels and weights of data in memory, as scikit-learn takes them.

    Lists of rows become an array.

    Raises
    ------
    TypeError
        For objects without rows, such as None or a dict.
    ValueError
        For masked values, dates, complex numbers, text, and shapes that y and weights cannot have.
    """
    X = rows_of(X)
    two_dimensions(X)
    for values, name in ((y, "y"), (sample_weight, "sample_weight")):
        refuse_masked(values, name, Place())
    if not (isinstance(y, str) or is_lazy(y)):
        if getattr(getattr(y, "dtype", None), "kind", "") == "c":
            refuse_no_numbers(y.dtype, "y")
        y = _column(to_host(y))
    if sample_weight is not None and not (isinstance(sample_weight, str) or is_lazy(sample_weight)):
        weights = to_host(sample_weight)
        if np.asarray(weights).shape[:1] != X.shape[:1]:
            refuse_names(weights, "sample_weight")
        # only the number of rows counts; scikit-learn would ask X for its device, and CuPy's sparse
        # matrices have none
        sample_weight = _check_sample_weight(
            _weights(weights), np.empty(X.shape[:1]), dtype=np.float64
        )
    return X, y, sample_weight


def _column(y: Any) -> Any:
    """Return what scikit-learn makes of labels or targets: a vector."""
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biuf":
        return np.ascontiguousarray(y)  # as it would, after it has looked for frames and lists
    return column_or_1d(y, warn=True)


def rows_of(X: Any) -> Any:
    """Return X if it has rows; a list of rows as an array.

    Raises TypeError or ValueError for anything else.
    """
    if hasattr(X, "shape"):
        return X
    if isinstance(X, (str, Mapping)) or not (hasattr(X, "__array__") or hasattr(X, "__getitem__")):
        hint = READ_FIRST if isinstance(X, str) else ""
        raise TypeError(
            f"X is {shown(X)}, a {type(X).__name__}: give an array, a sparse matrix or a "
            f"dataframe{hint}"
        )
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"X is a {type(X).__name__} whose rows are not of equal length ({error})"
        ) from error


def _weights(given: Any) -> Any:
    """Weights as floats, None as NaN; a number stands for all rows."""
    if (number := constant(given, "sample_weight")) is not None:
        return number
    values = np.asarray(given)
    refuse_no_numbers(values.dtype, "sample_weight")
    try:
        floats = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight={shown(given)} has values that are not numbers ({error})"
        ) from error
    refuse_text(values, "sample_weight", Place())
    return floats
