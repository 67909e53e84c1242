"""Which cases of a test run by default: all pairs of choices, or the first ones."""

import functools
import inspect
import itertools
import math
from collections import Counter, defaultdict

import pytest


def covering(strength: int = 2, **choices):
    """Mark a test by all combinations of choices, of which not all are default tests.

    Default ones have each combination of `strength` choices at least once: 1 is each choice, 2 each
    pair; 0 is one case. A fault that takes three particular choices together waits for `make nightly`.

    Parameters
    ----------
    strength : int
    **choices : list
        By the names of the test's arguments.
    """
    lists = {name: list(values) for name, values in choices.items()}
    every = list(itertools.product(*(range(len(values)) for values in lists.values())))
    kept = _kept(every, strength)
    cases = [
        pytest.param(
            *(values[k] for values, k in zip(lists.values(), places, strict=True)),
            id="-".join(
                _name(values[k], name, k)
                for (name, values), k in zip(lists.items(), places, strict=True)
            ),
            marks=() if places in kept else pytest.mark.nightly,
        )
        for places in every
    ]
    return pytest.mark.parametrize(tuple(lists), cases)


def first_by_default(values, many: int = 1) -> list:
    """Return parameters of a test of which the first ones run by default, the others are slow."""
    return [
        value if k < many else pytest.param(value, marks=pytest.mark.slow)
        for k, value in enumerate(values)
    ]


def each_choice(test):
    """Mark a test with parameters: by default each of their values once, all combinations at night.

    For tests whose cases take one path with other numbers: that all of them pass was seen once, and
    is seen again by `make nightly`. Where two choices act on each other, name pairs: `covering`.
    """
    return pytest.mark.each_choice(test)


def spare(items) -> None:
    """Mark as the night's what tests of `each_choice` need no combinations of."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("each_choice"):
            # a case for a GPU is skipped without one: it stands for none of the others
            name = item.nodeid.partition("[")[0], item.get_closest_marker("gpu") is not None
            cases[name].append(item)
    for those in cases.values():
        every = _places([item.callspec.params for item in those])
        kept = _kept(every, 1)
        for item, places in zip(those, every, strict=True):
            if places not in kept:
                item.add_marker(pytest.mark.nightly)


def _places(cases: list[dict]) -> list[tuple[int, ...]]:
    """Return which of the values of each argument a case has, counted as they first come."""
    seen: dict[str, dict] = defaultdict(dict)
    return [
        tuple(seen[name].setdefault(id(value), len(seen[name])) for name, value in case.items())
        for case in cases
    ]


def _kept(every: list[tuple[int, ...]], strength: int) -> set[tuple[int, ...]]:
    """Return combinations that have all of so many places: greedily, always the same."""
    missing = set().union(*(_parts(places, strength) for places in every))
    kept: set[tuple[int, ...]] = set()
    uses: Counter[tuple[int, int]] = Counter()
    while missing:
        best = max(
            every,
            key=lambda places: (
                len(_parts(places, strength) & missing),
                # of pairs and more, ties broken so would need more combinations
                -sum(uses[place] for place in enumerate(places)) if strength == 1 else 0,
            ),
        )
        kept.add(best)
        uses.update(enumerate(best))
        missing -= _parts(best, strength)
    return kept


def _parts(places: tuple[int, ...], strength: int) -> set[tuple[tuple[int, int], ...]]:
    return set(itertools.combinations(enumerate(places), strength))


def _name(value, argument: str, place: int) -> str:
    if isinstance(value, str | int | float | bool | type(None)):
        return str(value)
    return str(getattr(value, "full_name", None) or getattr(value, "name", f"{argument}{place}"))


def holds(rules, case: dict) -> bool:
    """Whether a combination, or a part of one, satisfies all rules that are about its choices.

    Rules are functions whose arguments are names of choices.
    """
    return all(
        rule(**{name: case[name] for name in names})
        for rule, names in ((rule, _arguments(rule)) for rule in rules)
        if names <= case.keys()
    )


@functools.cache
def _arguments(rule) -> set[str]:
    return set(inspect.signature(rule).parameters)


def pairwise(*rules, **choices) -> list[dict]:
    """Return few combinations that have each pair of values that any allowed one has: always the same.

    Parameters
    ----------
    *rules : callable
        What every combination has to satisfy: see `holds`.
    **choices : sequence of str
    """
    search = _Pairs(rules, choices)
    found = []
    while search.missing:
        first = next(iter(search.missing))
        case = search.completed(dict(first))
        if case is None:  # a pair that no combination has, though it breaks no rule by itself
            del search.missing[first]
            continue
        search.take(case)
        found.append({name: case[name] for name in choices})
    return found


class _Pairs:
    """A search for combinations, one choice after the other, those first that most rules are about.

    Of values that bring as many new pairs that one is taken whose pairs have been used the least.
    """

    def __init__(self, rules, choices):
        self.rules, self.choices, self.uses = rules, choices, Counter()
        bound = Counter(name for rule in rules for name in _arguments(rule))
        self.order = sorted(choices, key=lambda name: -bound[name])
        self.place = {name: k for k, name in enumerate(choices)}
        # the search begins with those that are few: fewer combinations are needed then
        twos = itertools.combinations(choices, 2)
        self.missing = {
            ((one, a), (other, b)): None
            for one, other in sorted(twos, key=lambda two: math.prod(len(choices[k]) for k in two))
            for a, b in itertools.product(choices[one], choices[other])
            if holds(rules, {one: a, other: b})
        }

    def completed(self, case: dict) -> dict | None:
        """Return a combination with these choices that has many missing pairs, if there is one."""
        name = next((name for name in self.order if name not in case), None)
        if name is None:
            return case

        def worth(value):
            pairs = self._with(name, value, case)
            return -sum(pair in self.missing for pair in pairs), sum(
                self.uses[pair] for pair in pairs
            )

        for value in sorted(self.choices[name], key=worth):
            further = {**case, name: value}
            if holds(self.rules, further) and (found := self.completed(further)):
                return found
        return None

    def take(self, case: dict) -> None:
        """Take note of a combination: its pairs are no longer missing."""
        for pair in itertools.combinations(((name, case[name]) for name in self.choices), 2):
            self.uses[pair] += 1
            self.missing.pop(pair, None)

    def _with(self, name: str, value, case: dict) -> list[tuple]:
        """Return the pairs of a value with those of a case."""
        new = name, value
        return [
            (new, known) if self.place[name] < self.place[known[0]] else (known, new)
            for known in case.items()
        ]
