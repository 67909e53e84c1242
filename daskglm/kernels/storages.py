"""What sweeps ask of the rows of a tile; numba chooses the storage's own by the type of X.

A storage is a module with a function of each of these names: `dense`, whose rows are an array, and
`csr`, whose rows are the triple (data, indices, indptr).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba import types
from numba.extending import overload

from daskglm.kernels import csr, dense

# Whether a numba type is that of a storage's rows.
STORAGES: dict[ModuleType, Callable[[Any], bool]] = {
    dense: lambda X: isinstance(X, types.Array),
    csr: lambda X: isinstance(X, types.BaseTuple) and len(X) == 3,
}


def storage_of(X: Any) -> ModuleType:
    """Return the module of rows of a numba type."""
    return next(storage for storage, takes in STORAGES.items() if takes(X))


def _chosen(call: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function of this name that compiled code calls, for any storage.

    `call` returns a function that calls a storage's own with arguments of the same names.
    """
    name = call.__name__

    def asked(*arguments: Any) -> Any:
        raise NotImplementedError("compiled code only")

    functools.update_wrapper(asked, call)
    overload(asked, strict=False)(lambda X, *_: call(getattr(storage_of(X), name)))
    return asked


@_chosen
def tile_rows(own):  # type: ignore[no-untyped-def]
    """Return the rows of a tile, of `count`; `formed` says whether a Gram is."""
    return lambda X, d, count, formed: own(X, d, count, formed)


@_chosen
def run_rows(own):  # type: ignore[no-untyped-def]
    """Return the rows after which what was gathered is added to the sums."""
    return lambda X: own(X)


@_chosen
def prepared(own):  # type: ignore[no-untyped-def]
    """Return coefficients as `forward` takes them."""
    return lambda X, w: own(X, w)


@_chosen
def gathered(own):  # type: ignore[no-untyped-def]
    """Return where `backward` gathers what belongs to `sums`."""
    return lambda X, d, sums: own(X, d, sums)


@_chosen
def flush(own):  # type: ignore[no-untyped-def]
    """Add what was gathered to `sums`."""
    return lambda X, d, gradient, sums: own(X, d, gradient, sums)


@_chosen
def forward(own):  # type: ignore[no-untyped-def]
    """Compute the margins z of the rows [start, stop); rows from `ahead` on come next."""
    return lambda X, w, b, start, stop, z, ahead: own(X, w, b, start, stop, z, ahead)


@_chosen
def backward(own):  # type: ignore[no-untyped-def]
    """Add X[start:start + count]' slope to `out`; rows from `ahead` on come next."""
    return lambda X, slope, start, count, out, ahead: own(X, slope, start, count, out, ahead)


@_chosen
def add_squares(own):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times curvatures, to `out`."""
    return lambda X, curvature, start, count, out: own(X, curvature, start, count, out)


@_chosen
def room(own):  # type: ignore[no-untyped-def]
    """Return what `add_outer` works in."""
    return lambda X, many, formed: own(X, many, formed)


@_chosen
def add_outer(own):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] of a tile to the upper triangle of `gram`."""
    return lambda X, curvature, start, count, d, work, gram: own(
        X, curvature, start, count, d, work, gram
    )


@_chosen
def add_cross(own):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    return lambda X, codes, of, lo, n, cross: own(X, codes, of, lo, n, cross)
