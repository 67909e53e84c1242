"""A solver from outside of the package, one module: gradient descent with Barzilai-Borwein steps.

Barzilai & Borwein, Two-Point Step Size Gradient Methods, IMA Journal of Numerical Analysis 8
(1988), equation 5, without a safeguard.
"""

from daskglm.core.arguments import is_number, shown
from daskglm.core.outcome import Reason
from daskglm.solvers import Iterate, SolverSpec


def barzilai_borwein(objective, w, *, first_step=1e-3, step=None):
    """Yield the iterates of w <- w - step * gradient; `step` is that of a solve to resume."""
    point = objective.at(w)
    length = first_step if step is None else step
    while True:
        yield Iterate(point, resume=lambda length=length: {"step": length})
        trial = objective.at(point.w - length * point.gradient)
        moved, change = trial.w - point.w, trial.gradient - point.gradient
        inner = float(moved @ change)
        if not inner > 0.0:
            return Reason.NO_PROGRESS
        point, length = trial, float(moved @ moved) / inner


def check_step(value, name):
    """Raise ValueError unless a step is a positive number."""
    if not is_number(value) or not value > 0:
        raise ValueError(f"{name}={shown(value)} must be a positive number")


def cost(workload):
    """Foresee the passes that this solver takes: many."""
    return 1000.0 * workload.digits


SPEC = SolverSpec(
    "barzilai_borwein",
    barzilai_borwein,
    max_iter=5000,
    options={"first_step": check_step},
    state=lambda size: {"step": check_step},
    cost=cost,
)
