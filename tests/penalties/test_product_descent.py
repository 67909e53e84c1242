"""Minima by products with the Hessian: those of `descent.minimise`, and optimal by themselves."""

import numpy as np
import pytest

from daskglm.penalties.descent import minimise
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.product_descent import minimise_by_products
from tests.penalties.test_descent import drawn, model, quadratic, violation


def solved(H, g, w, terms, share=1e-12, spent=None):
    def product(v):
        if spent is not None:
            spent.append(v)
        return H @ v

    return minimise_by_products(product, H.diagonal(), g, w, terms, share)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_where_the_formed_hessian_has_its_minimum(seed, grouped, bounded):
    rng = np.random.default_rng(seed)
    H, g, w = quadratic(rng, 25, n=60, spread=0.5)
    terms = drawn(rng, 25, bounded=bounded, grouped=grouped)
    w = terms.clip(w)
    found = solved(H, g, w, terms)
    assert violation(H, g, w, terms, found.w) < 1e-9
    other = minimise(H, g, w, terms, 1e-12)
    np.testing.assert_allclose(found.w, other.w, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.slope, g + H @ (found.w - w), atol=1e-9 * np.abs(g).max())


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_are_copies_or_empty_are_no_obstacle(seed):
    rng = np.random.default_rng(seed)
    H, g, w = quadratic(rng, 30, n=20, copies=True, empty=True)
    terms = drawn(rng, 30, scale=0.5)
    found = solved(H, g, w, terms, 1e-9)
    other = minimise(H, g, w, terms, 1e-10)
    value, least = (model(H, g, w, terms, each.w) for each in (found, other))
    assert value <= least + 1e-7 * abs(least)
    assert np.isfinite(found.w).all()


def test_it_stops_at_the_share_that_is_asked_for():
    rng = np.random.default_rng(3)
    H, g, w = quadratic(rng, 200, n=300, spread=0.5)
    terms = drawn(rng, 200)
    few, many = [], []
    rough, fine = (
        solved(H, g, w, terms, share, spent) for share, spent in ((0.1, few), (1e-8, many))
    )
    first = np.sqrt((terms.residual(w, g) ** 2 / H.diagonal()).sum())
    assert fine.residual <= 1e-8 * first < rough.residual <= 0.1 * first
    assert len(few) < len(many) < 200


def test_a_point_that_is_the_minimum_is_left_as_it_is():
    H, w = np.eye(3), np.zeros(3)
    terms = Kinks(np.full(3, 2.0), np.full(3, -np.inf), np.full(3, np.inf))
    spent = []
    found = solved(H, np.array([1.0, -1.5, 0.0]), w, terms, 1e-3, spent)
    assert not spent
    assert found.residual == 0.0
    np.testing.assert_array_equal(found.w, w)


def test_it_ends_where_that_is_enough_and_asks_seldom():
    rng = np.random.default_rng(4)
    H, g, w = quadratic(rng, 200, n=300, spread=0.5)
    terms = drawn(rng, 200)
    asked, few, many = [], [], []

    def times(v, slope):
        np.testing.assert_allclose(slope, g + H @ (v - w), atol=1e-9 * np.abs(g).max())
        asked.append(np.abs(terms.residual(v, slope)).max() / 1e-4)
        return asked[-1]

    def product(spent):
        return lambda v: (spent.append(v), H @ v)[1]

    how = H.diagonal(), g, w, terms, 1e-12
    found = minimise_by_products(product(few), *how, enough=times)
    minimise_by_products(product(many), *how)
    assert np.abs(terms.residual(found.w, found.slope)).max() <= 1e-4
    assert asked[-1] <= 1.0 < min(asked[:-1])
    assert len(few) < 0.8 * len(many)
    assert len(asked) < 0.5 * len(few), "what was said last foretells when to ask again"
    found = minimise_by_products(product([]), *how, enough=lambda v, slope: 0.0)
    assert found.residual < np.sqrt((terms.residual(w, g) ** 2 / H.diagonal()).sum())
