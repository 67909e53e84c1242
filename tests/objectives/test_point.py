"""Points of the primal objective."""

import numpy as np
import pytest

from daskglm.core.summation import AT_ONCE
from daskglm.objectives.point import Point


def test_the_length_of_a_step_is_that_of_the_difference():
    def point(w):
        return Point(None, w, 0.0, w, 0)

    a, b = np.random.default_rng(0).standard_normal((2, 2 * AT_ONCE + 5))
    assert point(a).distance(point(b)) == pytest.approx(np.linalg.norm(a - b), rel=1e-12)
    with np.errstate(over="ignore"):
        assert point(1e200 * a).distance(point(b)) == np.inf, (
            "a diverging solver is told by its values"
        )
