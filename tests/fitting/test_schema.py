"""Fields of saved models are checked one by one; errors say what is wrong."""

import json
import math

import pytest

from daskglm.fitting import schema


@pytest.mark.parametrize("text", [b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1, "a": 2}', b"\xff"])
def test_json_is_strict(text):
    with pytest.raises(ValueError, match=r"."):
        schema.parse(text)


@pytest.mark.parametrize(
    ("saved", "value"),
    [
        ({"float": "inf"}, math.inf),
        ({"float": "-inf"}, -math.inf),
        ({"items": [["a", 1], [{"float": "inf"}, 2]]}, {"a": 1, math.inf: 2}),
        (3, 3),
        (None, None),
    ],
)
def test_values_of_which_json_has_no_word(saved, value):
    assert schema.special(json.loads(json.dumps(saved))) == value


@pytest.mark.parametrize("saved", [{"float": "1.5"}, {"items": [["a"]]}, {"items": 3}, {"a": 1}])
def test_other_dicts_are_refused(saved):
    with pytest.raises(ValueError, match="no value of a file of daskglm"):
        schema.special(saved)


@pytest.mark.parametrize(
    ("check", "value", "said"),
    [
        (schema.text, "\x1b[31m", "not text without control characters"),
        (schema.text, 3, "not text"),
        (schema.flag, 1, "not true or false"),
        (schema.integer, True, "not an integer of at least 0"),
        (schema.integer, -1, "not an integer of at least 0"),
        (schema.integer, 2.0, "not an integer"),
        (schema.number, "1", "not a number"),
        (schema.number, math.nan, "not a number"),
    ],
)
def test_kinds(check, value, said):
    with pytest.raises(ValueError, match=f"field is .*{said}"):
        check(value, "field")


def test_the_size_of_a_file_goes_with_the_features_that_it_declares():
    few, many = schema.room(b'{"n_features": 10}'), schema.room(b'{"n_features": 100000}')
    assert few < many
    assert schema.room(b"{}") <= few


def test_a_report_has_all_its_fields_and_no_others():
    with pytest.raises(ValueError, match="the report differs in"):
        schema.report({"passes": 1.0})
