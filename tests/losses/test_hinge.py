"""The hinge of one row: no solver of the primal takes it, its dual variables lie in [0, 1]."""

import math

import pytest

from daskglm.losses.hinge import LOSS


@pytest.mark.parametrize(("margin", "value", "slope"), [(2.0, 0.0, 0.0), (0.0, 1.0, -1.0)])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_value_and_slope(y, margin, value, slope):
    assert LOSS.row(y, y * margin, 0.0, 0.0) == (value, y * slope, 0.0)


def test_it_is_for_the_dual_only():
    assert not LOSS.differentiable
    assert math.isinf(LOSS.smoothness)
    assert LOSS.has_dual


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("z", [-5.0, 0.5, 5.0])
@pytest.mark.parametrize("q", [0.0, 0.1, 10.0])
def test_the_best_dual_variable_maximises_the_dual_of_its_row(y, z, q):
    def dual(a):  # of one row, up to a constant: -conjugate - z a - q a^2 / 2
        return -LOSS.dual.conjugate(y, a, 0.0, 0.0) - z * a - 0.5 * q * a * a

    best = LOSS.dual.step(y, z, 0.0, q, 0.0, 0.0)
    assert 0.0 <= y * best <= 1.0
    assert all(dual(best) >= dual(y * k / 100) - 1e-12 for k in range(101))


@pytest.mark.parametrize(("given", "nearest"), [(-0.5, 0.0), (0.5, 0.5), (3.0, 1.0)])
def test_the_domain(given, nearest):
    for y in (-1.0, 1.0):
        assert LOSS.dual.into_domain(y, y * given, 0.0, 0.0) == y * nearest
        assert LOSS.dual.derivatives(y, y * given, 0.0, 0.0)[3] == (given != nearest)
