"""Solvers are known by name, with the options that they take."""

import pytest

from daskglm.solvers.iterate import Iterate
from daskglm.solvers.spec import (
    SolverSpec,
    check_options,
    get_solver,
    register,
    solver_names,
    unregister,
)


def run(objective, w):
    yield Iterate(objective.at(w))


def test_a_solver_is_registered_and_forgotten():
    spec = SolverSpec("mine", run, max_iter=7)
    register(spec)
    try:
        assert get_solver("mine") is spec
        assert solver_names()[-1] == "mine"
        with pytest.raises(ValueError, match="there is a solver 'mine' already"):
            register(spec)
    finally:
        unregister("mine")
    with pytest.raises(ValueError, match="solver='mine' is not one of"):
        get_solver("mine")


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("auto", (), "there is a solver 'auto' already"),
        ("two words", (), "must be letters, digits and underscores"),
        ("mine", ("patience",), "setting='patience' is not one of"),
    ],
)
def test_what_cannot_be_registered(name, settings, said):
    with pytest.raises(ValueError, match=said):
        register(SolverSpec(name, run, max_iter=7, settings=settings))
    assert "mine" not in solver_names()


@pytest.mark.parametrize(
    ("solver", "options", "said"),
    [
        ("newton", {"step": 1.0}, "solver='newton' does not take step; it takes no options"),
        ("gd", {"stride": 1.0}, "solver='gd' does not take stride; it takes .*step"),
        ("auto", {"step": 1.0}, "solver='auto' does not take step"),
        ("gd", {"step": -1.0}, "step=-1.0"),
        ("sgd", {}, "solver='sgd' is not one of"),
    ],
)
def test_options_that_a_solver_does_not_take(solver, options, said):
    with pytest.raises(ValueError, match=said):
        check_options(solver, options)
