"""How a CSV file is written: commas between values, or what spreadsheets write where a comma is the
decimal point.
"""

from __future__ import annotations

import csv
import re
from itertools import zip_longest
from typing import Any, NamedTuple

# Of these the one that the first line has most of is between values.
DELIMITERS = ",;\t|"
# Bytes at the beginning of a file that tell.
SAMPLED = 1 << 16
_WITH_COMMA, _WITH_POINT = (re.compile(rf"[-+]?\d+({point}\d+)?") for point in (",", r"\."))


class Dialect(NamedTuple):
    """What is between values, and in numbers before their fraction."""

    delimiter: str = ","
    decimal: str = "."

    def options(self) -> dict[str, str]:
        """Return the arguments of pandas and dask."""
        return {"sep": self.delimiter, "decimal": self.decimal}


def dialect_of(fs: Any, name: str) -> Dialect:
    """Tell how a file is written by its beginning.

    A comma in numbers is the decimal point if another delimiter is between values, some column has
    only numbers with it, and none has only numbers with points.
    """
    with fs.open(name, "rb", compression="infer") as file:
        text = file.read(SAMPLED).decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    outside = re.sub(r'"[^"]*"', "", lines[0]) if lines else ""
    delimiter = max(DELIMITERS, key=outside.count)
    if delimiter == ",":
        return Dialect()
    rows = list(csv.reader(lines[1:], delimiter=delimiter))
    columns = list(zip_longest(*(rows[:-1] or rows), fillvalue=""))  # the last line may be cut
    comma = any(_all(column, _WITH_COMMA, ",") for column in columns)
    point = any(_all(column, _WITH_POINT, ".") for column in columns)
    return Dialect(delimiter, "," if comma and not point else ".")


def _all(column: tuple[str, ...], pattern: re.Pattern[str], point: str) -> bool:
    """Return whether all values that are there are such numbers, and one has a fraction."""
    there = [value.strip() for value in column if value.strip()]
    return any(point in value for value in there) and all(map(pattern.fullmatch, there))
