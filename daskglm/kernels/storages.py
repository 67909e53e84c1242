"""What is asked of rows in host memory; the storage's own function answers, chosen by their type.

A storage is a module with a function of each of these names: `dense`, whose rows are an array, and
`csr`, whose rows are the triple (data, indices, indptr), and `coded`, of categories by their codes.
What the functions do is said in `dense`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types

from daskglm.kernels import coded, coded_block, csr, dense
from daskglm.kernels.chosen import Choice, within_callers
from daskglm.kernels.size import Size
from daskglm.system.compiled import watch


class Storage(NamedTuple):
    """A module of functions of rows, and how its rows are told."""

    operations: ModuleType
    # whether a numba type is that of its rows, as the functions take them
    has_type: Callable[[Any], bool]
    # rows of a block as the functions take them; None: they are not of this storage
    arrays_of: Callable[[Any], Any]


STORAGES: list[Storage] = []


def storage_of(kind: Any) -> ModuleType:
    """Return the module of rows of a numba type."""
    return next(storage.operations for storage in STORAGES if storage.has_type(kind))


def _known(X: Any) -> tuple[ModuleType, Any]:
    for storage in STORAGES:
        arrays = storage.arrays_of(X)
        if arrays is not None:
            return storage.operations, arrays
    raise TypeError(f"no kernels for rows of type {type(X).__name__}")


def arrays_of(X: Any) -> Any:
    """Return rows of a block in the form that the functions here take."""
    return _known(X)[1]


def take(X: Any, rows: Any) -> Any:
    """Copy some rows of a block, by their numbers."""
    return _known(X)[0].take(X, rows)


def kind(X: Any) -> tuple[Any, ...]:
    """Return what rows of blocks must have in common to be `joined`: it can be compared."""
    operations = _known(X)[0]
    return operations.__name__, *operations.kind(X)


def joined(parts: Sequence[Any]) -> Any:
    """Join rows of blocks of one `kind`; they are copied."""
    return _known(parts[0])[0].joined(parts)


def with_values(X: Any) -> Any:
    """Return rows of a block as what NumPy multiplies: an array, a CSR matrix, or `Coded`."""
    return _known(X)[0].with_values(X)


_of_rows = Choice(dense)


# ---- for sweeps, tile by tile
tile_rows = _of_rows("tile_rows")
run_rows = _of_rows("run_rows")
prepared = _of_rows("prepared")
gathered = _of_rows("gathered")
flush = _of_rows("flush")
forward = _of_rows("forward")
backward = _of_rows("backward")


@within_callers()
def _forward_all(X, w, b, start, stop, curvature, z, ahead):  # type: ignore[no-untyped-def]
    forward(X, w, b, start, stop, z, ahead)


@within_callers()
def _backward_all(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    backward(X, slope, start, count, out, ahead)


# the same, which need not read rows without curvature
forward_where = _of_rows("forward_where", _forward_all)
backward_where = _of_rows("backward_where", _backward_all)
add_squares = _of_rows("add_squares")
room = _of_rows("room")
add_outer = _of_rows("add_outer")
finish_gram = _of_rows("finish_gram")
add_cross = _of_rows("add_cross")
# ---- for tiles of columns
fill_columns = _of_rows("fill_columns")
ask = _of_rows("ask")
# ---- for coordinate ascent, row by row
dot = _of_rows("dot")
axpy = _of_rows("axpy")
squared_norm = _of_rows("squared_norm")
fetch_places = _of_rows("fetch_places")
fetch_rows = _of_rows("fetch_rows")
fetch_shared = _of_rows("fetch_shared")


# ---- called by Python, over the rows [start, stop)
# by the forms of rows
_OWN: dict[Any, ModuleType] = {}


def _form(X: Any) -> Any:
    """Return the type of rows with those of their parts, and what these are arrays of."""
    if isinstance(X, tuple):
        return type(X), *map(_form, X)
    return (type(X), X.dtype, X.ndim) if isinstance(X, np.ndarray) else type(X)


def _own(X: Any) -> ModuleType:
    if type(X) is np.ndarray:
        return dense
    # numba takes as long to tell a type as sums over some hundred values do
    if (form := _form(X)) not in _OWN:
        _OWN[form] = storage_of(typeof(X))
    return _OWN[form]


def count_rows(X: Any) -> int:
    """Return the number of rows."""
    return int(_own(X).count_rows(X))


def rows_between(X: Any, start: int, stop: int) -> Any:
    """Return the rows [start, stop), in the form of X."""
    return _own(X).rows_between(X, start, stop)


def matrix_of(X: Any, d: int) -> Any:
    """Return rows of d features as a float64 matrix: an array, or sparse ones as CSR."""
    return _own(X).matrix_of(X, d)


def product_with(X: Any, d: int, V: np.ndarray) -> Callable[[int, int], np.ndarray]:
    """Return a function of start and stop that multiplies these rows by V (d, K): (n, K)."""
    found: Callable[[int, int], np.ndarray] = _own(X).product_with(X, d, V)
    return found


def size_of(X: Any) -> Size:
    """Return what the summary of a block says of how its rows lie in memory."""
    found: Size = _own(X).size_of(X)
    return found


def row_at(X: Any, share: float) -> int:
    """Return the row before which about this share of the work on all rows lies."""
    return int(_own(X).row_at(X, share))


def row_values(X: Any) -> tuple[np.dtype, bool]:
    """Return the dtype that holds norms of rows, and whether these are worth keeping."""
    found: tuple[np.dtype, bool] = _own(X).row_values(X)
    return found


def address_of(X: Any) -> int:
    """Return where rows lie in host memory."""
    return int(_own(X).address_of(X))


def exact_runs(X: Any, start: int, stop: int) -> Iterator[tuple[slice, Any]] | None:
    """Return the rows [start, stop) in float64, run by run; None: their Grams are so anyhow."""
    found: Iterator[tuple[slice, Any]] | None = _own(X).exact_runs(X, start, stop)
    return found


def columns_copy(X: Any, d: int, columns: Any, *, pattern: bool) -> Any:
    """Return a copy to be made of some of the d columns; see `dense.ColumnsCopy`."""
    return _own(X).ColumnsCopy(X, d, columns, pattern=pattern)


def add_by_code(X: Any, values: Any, codes: Any, start: int, stop: int, out: Any) -> None:
    """Add [X 1] times `values` to the rows of `out` (codes, d + 1) that `codes` name."""
    _own(X).add_by_code(X, values, codes, start, stop, out)


def squared_norms(X: Any, start: int, stop: int) -> tuple[float, float]:
    """Return the largest squared row norm, and the sum of all: not finite if a square is not."""
    found: tuple[float, float] = _own(X).squared_norms(X, start, stop)
    return found


def spread(X: Any, centre: Any, scale: float, start: int, stop: int, sums: Any) -> None:
    """Add what `requests.Spread` asks for to `sums` (2 d + 1,)."""
    _own(X).spread(X, centre, scale, start, stop, sums)


def add_moments(X: Any, weight: Any, start: int, stop: int, sums: Any, squares: Any) -> None:
    """Add [X 1]' s to `sums` and X.^2' s to `squares`, both (d + 1,).

    `weight` has s, (n,), or is empty, which means ones.
    """
    _own(X).add_moments(X, weight, start, stop, sums, squares)


def count_signs(X: Any, kinds: Any, start: int, stop: int, above: Any, below: Any) -> None:
    """Count the rows of each kind with values above zero, and below it.

    `kinds` (n,) has the kind of each row, below zero for those that do not count; `above` and
    `below` are (kinds, d).
    """
    _own(X).count_signs(X, kinds, start, stop, above, below)


def register(storage: Storage) -> None:
    """Have rows of one more storage swept."""
    if not storage.operations.__name__.startswith("daskglm."):
        watch(storage.operations, storage.has_type)
    _of_rows.add(storage.operations, storage.has_type)
    STORAGES.append(storage)


register(Storage(dense, lambda kind: isinstance(kind, types.Array), dense.arrays_of))
register(Storage(csr, csr.has_type, csr.arrays_of))
register(Storage(coded, coded.has_type, coded.arrays_of))
register(Storage(coded_block, coded_block.has_type, coded_block.arrays_of))
