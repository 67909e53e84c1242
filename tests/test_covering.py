"""The covering arrays have what they promise."""

import itertools

import pytest

from tests.covering import covering

CHOICES = {"a": [1, 2, 3, 4], "b": ["x", "y", "z"], "c": [True, False], "d": [{}, {"e": 1}]}


@pytest.mark.parametrize("strength", [1, 2, 3, 4])
def test_default_cases_have_all_parts_and_the_others_are_nightly(strength):
    cases = covering(strength, **CHOICES).args[1]
    assert len(cases) == 48
    assert len({case.id for case in cases}) == 48
    default = [case.values for case in cases if not case.marks]
    for names in itertools.combinations(range(4), strength):
        found = {repr([case[name] for name in names]) for case in default}
        wanted = itertools.product(*(list(CHOICES.values())[name] for name in names))
        assert found == {repr(list(each)) for each in wanted}
    assert {1: 4, 2: 12, 4: 48}.get(strength, len(default)) == len(default)
    assert all([mark.name for mark in case.marks] == ["nightly"] for case in cases if case.marks)
