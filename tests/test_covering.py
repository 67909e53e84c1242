"""The covering arrays have what they promise."""

import itertools
from types import SimpleNamespace

import pytest

from tests.covering import covering, holds, pairwise, spare

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


class Case:
    """What `spare` asks of an item of pytest."""

    def __init__(self, test, params, *marks):
        self.nodeid, self.marks = f"{test}[{params}]", {*marks}
        self.callspec = SimpleNamespace(params=params)

    def get_closest_marker(self, name):
        return name if name in self.marks else None

    def add_marker(self, mark):
        self.marks.add(mark.name)


def test_of_each_choice_few_cases_run_that_have_all_values():
    def cases(test, *marks):
        return [Case(test, {"a": a, "b": b}, *marks) for a in CHOICES["a"] for b in CHOICES["b"]]

    some, on_a_gpu = cases("some", "each_choice"), cases("some", "each_choice", "gpu")
    alone, all_of_them = [Case("other", {"a": 1}, "each_choice")], cases("another")
    spare([*some, *on_a_gpu, *alone, *all_of_them])
    for those in some, on_a_gpu:
        default = [case.callspec.params for case in those if "nightly" not in case.marks]
        assert len(default) == 4
        assert {case["a"] for case in default} == {*CHOICES["a"]}
        assert {case["b"] for case in default} == {*CHOICES["b"]}
    assert not any("nightly" in case.marks for case in alone + all_of_them)


def _no_x_above_two(a, b):
    return a <= 2 or b != "x"


def _x_with_c_or_without_d(b, c, d):
    return b != "x" or c or not d


def _no_y(b):
    return b != "y"


RULES = (_no_x_above_two, _x_with_c_or_without_d, _no_y)
MANY = {"a": [1, 2, 3, 4], "b": ["x", "y", "z"], "c": [True, False], "d": [True, False]}


def test_a_pairwise_array_has_all_pairs_that_are_allowed_and_no_others():
    every = [
        case
        for values in itertools.product(*MANY.values())
        if holds(RULES, case := dict(zip(MANY, values, strict=True)))
    ]
    found = pairwise(*RULES, **MANY)
    assert found == pairwise(*RULES, **MANY)
    assert all(case in every for case in found)
    assert len(found) < 0.6 * len(every)
    for one, other in itertools.combinations(MANY, 2):
        wanted = {(case[one], case[other]) for case in every}
        assert {(case[one], case[other]) for case in found} == wanted


def test_a_part_of_a_case_is_asked_the_rules_about_it_only():
    assert holds(RULES, {"a": 4})
    assert not holds(RULES, {"a": 4, "b": "x"})
    assert holds(RULES, {"b": "x", "c": False})
