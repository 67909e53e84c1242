"""Bounds by flows between levels of two factors, against Hessians of a hundred digits."""

from dataclasses import replace
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.certificates import level_graph, two_factors
from daskglm.certificates.hessian_factor import HessianFactor
from daskglm.certificates.level_graph import LevelGraph
from daskglm.certificates.two_factors import MOST_NUMBERS, TwoFactors
from daskglm.core.block_hessian import BlockHessian
from daskglm.core.cross import Cross

many_digits = np.vectorize(Decimal, otypes=[object])
# share by which sums may be off, and are
ERROR = 1e-8
CASES = {
    "levels alone": {"k": 0},
    "one number": {"k": 1},
    "numbers": {"k": 4},
    "far numbers": {"k": 3, "mean": 10.0},
    "three parts": {"k": 2, "parts": 3},
    "unlike weights": {"k": 2, "decades": 3.0},
    "most unlike weights": {"k": 0, "decades": 6.0, "parts": 2},
    "most unlike weights beside numbers": {"k": 2, "decades": 6.0},
    "a constant": {"k": 3, "constant": True},
    "few rows": {"k": 1, "n": 45},
    "unlike scales": {"k": 4, "scales": 5.0},
    "a tree": {"k": 2, "tree": True, "n": 60},
}


class Rows:
    """Rows with a level of each of two factors, some of them with the base level of the second.

    Those of `parts` sets have no other levels in common.
    """

    def __init__(
        self, seed, *, m=12, q=6, n=90, k=0, mean=0.0, parts=1, decades=0.0, scales=0.0, **how
    ):
        rng = np.random.default_rng(seed)
        self.sizes, self.k, self.upwards = (m, q), k, seed % 2 > 0
        self.first = rng.integers(0, m, n)
        self.first[:m] = np.arange(m)  # no level is without rows
        self.first[-q:] = np.arange(q)
        self.second = (rng.integers(0, q, n) // parts) * parts + self.first % parts
        self.second[-q:] = np.arange(q)
        self.second[rng.random(n) < how.get("ground", 0.25)] = q
        if how.get("tree"):  # a chain, with one way to the ground
            self.first = np.arange(n) % m
            self.second = (self.first + np.arange(n) // m % 2) // 2
        self.numbers = (rng.normal(size=(n, k)) + mean) * np.logspace(0.0, scales, k)
        if how.get("constant"):
            self.numbers[:, -1] = 1.0
            self.first[rng.random(n) < 0.25] = m
        self.curvatures = 10.0 ** rng.uniform(-decades, decades, n)

    def exact(self):
        """The Hessian of many digits: numbers first, then the larger factor's levels."""
        (m, q), n = self.sizes, len(self.first)
        first = (self.first[:, None] == np.arange(m)).astype(int)
        second = (self.second[:, None] == np.arange(q)).astype(int)
        X = many_digits(np.hstack([self.numbers.reshape(n, -1), first, second]))
        return X.T @ (many_digits(self.curvatures)[:, None] * X)

    def computed(self, H):
        """The Hessian with all sums as far off as they may be."""
        rng, (m, q), k = np.random.default_rng(9), self.sizes, self.k

        def off(sums, sizes):
            signs = np.ones(sums.shape) if self.upwards else rng.choice([-1.0, 1.0], sums.shape)
            return sums.astype(float) + ERROR * signs * sizes

        numbers = np.abs(self.numbers) * self.curvatures[:, None]
        by_first = [numbers[self.first == a].sum(axis=0) for a in range(m)]
        by_second = [numbers[self.second == b].sum(axis=0) for b in range(q)]
        rest = H[:k, :k].astype(float)
        roots = np.sqrt(rest.diagonal())
        noise = rng.uniform(-ERROR, ERROR, (k, k))
        rest = rest + 0.5 * (noise + noise.T) * roots[:, None] * roots
        a, b = slice(k, k + m), slice(k + m, None)
        levels = [
            off(H[each, each].diagonal(), H[each, each].diagonal().astype(float)) for each in (a, b)
        ]
        pairs = sp.csr_array(off(H[a, b], H[a, b].astype(float)))
        of_first = off(H[a, :k], np.reshape(by_first, (m, k)))
        of_second = off(H[b, :k], np.reshape(by_second, (q, k)))
        inner = BlockHessian(k, levels[1], Cross.of(of_second), rest)
        apart = np.append(np.zeros(k, bool), np.ones(q, bool))
        return BlockHessian(k, levels[0], Cross(of_first, pairs, apart), inner)


@pytest.fixture(autouse=True)
def digits():
    """A hundred of them in all arithmetic with decimals."""
    with localcontext(Context(prec=100)):
        yield


def solved(H, rhs):
    """Solutions of many digits, by Gauss and Jordan."""
    rows = [[*own, *right] for own, right in zip(H.tolist(), rhs.tolist(), strict=True)]
    for k in range(len(rows)):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return np.array([row[len(H) :] for row in rows])


def checked(found, H, vectors, most):
    """Hold the bounds for some vectors, and those of the diagonal, against the exact ones."""
    n = len(H)
    rhs = many_digits(np.column_stack([np.eye(n), vectors]))
    inverse = solved(H, rhs)
    roots = np.sqrt(inverse[:, :n].diagonal().astype(float))
    bounds = found.roots()
    assert (bounds >= roots * (1.0 - 1e-15)).all()
    assert (bounds <= 4.0 * roots).all()
    for j, v in enumerate(vectors.T):
        square = float(rhs[:, n + j] @ inverse[:, n + j])
        bound = found.length(v)
        assert np.sqrt(square) * (1.0 - 1e-15) <= bound <= most * np.sqrt(square)
        step, about = found.step(v)
        assert about == pytest.approx(square, rel=1e-3)
        # by the matrix of numbers that is nowhere above the exact one
        error = step + inverse[:, n + j].astype(float)
        assert error @ H.astype(float) @ error <= 1e-5 * square


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", CASES)
def test_bounds_are_true_and_tight(case, seed):
    rows = Rows(seed, **CASES[case])
    H = rows.exact()
    found = TwoFactors.below(rows.computed(H), ERROR)
    rng = np.random.default_rng(seed)
    near = H.astype(float) @ rng.normal(size=len(H))  # of one size in the Hessian's norm
    checked(found, H, np.column_stack([rng.normal(size=len(H)), near]), 1.05)


ROUGHLY = {
    "products": (level_graph, "MOST_PRODUCTS", 1),
    "a gradient": (two_factors, "ENOUGH", 0.3),
    "columns": (two_factors, "ROUGH", 0.3),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", ["levels alone", "one number", "numbers", "few rows", "a tree"])
@pytest.mark.parametrize("roughly", ROUGHLY)
def test_routing_bounds_what_unsolved_systems_leave(roughly, case, seed, monkeypatch):
    monkeypatch.setattr(*ROUGHLY[roughly])
    rows = Rows(seed, **CASES[case])
    H = rows.exact()
    found = TwoFactors.below(rows.computed(H), ERROR)
    if found is None:  # too roughly for a Schur complement
        assert roughly != "a gradient"
        assert case != "levels alone"
        return
    k, v = rows.k, H.astype(float) @ np.random.default_rng(seed).normal(size=len(H))
    # what most is of other columns, with and against what levels do to them
    most = np.column_stack([v, v, v])
    most[:k, 1:] *= 100.0, -100.0
    rhs = many_digits(np.column_stack([most, np.eye(len(H))]))
    found_squares = (rhs * solved(H, rhs)).sum(axis=0).astype(float)
    for each, square in zip(most.T, found_squares, strict=False):
        assert np.sqrt(square) <= found.length(each) <= 10.0 * np.sqrt(square)
    assert (found.roots() >= np.sqrt(found_squares[3:])).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("parts", "k"), [(1, 0), (2, 0), (1, 2), (2, 2), (3, 2)])
def test_levels_that_occur_with_each_other_alone(parts, k, seed):
    rows = Rows(seed, k=k, parts=parts, ground=0.0, decades=1.0)
    H, (m, q) = rows.exact(), rows.sizes
    computed = rows.computed(H)
    assert TwoFactors.below(computed, ERROR) is None
    assert TwoFactors.below(replace(computed, alone=np.ones(m + q, bool)), ERROR) is None
    found = TwoFactors.below(replace(computed, alone=np.zeros(m + q, bool)), ERROR)
    # the same margins are those of coefficients some of which are zero
    pairs = H[k : k + m, k + m :].astype(float)
    graph = sp.block_array([[None, sp.csr_array(pairs)], [sp.csr_array(pairs.T), None]])
    _, part = sp.csgraph.connected_components(graph)
    kept = np.append(np.arange(k), k + np.setdiff1d(np.arange(m + q), np.unique(part, True)[1]))
    assert len(H) - len(kept) >= parts
    g = H.astype(float) @ np.random.default_rng(seed).normal(size=len(H))
    X = np.hstack([rows.numbers, np.eye(m)[rows.first], np.eye(q)[rows.second]])
    rhs = many_digits(np.column_stack([g, X.T])[kept])
    solutions = solved(H[np.ix_(kept, kept)], rhs)
    square, *rest = (rhs * solutions).sum(axis=0).astype(float)
    assert np.sqrt(square) * (1.0 - 1e-9) <= found.length(g) <= 1.05 * np.sqrt(square)
    assert (np.abs(X) @ found.roots() >= np.sqrt(rest)).all()


def test_a_chain_of_levels():
    """Ways of thousands of edges: each level is in two rows, and the last one at the ground."""
    m = 4000
    ones, ends = np.ones(m), np.arange(m)
    after = sp.csr_array((ones[1:], (ends[1:], ends[:-1])), shape=(m, m))
    pairs = sp.csr_array(sp.eye_array(m) + after)
    first = np.append(1.0, np.full(m - 1, 2.0))
    second = np.full(m, 2.0)  # the last level of the second is in a row with a base level
    graph = LevelGraph.below(first, second, pairs, 1e-14)
    distance = 2.0 * m - 2.0 * ends
    np.testing.assert_allclose(
        graph.tree.resistance, np.append(distance, distance - 1.0), rtol=1e-9
    )
    v = np.zeros(2 * m)
    v[0] = 1.0
    # what is not solved is routed, and there is one way only
    flow = graph.flow(v, np.zeros(2 * m))
    assert flow.length == 0.0
    assert flow.left == pytest.approx(np.sqrt(2.0 * m), rel=1e-9)
    flow = graph.flow(v, graph.solve(v[:, None], 1e-10)[:, 0])
    assert np.sqrt(2.0 * m) <= flow.length + flow.left <= 2.0 * np.sqrt(2.0 * m)


def without(case):
    """A Hessian of which nothing is proved."""
    how = {"no way to the ground": {"ground": 0.0, "k": 1}}.get(case, {"k": 2})
    rows = Rows(0, **how)
    if case == "a number that levels explain":
        rows.numbers[:, 0] = rows.first - 2.0 * rows.second * (rows.second < rows.sizes[1])
    if case == "a level without curvature":
        rows.curvatures[rows.first == 3] = 0.0
    H = rows.computed(rows.exact())
    if case == "not finite":
        H.cross.sparse.data[0] = np.nan
    return H


@pytest.mark.parametrize(
    "case",
    [
        "no way to the ground",
        "a number that levels explain",
        "a level without curvature",
        "not finite",
    ],
)
def test_where_nothing_is_proved(case):
    H = without(case)
    assert TwoFactors.below(H, ERROR) is None
    found = HessianFactor.of(H, ERROR)
    assert not found.proves
    assert found.decrement(np.ones(len(H))) == np.inf


def test_vectors_that_overflow_have_no_bound():
    rows = Rows(0, k=2)
    found = TwoFactors.below(rows.computed(rows.exact()), ERROR)
    assert found.length(np.full(len(found.roots()), np.inf)) == np.inf
    assert found.length(np.full(len(found.roots()), np.nan)) == np.inf


def test_nothing_is_proved_of_very_many_other_columns_or_of_sums_in_doubt(monkeypatch):
    rows = Rows(0, k=3)
    H = rows.computed(rows.exact())
    assert TwoFactors.below(H, ERROR) is not None
    assert TwoFactors.below(H, 1e-2) is None
    with monkeypatch.context() as patch:
        patch.setattr(two_factors, "MOST_ENTRIES", 3 * sum(rows.sizes) - 1)
        assert TwoFactors.below(H, ERROR) is None
    rows = Rows(0, k=MOST_NUMBERS + 1, n=200)
    numbers = rows.numbers
    k, (m, q) = numbers.shape[1], rows.sizes
    inner = BlockHessian(k, np.ones(q), Cross.zeros(q, k), numbers.T @ numbers)
    apart = np.append(np.zeros(k, bool), np.ones(q, bool))
    pairs = Cross(np.zeros((m, k)), sp.csr_array((m, q)), apart)
    assert TwoFactors.below(BlockHessian(k, np.ones(m), pairs, inner), ERROR) is None
