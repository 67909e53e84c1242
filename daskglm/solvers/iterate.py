"""What solvers yield: a point of the objective, and what a solve needs to resume from there."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from daskglm.core.outcome import Reason


@dataclass(frozen=True)
class Iterate:
    """An accepted point of a solver.

    Parameters
    ----------
    point : Point or BatchPoint
    resume : callable, optional
        Returns the keyword arguments, numbers and arrays, with which the solver resumes from here.
        Default: none, so that it resumes from the coefficients alone.
    save_rows : callable, optional
        Writes what the solve keeps beside the rows to a folder.
    by : str, optional
        Name of the solver, where two take turns.
    more : bool, optional
        Whether a better point follows that costs little, so that no proof of this one is a reason
        to stop.
    rough : bool, optional
        Whether the solver ends at `tol`, and not beyond it as steps with curvatures do: then small
        problems take Newton's steps for the digits left.
    """

    point: Any
    resume: Callable[[], dict[str, Any]] = dict
    save_rows: Callable[[str], None] | None = None
    by: str = ""
    more: bool = False
    rough: bool = False


# A solver at work, which returns the reason for which it ends by itself.
Iterates = Generator[Iterate, None, Reason]
