"""Losses are found by name; formulas that contradict each other are refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numba.core.errors import NumbaError

from daskglm.core.requests import LossRef
from daskglm.losses.base import OUTSIDE, Loss, Parameter
from daskglm.losses.table import LOSSES, find, law_of, loss_of, register_loss


def quadratic(y, z, p1, p2):
    return 0.5 * (z - y) ** 2, z - y, 1.0


@pytest.mark.parametrize("name", list(LOSSES))
def test_requests_name_losses_that_kernels_know(name):
    loss = LOSSES[name]
    code, p1, p2, address = law_of(loss.ref)
    assert (code, p1, p2) == (loss.code, loss.p1, loss.p2)
    assert address
    assert law_of(loss.ref)[3] == address
    assert law_of(loss.ref, compiled=False)[3] == 0


def test_parameters_are_those_of_the_request():
    code, width, _, _ = law_of(LossRef("smoothed_hinge", 0.25))
    assert (code, width) == (LOSSES["smoothed_hinge"].code, 0.25)


def test_a_second_parameter_is_that_of_the_request():
    ref = LOSSES["tweedie_power"].ref._replace(p2=LOSSES["tweedie_power"].p2 + 0.25)
    assert loss_of(ref).p2 == ref.p2


def test_unknown_losses_and_modules_are_named():
    with pytest.raises(ValueError, match="'poison' is not one of"):
        law_of(LossRef("poison"))
    with pytest.raises(ValueError, match="cannot import 'no_such_module'"):
        law_of(LossRef("poison", module="no_such_module"))


def negative(y, z, p1, p2):
    return -1.0 + 0.0 * z, 0.0, 0.0


def wrong_slope(y, z, p1, p2):
    return 0.5 * z * z, 2.0 * z, 1.0


def wrong_curvature(y, z, p1, p2):
    return 0.5 * z * z, z, 3.0


def not_finite(y, z, p1, p2):
    return math.inf, 0.0, 0.0


@pytest.mark.parametrize(
    ("row", "smoothness", "said"),
    [
        (negative, 1.0, "must be finite and not negative"),
        (not_finite, 1.0, "must be finite and not negative"),
        (wrong_slope, 1.0, "but the value rises by"),
        (wrong_curvature, 4.0, "but the slope rises by"),
        (quadratic, 0.5, "not between 0 and smoothness=0.5"),
    ],
)
def test_formulas_that_contradict_each_other(row, smoothness, said):
    loss = Loss("contradicting", row, classifies=False, smoothness=smoothness, self_concordance=1.0)
    with pytest.raises(ValueError, match=said):
        register_loss(loss)
    assert "contradicting" not in LOSSES


def not_compiled(y, z, p1, p2):
    return float(np.poly1d([0.5, 0.0, 0.0])(z - y)), z - y, 1.0


def test_a_formula_that_numba_cannot_compile_is_not_registered():
    loss = Loss("in_words", not_compiled, classifies=False, smoothness=1.0)
    with pytest.raises(NumbaError):
        register_loss(loss)
    assert "in_words" not in LOSSES


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "logistic"}, "is that of a loss of daskglm"),
        ({"code": 2}, "has no dual and no code of its own"),
        ({"differentiable": False}, "no solver takes it"),
        ({"classifies": True, "attains_infimum": False}, "needs an intercept_radius"),
    ],
)
def test_records_that_cannot_be_registered(changes, said):
    fields = {"name": "refused", "row": quadratic, "classifies": False, "smoothness": 1.0}
    with pytest.raises(ValueError, match=said):
        register_loss(Loss(**{**fields, **changes}))


def test_a_loss_takes_a_parameter_in_parentheses():
    given = replace(
        LOSSES["squared"],
        name="pseudo",
        code=OUTSIDE,
        dual=None,
        parameter=Parameter("width", 0.0, 9.0, 1.0),
    )
    LOSSES["pseudo"] = given
    try:
        assert find("pseudo") is given
        assert find("pseudo(2.5)").p1 == 2.5
        assert find(find("pseudo( 2.5 )").full_name).p1 == 2.5
        for wrong, message in (
            ("pseudo(0)", r"width=0 must be in \(0, 9\)"),
            ("pseudo(nan)", "width=nan must be in"),
            ("pseudo(wide)", "'wide' is not a number"),
            ("pseudo()", "'' is not a number"),
            ("other(1)", "loss='other' is not one of"),
            ("squared(1)", "takes no parameter"),
            (3, "loss=3 is not one of"),
        ):
            with pytest.raises(ValueError, match=message):
                find(wrong)
    finally:
        del LOSSES["pseudo"]
