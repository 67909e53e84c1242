"""Columns that were read, and levels: without what reads them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

Level = str | bool | int | float


class Codes(NamedTuple):
    """A column of levels: (n,) places of rows among `levels`; their number where it is missing."""

    codes: np.ndarray
    levels: tuple[Level, ...]


class RawFrame(NamedTuple):
    """Columns by name: `Codes`, or numbers (n,), with nan where they are missing."""

    n: int
    columns: dict[str, Any]


def width_of(levels: int) -> type[np.unsignedinteger]:
    """Return the smallest type of codes that tells so many levels apart."""
    return np.uint8 if levels <= 1 << 8 else np.uint16 if levels <= 1 << 16 else np.uint32


def plain_level(value: Any) -> Level:
    """Return a level as text, a bool or a number of Python; whole floats as integers."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, bytes):
        return value.decode()
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no level")
    return int(number) if number.is_integer() else number
