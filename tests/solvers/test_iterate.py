"""Iterates: a solve resumed from any of them goes on as if it had not been interrupted."""

import itertools

import numpy as np
import pytest

from daskglm.solvers import Iterate, get_solver
from tests.solvers.problems import make_objective


def test_a_point_alone_is_resumed_from_its_coefficients():
    objective = make_objective()
    iterate = Iterate(objective.at(np.zeros(objective.size)))
    assert iterate.resume() == {}
    assert iterate.save_rows is None
    assert iterate.by == ""


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd"])
def test_a_solve_goes_on_from_the_third_iterate_as_it_would_have(solver):
    objective = make_objective()
    spec = get_solver(solver)
    whole = spec.run(objective, np.full(objective.size, 0.01))
    third, *rest = [(each.point, each.resume()) for each in itertools.islice(whole, 2, 6)]
    point, state = third
    again = spec.run(objective, point.w, **state)
    resumed = [each.point for each in itertools.islice(again, 1, len(rest) + 1)]
    for (wanted, _), found in zip(rest, resumed, strict=True):
        np.testing.assert_allclose(found.w, wanted.w, rtol=1e-9, atol=1e-12)


def test_dual_ascent_names_itself_and_can_save_its_rows():
    objective = make_objective()
    iterate = next(get_solver("sdca").run(objective, np.zeros(objective.size)))
    assert iterate.by == "sdca"
    assert callable(iterate.save_rows)
    assert set(iterate.resume()) == {"state"}
