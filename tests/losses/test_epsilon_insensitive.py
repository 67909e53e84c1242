"""The epsilon-insensitive loss of one row, with its corners and with a width."""

import numpy as np
import pytest

from daskglm.losses.epsilon_insensitive import LOSS, moved
from daskglm.losses.table import find


@pytest.mark.parametrize(
    ("residual", "value", "slope"), [(0.4, 0.0, 0.0), (2.0, 1.5, -1.0), (-2.0, 1.5, 1.0)]
)
def test_value_and_slope(residual, value, slope):
    loss = find("epsilon_insensitive(0.5)")
    assert loss.row(5.0, 5.0 - residual, loss.p1, loss.p2) == (value, slope, 0.0)


def test_epsilon_may_be_zero_but_not_below():
    assert find("epsilon_insensitive(0)").row(1.0, 3.0, 0.0, 0.0)[:2] == (2.0, 1.0)
    with pytest.raises(ValueError, match="epsilon=-1 must be in"):
        find("epsilon_insensitive(-1)")
    assert not LOSS.differentiable


@pytest.mark.parametrize("r", [-3.0, -0.55, 0.0, 0.4, 0.6, 3.0])
@pytest.mark.parametrize("a", [-1.0, 0.0, 0.3])
def test_a_moved_target_makes_a_proximal_term(r, a):
    width, epsilon = 0.3, 0.5
    loss = LOSS.smoothed(LOSS.with_parameter(epsilon), width)
    target = float(moved(np.array([7.0]), np.array([a]), width)[0])
    value, slope, _ = loss.row(target, 7.0 - r, loss.p1, loss.p2)
    b = np.linspace(-1.0, 1.0, 200_001)
    terms = b * r - epsilon * np.abs(b) - 0.5 * width * (b - a) ** 2
    assert value - 0.5 * width * a * a == pytest.approx(terms.max(), abs=1e-9)
    assert -slope == pytest.approx(b[terms.argmax()], abs=2e-5)
