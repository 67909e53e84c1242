"""Reasons for which a solve ends, and costs that add up."""

from daskglm.core.outcome import Cost, Reason


def test_costs_add_up_and_differ():
    a, b = Cost(1.5, 2, 30, 0.25), Cost(0.5, 1, 10, 0.25)
    assert a + b == Cost(2.0, 3, 40, 0.5)
    assert (a + b) - b == a
    assert a + Cost() == a


def test_only_a_rule_that_was_met_is_convergence():
    assert {reason for reason in Reason if not reason.converged} == {
        Reason.SEPARABLE,
        Reason.NO_OPTIMUM,
        Reason.SEVERAL_OPTIMA,
        Reason.NO_PROGRESS,
        Reason.STALLED,
        Reason.MAX_ITER,
        Reason.CALLBACK,
        Reason.NOT_FINITE,
    }
