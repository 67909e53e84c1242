"""How coefficients of several outputs and their sums are laid out for kernels.

A layout has the shape of sums, makes W so, and brings sums back to (K, size): by where rows are,
and how they are stored. `OnHost` and `OnDevice` call kernels of a loss of K margins with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.summation import LEAST_ROWS
from daskglm.kernels import gram_side, storages, sweep_outputs
from daskglm.kernels.column_tiles import TURN
from daskglm.kernels.records import NOTHING
from daskglm.kernels.simd_columns import LEFT, RIGHT, room_for

# Bytes of a tile in float64, which stays in the second-level cache; then its most rows, and those
# of a tile of sparse rows, which stays in the first-level one.
TILE_BYTES = 1 << 18
MOST_ROWS = 1024
SPARSE_ROWS = 128
# Features up to which tiles of sparse rows are made dense.
DENSE_WIDTH = 512

# rows, the class of each, weights, offsets of all margins
Rows = tuple[Any, Any, Any, Any]


def number_dtype(n: int) -> type[np.signedinteger[Any]]:
    """Return the dtype of numbers of n rows."""
    return np.int32 if n < 2**31 else np.int64


def rows_within(width: int) -> int:
    """Return how many rows of so many float64 numbers are a tile."""
    return min(max(TILE_BYTES // (8 * width), LEAST_ROWS), MOST_ROWS)


@dataclass(frozen=True)
class InColumns:
    """Rows that are dense, or become so by tiles; see `kernels.column_tiles`."""

    d: int
    K: int

    @property
    def width(self) -> int:
        """Features and intercept, rounded up to whole register blocks."""
        return -(-(self.d + 1) // RIGHT) * RIGHT

    @property
    def shape(self) -> tuple[int, int]:
        """Of W and of sums: outputs are rounded up to whole register blocks, too."""
        return -(-self.K // LEFT) * LEFT, self.width

    @property
    def tile_rows(self) -> int:
        """Rows of a tile of features and slopes, whole turns of them."""
        return rows_within(sum(self.shape)) // TURN * TURN

    def work(self, most: int) -> np.ndarray:
        """Return room for a tile of so many rows, which tells kernels that it is of columns."""
        found: np.ndarray = room_for(sum(self.shape), most, NOTHING)
        return found

    def laid_out(self, W: np.ndarray) -> np.ndarray:
        """Return W (K, size), with an intercept of zero if it has none."""
        out = np.zeros(self.shape)
        out[: len(W), : W.shape[1]] = W
        return out

    def result(self, sums: np.ndarray, size: int) -> np.ndarray:
        """Return sums (..., *shape) as (..., K, size)."""
        return np.ascontiguousarray(sums[..., : self.K, :size])


@dataclass(frozen=True)
class Stored:
    """Sparse rows of many features, which stay so; see `kernels.sparse_tiles`."""

    d: int
    K: int

    tile_rows = SPARSE_ROWS

    @property
    def width(self) -> int:
        """Features and intercept."""
        return self.d + 1

    @property
    def shape(self) -> tuple[int, int]:
        """Of W and of sums."""
        return self.width, self.K

    def work(self, most: int) -> np.ndarray:
        """Return a number an output, which tells kernels that rows stay sparse."""
        return np.empty(self.K)

    def laid_out(self, W: np.ndarray) -> np.ndarray:
        """Return W (K, size), with an intercept of zero if it has none."""
        out = np.zeros(self.shape)
        out[: W.shape[1]] = W.T
        return out

    def result(self, sums: np.ndarray, size: int) -> np.ndarray:
        """Return sums (..., *shape) as (..., K, size)."""
        return np.ascontiguousarray(np.swapaxes(sums, -1, -2)[..., :size])


def of_host(facts: DataSummary, K: int, *, columns: bool = False) -> InColumns | Stored:
    """Return the layout of K outputs on the host; `columns`: tiles of them, which Grams want."""
    d = facts.n_features or 0
    return Stored(d, K) if facts.sparse and d > DENSE_WIDTH and not columns else InColumns(d, K)


class Outputs(Protocol):
    """What requests about a loss of K margins ask of rows, wherever they are."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of W and of sums."""

    @property
    def width(self) -> int:
        """Entries of a diagonal, and the side of a Gram."""

    def laid_out(self, W: np.ndarray) -> Any:
        """Return W (K, size), with an intercept of zero if it has none."""

    def result(self, sums: np.ndarray, size: int) -> np.ndarray:
        """Return sums that are laid out so as (K, size)."""

    def margins(self, rows: Rows, W: Any, lo: int, hi: int, out: Any) -> None:
        """Write margins of the rows [lo, hi) to `out` (K, n)."""

    def evaluate(
        self, rows: Rows, W: Any, of: tuple[Any, Any, bool], lo: int, hi: int, out: Any
    ) -> None:
        """Add up what `sweep_outputs.evaluate` says; `of` are basis, pairs, and whether exactly."""

    def hessian_vector(self, rows: Rows, margin: Any, V: Any, lo: int, hi: int, sums: Any) -> None:
        """Add the Hessian at margins times V to `sums`."""

    def along(self, rows: Rows, Z: Any, mixes: tuple[Any, Any], lo: int, hi: int, out: Any) -> None:
        """Add up what `sweep_outputs.along` says; `mixes` are coefficients and constants."""


