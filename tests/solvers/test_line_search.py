"""The line search between two evaluated points."""

import numpy as np
import pytest

from daskglm.solvers.line_search import backtrack
from tests.solvers.problems import make_objective


def test_a_rejected_step_is_searched_on_cached_margins():
    obj = make_objective("squared_hinge", C=100.0, record=True)
    start = obj.at(np.zeros(obj.size))
    trial = obj.at(-1e3 * start.gradient)
    accepted = backtrack(obj, start, trial)
    assert accepted.value < start.value < trial.value
    for other in (0.5, 2.0):  # what the search has tried too
        assert (
            accepted.value <= make_objective("squared_hinge", C=100.0).at(other * accepted.w).value
        )
    assert obj.engine.requests.count("Evaluate") == 3
    assert obj.engine.requests.count("EvaluateAlong") >= 1
    assert obj.passes == 3.0


@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
@pytest.mark.parametrize("far", [1e2, 1e3])
def test_where_curvatures_jump_a_shortened_step_is_the_best(loss, far):
    obj = make_objective(loss, C=100.0)
    start = obj.at(np.zeros(obj.size))
    way = -start.gradient / (start.gradient @ obj.hessian_vector(start, start.gradient))
    trial = obj.at(far * float(start.gradient @ start.gradient) * way)
    accepted = backtrack(obj, start, trial)
    assert accepted is not trial
    slope = float(accepted.gradient @ way)
    assert abs(slope) < 0.02 * abs(float(start.gradient @ way))
