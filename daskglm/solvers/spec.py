"""The description of a solver, and the registry of all solvers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daskglm.core.arguments import check_choice
from daskglm.core.device import Array
from daskglm.objectives.primal import Objective
from daskglm.solvers.iterate import Iterates
from daskglm.solvers.workload import Workload

Solver = Callable[..., Iterates]
Check = Callable[[Any, str], None]
SETTINGS = ("tol", "random_state", "automatic")


@dataclass(frozen=True)
class SolverSpec:
    """Description of a solver for the rest of the package.

    Parameters
    ----------
    name : str
        Value of `solver=` that selects it.
    run : generator function
        `run(objective, w, **options, **settings, **state)` yields an `Iterate` for each point that
        it accepts, the first one at `w`, and returns the `Reason` for which it ends by itself. It
        asks the objective for all sums over rows, so it runs wherever the rows are.
    max_iter : int
        Default of the user's `max_iter`.
    options : mapping of str to callable
        Keys of `solver_options` that it takes, each with a function that takes the value and its
        name, and raises ValueError for invalid values.
    settings : tuple of str
        Settings of the fit that `run` takes as keywords: "tol", the wanted bound on relative
        suboptimality; "random_state", a seed not below 0; "automatic", whether `auto` chose the
        solver.
    state : callable, optional
        Takes the number of coefficients, and returns checks of the items of `Iterate.resume`, which
        a checkpoint keeps. Default: it keeps nothing, and a solve resumes from the coefficients.
    solves_dual : bool
        Whether it solves the dual problem, which needs a penalty and takes any convex loss; others
        need a smooth loss.
    rounds_corners : bool
        Whether it takes losses with corners that can be rounded, with or without a penalty, and
        only those.
    takes_kinks : bool
        Whether it takes penalties with kinks, as the L1 penalty has, or bounds of coefficients.
    takes_groups : bool
        Whether it takes a norm of the coefficients of each group, too.
    forms_hessian : bool
        Whether it keeps a Hessian of d x d numbers for every thread.
    opens : bool
        Whether it begins with L-BFGS if `auto` chose it and rows may be easy; see `opening`.
    cost : callable, optional
        Foresees how many passes it takes, from the `Workload` and nothing else. Default: `auto`
        never chooses it.
    """

    name: str
    run: Solver
    max_iter: int
    options: Mapping[str, Check] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    state: Callable[[int], Mapping[str, Check]] | None = None
    solves_dual: bool = False
    rounds_corners: bool = False
    takes_kinks: bool = False
    takes_groups: bool = False
    forms_hessian: bool = False
    opens: bool = False
    cost: Callable[[Workload], float] | None = None

    def applies(self, workload: Workload) -> bool:
        """Return whether `auto` may choose it for this problem."""
        if self.cost is None or (workload.kinked and not self.takes_kinks):
            return False
        if workload.grouped and not self.takes_groups:
            return False
        if self.solves_dual:
            return workload.penalised and workload.has_dual
        if self.rounds_corners:
            return workload.has_corners
        return workload.smooth

    def generate(
        self,
        objective: Objective,
        w: Array,
        options: Mapping[str, Any],
        settings: Mapping[str, Any],
        state: Mapping[str, Any],
    ) -> Iterates:
        """Run the solver with these options, and those of the settings that it takes."""
        wanted = {name: settings[name] for name in self.settings}
        return self.run(objective, w, **options, **wanted, **state)


_known: dict[str, SolverSpec] = {}


def register(spec: SolverSpec) -> None:
    """Register a solver by its name, for `fit`, the estimators and `auto`.

    Raises
    ------
    ValueError
        If the name is not an identifier or is taken, and for unknown `settings`.
    """
    if not spec.name.isidentifier():
        raise ValueError(f"the solver's name {spec.name!r} must be letters, digits and underscores")
    if spec.name == "auto" or spec.name in _known:
        raise ValueError(f"there is a solver {spec.name!r} already: give another name")
    for setting in spec.settings:
        check_choice(setting, "setting", SETTINGS)
    _known[spec.name] = spec


def unregister(name: str) -> None:
    """Remove a solver from the registry; raise KeyError if there is none of that name."""
    del _known[name]


def get_solver(name: str) -> SolverSpec:
    """Return the solver of this name; raise ValueError if there is none."""
    check_choice(name, "solver", solver_names())
    return _known[name]


def solver_names() -> tuple[str, ...]:
    """Return all names, in the order in which they were registered."""
    return tuple(_known)


def check_options(solver: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError for an unknown solver or option, or an invalid value of an option."""
    check_choice(solver, "solver", ("auto", *_known))
    takes: Mapping[str, Check] = {} if solver == "auto" else _known[solver].options
    if unknown := sorted(set(options) - set(takes)):
        known = ", ".join(takes) or "no options"
        raise ValueError(f"solver={solver!r} does not take {', '.join(unknown)}; it takes {known}")
    for name, value in options.items():
        takes[name](value, name)
