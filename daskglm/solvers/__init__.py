"""The solvers by name. Each is a generator of points that knows nothing of where the data are."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from daskglm.objective import Point
from daskglm.report import Reason
from daskglm.solvers.gradient_descent import gradient_descent
from daskglm.solvers.lbfgs import lbfgs
from daskglm.solvers.newton import newton
from daskglm.solvers.tron import tron

Solver = Callable[..., Generator[Point, None, Reason]]

SOLVERS: dict[str, Solver] = {"newton": newton, "tron": tron, "lbfgs": lbfgs, "gd": gradient_descent}

MAX_ITER: dict[str, int] = {"newton": 100, "tron": 1000, "lbfgs": 2000, "gd": 20_000}
"""Default number of iterations by solver."""

OPTIONS: dict[str, tuple[str, ...]] = {"gd": ("step", "epsilon")}
"""Keyword arguments a solver takes beyond the objective and the starting point."""


def check_options(solver: str, options: dict[str, Any]) -> None:
    """Raise ValueError for an unknown solver or an option it does not take."""
    if solver != "auto" and solver not in SOLVERS:
        raise ValueError(f"solver={solver!r} is not one of 'auto', {', '.join(map(repr, SOLVERS))}")
    unknown = sorted(set(options) - set(OPTIONS.get(solver, ())))
    if unknown:
        takes = ", ".join(OPTIONS.get(solver, ())) or "no options"
        raise ValueError(f"solver={solver!r} does not take {', '.join(unknown)}; it takes {takes}")
