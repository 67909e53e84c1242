"""Factors of Hessians with a diagonal block: bounds against long arithmetic, and steps."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.certificates.hessian_factor import HessianFactor
from daskglm.core.block_hessian import BlockHessian, principal
from daskglm.core.cross import Cross
from daskglm.solvers.block_systems import flat_direction
from daskglm.solvers.linear_systems import (
    expected_fall,
    inverse_of,
    newton_step,
    projection,
)

UNIT = 2.0**-53
CASES = {
    "plain": {},
    "first": {"start": 0},
    "last": {"start": 5},
    "one other": {"q": 1, "start": 1},
    "tiny penalty": {"ridge": 1e-9},
    "empty levels": {"empty": 6, "ridge": 1e-7},
    "nearly empty levels": {"faint": 1e-12, "ridge": 1e-14},
    "a level's own column": {"own": True, "ridge": 1e-6},
    "unlike scales": {"spread": 6.0},
    "levels of another": {"other": 9},
    "of another, tiny penalty": {"other": 9, "ridge": 1e-6},
    "of another alone": {"q": 0, "other": 4, "start": 0},
}


def hessian(
    m=12,
    q=5,
    start=2,
    n=200,
    seed=0,
    ridge=1e-2,
    empty=0,
    faint=1.0,
    own=False,
    spread=0,
    other=0,
):
    """The Hessian of random rows, each in one of m levels, beside q other columns.

    Each is in one of `other` levels, too, which come before those columns.
    """
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, m - empty, n)
    X = rng.normal(size=(n, q)) * np.logspace(0, spread, q)
    if own:
        X[:, -1] = (levels == 0) + 1e-4 * rng.normal(size=n)
    c = rng.random(n)
    c[levels % 3 == 0] *= faint
    one = (levels[:, None] == np.arange(m)).astype(float)
    # most of the others' levels are in a few of these
    beside = np.minimum(levels + rng.integers(0, 3, n), other - 1) if other else levels
    X = np.column_stack([beside[:, None] == np.arange(other), X])
    q += other
    cross = one.T @ (c[:, None] * X)
    rest = X.T @ (c[:, None] * X) + ridge * np.eye(q)
    of = Cross(cross[:, other:], sp.csr_array(cross[:, :other]), np.arange(q) < other)
    return BlockHessian(min(start, q), one.T @ c + ridge, of, (rest + rest.T) / 2.0)


@pytest.fixture(params=CASES)
def H(request):
    return hessian(**CASES[request.param])


def exact_inverse(A):
    """The inverse in rational numbers, by Gauss and Jordan."""
    n = len(A)
    rows = [
        [Fraction(x) for x in A[i]] + [Fraction(int(i == j)) for j in range(n)] for i in range(n)
    ]
    for k in range(n):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return np.array([row[n:] for row in rows])


def test_it_is_the_matrix_that_it_stands_for(H):
    dense, v = H.to_dense(), np.random.default_rng(1).normal(size=len(H))
    np.testing.assert_allclose(dense, dense.T)
    np.testing.assert_allclose(H @ v, dense @ v)
    np.testing.assert_array_equal(H.diagonal(), dense.diagonal())
    more = np.arange(1.0, len(H) + 1.0)
    np.testing.assert_allclose(H.plus_diagonal(more).to_dense(), dense + np.diag(more))
    np.testing.assert_allclose(H.times(3.0).to_dense(), 3.0 * dense)
    taken = np.flatnonzero(np.random.default_rng(2).random(len(H)) < 0.6)
    for some in (taken, np.isin(np.arange(len(H)), taken)):
        np.testing.assert_array_equal(principal(H, some).to_dense(), dense[np.ix_(taken, taken)])
        np.testing.assert_array_equal(principal(dense, some), dense[np.ix_(taken, taken)])
    assert principal(H, np.ones(len(H), bool)) is H
    assert H.shape == dense.shape
    assert H.any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_bounds_are_true(case, seed):
    H = hessian(**CASES[case], seed=seed)
    dense, n = H.to_dense(), len(H)
    rng = np.random.default_rng(seed)
    # rounding of entries, as large as they are said to be
    error = 1e-13
    roots = np.sqrt(dense.diagonal())
    levels = H.levels * (1.0 + error * rng.uniform(-1, 1, len(H.levels)))
    off = error * rng.uniform(-1, 1, H.cross.shape)
    cross = H.cross.to_dense() * (1.0 + off)
    apart = H.cross.is_sparse
    of = Cross(cross[:, ~apart], sp.csr_array(cross[:, apart]), apart)
    computed = BlockHessian(H.start, levels, of, H.rest)
    found = HessianFactor.of(computed, error)
    if not found.proves:
        assert case in ("nearly empty levels", "unlike scales")
        assert (found.roots == math.inf).all()
        return
    inverse = exact_inverse(dense)
    assert (found.roots >= [math.sqrt(each) for each in inverse.diagonal()]).all()
    scaled = inverse.astype(float) * roots[:, None] * roots
    assert found.norm * (1.0 + found.doubt) >= np.linalg.norm(scaled, 2)
    assert found.norm <= 10.0 * (1.0 + np.linalg.norm(scaled, 2)) * math.sqrt(n)
    g = rng.normal(size=n)
    v = np.array([Fraction(each) for each in g])
    square = float(v @ inverse @ v)
    assert found.decrement(g) >= math.sqrt(square) * (1.0 - 1e-15)
    assert found.decrement(g) <= 1.5 * math.sqrt(square)
    step, about = found.step(g)
    np.testing.assert_allclose(about, square, rtol=max(found.doubt, 1e-9))
    np.testing.assert_allclose(dense @ step, -g, atol=1e-6 * np.abs(g).max())
    assert found.root_trace >= math.sqrt(inverse.trace())


def test_it_says_what_the_factor_of_all_entries_says(H):
    whole, blocks = HessianFactor.of(H.to_dense(), 1e-14), HessianFactor.of(H, 1e-14)
    if not whole.proves:
        return
    if H.cross.is_sparse.any():  # by the norm of the inverse of the complement
        assert (blocks.roots >= whole.roots * (1.0 - 1e-4)).all()
        own, others = H.parts_of(blocks.roots / whole.roots)
        assert own.max() ** 2 <= 1.0 + len(others) * blocks.norm
        np.testing.assert_allclose(others, 1.0, rtol=1e-4)
    else:
        np.testing.assert_allclose(blocks.roots, whole.roots, rtol=1e-4)
    g = np.arange(1.0, len(H) + 1.0)
    assert blocks.decrement(g) == pytest.approx(whole.decrement(g), rel=1e-4)
    twice = blocks.times(4.0)
    np.testing.assert_allclose(twice.roots, 0.5 * blocks.roots)
    np.testing.assert_allclose(twice.step(g)[0], 0.25 * blocks.step(g)[0])
    assert twice.is_doubtful(1e-14) == blocks.is_doubtful(1e-14)


def test_steps_solve_the_system(H):
    dense, g = H.to_dense(), np.random.default_rng(3).normal(size=len(H))
    step = newton_step(H, g)
    np.testing.assert_allclose(step, newton_step(dense, g), rtol=1e-4, atol=1e-7 * abs(step).max())
    np.testing.assert_array_equal(inverse_of(H)(g), -step)
    assert expected_fall(H, g) == pytest.approx(expected_fall(dense, g), rel=1e-4)


@pytest.mark.parametrize("and_others", [False, True])
def test_projections_are_of_the_entries(H, and_others):
    dense, n = H.to_dense(), len(H)
    chosen = np.arange(H.start, H.stop)
    if and_others:
        chosen = np.arange(0, H.stop)
    others = np.setdiff1d(np.arange(n), chosen)
    found = projection(H, chosen, others)
    assert found.shape == (len(chosen), len(others))
    wanted = dense[np.ix_(chosen, others)]
    np.testing.assert_allclose(
        dense[np.ix_(chosen, chosen)] @ found, wanted, atol=1e-9 * abs(dense).max()
    )
    np.testing.assert_allclose(projection(dense, chosen, others), found, atol=1e-6)


def singular(m=8, n=300):
    """All levels beside a column of ones."""
    H = hessian(m=m, q=3, start=1, n=n, ridge=0.0)
    cross, rest = H.cross.to_dense(), H.rest.copy()
    cross[:, 2], rest[2, 2] = H.levels, H.levels.sum()
    rest[2, :2] = rest[:2, 2] = cross[:, :2].sum(axis=0)
    return BlockHessian(1, H.levels, Cross.of(cross), rest)


def test_singular_ones_prove_nothing_and_give_some_solution():
    H = singular()
    v = np.random.default_rng(4).normal(size=len(H))
    g = H @ v
    step = newton_step(H, g)
    np.testing.assert_allclose(H @ step, -g, atol=1e-9 * abs(g).max())
    assert not HessianFactor.of(H, 0.0).proves
    way = flat_direction(H)
    assert np.linalg.norm(H @ way) <= 1e-10 * np.linalg.norm(way) * H.diagonal().max()
    assert flat_direction(H.plus_diagonal(np.ones(len(H)))) is None
    steps = HessianFactor.for_steps(H, 0.0, np.zeros(len(H)))
    assert not steps.proves
    assert np.isfinite(steps.step(g)[0]).all()
    assert expected_fall(H, g) == pytest.approx(0.5 * g @ v, rel=1e-6)
    assert expected_fall(H, g + 0.1 * way) > 1e6


def test_levels_without_curvature_do_not_move():
    H = hessian(empty=3, ridge=0.0)
    empty = H.levels == 0.0
    assert empty.sum() == 3
    step = newton_step(H, np.ones(len(H)))
    assert (H.parts_of(step)[0][empty] == 0.0).all()
    assert np.isfinite(step).all()
    assert not HessianFactor.of(H, 0.0).proves
    assert expected_fall(H, np.ones(len(H))) > 1e6


@pytest.mark.parametrize("far", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("where", ["levels", "cross", "rest"])
def test_one_that_has_overflowed_proves_nothing(where, far):
    H = hessian()
    part = getattr(H, where)
    (part if where != "cross" else part.dense).flat[1] = far
    factor = HessianFactor.of(H, 1e-15)
    assert not factor.proves
    assert math.isinf(factor.decrement(np.ones(len(H))))
    assert expected_fall(H, np.ones(len(H))) == math.inf
    with np.errstate(invalid="ignore"):
        newton_step(H, np.ones(len(H)))
