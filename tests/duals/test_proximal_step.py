"""The primal of a proximal step: its corners, and the scale that their width is measured by."""

import math

import numpy as np
import pytest

from daskglm.duals.corrected import residual_unit
from tests.duals.test_dual import dual_of
from tests.duals.test_unpenalised import dual_of as unpenalised


def test_widths_follow_the_residuals_and_not_their_unit():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 2)), rng.standard_normal(50)
    units = []
    for scale in (1e-6, 1.0, 1e6):
        dual = unpenalised(X, scale * y, "quantile(0.9)", weight=np.full(50, 2.0))
        dual.start_point()
        units.append(residual_unit(dual.objective, dual.value) / scale)
    assert units == pytest.approx([units[1]] * 3)
    # residuals are of a size of one, though those above are rare and the others cost little
    assert 0.1 < units[1] < 3.0
    assert residual_unit(dual.objective, 0.0) > 0.0


def test_a_hinge_has_its_corner_at_one():
    X = np.array([[1.0], [-1.0], [2.0]])
    hinge = dual_of(X, np.array([1.0, -1.0, 1.0]), "hinge", None)
    assert residual_unit(hinge.objective, 123.0) == 1.0
    assert hinge.smoothed(0.1).loss.p1 == 0.1


def test_a_step_has_the_term_around_the_dual_variables():
    """Its value is that of the dual with a proximal term, whatever the dual variables are."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    dual = unpenalised(X, y, "quantile(0.5)")
    dual.start_point()
    w = np.array([0.3, -0.2, 0.1])
    first = dual.smoothed(0.4)
    a = np.clip((y - X @ w[:2] - w[2]) / 0.4, -0.5, 0.5)
    dual.adopt(first, w)
    step = dual.smoothed(0.7)
    v = np.array([-0.5, 0.4, 0.0])
    r = y + 0.7 * a - X @ v[:2]
    b = np.clip(r / 0.7, -0.5, 0.5)
    assert step.at(v).value == pytest.approx(float((b * r - 0.35 * b * b).sum()))
    assert math.isinf(dual.objective.loss.smoothness)
