"""Conjugate gradients in a ball."""

import numpy as np
import pytest

from daskglm.solvers.linear_systems import DenseMetric, Diagonal
from daskglm.solvers.trust_region import _to_border, steihaug_cg


@pytest.mark.parametrize("full", [False, True])
def test_steihaug_cg_solves_or_stops_on_the_border(full):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 20))
    H, g = A.T @ A + np.eye(20), rng.standard_normal(20)
    matrix = H + 5.0 * np.eye(20) if full else np.eye(20)
    M = DenseMetric(matrix) if full else Diagonal(np.ones(20))
    products = []

    def product(v):
        products.append(v)
        return H @ v

    inside = steihaug_cg(product, g, M, 1e6)
    assert not inside.on_border
    left = H @ inside.step + g
    assert left @ np.linalg.solve(matrix, left) <= 0.0101 * (g @ np.linalg.solve(matrix, g))
    np.testing.assert_allclose(inside.residual, -left, atol=1e-10)
    assert len(products) <= 3 or not full
    far = steihaug_cg(product, g, M, 1e6, share=1e-6)
    left = H @ far.step + g
    assert left @ np.linalg.solve(matrix, left) <= 1.01e-12 * (g @ np.linalg.solve(matrix, g))
    border = steihaug_cg(product, g, M, 1e-3)
    assert border.on_border
    assert np.sqrt(border.step @ matrix @ border.step) == pytest.approx(1e-3)


def test_the_border_is_found_where_products_underflow():
    t = _to_border(0.0, 1e-183, 1e-179)
    assert t == pytest.approx(100.0)
    assert _to_border(1e-190, 1e-183, 1e-179) == pytest.approx(100.0, rel=1e-6)


def test_a_region_that_has_shrunk_to_nothing_leaves_no_step():
    assert _to_border(0.0, 1e-300, 0.0) == 0.0
    assert _to_border(0.0, 4.0, 1.0) == 0.5
