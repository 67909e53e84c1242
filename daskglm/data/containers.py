"""Containers of other libraries, as those that the rest of the package knows: their own conversion,
nothing else.

Polars and pyarrow tables become pandas, xarray what it wraps, pydata/sparse SciPy's CSR, futures
delayed objects, tensors of PyTorch and other arrays of the array API standard NumPy or CuPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.data.array_api import from_library, is_tensor

KNOWN = (
    "builtins",
    "numpy",
    "scipy",
    "pandas",
    "dask",
    "cupy",
    "cupyx",
    "cudf",
    "dask_cudf",
    "distributed",
    "daskglm",
)


@dataclass(frozen=True)
class Named:
    """Rows whose features have names: in memory, or delayed blocks.

    Parameters
    ----------
    rows : rows of a block, dask array, or list of delayed blocks
    names : tuple of str
        One for each feature.
    frames : tuple of delayed objects
        Of a dask dataframe: the bundles that blocks are made of, whose "X" has an index.
    held : tuple of futures
        Parts in the workers' memory that delayed blocks are made of.
    """

    rows: Any
    names: tuple[str, ...]
    frames: tuple[Any, ...] = ()
    held: tuple[Any, ...] = ()

    @property
    def shape(self) -> tuple[Any, int]:
        """Rows, nan where they are not known, and features."""
        n = np.nan if isinstance(self.rows, list) else self.rows.shape[0]
        return n, len(self.names)


def plain(values: Any) -> Any:
    """X, y or weights in a container that is known here; what is known is returned as it is.

    Parameters
    ----------
    values : anything
        In memory or lazy, one partition or all of them.

    Raises
    ------
    TypeError
        For `np.matrix`, lazy frames of Polars, and tensors that cannot be read here.
    """
    if isinstance(values, np.matrix):
        raise TypeError(
            "np.matrix is not supported. Please convert to a numpy array with np.asarray"
        )
    if isinstance(values, (list, tuple)):
        return _delayed(values)
    library = type(values).__module__.split(".")[0]
    if library in KNOWN:
        return values
    if library == "xarray" and hasattr(values, "data"):
        return values.data
    if library == "sparse":
        return _scipy(values)
    if is_tensor(values):
        return from_library(values)
    return _pandas(values)


def _delayed(values: Any) -> Any:
    """Return a list of futures as delayed objects, other lists as they are."""
    if not values or not all(map(is_future, values)):
        return values
    import dask

    return [dask.delayed(future) for future in values]


def is_future(value: Any) -> bool:
    """Return whether this is a future of Dask."""
    return type(value).__name__ == "Future" and type(value).__module__.startswith("distributed.")


def _scipy(values: Any) -> Any:
    """Return a pydata/sparse array as CSR; vectors, as y and weights are, as NumPy."""
    if values.ndim != 2:
        return values.todense()
    if not hasattr(values, "tocsr"):
        values = values.to_coo() if hasattr(values, "to_coo") else values.tocoo()
    return sp.csr_matrix(values.tocsr())


def _pandas(values: Any) -> Any:
    import narwhals as nw

    known = nw.from_native(values, pass_through=True, allow_series=True)
    if isinstance(known, nw.LazyFrame):
        raise TypeError(
            f"a {type(values).__module__}.{type(values).__name__} has no values yet: call its "
            "collect() first"
        )
    return known.to_pandas() if isinstance(known, (nw.DataFrame, nw.Series)) else values