class OnHost:
    """Rows in host memory, laid out for K classes, and the law of a loss."""

    def __init__(self, layout: InColumns | Stored, law: Any) -> None:
        self.layout, self.law = layout, law
        self.shape, self.width = layout.shape, layout.width
        self.laid_out, self.result = layout.laid_out, layout.result

    def _tile(self, X: Any) -> tuple[int, np.ndarray, np.ndarray]:
        """Classes, room for a tile, and for the numbers of its rows."""
        rows = self.layout.tile_rows
        order = np.empty(rows, number_dtype(storages.count_rows(X)))
        return self.layout.K, self.layout.work(rows), order

    def margins(self, rows: Rows, W: Any, lo: int, hi: int, out: Any) -> None:
        """Write margins of the rows [lo, hi) to `out` (K, n)."""
        X, _, _, offset = rows
        sweep_outputs.margins((X, self.layout.d, offset), W, *self._tile(X), lo, hi, out)

    def evaluate(
        self, rows: Rows, W: Any, of: tuple[Any, Any, bool], lo: int, hi: int, out: Any
    ) -> None:
        """Add up what `sweep_outputs.evaluate` says."""
        X, codes, weight, offset = rows
        basis, pairs, exact = of
        single = not exact and isinstance(X, np.ndarray) and X.dtype == np.float32
        like = np.empty(0, np.float32) if single else NOTHING
        data = X, self.layout.d, codes, weight, offset
        sweep_outputs.evaluate(self.law, data, W, *self._tile(X), basis, pairs, like, lo, hi, out)

    def hessian_vector(self, rows: Rows, margin: Any, V: Any, lo: int, hi: int, sums: Any) -> None:
        """Add the Hessian at margins times V to `sums`."""
        X, codes, weight, _ = rows
        data = X, self.layout.d, codes, weight
        sweep_outputs.hessian_vector(self.law, data, margin, V, *self._tile(X), lo, hi, sums)

    def along(self, rows: Rows, Z: Any, mixes: tuple[Any, Any], lo: int, hi: int, out: Any) -> None:
        """Add up what `sweep_outputs.along` says."""
        sweep_outputs.along(self.law, *rows[1:3], Z, *mixes, lo, hi, out)


@dataclass(frozen=True)
class OnDevice:
    """Rows on a device, of any kind, for the softmax."""

    d: int
    K: int
    backend: Any

    @property
    def width(self) -> int:
        """Features and intercept, rounded up as Grams are."""
        return gram_side(self.d)

    @property
    def shape(self) -> tuple[int, int]:
        """Of W and of sums."""
        return self.K, self.width

    def laid_out(self, W: np.ndarray) -> Any:
        """Return W (K, size), with an intercept of zero if it has none."""
        out = np.zeros(self.shape)
        out[:, : W.shape[1]] = W
        return self.backend.xp.asarray(out)

    def result(self, sums: np.ndarray, size: int) -> np.ndarray:
        """Return sums that are laid out so as (K, size)."""
        return np.ascontiguousarray(sums[:, :size])

    def margins(self, rows: Rows, W: Any, lo: int, hi: int, out: Any) -> None:
        """Write margins of the rows [lo, hi) to `out` (K, n)."""
        self.backend.outputs.margins(rows, W, lo, hi, out)

    def evaluate(
        self, rows: Rows, W: Any, of: tuple[Any, Any, bool], lo: int, hi: int, out: Any
    ) -> None:
        """Add up what `sweep_outputs.evaluate` says."""
        basis, pairs, exact = of
        there = self.backend.xp.asarray(basis)
        self.backend.outputs.evaluate(rows, W, there, pairs, lo, hi, out, exact=exact)

    def hessian_vector(self, rows: Rows, margin: Any, V: Any, lo: int, hi: int, sums: Any) -> None:
        """Add the Hessian at margins times V to `sums`."""
        self.backend.outputs.hessian_vector(rows, margin, V, lo, hi, sums)

    def along(self, rows: Rows, Z: Any, mixes: tuple[Any, Any], lo: int, hi: int, out: Any) -> None:
        """Add up what `sweep_outputs.along` says."""
        self.backend.outputs.along(*rows[1:3], Z, *mixes, lo, hi, out)
