"""Systems of Hessians with several diagonal blocks, against those of all entries."""

import numpy as np
import pytest

from daskglm.certificates.hessian_factor import HessianFactor
from daskglm.core.block_hessian import BlockHessian, principal
from daskglm.core.level_blocks import LevelBlocks, PairKeys, couples
from daskglm.solvers.block_systems import ByProducts, flat_direction, system_of
from daskglm.solvers.linear_systems import expected_fall, newton_step, projection

# (levels of each factor, numbers, whether a constant ends the coefficients)
SHAPES = {
    "two": ((12, 7), 3, True),
    "two of even size": ((12, 8), 3, True),
    "two alone": ((9, 6), 0, False),
    "the larger one last": ((6, 15), 2, False),
    "three": ((14, 9, 5), 2, True),
    "four": ((11, 8, 7, 5), 1, False),
}


def hessian(shape, nested=None, ridge=1e-2, seed=0, n=300, empty=False, parts=1):
    """The Hessian of random rows with a level of each factor, beside numbers; and all its entries.

    Rows of `parts` sets have no levels in common.
    """
    sizes, k, constant = SHAPES[shape]
    rng = np.random.default_rng(seed)
    part = rng.integers(0, parts, n)
    codes = [(rng.integers(0, m, n) // parts) * parts + part for m in sizes]
    codes = [np.minimum(code, m - 1 - empty) for code, m in zip(codes, sizes, strict=True)]
    X, c = rng.normal(size=(n, k)), rng.random(n)
    ones = [(code[:, None] == np.arange(m)) * 1.0 for code, m in zip(codes, sizes, strict=True)]
    starts = np.cumsum([0, *sizes])
    order = np.argsort(sizes)[::-1]
    factors = tuple((int(starts[a]), int(starts[a + 1])) for a in order)
    keys = tuple(
        np.unique(codes[order[a]] * (sizes[order[b]] + 1) + codes[order[b]])
        for a, b in couples(factors)
    )
    weighing = tuple(2 * each for each in keys)
    blocks = PairKeys(weighing).blocks(factors, len(sizes) if nested is None else nested)
    full = np.column_stack([*ones, X, np.ones(n)])
    whole = full.T @ (c[:, None] * full)
    d, q = starts[-1] + k, k + 1
    gram = np.zeros(blocks.shape_of_gram(d))
    kept = np.arange(starts[-1], d + 1)
    gram[:q] = whole[np.ix_(kept, kept)]
    levels = np.concatenate([np.arange(*each) for each in factors])
    gram[q : q + len(levels)] = whole[np.ix_(levels, kept)]
    slots = [
        whole[start + key // (end - begin + 1), begin + key % (end - begin + 1)]
        for key, (a, b) in zip(keys, couples(factors), strict=True)
        for (start, _), (begin, end) in [(factors[a], factors[b])]
    ]
    flat = np.concatenate(slots)
    gram[q + len(levels) :].ravel()[: len(flat)] = flat
    size = d + constant
    diagonal = np.full(size, ridge)
    H = BlockHessian.of_sums(gram, blocks, 2.0, diagonal)
    return H, 2.0 * whole[:size, :size] + np.diag(diagonal)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_matrix_that_it_stands_for(shape, seed):
    H, dense = hessian(shape, seed=seed)
    rng = np.random.default_rng(seed)
    assert H.is_nested
    np.testing.assert_allclose(H.to_dense(), dense, atol=1e-12)
    v = rng.normal(size=len(H))
    np.testing.assert_allclose(H @ v, dense @ v, atol=1e-11)
    np.testing.assert_allclose(H.diagonal(), dense.diagonal())
    more = rng.random(len(H))
    np.testing.assert_allclose(H.plus_diagonal(more).to_dense(), dense + np.diag(more), atol=1e-12)
    np.testing.assert_allclose(H.times(3.0).to_dense(), 3.0 * dense, atol=1e-11)
    taken = rng.random(len(H)) < 0.6
    np.testing.assert_array_equal(
        principal(H, taken).to_dense(), H.to_dense()[np.ix_(taken, taken)]
    )
    assert H.is_finite
    assert H.any()
    fewer, _ = hessian(shape, nested=1, seed=seed)
    assert not fewer.is_nested
    np.testing.assert_allclose(fewer.to_dense(), dense, atol=1e-12)


@pytest.mark.parametrize("ridge", [1.0, 1e-6])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_solve_the_system(shape, seed, ridge):
    H, dense = hessian(shape, seed=seed, ridge=ridge)
    g = dense @ np.random.default_rng(seed).normal(size=len(H))
    assert isinstance(system_of(H), ByProducts)
    step = newton_step(H, g)
    # residuals are small in the norm of the inverse
    left = dense @ step + g
    wanted = np.linalg.solve(dense, g)
    assert left @ np.linalg.solve(dense, left) <= 1e-7 * (g @ wanted)
    assert expected_fall(H, g) == pytest.approx(0.5 * g @ wanted, rel=0.03)
    assert expected_fall(H, g) >= 0.5 * (g @ wanted) * (1.0 - 1e-9)
    # by flows between levels of the two largest
    factor = HessianFactor.of(H, 1e-14)
    assert factor.proves or ridge < 1.0
    if factor.proves:
        assert 1.0 - 1e-9 <= factor.decrement(g) / np.sqrt(g @ wanted) <= 1.05
        assert not factor.is_doubtful(1e-14)
        step, square = factor.step(g)
        assert square == pytest.approx(g @ wanted, rel=1e-2)
        error = step + wanted
        assert error @ dense @ error <= 1e-3 * square


def test_levels_that_a_penalty_holds_have_curvature_beside_that_of_their_pairs():
    H, _ = hessian("two", ridge=0.0)
    assert H.alone.shape == (19,)
    assert not H.alone.any()
    only = np.eye(len(H))
    assert H.plus_diagonal(only[19:].sum(axis=0)).alone is H.alone
    assert H.plus_diagonal(only[0]).alone is H.plus_diagonal(only[18]).alone is None
    assert H.principal(np.arange(1, len(H))).alone is None


def test_projections_of_two_factors():
    H, dense = hessian("two", ridge=1e-3)
    chosen, others = np.arange(19), np.arange(19, len(H))
    found = projection(H, chosen, others)
    wanted = np.linalg.solve(dense[:19, :19], dense[:19, 19:])
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("shape", ["two", "two alone", "three"])
def test_flat_directions_are_found(shape):
    H, dense = hessian(shape, ridge=0.0)
    way = flat_direction(H)  # all levels of one factor against those of another
    assert way @ dense @ way <= 1e-11 * np.square(way) @ dense.diagonal()
    g = dense @ np.random.default_rng(5).normal(size=len(H))
    step = newton_step(H, g)
    np.testing.assert_allclose(dense @ step, -g, atol=1e-5 * abs(g).max())
    assert expected_fall(H, g + 1e-3 * way / np.linalg.norm(way)) > 10.0
    assert flat_direction(H.plus_diagonal(np.full(len(H), 1e-3))) is None


def test_rows_without_common_levels_have_more_flat_directions():
    H, _ = hessian("two of even size", ridge=0.0, parts=2)
    # without the first level of the second factor, and the constant, one is left
    kept = np.setdiff1d(np.arange(len(H) - 1), [12])
    some = principal(H, kept)
    way = flat_direction(some)
    assert way @ (some @ way) <= 1e-11 * np.square(way) @ some.diagonal()
    joined, _ = hessian("two of even size", ridge=0.0)
    assert flat_direction(principal(joined, kept)) is None


def test_levels_without_curvature_do_not_move():
    H, dense = hessian("two", ridge=0.0, empty=True)
    H = H.plus_diagonal(np.where(dense.diagonal() > 0.0, 1e-3, 0.0))
    empty = H.diagonal() == 0.0
    assert empty.sum() == 2
    g = np.where(empty, 0.0, 1.0)
    step = newton_step(H, g)
    assert (step[empty] == 0.0).all()
    np.testing.assert_allclose(H @ step, -g, atol=1e-6)
    assert expected_fall(H, np.ones(len(H))) > 1e6


def test_one_that_has_overflowed_is_no_system():
    H, _ = hessian("two")
    H.rest.levels[1] = np.inf
    assert not H.is_finite
    assert expected_fall(H, np.ones(len(H))) == np.inf
    step = newton_step(H, np.ones(len(H)))
    np.testing.assert_allclose(step, -1.0 / H.diagonal())


def test_a_gradient_of_zero_is_no_step():
    H, _ = hessian("three")
    assert not newton_step(H, np.zeros(len(H))).any()
    assert expected_fall(H, np.zeros(len(H))) == 0.0
    assert LevelBlocks(((0, 3), (3, 5))).sizes == [3, 2]
