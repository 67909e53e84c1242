"""Which cases of a test run by default: all pairs of choices, or the first ones."""

import itertools
from collections import Counter

import pytest


def covering(strength: int = 2, **choices):
    """Mark a test by all combinations of choices, of which not all are default tests.

    Default ones have each combination of `strength` choices at least once: 1 is each choice, 2 each
    pair. A fault that takes three particular choices together waits for `make nightly`.

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
