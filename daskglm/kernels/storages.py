"""What is asked of rows in host memory; the storage's own function answers, chosen by their type.

A storage is a module with a function of each of these names: `dense`, whose rows are an array, and
`csr`, whose rows are the triple (data, indices, indptr).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from numba import typeof, types

from daskglm.kernels import csr, dense
from daskglm.kernels.chosen import Choice


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


_of_rows = Choice()


# ---- for sweeps, tile by tile
@_of_rows
def tile_rows(X, d, count, formed):  # type: ignore[no-untyped-def]
    """Return the rows of a tile, of `count`; `formed` says whether a Gram is."""


@_of_rows
def run_rows(X):  # type: ignore[no-untyped-def]
    """Return the rows after which what was gathered is added to the sums."""


@_of_rows
def prepared(X, w):  # type: ignore[no-untyped-def]
    """Return coefficients as `forward` takes them."""


@_of_rows
def gathered(X, d, sums):  # type: ignore[no-untyped-def]
    """Return where `backward` gathers what belongs to `sums`."""


@_of_rows
def flush(X, d, gradient, sums):  # type: ignore[no-untyped-def]
    """Add what was gathered to `sums`."""


@_of_rows
def forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins z of the rows [start, stop); rows from `ahead` on come next."""


@_of_rows
def backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Add X[start:start + count]' slope to `out`; rows from `ahead` on come next."""


@_of_rows
def add_squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times curvatures, to `out`."""


@_of_rows
def room(X, many, formed):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in."""


@_of_rows
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] of a tile to the upper triangle of `gram`."""


@_of_rows
def add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""


# ---- for tiles of columns
@_of_rows
def fill_columns(X, d, rows, stop, columns):  # type: ignore[no-untyped-def]
    """Fill `columns` with the features of `rows`, all before `stop`, and ones after the last."""


@_of_rows
def ask(X, first, count):  # type: ignore[no-untyped-def]
    """Prefetch `count` rows from the `first` on, which are read in no order."""


# ---- for coordinate ascent, row by row
@_of_rows
def dot(X, i, v, threshold):  # type: ignore[no-untyped-def]
    """Return the product of row i with v, whose entries move towards zero by a threshold."""


@_of_rows
def axpy(X, i, s, v):  # type: ignore[no-untyped-def]
    """Add s times row i to v."""


@_of_rows
def squared_norm(X, i):  # type: ignore[no-untyped-def]
    """Return the squared norm of row i."""


@_of_rows
def fetch_rows(X, i, stop):  # type: ignore[no-untyped-def]
    """Prefetch the rows [i, stop), or the beginning of them."""


@_of_rows
def fetch_shared(X, i, v):  # type: ignore[no-untyped-def]
    """Prefetch the entries of v that row i meets, where they are here and there."""


# ---- called by Python, over the rows [start, stop)
def _own(X: Any) -> ModuleType:
    return storage_of(typeof(X))


def count_rows(X: Any) -> int:
    """Return the number of rows."""
    return int(_own(X).count_rows(X))


def rows_between(X: Any, start: int, stop: int) -> Any:
    """Return the rows [start, stop), in the form of X."""
    return _own(X).rows_between(X, start, stop)


def matrix_of(X: Any, d: int) -> Any:
    """Return rows of d features as a float64 matrix: an array, or sparse ones as CSR."""
    return _own(X).matrix_of(X, d)


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
    _of_rows.add(storage.operations, storage.has_type)
    STORAGES.append(storage)


register(Storage(dense, lambda kind: isinstance(kind, types.Array), dense.arrays_of))
register(
    Storage(csr, lambda kind: isinstance(kind, types.BaseTuple) and len(kind) == 3, csr.arrays_of)
)
