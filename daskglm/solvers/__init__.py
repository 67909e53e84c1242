"""The solvers by name. Each is a generator of points that knows nothing of where the data are."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from daskglm.core.arguments import check_choice
from daskglm.core.outcome import Reason
from daskglm.objectives.primal import Point
from daskglm.solvers.gradient_descent import check as check_gd
from daskglm.solvers.gradient_descent import gradient_descent
from daskglm.solvers.hybrid import lbfgs_then_tron, sdca_then_newton
from daskglm.solvers.newton import newton
from daskglm.solvers.sdca import check as check_sdca
from daskglm.solvers.tron import tron

Solver = Callable[..., Generator[Point, None, Reason]]

SOLVERS: dict[str, Solver] = {
    "newton": newton,
    "tron": tron,
    "lbfgs": lbfgs_then_tron,
    "gd": gradient_descent,
    "sdca": sdca_then_newton,
}

MAX_ITER: dict[str, int] = {"newton": 100, "tron": 1000, "lbfgs": 2000, "gd": 20_000, "sdca": 1000}
"""Default number of iterations by solver."""

SDCA_OPTIONS = (
    *(
        "stop",
        "partitioning",
        "aggregation",
        "partitions",
        "nodes",
        "threads",
        "bucket_size",
        "local_epochs",
    ),
    *("shrinking", "polish"),
)
OPTIONS: dict[str, tuple[str, ...]] = {"gd": ("step", "epsilon"), "sdca": SDCA_OPTIONS}
"""Keyword arguments a solver takes beyond the objective and the starting point."""


def check_options(solver: str, options: dict[str, Any]) -> None:
    """Raise ValueError for an unknown solver, an option it does not take, or a value the option
    cannot have.
    """
    check_choice(solver, "solver", ("auto", *SOLVERS))
    unknown = sorted(set(options) - set(OPTIONS.get(solver, ())))
    if unknown:
        takes = ", ".join(OPTIONS.get(solver, ())) or "no options"
        raise ValueError(f"solver={solver!r} does not take {', '.join(unknown)}; it takes {takes}")
    if solver == "sdca":
        check_sdca(options)
    if solver == "gd":
        check_gd(options)
