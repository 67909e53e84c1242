"""The quantile loss of one row, with its corner and with a width, and its proximal term."""

import math

import numpy as np
import pytest

from daskglm.losses.quantile import LOSS, moved
from daskglm.losses.table import find


@pytest.mark.parametrize(("residual", "value", "slope"), [(2.0, 1.8, -0.9), (-2.0, 0.2, 0.1)])
def test_value_and_slope(residual, value, slope):
    loss = find("quantile(0.9)")
    found = loss.row(5.0, 5.0 - residual, loss.p1, loss.p2)
    assert found == pytest.approx((value, slope, 0.0))


def test_its_slope_jumps():
    assert not LOSS.differentiable
    assert math.isinf(LOSS.smoothness)
    assert LOSS.has_dual
    for outside in ("0", "1", "1.5"):
        with pytest.raises(ValueError, match="must be in"):
            find(f"quantile({outside})")


@pytest.mark.parametrize("r", [-3.0, -0.1, 0.0, 0.05, 0.2, 3.0])
@pytest.mark.parametrize("a", [-0.2, 0.0, 0.5, 0.8])
def test_a_moved_target_makes_a_proximal_term(r, a):
    """With targets y + width a the smoothed loss is max over b of b r - width/2 (b - a)^2, but for a constant."""
    width, q = 0.3, 0.8
    loss = LOSS.smoothed(LOSS.with_parameter(q), width)
    assert loss.differentiable
    assert loss.smoothness == 1.0 / width
    target = float(moved(np.array([7.0]), np.array([a]), width)[0])
    value, slope, _ = loss.row(target, 7.0 - r, loss.p1, loss.p2)
    b = np.linspace(q - 1.0, q, 200_001)
    terms = b * r - 0.5 * width * (b - a) ** 2
    assert value - 0.5 * width * a * a == pytest.approx(terms.max(), abs=1e-9)
    assert -slope == pytest.approx(b[terms.argmax()], abs=1e-5)
