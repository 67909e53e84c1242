"""The logistic terms of a tile, at ordinary margins and at extreme ones."""

import numpy as np
import pytest

from daskglm.kernels import ordinal
from daskglm.kernels.records import NO_NUMBERS
from daskglm.losses.ordinal_links import CLOGLOG

T = np.array([-1.0, 0.5])
EDGES = ordinal.edges_of(T)


def terms(codes, z, weight=NO_NUMBERS, offset=NO_NUMBERS):
    codes, z = np.array(codes, np.int32), np.array(z, float)
    out = np.empty((4, len(z)))
    total = ordinal.terms(codes, weight, offset, z, EDGES, 0, len(z), out)
    return total, out


def test_edges_have_nothing_at_both_ends():
    assert EDGES.tolist() == [[0.0, -1.0, 0.5, 0.0], [0.0, 1.0, 1.0, 0.0]]


def test_terms_of_each_class():
    total, of = terms([0, 1, 2], [0.3, 0.3, 0.3])
    sp, p = np.logaddexp, lambda m: 1 / (1 + np.exp(-m))
    parts = [sp(0, 1.3), sp(0, -0.2) + sp(0, -1.3), sp(0, 0.2)]
    assert total == pytest.approx(sum(parts), rel=1e-14)
    np.testing.assert_allclose(of[0], [p(1.3), p(-0.2), 0.0], rtol=1e-14)
    np.testing.assert_allclose(of[2], [0.0, -p(-1.3), -p(0.2)], rtol=1e-14)
    np.testing.assert_allclose(of[1], of[0] * (1 - of[0]), rtol=1e-13)
    np.testing.assert_allclose(of[3], -of[2] * (1 + of[2]), rtol=1e-13)


def test_extreme_margins_neither_overflow_nor_vanish():
    total, of = terms([0, 0, 1, 1, 2, 2], [1e300, -1e300, 1e5, -1e5, 800.0, -800.0])
    assert total == pytest.approx(1e300)
    assert np.isfinite(of).all()
    np.testing.assert_allclose(of[0] + of[2], [1, 0, 1, -1, 0, -1], atol=1e-300)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_margin_that_is_no_number_shows_in_the_sum(bad, code):
    assert not np.isfinite(terms([0, code, 2], [0.0, bad, 0.0])[0])


def test_rows_of_weight_zero_count_nothing_where_their_loss_is_infinite():
    codes, z = np.array([2, 1], np.int32), np.array([-1e4, 0.3])
    edges, found = ordinal.edges_of(T, CLOGLOG), {}
    for first in (1.0, 0.0):
        out = np.empty((ordinal.NUMBERS, 2))
        weight = np.array([first, 2.0])
        total = ordinal.link_terms(codes, weight, NO_NUMBERS, z, edges, 0, 2, out)
        found[first] = total, out
    assert found[1.0][0] == np.inf
    total, out = found[0.0]
    assert not out[:, 0].any()
    assert out[:, 1].tolist() == found[1.0][1][:, 1].tolist()
    assert total == pytest.approx(-2.0 * np.log(np.exp(-np.exp(-1.3)) - np.exp(-np.exp(0.2))))


def test_along_takes_combinations_of_margins_with_thresholds_of_their_own():
    rng = np.random.default_rng(0)
    n, K = 1300, 3
    codes, Z = rng.integers(0, K, n).astype(np.int32), tuple(rng.standard_normal((2, n)))
    weight, offset = rng.random(n), rng.standard_normal(n)
    weight.flags.writeable = offset.flags.writeable = False
    C = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 0.0]])
    thresholds = np.array([[-1.0, 1.0], [0.0, 0.3], [-2.0, 5.0]])
    edges = np.stack([ordinal.edges_of(t) for t in thresholds])
    out = np.zeros(3), np.zeros((3, K + 1)), np.zeros((3, K + 1))
    ordinal.along(codes, weight, offset, Z, C, edges, 0, n, out)
    for r in range(3):
        z = C[r] @ np.stack(Z) + offset
        upper = np.where(codes < 2, z - thresholds[r][np.minimum(codes, 1)], -np.inf)
        lower = np.where(codes > 0, thresholds[r][np.maximum(codes - 1, 0)] - z, -np.inf)
        value = weight @ (np.logaddexp(0, upper) + np.logaddexp(0, lower))
        assert out[0][r] == pytest.approx(value, rel=1e-13)
        u, v = 1 / (1 + np.exp(-upper)), 1 / (1 + np.exp(-lower))
        slopes = [weight @ (v * (codes == k + 1) - u * (codes == k)) for k in range(2)]
        np.testing.assert_allclose(out[1][r, 1:-1], slopes, rtol=1e-11)
        assert not out[1][r, [0, -1]].any()
        by = [
            weight @ (v * (1 - v) * (codes == k + 1) + u * (1 - u) * (codes == k)) for k in range(2)
        ]
        np.testing.assert_allclose(out[2][r, 1:-1], by, rtol=1e-11)
