"""The squared loss of one row."""

import pytest

from daskglm.losses.squared import LOSS


@pytest.mark.parametrize(("y", "z"), [(0.0, 0.0), (2.5, -1.0), (-1e6, 1e6)])
def test_value_slope_and_curvature(y, z):
    assert LOSS.row(y, z, 0.0, 0.0) == (0.5 * (z - y) ** 2, z - y, 1.0)


@pytest.mark.parametrize("q", [0.0, 0.1, 10.0])
def test_the_best_dual_variable_is_the_residual_at_its_margin(q):
    y, z, a = 2.0, -1.0, 0.3
    best = LOSS.dual.step(y, z, a, q, 0.0, 0.0)
    assert best == pytest.approx(y - (z + q * (best - a)))


def test_it_is_the_only_quadratic_and_takes_any_dual_variable():
    assert LOSS.is_quadratic
    assert not LOSS.classifies
    assert LOSS.dual.into_domain(1.0, -1e9, 0.0, 0.0) == -1e9
    assert not LOSS.dual.derivatives(1.0, -1e9, 0.0, 0.0)[3]
