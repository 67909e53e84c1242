"""L-BFGS: passes, and the diagonal that it forms anew."""

from tests.solvers.problems import drive


def test_lbfgs_makes_one_pass_per_accepted_step():
    obj = drive("lbfgs", 8)
    assert obj.passes == 8.0
    assert set(obj.engine.requests) == {"Evaluate"}
