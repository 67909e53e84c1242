"""What a solver cannot be asked: refused before it begins, in the words of the user's settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskglm.core.requests import Problem
from daskglm.core.warn import warn
from daskglm.data.partitions import Partitions
from daskglm.fitting.config import FitConfig
from daskglm.objectives.primal import Objective
from daskglm.solvers import SolverSpec, costs, get_solver

# Largest Hessian that a solver may be asked to form, in bytes.
HESSIAN_BYTES = 8 << 30


def check_offset(objective: Objective, settings: FitConfig) -> None:
    """Raise ValueError for offsets where they cannot be taken."""
    loss, facts = objective.loss, objective.engine.facts
    if not facts.largest_offset or loss.shifts:
        return
    if not loss.differentiable:
        raise ValueError(
            f"loss={loss.name!r} takes no offset; make it a column of X with a penalty_factor of "
            "0, and 1 as its lower and upper bound, or take 'smoothed_hinge' or 'squared_hinge'"
        )
    if settings.solver != "auto" and get_solver(settings.solver).solves_dual:
        raise ValueError(
            f"{asked(settings)} takes no offset with loss={loss.name!r}; use solver='auto', and "
            "dual='auto' where there is one"
        )


def check_size(spec: SolverSpec, d: int) -> None:
    """Raise ValueError for a Hessian that takes too much memory."""
    if spec.forms_hessian and 8 * d * d > HESSIAN_BYTES:
        raise ValueError(
            f"solver={spec.name!r} would form a Hessian of {d:,} x {d:,} numbers, "
            f"{8 * d * d / 2**30:.1f} GiB for every "
            "thread; use solver='tron', or 'auto'"
        )


def check_width(start: Any, data: Partitions) -> None:
    """Raise ValueError, before any loading, if the start and the data differ in features."""
    width = data.width
    if (
        start is not None
        and width is not None
        and (given := np.atleast_2d(start[0]).shape[1]) != width
    ):
        raise ValueError(
            f"warm_start has coefficients of shape {np.shape(start[0])}, of {given} feature(s), "
            f"but X has {width}"
        )


def check_corners(objective: Objective) -> None:
    """Raise ValueError for features without a penalty that no dual variables can be found for."""
    d, loss = objective.n_features, objective.loss
    if loss.differentiable or not objective.bounds.any_penalty or objective.penalty.is_held:
        return
    free = np.flatnonzero(objective.penalty.may_be_free)
    what = f"feature {free[0]}" + (f" and {len(free) - 1:,} more" if len(free) > 1 else "")
    if loss.classifies:
        raise ValueError(
            f"loss={loss.name!r} wants a penalty of each feature, or bounds on both sides: {what} "
            "of X has neither"
        )
    if d > costs.LARGEST_HESSIAN:
        raise ValueError(
            f"loss={loss.name!r} takes up to {costs.LARGEST_HESSIAN:,} features if some have "
            f"neither a penalty nor bounds on both sides, as {what}; X has {d:,}"
        )


def warn_of_one_side(objective: Objective, problem: Problem) -> None:
    """Raise the ConvergenceWarning of a loss that falls for ever as the intercept grows."""
    alone = problem.positive is None or objective.only_side > 0.0
    what = "one class" if problem.positive is None else f"class {problem.positive}"
    warn(
        f"{what} {'alone has' if alone else 'has no'} weight: the objective falls for ever as the "
        "intercept grows, and there is no optimum. The coefficients are zero, with an intercept "
        "that predicts one class for every row.",
        ConvergenceWarning,
    )


def asked(settings: FitConfig) -> str:
    """Return what asked for the solver, by the names that the user gave."""
    if settings.why == FitConfig.why:
        return f"solver={settings.solver!r}"
    return settings.why  # such as dual=True, or another package's name and ours
