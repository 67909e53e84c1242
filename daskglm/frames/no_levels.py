"""Columns that are neither levels nor numbers: dates, text that names rows, nothing at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from daskglm.core.arguments import shown
from daskglm.frames.columns import Level
from daskglm.frames.learn import Levels, Seen
from daskglm.frames.read import OF_TIMES

# Levels from which a column with one for nearly every row is a mistake. Chosen.
MANY_LEVELS = 100
# Levels from which numbers with signs, and dates, are a mistake, if they have fewer rows each than
# the second number: "5%" and "10%" may be levels, and days of many flights. Chosen.
MANY_WRITTEN, ROWS_OF_A_LEVEL = 20, 10
# What text may be in the place of levels.
NUMBERS, WRITTEN, DATES, NAMES = "numbers", "numbers for people", "dates", "names of rows"
EMPTY, ALMOST = "nothing", "numbers, and few words"
# Words at most among numbers with fractions that are not levels. Chosen.
FEW_WORDS = 3
_NUMBER = re.compile(
    r"""[-+(]?\s*[$€£¥]?\s*
        (\d{1,3}(?P<between>[,.'\u2019\s])\d{3}((?P=between)\d{3})*|\d+)([.,]\d+)?
        \s*(%|[$€£¥]|EUR|USD|GBP|CHF|JPY)?\s*\)?""",
    re.VERBOSE,
)
_DIGITS = re.compile(r"\d+")
_DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d{2}))([ T]\S.*)?"
)


def refuse_no_levels(found: Seen, allowed: Sequence[str]) -> None:
    """Raise ValueError for columns of text that is no levels, or of nothing, and for no rows.

    Columns that are `allowed` have been named as levels. All that are wrong are told at once.
    """
    if not found.n:
        raise ValueError(
            "X has no rows: Found array with 0 sample(s) while a minimum of 1 is required"
        )
    wrong: dict[str, list[str]] = {}
    for name, column in found.columns.items():
        if isinstance(column, Levels):
            what = None if name in allowed else _what(column)
        else:
            what = None if column.rows else EMPTY
        if what:
            wrong.setdefault(what, []).append(name)
    if wrong:
        raise ValueError(
            ". Also, ".join(_told(found, what, names) for what, names in wrong.items())
        )


def _what(column: Levels) -> str | None:
    """Say what a column has in the place of levels; None: they are levels."""
    levels, many = column.levels, len(column.levels)
    if _fraction(levels) is not None:
        return NUMBERS
    rows = int(column.counts.sum())
    if many >= MANY_WRITTEN and isinstance(levels[0], str):
        rare = many * ROWS_OF_A_LEVEL > rows
        if rare and _all(_DATE, levels):
            return DATES
        if rare and _all(_NUMBER, levels) and not _all(_DIGITS, levels):
            return WRITTEN
        if len(words := _words(levels)) <= FEW_WORDS and _fraction(_without(levels, words)):
            return ALMOST
    return NAMES if many >= MANY_LEVELS and 2 * many > rows else None


def _all(pattern: re.Pattern[str], levels: Sequence[Level]) -> bool:
    return all(pattern.fullmatch(str(level).strip()) for level in levels)


def _words(levels: Sequence[Level]) -> list[Level]:
    """Return the levels that do not read as numbers: the first of them, where they are many."""
    return list(islice((level for level in levels if not _reads(level)), FEW_WORDS + 1))


def _without(levels: Sequence[Level], words: Sequence[Level]) -> list[Level]:
    return [level for level in levels if level not in words]


def _reads(level: Level) -> bool:
    try:
        float(level)
    except ValueError:
        return False
    return True


def _fraction(levels: Sequence[Level]) -> str | None:
    """Return a text that reads as a number with a fraction, if all read as numbers."""
    found = None
    for level in levels:
        if not isinstance(level, str):
            return None
        try:
            number = float(level)
        except ValueError:
            return None
        found = found or (None if number.is_integer() else level)
    return found


def _told(found: Seen, what: str, names: Sequence[str]) -> str:
    """Return what is wrong with columns, by the first of them."""
    column = found.columns[names[0]]
    levels = column.levels if isinstance(column, Levels) else ()
    such = f"such as {shown(levels[0])}" if levels else ""
    said = {
        NUMBERS: f"is text that reads as numbers, such as {_fraction(levels)!r}: name it in "
        "numeric, or in categories if these are levels",
        WRITTEN: f"is text of numbers with signs, {such}: leave nothing but digits and a decimal "
        "point, or name it in categories if these are levels",
        ALMOST: "has numbers, and text that is none: "
        f"{', '.join(map(shown, _words(levels)))}. Correct these or leave them empty, or name it "
        "in categories if all are levels",
        DATES: f"is text of dates, {such}: {OF_TIMES}",
        NAMES: f"has {len(levels):,} levels in {found.n:,} rows, {such}: it seems to name rows, or "
        "to be text. Drop it; or name it in categories, if each level is to have a coefficient",
        EMPTY: "has no value at all: leave it out",
    }[what]
    more = f"; the same is true of {', '.join(map(repr, names[1:]))}" if names[1:] else ""
    return f"column {names[0]!r} {said}{more}"
