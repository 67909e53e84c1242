"""The line search between two evaluated points."""

import numpy as np

from tests.solvers.problems import make_objective


def test_a_rejected_step_is_searched_on_cached_margins():
    obj = make_objective("squared_hinge", C=100.0, record=True)
    from daskglm.solvers.line_search import backtrack

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
