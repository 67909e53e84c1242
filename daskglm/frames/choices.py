"""What there is to choose of for a schema, without what a schema imports."""

from __future__ import annotations

UNSEEN = ("error", "reference", "zero")
ALIASED = ("drop", "error")
ERROR = "error"
# Ways to take missing values, of factors and of numbers.
OF_FACTORS, OF_NUMBERS = ("level",), ("mean", "indicator")
BASES = ("first", "most_frequent")
# Powers, and columns of a spline, at most: more are a mistake. Chosen.
MOST_COLUMNS = 100
