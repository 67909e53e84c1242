"""Names of solvers and families are told where their modules are not imported."""

from daskglm.core.choices import FAMILIES, SOLVERS
from daskglm.losses.builtin import BUILTIN
from daskglm.solvers import solver_names


def test_solvers_are_those_of_the_package():
    assert solver_names() == SOLVERS


def test_families_are_those_of_the_losses():
    assert {loss.family.name for loss in BUILTIN if loss.family} == set(FAMILIES)
    assert len(FAMILIES) == len(set(FAMILIES))
