"""Losses of all classes together have what fits need of them, and those of one margin have nothing."""

import pytest

from daskglm.fitting.joint import joint_fit
from daskglm.losses.table import JOINT_LOSSES, LOSSES


def test_every_such_loss_has_its_fit():
    assert all(joint_fit(loss) is not None for loss in JOINT_LOSSES.values())
    assert len({id(joint_fit(loss)) for loss in JOINT_LOSSES.values()}) == 2


@pytest.mark.parametrize("name", list(LOSSES))
def test_losses_of_one_margin_have_none(name):
    assert joint_fit(LOSSES[name]) is None
