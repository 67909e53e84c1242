"""A fault: a piece of a source and what stands there instead."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    """One fault.

    Parameters
    ----------
    what : str
        In a few words.
    file : str
        Below daskglm/.
    old, new : str
        `old` stands in the file exactly once.
    tests : str
        Files or tests, below tests/, that cover the line; those that most likely see the fault first.
    """

    what: str
    file: str
    old: str
    new: str
    tests: str

    def applied(self) -> str:
        """Return the source with the fault; raises ValueError where the piece is not there once."""
        source = (ROOT / "daskglm" / self.file).read_text()
        if (found := source.count(self.old)) != 1:
            raise ValueError(f"{self.file} has {found} times: {self.old!r}")
        return source.replace(self.old, self.new)
