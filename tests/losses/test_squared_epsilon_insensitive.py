"""The squared epsilon-insensitive loss of one row."""

import pytest

from daskglm.losses.squared_epsilon_insensitive import LOSS
from daskglm.losses.table import find


@pytest.mark.parametrize(
    ("residual", "value", "slope", "curvature"),
    [(0.4, 0.0, 0.0, 0.0), (2.0, 2.25, -3.0, 2.0), (-2.0, 2.25, 3.0, 2.0)],
)
def test_value_slope_and_curvature(residual, value, slope, curvature):
    loss = find("squared_epsilon_insensitive(0.5)")
    assert loss.row(5.0, 5.0 - residual, loss.p1, loss.p2) == (value, slope, curvature)


def test_all_solvers_take_it():
    assert LOSS.differentiable
    assert LOSS.smoothness == 2.0
    assert LOSS.full_name == "squared_epsilon_insensitive(0.1)"
