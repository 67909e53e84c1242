"""Pairs of L-BFGS around a diagonal: products for all coefficients and for some, and the state."""

import itertools

import numpy as np

from daskglm.solvers.limited_memory import LimitedMemory
from daskglm.solvers.linear_systems import inverse_times, pair_of
from tests.solvers.problems import make_objective


def learnt(steps=6):
    """A model that has taken some steps, and where these end."""
    objective = make_objective(d=5)
    point = objective.at(np.zeros(objective.size), diagonal=True)
    model = LimitedMemory(objective, point)
    for _ in range(steps):
        after = objective.at(point.w - model.times(point.gradient), diagonal=model.is_due)
        model.update(point, after)
        point = after
    return objective, model, point


def test_products_for_all_coefficients_are_those_of_the_two_loops():
    _, model, point = learnt()
    v = point.gradient + 1.0
    everything = np.ones(model.size, bool)
    np.testing.assert_allclose(model.times_among(v, everything), model.times(v), rtol=1e-12)


def test_products_for_some_are_those_of_the_pairs_parts():
    _, model, point = learnt()
    v, chosen = point.gradient + 1.0, np.array([True, False, True, True, False, True])
    found = model.times_among(v, chosen)
    assert not found[~chosen].any()
    diagonal = model.diagonal[chosen]
    pairs = [
        pair_of(step[chosen], change[chosen], lambda part: part / diagonal)
        for step, change, _, _ in model.pairs
    ]
    pairs = [pair for pair in pairs if pair.curvature > 0.0]
    wanted = inverse_times(pairs, lambda part: part / diagonal, v[chosen])
    np.testing.assert_allclose(found[chosen], wanted, rtol=1e-12)
    assert found @ v > 0.0


def test_none_of_no_coefficients():
    _, model, point = learnt()
    assert not model.times_among(point.gradient, np.zeros(model.size, bool)).any()


def test_parts_that_curve_the_other_way_are_left_out():
    objective, model, point = learnt(0)
    model.pairs.append(
        pair_of(np.eye(6)[0] + np.eye(6)[1], np.array([2.0, -1, 0, 0, 0, 0]), model._inverse)
    )
    chosen = np.arange(6) == 1
    np.testing.assert_allclose(
        model.times_among(np.ones(6), chosen)[1], 1.0 / model.diagonal[1], rtol=1e-12
    )


def test_the_diagonal_is_formed_after_4_steps_8_and_16():
    objective = make_objective(d=5)
    point = objective.at(np.zeros(objective.size), diagonal=True)
    model = LimitedMemory(objective, point)
    due = []
    for k in itertools.count(1):
        if model.is_due:
            due.append(k)
        after = objective.at(0.9 * point.w - 0.1, diagonal=model.is_due)
        model.update(point, after)
        if k == 16:
            break
        point = after
    assert due == [4, 8, 16]


def test_a_model_comes_back_from_its_state():
    objective, model, point = learnt()
    again = LimitedMemory(objective, objective.at(point.w), **model.state())
    assert (again.taken, again.renewal) == (model.taken, model.renewal)
    np.testing.assert_array_equal(again.times(point.gradient), model.times(point.gradient))


def test_pairs_are_forgotten_once():
    _, model, _ = learnt()
    assert model.forget()
    assert not model.forget()
    assert not len(model.state()["steps"])
