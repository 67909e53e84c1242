"""The Huber loss of one row, and what its linear parts count as in a Hessian."""

import pytest

from daskglm.losses.huber import LOSS, SHARE
from daskglm.losses.table import find


@pytest.mark.parametrize(
    ("residual", "value", "slope", "curvature"),
    [
        (0.0, 0.0, 0.0, 1.0),
        (1.5, 1.125, 1.5, 1.0),
        (2.0, 2.0, 2.0, 1.0),
        (5.0, 8.0, 2.0, SHARE * 0.4),
    ],
)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_value_slope_and_curvature_of_delta_two(residual, value, slope, curvature, sign):
    loss = LOSS.with_parameter(2.0)
    found = loss.row(10.0, 10.0 + sign * residual, loss.p1, loss.p2)
    assert found == pytest.approx((value, sign * slope, curvature))


def test_dual_variables_are_clipped_to_delta():
    loss = find("huber(0.5)")
    assert loss.dual.into_domain(0.0, 0.7, loss.p1, 0.0) == 0.5
    assert loss.dual.derivatives(0.0, 0.7, loss.p1, 0.0)[3]
    assert not loss.dual.derivatives(0.0, 0.5, loss.p1, 0.0)[3]


def test_its_names():
    assert LOSS.full_name == "huber(1.35)"
    assert find("huber") == LOSS
    with pytest.raises(ValueError, match="delta=0 must be in"):
        find("huber(0)")
