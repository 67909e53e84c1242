"""Which levels of factors occur together, found once for the rows of an engine."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from daskglm.core.engine import Engine
from daskglm.core.level_blocks import LevelBlocks, LevelPairs
from daskglm.core.view import ALL
from daskglm.objectives.elimination import nested_of
from daskglm.objectives.rows import Rows

# What was found for engines that are in use, by factors: objectives of one path share it.
_known: WeakKeyDictionary[Engine, dict[tuple[tuple[int, int], ...], LevelBlocks]]
_known = WeakKeyDictionary()


def with_pairs(rows: Rows, factors: tuple[tuple[int, int], ...], size: int) -> LevelBlocks | None:
    """Return factors with the pairs of their levels in all rows; None: there are no factors.

    `size` is the number of all coefficients.

    Cost: 1 pass and 1 round the first time where there are several, else nothing.
    """
    if not factors:
        return None
    known = _known.setdefault(rows.engine, {})
    if factors not in known and len(factors) == 1:
        known[factors] = LevelBlocks(factors)
    elif factors not in known:
        whole = replace(rows, view=ALL)
        found = whole.ask(LevelPairs(factors))["pairs"]
        known[factors] = found.blocks(factors, nested_of(factors, size))
    return known[factors]
