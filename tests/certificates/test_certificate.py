"""What the driver is told of points: bounds by rates, better intercepts, surveys where those hide a proof."""

import math
from dataclasses import replace

import numpy as np

from tests.certificates.test_local_rates import whole

NEAR = np.array([0.3, -0.4, 0.2, 3.0])


def test_points_without_a_hessian_are_returned_as_they_are():
    objective = whole("gamma_inverse")
    point = objective.at(NEAR)
    found, gap = objective.bounds.certificate(1e-6)(point)
    assert found is point
    assert math.isnan(gap)
    objective.engine.close()


def test_a_hessian_bounds_a_point_by_rates_without_a_pass():
    objective = whole("gamma_inverse")
    point = objective.at(NEAR, gram=True)
    for _ in range(6):
        point = objective.at(point.w + point.factor.step(point.gradient)[0], gram=True)
    passes = objective.passes
    found, gap = objective.bounds.certificate(1e-6)(point)
    assert found.rates is not None
    assert gap <= 1e-12
    assert objective.passes == passes
    objective.engine.close()


def test_a_survey_is_asked_once_where_rounding_hides_the_proof():
    objective = whole("gamma_inverse")
    point = objective.at(NEAR, gram=True)
    for _ in range(6):
        point = objective.at(point.w + point.factor.step(point.gradient)[0], gram=True)
    certificate, passes = objective.bounds.certificate(1e-300), objective.passes
    certificate(point)
    assert objective.passes == passes + 2
    certificate(replace(point))
    assert objective.passes == passes + 2
    objective.engine.close()
