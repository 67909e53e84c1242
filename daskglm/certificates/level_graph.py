"""Levels of two factors as a graph, whose flows bound a gradient in the norm of an inverse Hessian.

A row with a level of each is an edge between them, one with a level of one factor alone an edge to
the ground; curvatures are conductances. Any flow that takes a gradient's entries to the ground has
at least the energy g' L^-1 g (Thomson's principle). `docs/certificates.md` has the proofs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.sparse.linalg import SuperLU, splu

EPS = float(np.finfo(float).eps)
# Roundings of a sum beside one for each of its terms: of a product, a quotient, a root.
MORE = 8
# Products of systems at most. Chosen: routing bounds whatever they leave.
MOST_PRODUCTS = 500
# Edges whose flows are in memory at once for several vectors: some MB for ten of them. Chosen.
AT_ONCE = 1 << 16


class Flow(NamedTuple):
    """How a vector's entries flow to the ground: by the potentials x, and the rest along a tree.

    Parameters
    ----------
    length : float
        Root of the energy of what potentials move.
    tree : (n,) array
        What the edge from each node to the next one of its way carries beside that.
    tree_length : float
        Root of the energy of that.
    off : float
        Bound on the norm, in that of L^-1, of what rounding leaves of the vector.
    """

    length: float
    tree: np.ndarray
    tree_length: float
    off: float

    @property
    def left(self) -> float:
        """Bound on the norm of v - L x in that of L^-1."""
        return self.tree_length + self.off


@dataclass(frozen=True, eq=False)
class Tree:
    """Shortest ways to the ground, by resistance.

    Parameters
    ----------
    parent : (n,) int array
        The next node of the way; n is the ground.
    conductance : (n,) array
        Of the edge to that.
    resistance : (n,) array
        Bound on that of the whole way, and so on the diagonal of L^-1.
    """

    parent: np.ndarray
    conductance: np.ndarray
    resistance: np.ndarray

    @functools.cached_property
    def _deepest_first(self) -> np.ndarray:
        jump, depth = np.append(self.parent, len(self.parent)), np.ones(len(self.parent) + 1, int)
        depth[-1] = 0
        while (jump < len(self.parent)).any():
            depth, jump = depth + depth[jump], jump[jump]
        return np.argsort(-depth[:-1], kind="stable")

    @functools.cached_property
    def _triangle(self) -> SuperLU:
        order, n = self._deepest_first, len(self.parent)
        place = np.empty(n, int)
        place[order] = np.arange(n)
        inner = np.flatnonzero(self.parent < n)
        ways = sp.csc_array(
            (np.ones(len(inner)), (place[self.parent[inner]], place[inner])), shape=(n, n)
        )
        alone = {"permc_spec": "NATURAL", "diag_pivot_thresh": 0.0}
        return splu(sp.csc_array(sp.eye_array(n, format="csc") + ways), **alone)

    def routed(self, v: np.ndarray) -> np.ndarray:
        """Return what each edge carries of a vector (n,), from the leaves on."""
        order, found = self._deepest_first, np.empty(len(v))
        found[order] = self._triangle.solve(v[order])
        return found

    def arriving(self, flow: np.ndarray) -> np.ndarray:
        """Return the sum of what edges from elsewhere bring to each node, (n,)."""
        n = len(flow)
        return np.bincount(self.parent, flow, minlength=n + 1)[:n]


@dataclass(frozen=True, eq=False)
class LevelGraph:
    """The matrix L = [[D, W], [W', E]] of levels of two factors, D and E diagonal.

    Parameters
    ----------
    pairs : (m, q) csr_array
        W: conductances of edges, above zero.
    ground : (m + q,) array
        By how much D and E are larger than the sums of W.
    tree : Tree
    """

    pairs: sp.csr_array
    ground: np.ndarray
    tree: Tree

    @classmethod
    def below(
        cls,
        first: np.ndarray,
        second: np.ndarray,
        pairs: sp.csr_array,
        error: float,
        alone: np.ndarray | None = None,
    ) -> LevelGraph | None:
        """Return a graph that is nowhere above the exact matrix; None: no way may lead to ground.

        Of levels that occur with each other alone, one can be added to all of a factor and taken
        from those of the other: the matrix is that for coefficients one of which is zero.

        Parameters
        ----------
        first, second : (m,) and (q,) arrays
            The computed diagonals.
        pairs : (m, q) csr_array
            The computed products of levels.
        error : float
            Bound on the relative error of all of these.
        alone : (m + q,) array of bool, optional
            Which may have more curvature than that of pairs; default: all of them.
        """
        sizes, diagonal = pairs.shape, np.append(first, second)
        pairs = sp.csr_array(pairs, copy=True)
        if not np.isfinite(pairs.data).all() or not np.isfinite(diagonal).all():
            return None
        sums = np.append(pairs.sum(axis=1), pairs.sum(axis=0))
        counts = np.append(np.diff(pairs.indptr), np.bincount(pairs.indices, minlength=sizes[1]))
        doubt = (3.0 * error + (counts + MORE) * EPS) * (diagonal + sums)
        ground = _conducting(diagonal - sums - doubt)
        if alone is not None:
            chosen = _one_of_each_part(pairs, diagonal, alone)
            ground[chosen] = diagonal[chosen]
        pairs.data = _conducting(pairs.data * (1.0 - error - EPS))
        pairs.eliminate_zeros()
        tree = _shortest(pairs, ground)
        return None if tree is None else cls(pairs, ground, tree)

    def __len__(self) -> int:
        return len(self.ground)

    @property
    def edges(self) -> int:
        """Number of edges, with those to the ground."""
        return len(self.pairs.data) + len(self)

    def times(self, scale: float) -> LevelGraph:
        """Return the graph of the matrix times a number."""
        pairs, tree = self.pairs.copy(), self.tree
        pairs.data = scale * pairs.data
        tree = Tree(tree.parent, scale * tree.conductance, tree.resistance / scale)
        return replace(self, pairs=pairs, ground=scale * self.ground, tree=tree)

    @functools.cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The nodes at both ends of each edge between levels."""
        m = self.pairs.shape[0]
        return np.repeat(np.arange(m), np.diff(self.pairs.indptr)), m + self.pairs.indices

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """How many edges each node has, with those of the tree once more."""
        a, b = self.ends
        n = len(self)
        found = np.bincount(a, minlength=n) + np.bincount(b, minlength=n)
        return found + np.bincount(self.tree.parent, minlength=n + 1)[:n]

    @functools.cached_property
    def _scaled(self) -> tuple[np.ndarray, sp.csr_array]:
        """Roots of the diagonal, and W over those of both sides."""
        a, b = self.ends
        n, m = len(self), self.pairs.shape[0]
        sums = np.bincount(a, self.pairs.data, n) + np.bincount(b, self.pairs.data, n)
        roots = np.sqrt(sums + self.ground)
        scaled = self.pairs.copy()
        scaled.data = scaled.data / roots[a] / roots[b]
        return roots, sp.csr_array(scaled, shape=(m, n - m))

    @np.errstate(all="ignore")
    def solve(self, V: np.ndarray, enough: float) -> np.ndarray:
        """Return X (n, k) with L X = V nearly, by conjugate gradients; it may have overflowed.

        Unknowns are the second factor's levels. `enough` is the share of each right-hand side's
        norm at which they end. All are solved at once, in a third of the time of one after another
        where products read memory.
        """
        roots, F = self._scaled
        m = F.shape[0]
        V = V / roots[:, None]
        left = V[m:] - F.T @ V[:m]
        found, way = np.zeros_like(left), left
        square = np.square(left).sum(axis=0)
        last = enough * enough * square
        for _ in range(MOST_PRODUCTS):
            going = square > last
            if not going.any():
                break
            product = way - F.T @ (F @ way)
            step = square / np.where(going, (way * product).sum(axis=0), np.inf)
            found, left = found + step * way, left - step * product
            before, square = square, np.where(going, np.square(left).sum(axis=0), square)
            way = left + np.where(going, square / before, 0.0) * way
        return np.vstack([V[:m] - F @ found, found]) / roots[:, None]

    def flow(self, v: np.ndarray, x: np.ndarray) -> Flow:
        """Let a vector flow to the ground, with potentials x. Any x gives a bound."""
        (a, b), n, tree = self.ends, len(self), self.tree
        through, down = self.pairs.data * (x[a] + x[b]), self.ground * x
        moved = np.bincount(a, through, n) + np.bincount(b, through, n) + down
        carried = tree.routed(v - moved)
        lost = v - moved - carried - tree.arriving(carried)
        through, down = np.abs(through), np.abs(down)
        sizes = np.bincount(a, through, n) + np.bincount(b, through, n) + down
        sizes += np.abs(v) + np.abs(carried) + tree.arriving(np.abs(carried))
        off = np.abs(lost) + (self.counts + MORE) * EPS * sizes
        square = float(through @ (through / self.pairs.data))
        open_ = self.ground > 0.0
        square += float(down[open_] @ (down[open_] / self.ground[open_]))
        sure = 1.0 + (self.edges + MORE) * EPS
        length = sure * float(np.sqrt(square))
        tree_length = sure * float(np.sqrt(carried @ (carried / tree.conductance)))
        # potentials times conductances are rounded, too
        total = sure * float(np.sqrt(tree.resistance) @ off) + MORE * EPS * length
        return Flow(length, carried, tree_length, total)

    def energies(self, x: np.ndarray, carried: np.ndarray) -> np.ndarray:
        """Return products (k, k) of flows by potentials x (n, k), with what a tree carries (n, k).

        That is a Gram of flows over roots of conductances.
        """
        (a, b), tree = self.ends, self.tree
        found = np.zeros((x.shape[1],) * 2)
        for begin in range(0, len(a), AT_ONCE):
            run = slice(begin, begin + AT_ONCE)
            part = np.sqrt(self.pairs.data[run])[:, None] * (x[a[run]] + x[b[run]])
            found += part.T @ part
        part = np.sqrt(self.ground)[:, None] * x
        found += part.T @ part
        above = np.vstack([x, np.zeros(x.shape[1])])[tree.parent]
        beside = (x + above).T @ carried
        return found + beside + beside.T + (carried.T / tree.conductance) @ carried


def _conducting(values: np.ndarray) -> np.ndarray:
    """Return conductances, zero where there is none or its resistance overflows."""
    found = np.maximum(values, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        found[np.isinf(1.0 / found)] = 0.0
    return found


def _one_of_each_part(pairs: sp.csr_array, size: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """Return the level of largest size of each part of the graph that has no way to the ground."""
    m, n = pairs.shape[0], len(size)
    ends = np.repeat(np.arange(m), np.diff(pairs.indptr)), m + pairs.indices
    graph = sp.csr_array((np.ones(len(pairs.indices)), ends), shape=(n, n))
    count, part = connected_components(graph, directed=False)
    order = np.argsort(size, kind="stable")
    largest = np.empty(count, int)
    largest[part[order]] = order  # the last one stays
    return largest[np.bincount(part, alone, minlength=count) == 0.0]


def _shortest(pairs: sp.csr_array, ground: np.ndarray) -> Tree | None:
    """Return the ways of least resistance to the ground; None if some level has none."""
    m, n = pairs.shape[0], len(ground)
    open_ = np.flatnonzero(ground > 0.0)
    rows = np.append(np.repeat(np.arange(m), np.diff(pairs.indptr)), open_)
    columns = np.append(m + pairs.indices, np.full(len(open_), n))
    with np.errstate(over="ignore"):
        lengths = 1.0 / np.append(pairs.data, ground[open_])
    graph = sp.csr_array((lengths, (rows, columns)), shape=(n + 1, n + 1))
    distances, parent = dijkstra(graph, directed=False, indices=n, return_predecessors=True)
    if not np.isfinite(distances).all():
        return None
    parent = parent[:n].astype(int)
    conductance = ground.copy()
    inner = np.flatnonzero(parent < n)
    low, high = np.minimum(inner, parent[inner]), np.maximum(inner, parent[inner])
    conductance[inner] = np.asarray(pairs[low, high - m]).ravel()
    return Tree(parent, conductance, distances[:n] * (1.0 + (n + MORE) * EPS))
