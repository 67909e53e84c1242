"""Bounds by a Hessian with the levels of two large factors, which is never factorised.

What flows in the graph of levels do to other columns, numbers mostly, is solved for roughly and
routed; their Schur complement is small, and bounded from below. `docs/certificates.md` has proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from daskglm.certificates.level_graph import EPS, MORE, LevelGraph
from daskglm.core.block_hessian import BlockHessian, dense

# Other columns at most, for each of which a system of levels is solved, and numbers that their
# products with levels are: 512 MiB, of which seven copies are in memory for a moment. Chosen.
MOST_NUMBERS, MOST_ENTRIES = 100, 1 << 26
# Residuals, as shares of right-hand sides, at which systems have been solved: of a gradient, and of
# other columns, whose rest is but a small part of their Schur complement. Chosen.
ENOUGH, ROUGH = 1e-10, 1e-6
# Share of the levels' part by which errors of its products with other columns may lower it.
MOST_LOST = 0.5


@dataclass(frozen=True, eq=False)
class TwoFactors:
    """A matrix nowhere above an exact Hessian: the levels' graph, and other columns.

    Parameters
    ----------
    hessian : BlockHessian
        The computed one, whose order of coefficients this has.
    graph : LevelGraph
    numbers : (n, k) array
        Products of levels and other columns.
    potentials : (n, k) array
        L^-1 times those, nearly.
    reach, left : (k,) arrays
        Bounds on the norms, in that of L^-1, of each column of `numbers`, and of what potentials
        leave of it.
    lower : (k, k) array
        Cholesky factor of a matrix that is nowhere above the Schur complement of the levels.
    alone : (k,) array
        Roots of the diagonal of its inverse.
    """

    hessian: BlockHessian
    graph: LevelGraph
    numbers: np.ndarray
    potentials: np.ndarray
    reach: np.ndarray
    left: np.ndarray
    lower: np.ndarray
    alone: np.ndarray

    @classmethod
    def below(cls, hessian: BlockHessian, error: float) -> TwoFactors | None:
        """Return a bound on a Hessian with two blocks; None where nothing is proved.

        Its entries (j, k) are known to `error` times sqrt(H_jj H_kk), and sums of positive terms,
        as those by levels are, to that share.
        """
        inner = hessian.rest
        assert isinstance(inner, BlockHessian)
        k = len(inner.rest)
        if k > MOST_NUMBERS or k * (len(hessian) - k) > MOST_ENTRIES:
            return None
        if not (hessian.is_finite and error < 1.0):
            return None
        own, others = np.zeros(len(inner), bool), np.ones(len(hessian.levels), bool)
        own[inner.start : inner.stop] = True
        pairs = hessian.cross.taken(others, own)
        if not pairs.is_sparse.all():
            return None
        sums = hessian.levels, inner.levels, pairs.sparse
        graph = LevelGraph.below(*sums, error, hessian.alone)
        if graph is None:
            return None
        numbers = np.vstack([hessian.cross.taken(others, ~own).to_dense(), inner.cross.to_dense()])
        return cls._beside(hessian, graph, numbers, dense(inner.rest), error)

    @classmethod
    def _beside(
        cls,
        hessian: BlockHessian,
        graph: LevelGraph,
        numbers: np.ndarray,
        rest: np.ndarray,
        error: float,
    ) -> TwoFactors | None:
        """Return the bound with other columns, whose products with each other are `rest`."""
        k, diagonal = len(rest), rest.diagonal()
        if not (diagonal > 0.0).all():
            return None
        # products of levels and others are off by sums over disjoint rows
        m = len(hessian.levels)
        sums = _levels_of(hessian, hessian.diagonal()) * graph.tree.resistance
        spread = math.sqrt(float(sums[:m].sum())) + math.sqrt(float(sums[m:].sum()))
        lost = 2.0 * error * spread * math.sqrt(k)
        if not lost <= MOST_LOST:
            return None
        graph = graph.times((1.0 - lost) * (1.0 - EPS))
        potentials = graph.solve(numbers, ROUGH)
        if not np.isfinite(potentials).all():
            return None
        flows = [graph.flow(*each) for each in zip(numbers.T, potentials.T, strict=True)]
        left = np.array([flow.left for flow in flows])
        reach = np.array([flow.length for flow in flows]) + left
        carried = np.array([flow.tree for flow in flows]).reshape(k, len(graph)).T

        root = np.sqrt(diagonal)
        taken = graph.energies(potentials, carried) / root[:, None] / root
        off = math.sqrt(k) * float((np.array([flow.off for flow in flows]) / root).max(initial=0.0))
        sums_off = k * (graph.edges + len(graph) + MORE) * EPS
        sums_off *= float(np.square(reach / root).max(initial=1.0))
        doubt = lost + 2.0 * k * error + off * (2.0 + off) + sums_off + 4.0 * k * (k + 2) * EPS
        least = rest / root[:, None] / root - (1.0 + off) * taken - doubt * np.eye(k)
        if not np.isfinite(least).all():
            return None
        lower, failed = scipy.linalg.lapack.dpotrf(least, lower=1) if k else (least, 0)
        if failed:
            return None
        lower = lower * root[:, None]
        columns = _forward(lower, np.eye(k))
        alone = (1.0 + k * EPS) * np.sqrt(np.square(columns).sum(axis=0))
        return cls(hessian, graph, numbers, potentials, reach, left, lower, alone)

    def roots(self) -> np.ndarray:
        """Bound the roots of the diagonal of the inverse of the exact Hessian, (n,)."""
        alone = np.sqrt(self.graph.tree.resistance)
        beside = np.sqrt(np.square(_forward(self.lower, self.potentials.T)).sum(axis=0))
        beside = beside + float(self.left @ self.alone) * alone
        sure = 1.0 + (self.graph.edges + MORE) * EPS
        return self._joined(sure * np.hypot(alone, beside), sure * self.alone)

    def length(self, v: np.ndarray) -> float:
        """Bound the norm of a vector in that of the inverse of the exact Hessian."""
        levels, others = _levels_of(self.hessian, v), _others_of(self.hessian, v)
        x = self.graph.solve(levels[:, None], ENOUGH)[:, 0]
        if not np.isfinite(x).all():
            return math.inf
        flow = self.graph.flow(levels, x)
        rest = others - x @ self.numbers
        rounded = (len(x) + MORE) * EPS * (np.abs(others) + np.abs(x) @ np.abs(self.numbers))
        off = self.reach * flow.left + rounded
        beside = float(np.linalg.norm(_forward(self.lower, rest))) + float(self.alone @ off)
        sure = 1.0 + (self.graph.edges + MORE) * EPS
        return sure * math.hypot(flow.length + flow.left, beside)

    def step(self, v: np.ndarray) -> tuple[np.ndarray, float]:
        """Return Newton's step by this matrix, nearly, and the square of its decrement."""
        levels, others = _levels_of(self.hessian, v), _others_of(self.hessian, v)
        x = self.graph.solve(levels[:, None], ENOUGH)[:, 0]
        half = _forward(self.lower, others - x @ self.numbers)
        own = _backward(self.lower, half)
        step = -self._joined(x - self.potentials @ own, own)
        return step, float(levels @ x + half @ half)

    def _joined(self, levels: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the vector in the order of the Hessian."""
        m, inner = len(self.hessian.levels), self.hessian.rest
        assert isinstance(inner, BlockHessian)
        return self.hessian.joined(levels[:m], inner.joined(levels[m:], others))


def _levels_of(hessian: BlockHessian, v: np.ndarray) -> np.ndarray:
    """Return the entries of a vector by the levels of both factors."""
    first, rest = hessian.parts_of(v)
    inner: Any = hessian.rest
    return np.append(first, inner.parts_of(rest)[0])


def _others_of(hessian: BlockHessian, v: np.ndarray) -> np.ndarray:
    """Return the entries of a vector by other columns."""
    inner: Any = hessian.rest
    found: np.ndarray = inner.parts_of(hessian.parts_of(v)[1])[1]
    return found


def _forward(lower: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Multiply by the inverse of a triangle; of no rows, too."""
    return scipy.linalg.lapack.dtrtrs(lower, v, lower=1)[0] if len(lower) else v


def _backward(lower: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Multiply by the inverse of the transpose of a triangle; of no rows, too."""
    return scipy.linalg.lapack.dtrtrs(lower, v, lower=1, trans=1)[0] if len(lower) else v
