"""The squared hinge of one row, its conjugate and its best dual variable."""

import pytest

from daskglm.losses.squared_hinge import LOSS


@pytest.mark.parametrize(
    ("margin", "value", "slope", "curvature"),
    [(2.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), (0.5, 0.25, -1.0, 2.0), (-1.0, 4.0, -4.0, 2.0)],
)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_value_slope_and_curvature(y, margin, value, slope, curvature):
    assert LOSS.row(y, y * margin, 0.0, 0.0) == (value, y * slope, curvature)


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("z", [-3.0, 0.2, 4.0])
@pytest.mark.parametrize("q", [0.1, 10.0])
def test_the_best_dual_variable_is_minus_the_slope_at_its_margin(y, z, q):
    a = LOSS.dual.into_domain(y, 0.3 * y, 0.0, 0.0)
    best = LOSS.dual.step(y, z, a, q, 0.0, 0.0)
    margin = z + q * (best - a)
    assert best == pytest.approx(-LOSS.row(y, margin, 0.0, 0.0)[1], abs=1e-12)


def test_dual_variables_of_the_wrong_sign_are_outside_of_the_domain():
    assert LOSS.dual.derivatives(1.0, -0.1, 0.0, 0.0)[3]
    assert not LOSS.dual.derivatives(1.0, 1e6, 0.0, 0.0)[3]
    assert LOSS.dual.into_domain(-1.0, 0.1, 0.0, 0.0) == 0.0
