"""Widths of rounded corners: by iterations, and by how much the gap falls for each pass."""

import math

import numpy as np
import pytest
import scipy.sparse

import daskglm
from daskglm.solvers import kinked_steps, proximal_point
from daskglm.solvers.corner_widths import LATELY, LEVELS, STRIDE, ByIterations, ByRates


def run(widths, passes_of, steps=60, rate=0.1, iterations=5):
    """Take steps of which one at level k takes passes_of(k); return the levels."""
    gap, levels = 1.0, []
    for _ in range(steps):
        levels.append(widths.level)
        after = gap * math.exp(-rate * 10.0 ** (0.5 * widths.level))
        widths.after(gap, after, iterations, passes_of(widths.level))
        gap = after
    return levels


@pytest.mark.parametrize("best", [0.0, 1.0, 2.0, 3.5])
@pytest.mark.parametrize("first", [0.0, 1.0, 2.0])
def test_the_width_of_the_best_rate_is_taken_most(best, first):
    # a step gains 10 ** (k / 2), and costs more than that on both sides of the best level
    levels = run(ByRates(first), lambda k: 10.0 ** (0.5 * k + abs(k - best)))
    assert all(0.0 <= level <= LEVELS - 1 for level in levels)
    lately = levels[-3 * LATELY :]
    assert np.mean([abs(level - best) <= STRIDE for level in lately]) == 1.0
    assert np.mean([level == best for level in lately]) >= 0.5


def test_rates_of_long_ago_are_tried_anew():
    widths = ByRates(1.0)
    assert run(widths, lambda k: 10.0 ** (2.0 * k))[-1] <= 0.5
    # now narrow corners cost no more than wide ones
    assert max(run(widths, lambda k: 1.0, steps=30, rate=0.15)) >= 2.0


def test_easy_steps_that_gain_nothing_are_made_longer():
    widths = ByRates(1.0)
    for k in range(3):
        assert widths.level == 1.0 + k * STRIDE
        widths.after(1.0, 0.99, 1, 1.0)
    # but not where narrower corners have raised the gap
    widths = ByRates(1.0)
    widths.after(1.0, 0.8, 3, 1.0)
    assert widths.level == 1.0 + STRIDE
    widths.after(0.8, 0.9, 9, 1.0)
    assert widths.level == 1.0
    widths.after(0.9, 0.89, 3, 1.0)
    assert widths.level <= 1.0


@pytest.mark.parametrize("rule", [ByRates, ByIterations])
@pytest.mark.parametrize("first", [0.0, 0.7, 6.0])
def test_a_lost_step_has_a_wider_corner_next(rule, first):
    widths = rule(first)
    for _ in range(30):
        level = widths.level
        widths.lost()
        assert widths.level < level or level == widths.level == 0.0
    assert widths.level == 0.0


def test_the_end_of_the_levels_is_not_left():
    for rule in (ByRates, ByIterations):
        levels = run(rule(0.3), lambda k: 1.0, iterations=2)
        assert max(levels) == LEVELS - 1


def test_an_l1_part_that_keeps_many_coefficients_takes_fewer_passes(monkeypatch):
    # as of larger sets of features, whose Hessians are not formed
    monkeypatch.setattr(kinked_steps, "MOST_FORMED", 0)

    def fit(rule, seed):
        monkeypatch.setattr(proximal_point, "ByRates", rule)
        rng = np.random.default_rng(seed)
        X = scipy.sparse.random(200, 500, 0.05, format="csr", random_state=seed + 1)
        y = np.where(X @ rng.standard_normal(500) + 0.5 * rng.standard_normal(200) > 0, 1.0, -1.0)
        C = 1.0 / (0.05 * np.abs(X.T @ y).max())
        found = daskglm.fit(X, y, loss="hinge", C=C, l1_ratio=1.0, tol=1e-4)
        assert found.report_.converged
        assert (found.coef_ != 0.0).sum() > 100
        return found.report_

    ratios = []
    for seed in range(4):
        by_rates, by_iterations = fit(ByRates, seed), fit(ByIterations, seed)
        assert by_rates.objective == pytest.approx(by_iterations.objective, rel=2e-4)
        ratios.append(by_rates.passes / by_iterations.passes)
    # a path of 10,000 passes parts by rounding: single ratios were 0.3 to 1.5, their mean 0.58
    assert np.exp(np.mean(np.log(ratios))) < 0.9
