"""The losses of this package differ in name and code, and kernels have a branch for each."""

from daskglm.losses.base import OUTSIDE
from daskglm.losses.builtin import BUILTIN


def test_names_and_codes_are_their_own():
    assert len({loss.name for loss in BUILTIN}) == len({loss.code for loss in BUILTIN}) == 5
    assert all(loss.code < OUTSIDE and loss.module == "" and loss.has_dual for loss in BUILTIN)
