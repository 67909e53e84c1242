"""What a solver tells about itself, and the registry of all solvers that are known by name."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from daskglm.core.arguments import check_choice
from daskglm.core.outcome import Reason
from daskglm.objectives.primal import Objective, Point
from daskglm.solvers.workload import Workload

Solver = Callable[..., Generator[Point, None, Reason]]
Check = Callable[[Any, str], None]
SETTINGS = ("tol", "random_state", "automatic")


@dataclass(frozen=True)
class SolverSpec:
    """A solver and what the rest of the package has to know of it.

    Parameters
    ----------
    name : str
        Under which `solver=` finds it.
    run : generator function
        `run(objective, w, **options, **settings, **state)` yields the points it accepts, the first
        one at `w`, and returns the `Reason` for which it ends by itself. It asks the objective for
        all sums over rows, so it runs wherever the rows are.
    max_iter : int
        Iterations at most where the user gives no number.
    options : mapping of str to callable
        Each key of `solver_options` that it takes, with a function of the value and its name that
        raises ValueError for a value that it cannot take.
    settings : tuple of str
        Those settings of the fit that `run` takes as keywords: "tol", the bound on relative
        suboptimality that is wanted; "random_state", a seed not below 0; "automatic", whether
        `auto` chose the solver.
    state : callable, optional
        From the number of coefficients to the checks of what `Point.resume` may give, which a
        checkpoint keeps; default: nothing is kept, and a solve resumes from the coefficients.
    solves_dual : bool
        Whether it solves the dual problem, which takes a penalty and may have any convex loss;
        others need a smooth loss.
    forms_hessian : bool
        Whether it keeps a Hessian of d x d numbers for every thread.
    cost : callable, optional
        What it is expected to take, as a number of passes: a function of the `Workload` that
        depends on nothing else. Default: `auto` never chooses it.
    """

    name: str
    run: Solver
    max_iter: int
    options: Mapping[str, Check] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    state: Callable[[int], Mapping[str, Check]] | None = None
    solves_dual: bool = False
    forms_hessian: bool = False
    cost: Callable[[Workload], float] | None = None

    def applies(self, workload: Workload) -> bool:
        """Whether `auto` may choose it for this problem."""
        if self.cost is None:
            return False
        return workload.penalised and workload.has_dual if self.solves_dual else workload.smooth

    def generate(
        self,
        objective: Objective,
        w: Any,
        options: Mapping[str, Any],
        settings: Mapping[str, Any],
        state: Mapping[str, Any],
    ) -> Generator[Point, None, Reason]:
        """Points of a solve with these options, of the settings those that it takes."""
        wanted = {name: settings[name] for name in self.settings}
        return self.run(objective, w, **options, **wanted, **state)


_known: dict[str, SolverSpec] = {}


def register(spec: SolverSpec) -> None:
    """Make a solver known by its name, to `fit`, the estimators and `auto`.

    Raises
    ------
    ValueError
        For a name that is no identifier or is taken, and for unknown `settings`.
    """
    if not spec.name.isidentifier():
        raise ValueError(f"the solver's name {spec.name!r} must be letters, digits and underscores")
    if spec.name == "auto" or spec.name in _known:
        raise ValueError(f"there is a solver {spec.name!r} already: give another name")
    for setting in spec.settings:
        check_choice(setting, "setting", SETTINGS)
    _known[spec.name] = spec


def unregister(name: str) -> None:
    """Forget a solver that `register` made known; KeyError where there is none of that name."""
    del _known[name]


def get_solver(name: str) -> SolverSpec:
    """The solver of this name; ValueError where there is none."""
    check_choice(name, "solver", solver_names())
    return _known[name]


def solver_names() -> tuple[str, ...]:
    """All names, in the order in which they were registered."""
    return tuple(_known)


def check_options(solver: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown solver, an option that it does not take, or a value that the
    option cannot have.
    """
    check_choice(solver, "solver", ("auto", *_known))
    takes: Mapping[str, Check] = {} if solver == "auto" else _known[solver].options
    if unknown := sorted(set(options) - set(takes)):
        known = ", ".join(takes) or "no options"
        raise ValueError(f"solver={solver!r} does not take {', '.join(unknown)}; it takes {known}")
    for name, value in options.items():
        takes[name](value, name)
