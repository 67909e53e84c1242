"""The smoothed hinge: its parabola, its width and labels that are no +-1."""

import pytest

from daskglm.losses.smoothed_hinge import LOSS, smoothed_hinge


@pytest.mark.parametrize(
    ("margin", "value", "slope", "curvature"),
    [
        (2.0, 0.0, 0.0, 0.0),
        (0.9, 0.01, -0.2, 2.0),
        (0.5, 0.25, -1.0, 2.0),
        (-1.0, 1.75, -1.0, 0.0),
    ],
)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_value_slope_and_curvature_of_width_a_half(y, margin, value, slope, curvature):
    loss = smoothed_hinge(0.5)
    assert loss.smoothness == 2.0
    assert loss.row(y, y * margin, loss.p1, loss.p2) == pytest.approx((value, y * slope, curvature))


def test_the_corner_of_a_label_that_is_no_one_lies_at_that_label():
    assert LOSS.row(3.0, 3.0, 1.0, 0.0)[:2] == (0.0, 0.0)
    assert LOSS.row(3.0, 2.0, 1.0, 0.0) == (0.5, -1.0, 1.0)


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("z", [-3.0, 0.2, 4.0])
@pytest.mark.parametrize("q", [0.1, 10.0])
def test_the_best_dual_variable_is_minus_the_slope_at_its_margin(y, z, q):
    loss = smoothed_hinge(0.3)
    best = loss.dual.step(y, z, 0.5 * y, q, loss.p1, loss.p2)
    margin = z + q * (best - 0.5 * y)
    assert best == pytest.approx(-loss.row(y, margin, loss.p1, loss.p2)[1], abs=1e-12)
