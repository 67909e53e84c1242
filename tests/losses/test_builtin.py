"""The losses of this package differ in name and code, and kernels have a branch for each."""

from daskglm.losses.base import OUTSIDE
from daskglm.losses.builtin import BUILTIN
from tests.losses.formulas import FAMILIES


def test_names_and_codes_are_their_own():
    assert len({loss.name for loss in BUILTIN}) == len(BUILTIN)
    assert all(loss.module == "" for loss in BUILTIN)
    assert len({loss.code for loss in BUILTIN}) == len(BUILTIN)
    assert all(loss.code < OUTSIDE for loss in BUILTIN)
    # the kernels of the dual have a branch for each
    assert sum(loss.has_dual for loss in BUILTIN) == 13
    with_dual = {loss.name for loss in BUILTIN if loss.name in FAMILIES and loss.has_dual}
    assert with_dual == {"binomial", "poisson", "gamma", "negative_binomial"}
