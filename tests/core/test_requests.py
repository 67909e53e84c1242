"""Requests name what is asked."""

import numpy as np

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector


def test_messages_name_what_is_asked():
    assert Evaluate(np.ones(2), 1).gram is False
    assert HessianVector(np.ones(2), (1, np.ones(2))).at[0] == 1
    assert EvaluateAlong(((1, np.ones(2)),), np.ones((1, 1))).coefficients.shape == (1, 1)
