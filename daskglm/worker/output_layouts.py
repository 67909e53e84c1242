"""How W and sums of the softmax are laid out for kernels, by where and how rows are stored.

A layout has the shape of sums, makes W so, brings sums back to (K, size), and calls the kernels.
`wide` are sparse rows of many features, which stay sparse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from daskglm.core.summation import LEAST_ROWS
from daskglm.kernels import gram_side, outputs_csr, outputs_dense
from daskglm.kernels.batched_dense import TURN
from daskglm.kernels.records import NOTHING
from daskglm.kernels.simd_columns import LEFT, RIGHT

# Bytes of a tile in float64, which stays in the second-level cache; then its most rows. As
# `worker.batched` has them.
TILE_BYTES = 1 << 18
MOST_ROWS = 1024

# rows, the class of each, weights
Rows = tuple[Any, Any, Any]


class Layout(Protocol):
    """What requests ask of rows, wherever they are."""

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

    def margins(self, X: Any, W: Any, lo: int, hi: int, out: Any) -> None:
        """Write margins of the rows [lo, hi) to `out` (K, n)."""

    def evaluate(
        self, rows: Rows, W: Any, of: tuple[Any, Any, bool], lo: int, hi: int, out: Any
    ) -> None:
        """Add up what `outputs_dense.evaluate` says; `of` are basis, pairs, and whether exactly."""

    def hessian_vector(self, rows: Rows, margin: Any, V: Any, lo: int, hi: int, sums: Any) -> None:
        """Add the Hessian at margins times V to `sums`."""


@dataclass(frozen=True)
class InTiles:
    """Rows in host memory that are dense, or become dense by tiles."""

    d: int
    K: int

    @property
    def width(self) -> int:
        """Features and intercept, rounded up to whole register blocks."""
        return -(-(self.d + 1) // RIGHT) * RIGHT

    @property
    def shape(self) -> tuple[int, int]:
        """Of W and of sums: classes are rounded up to whole register blocks, too."""
        return -(-self.K // LEFT) * LEFT, self.width

    @property
    def many(self) -> int:
        """Rows of a tile of columns."""
        rows = TILE_BYTES // (8 * sum(self.shape))
        return min(max(rows, LEAST_ROWS), MOST_ROWS) // TURN * TURN

    def laid_out(self, W: np.ndarray) -> np.ndarray:
        """Return W (K, size), with an intercept of zero if it has none."""
        out = np.zeros(self.shape)
        out[: self.K, : W.shape[1]] = W
        return out

    def result(self, sums: np.ndarray, size: int) -> np.ndarray:
        """Return sums that are laid out so as (K, size)."""
        return np.ascontiguousarray(sums[: self.K, :size])

    def margins(self, X: Any, W: Any, lo: int, hi: int, out: Any) -> None:
        """Write margins of the rows [lo, hi) to `out` (K, n)."""
        outputs_dense.margins(X, self.d, W, self.K, self.many, lo, hi, out)

    def evaluate(
        self, rows: Rows, W: Any, of: tuple[Any, Any, bool], lo: int, hi: int, out: Any
    ) -> None:
        """Add up what `outputs_dense.evaluate` says."""
        X, codes, weight = rows
        basis, pairs, exact = of
        single = not exact and isinstance(X, np.ndarray) and X.dtype == np.float32
        like = np.empty(0, np.float32) if single else NOTHING
        outputs_dense.evaluate(
            (X, self.d, codes, weight), W, self.K, self.many, basis, pairs, like, lo, hi, out
        )

    def hessian_vector(self, rows: Rows, margin: Any, V: Any, lo: int, hi: int, sums: Any) -> None:
        """Add the Hessian at margins times V to `sums`."""
        X, codes, weight = rows
        data, many = (X, self.d, codes, weight), self.many
        outputs_dense.hessian_vector(data, margin, V, self.K, many, lo, hi, sums)


@dataclass(frozen=True)
class Wide:
    """Sparse rows of many features in host memory."""

    d: int
    K: int

    @property
    def width(self) -> int:
        """Features and intercept."""
        return self.d + 1

    @property
    def shape(self) -> tuple[int, int]:
        """Of W and of sums."""
        return self.d + 1, self.K

    def laid_out(self, W: np.ndarray) -> np.ndarray:
        """Return W (K, size), with an intercept of zero if it has none."""
        out = np.zeros(self.shape)
        out[: W.shape[1]] = W.T
        return out

    def result(self, sums: np.ndarray, size: int) -> np.ndarray:
        """Return sums that are laid out so as (K, size)."""
        return np.ascontiguousarray(sums.T[:, :size])

    def margins(self, X: Any, W: Any, lo: int, hi: int, out: Any) -> None:
        """Write margins of the rows [lo, hi) to `out` (K, n)."""
        outputs_csr.margins(X, self.d, W, lo, hi, out)

    def evaluate(
        self, rows: Rows, W: Any, of: tuple[Any, Any, bool], lo: int, hi: int, out: Any
    ) -> None:
        """Add up what `outputs_dense.evaluate` says, but Grams, which want tiles."""
        X, codes, weight = rows
        outputs_csr.evaluate((X, self.d, codes, weight), W, of[0], lo, hi, out[:4])

    def hessian_vector(self, rows: Rows, margin: Any, V: Any, lo: int, hi: int, sums: Any) -> None:
        """Add the Hessian at margins times V to `sums`."""
        X, codes, weight = rows
        outputs_csr.hessian_vector((X, self.d, codes, weight), margin, V, lo, hi, sums)


@dataclass(frozen=True)
class OnDevice:
    """Rows on a device, of any kind."""

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

    def margins(self, X: Any, W: Any, lo: int, hi: int, out: Any) -> None:
        """Write margins of the rows [lo, hi) to `out` (K, n)."""
        self.backend.outputs.margins(X, W, lo, hi, out)

    def evaluate(
        self, rows: Rows, W: Any, of: tuple[Any, Any, bool], lo: int, hi: int, out: Any
    ) -> None:
        """Add up what `outputs_dense.evaluate` says."""
        basis, pairs, exact = of
        there = self.backend.xp.asarray(basis)
        self.backend.outputs.evaluate(rows, W, there, pairs, lo, hi, out, exact=exact)

    def hessian_vector(self, rows: Rows, margin: Any, V: Any, lo: int, hi: int, sums: Any) -> None:
        """Add the Hessian at margins times V to `sums`."""
        self.backend.outputs.hessian_vector(rows, margin, V, lo, hi, sums)
