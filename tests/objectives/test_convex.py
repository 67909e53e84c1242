"""The least point of a convex function of one number."""

import math

import numpy as np
import pytest

from daskglm.losses.dispatch import tile
from daskglm.losses.smoothed_hinge import smoothed_hinge
from daskglm.losses.table import LOSSES, law_of
from daskglm.objectives.convex import Seen, least_point


@pytest.mark.parametrize(
    "loss",
    [*(loss for loss in LOSSES.values() if loss.classifies), smoothed_hinge(1e-4)],
    ids=lambda loss: f"{loss.name} {loss.p1}",
)
@pytest.mark.parametrize("shift", [0.0, -1e3, 1e6, 1e12])
def test_the_least_point_is_found_however_far_it_is(loss, shift):
    rng = np.random.default_rng(3)
    z, target = rng.standard_normal(60) - shift, np.where(np.arange(60) % 3, 1.0, -1.0)
    asked = []

    def ask(points):
        asked.append(len(points))
        seen = []
        for b in points:
            slope, curvature = np.empty(60), np.empty(60)
            value = tile(law_of(loss.ref), target, z + b, np.empty(0), slope, curvature)
            seen.append(Seen(b, value, slope.sum(), curvature.sum()))
        return seen

    found = least_point(ask, 0.0, smooth=loss.differentiable).at
    best = min(ask([found + step])[0].value for step in np.linspace(-1, 1, 201))
    assert ask([found])[0].value <= best * (1 + 1e-9 + 1e-16 * abs(shift))
    assert len(asked) < 150 + 202


def test_the_least_value_takes_fewer_questions_than_its_point():
    asked = []

    def ask(points):
        asked.extend(points)
        return [Seen(b, math.exp(b) - 2.0 * b, math.exp(b) - 2.0, math.exp(b)) for b in points]

    exact = least_point(ask, 2.0, smooth=True).at
    assert exact == pytest.approx(math.log(2.0), rel=1e-14)
    many = len(asked)
    near = least_point(ask, 2.0, smooth=True, enough=1e-16)
    assert len(asked) - many < many
    assert near.value == pytest.approx(2.0 - 2.0 * math.log(2.0), rel=1e-15)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_slope_that_is_rounding_is_no_reason_to_halve_the_bracket(sign):
    asked = []

    def ask(points):
        asked.extend(points)
        return [Seen(b, (b - 0.5) ** 2, 2.0 * (b - 0.5) + sign * 1e-17, 2.0) for b in points]

    assert least_point(ask, 0.0, smooth=True).at == 0.5
    assert len(asked) <= 3


def test_the_least_point_of_a_function_without_one_ends():
    assert math.isfinite(
        least_point(
            lambda points: [Seen(b, 0.0, -1e-300, 0.0) for b in points], 0.0, smooth=True
        ).at
    )
    assert math.isfinite(
        least_point(lambda points: [Seen(b, 0.0, -1e-9, 1e-9) for b in points], 0.0, smooth=True).at
    )
    assert math.isfinite(
        least_point(lambda points: [Seen(b, b, 1.0, 0.0) for b in points], 0.0, smooth=False).at
    )
    assert (
        least_point(
            lambda points: [Seen(b, math.nan, math.nan, 0.0) for b in points], 3.0, smooth=True
        ).at
        == 3.0
    )


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("least", [1e-3, 0.5, 2.0])
def test_the_function_may_end_at_a_wall(least, smooth):
    def ask(points):
        inside = [b > 0.0 for b in points]
        return [
            Seen(b, b - least * math.log(b), 1.0 - least / b, least / b**2)
            if ok
            else Seen(b, math.inf, math.nan, math.nan)
            for b, ok in zip(points, inside, strict=True)
        ]

    for start in (1e-9, 1.0, 50.0):
        assert least_point(ask, start, smooth=smooth).at == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("start", [0.0, 0.3, 7.0])
@pytest.mark.parametrize("rows", [999, 100_001])
def test_a_kinked_function_takes_few_questions(rows, start):
    targets = np.random.default_rng(rows).standard_t(3, rows)
    asked = []

    def ask(points):
        asked.append(len(points))
        apart = [targets - b for b in points]
        return [
            Seen(b, float(abs(r).sum()), float((r < 0.0).sum() - (r > 0.0).sum()), 0.0)
            for b, r in zip(points, apart, strict=True)
        ]

    assert least_point(ask, start, smooth=False).at == pytest.approx(np.median(targets), abs=1e-6)
    assert len(asked) <= 9  # 11 to 23 by two points a question
    assert sum(asked) <= 50
