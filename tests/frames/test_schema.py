import pytest
from sklearn.base import clone

from daskglm.frames.schema import Schema, schema_of


def test_a_schema_is_given_as_such_as_a_dict_or_not_at_all():
    assert schema_of(None).is_default
    assert schema_of({"min_count": 3}).min_count == 3
    given = Schema(categories=["month"], exposure="years")
    assert schema_of(given) is given
    assert clone(given).get_params() == given.get_params()
    assert given.roles == {"exposure": "years"}
    assert not given.is_default
    assert Schema(exposure="years").is_default  # says nothing of features


BAD = {
    "unknown": (
        {"level": 1},
        ValueError,
        "schema has no 'level'; it has absorb, aliased, base, categories",
    ),
    "a list": (["month"], TypeError, r"schema=\['month'\] must be"),
    "one name": ({"categories": "month"}, TypeError, r"categories='month' must be a sequence"),
    "a number": ({"categories": [3]}, TypeError, "3 is none"),
    "both": (
        {"categories": ["a"], "numeric": ["a"]},
        ValueError,
        "'a' is in categories and in num",
    ),
    "unseen": ({"unseen": "drop"}, ValueError, "unseen='drop' is not one of 'error', 'reference'"),
    "missing": ({"missing": "median"}, ValueError, "missing='median' is not one of"),
    "two ways": ({"missing": ["mean", "indicator"]}, ValueError, "give one way for numbers"),
    "missing of a column": ({"missing": {"a": "x"}}, ValueError, r"missing\['a'\]='x'"),
    "min_count": ({"min_count": 0}, ValueError, "min_count=0 must be a positive integer"),
    "base": ({"base": "last"}, ValueError, "base='last' is not one of 'first', 'most_frequent'"),
    "splines": ({"splines": ["hour"]}, TypeError, r"splines=\['hour'\] must be a dict"),
    "few": ({"splines": {"hour": 2}}, ValueError, r"splines\['hour'\]=2 must be .* 3"),
    "many": ({"polynomials": {"hour": 101}}, ValueError, "above 100"),
    "twice": ({"splines": {"a": 4}, "polynomials": {"a": 2}}, ValueError, "in splines and in poly"),
    "alone": ({"interactions": [("a",)]}, ValueError, "tuples of two or more names"),
    "text": ({"interactions": ["ab"]}, ValueError, "tuples of two or more names"),
    "role": ({"exposure": 3}, TypeError, "exposure=3 of a schema must be the name of a column"),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_what_no_table_can_have_is_refused_by_name(kind):
    given, error, message = BAD[kind]
    with pytest.raises(error, match=message):
        schema_of(given)


def test_missing_values_of_factors_and_numbers_have_ways_of_their_own():
    both = Schema(missing=("level", "mean"))
    assert both.how_missing("a", factor=True) == "level"
    assert both.how_missing("a", factor=False) == "mean"
    assert Schema(missing="mean").how_missing("a", factor=True) == "error"
    named = Schema(missing={"a": "indicator"})
    assert named.how_missing("b", factor=False) == "error"
    with pytest.raises(ValueError, match="'a' is a column of levels, for which there is 'level'"):
        named.how_missing("a", factor=True)
