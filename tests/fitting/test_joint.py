"""Losses of all classes together have what fits need of them, and those of one margin have nothing."""

import pytest

from daskglm.fitting.joint import JOINT_FITS, joint_fit
from daskglm.losses.table import JOINT_LOSSES, LOSSES


def test_every_such_loss_has_its_fit():
    assert set(JOINT_FITS) == set(JOINT_LOSSES)
    assert all(joint_fit(loss) is JOINT_FITS[name] for name, loss in JOINT_LOSSES.items())


@pytest.mark.parametrize("name", list(LOSSES))
def test_losses_of_one_margin_have_none(name):
    assert joint_fit(LOSSES[name]) is None
