"""Arguments are checked before any work; errors name them and show their value."""

import math

import numpy as np
import pytest

from daskglm.core import arguments


@pytest.mark.parametrize("value", [[1, 2], (), np.zeros(3), range(2)])
def test_sequences(value):
    assert arguments.is_sequence(value)


@pytest.mark.parametrize("value", ["text", b"bytes", {"a": 1}, np.array(3.0), 5])
def test_what_is_no_sequence(value):
    assert not arguments.is_sequence(value)


@pytest.mark.parametrize("value", [1, 2.5, math.nan, np.float32(1), np.int64(3)])
def test_numbers(value):
    assert arguments.is_number(value)
    assert not arguments.is_number(bool(value))


def test_long_values_are_shown_short_and_on_one_line():
    text = arguments.shown("x\n" * 1000)
    assert len(text) < 100
    assert "\n" not in arguments.shown(np.zeros((3, 3)))


BAD = [
    (arguments.check_C, (0,), "C=0 must be a positive number"),
    (arguments.check_C, (math.nan,), "C=nan must be"),
    (arguments.check_C, ([1.0, 2.0],), "daskglm.fit takes a sequence"),
    (arguments.check_tol, (-1e-3,), "tol=-0.001 must be a finite number"),
    (arguments.check_tol, (math.inf,), "tol=inf"),
    (arguments.check_whole, (0, "max_iter", 1), "max_iter=0 must be a positive integer"),
    (arguments.check_whole, (2.0, "max_iter", 1), "max_iter=2.0"),
    (arguments.check_whole, (True, "max_iter", 0), "an integer not below 0"),
    (arguments.check_flag, (1, "shrinking"), "shrinking=1 must be True or False"),
    (arguments.check_choice, ("cg", "solver", ("lbfgs", "tron")), "not one of 'lbfgs', 'tron'"),
    (arguments.check_class_weight, ("even",), "class_weight='even' must be a dict"),
    (arguments.check_class_weight, ({1: -2.0},), "the weight of 1 is -2.0"),
    (arguments.check_random_state, (-1,), "random_state=-1 must be an integer from 0"),
    (arguments.check_random_state, (2**32,), "random_state=4294967296"),
    (arguments.check_path, (" ", "resume"), "resume=' ' is empty"),
]


@pytest.mark.parametrize(("check", "given", "said"), BAD)
def test_values_that_cannot_be(check, given, said):
    with pytest.raises(ValueError, match=said):
        check(*given)


@pytest.mark.parametrize(
    ("check", "given", "said"),
    [
        (arguments.check_callback, (3,), "callback=3 cannot be called"),
        (arguments.check_callback, (lambda: None,), "cannot be called with one argument"),
        (arguments.check_options_kind, ([("step", 1)],), "must be a dict of options by name"),
        (arguments.check_options_kind, ({1: 2},), "must be a dict of options by name"),
        (arguments.check_path, (3, "checkpoint"), "checkpoint=3 must be the path of a folder"),
        (arguments.file_path, (3, "path"), "path=3 must be the path of a file"),
    ],
)
def test_values_of_another_kind(check, given, said):
    with pytest.raises(TypeError, match=said):
        check(*given)


@pytest.mark.parametrize(
    ("check", "given"),
    [
        (arguments.check_C, (math.inf,)),
        (arguments.check_tol, (0,)),
        (arguments.check_whole, (None, "max_iter", 1)),
        (arguments.check_class_weight, ("balanced",)),
        (arguments.check_class_weight, ({"a": 0, "b": 2.5},)),
        (arguments.check_random_state, (np.random.RandomState(0),)),
        (arguments.check_callback, (print,)),
        (arguments.check_options_kind, (None,)),
    ],
)
def test_values_that_are_right(check, given):
    optional = {"optional": True} if check is arguments.check_whole else {}
    assert check(*given, **optional) is None
