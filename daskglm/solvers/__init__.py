"""The solvers, each a generator of iterates that does not know where the rows are.

A `SolverSpec` describes a solver. The package's own are registered here; `register` adds others.
"""

from __future__ import annotations

from daskglm.core.choices import SOLVERS
from daskglm.solvers.gradient_descent import SPEC as GRADIENT_DESCENT
from daskglm.solvers.hybrid import LBFGS, SDCA, TRON
from daskglm.solvers.iterate import Iterate
from daskglm.solvers.newton import SPEC as NEWTON
from daskglm.solvers.owlqn import SPEC as OWLQN
from daskglm.solvers.proximal_newton import SPEC as PROXIMAL_NEWTON
from daskglm.solvers.proximal_point import SPEC as PROXIMAL
from daskglm.solvers.spec import (
    SolverSpec,
    check_options,
    get_solver,
    register,
    solver_names,
    unregister,
)

__all__ = [
    "Iterate",
    "SolverSpec",
    "check_options",
    "get_solver",
    "register",
    "solver_names",
    "unregister",
]

_specs = (NEWTON, TRON, LBFGS, GRADIENT_DESCENT, SDCA, PROXIMAL, PROXIMAL_NEWTON, OWLQN)
for _spec in sorted(_specs, key=lambda spec: SOLVERS.index(spec.name)):
    register(_spec)
