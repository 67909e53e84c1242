"""Choose the solver that is expected to take the fewest passes, and say why.

Every solver has a cost, a function of the `Workload`; the least one is taken. Where L-BFGS might
win, a trial on a sample of the rows foresees its iterations first.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.forecast import iterations_left, relative_error
from daskglm.solvers.lbfgs import lbfgs
from daskglm.solvers.spec import get_solver, solver_names
from daskglm.solvers.workload import Workload

# The solver of a trial.
TRIED = "lbfgs"


def choose(
    objective: Objective,
    quiet: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
    tol: float = 1e-6,
) -> tuple[str, str]:
    """Return the name of the solver with the least cost, and the reason in words.

    The trial runs in the context `quiet`. Nothing is timed: two calls with equal data choose
    equally. Cost: nothing, or the passes of a trial, at most 2, in one round where its rows travel,
    else up to 27.
    """
    workload = Workload.of(objective, tol)
    expected = _costs(workload)
    if not workload.smooth and len(expected) == 1:
        return next(iter(expected)), f"{objective.loss.name}: the primal is not smooth, its dual is"

    certain = min((cost for name, cost in expected.items() if name != TRIED), default=math.inf)
    few = costs.PASSES_UNTRIED if workload.blocks else costs.FEW_PASSES * (1.0 + workload.rounds())
    if certain <= few:
        return _least(workload, {name: c for name, c in expected.items() if name != TRIED})
    if TRIED not in expected or not workload.trial_share:
        return _least(workload, expected)
    most = math.inf
    # where a trial takes the rounds of a solve
    if workload.remote and not workload.travels([workload.trial_share]):
        most = costs.DISTANT_PASSES * (1.0 + workload.rounds())
    if certain >= most:
        why = "too much for dual ascent, and too many features for a Hessian"
        typical = costs.TYPICAL_ITERATIONS
        if workload.tron_beside(typical) < typical * workload.lbfgs_iteration:
            return "tron", f"{_shape(workload)}: {why}; vectors cost more than rows"
        return TRIED, f"{_shape(workload)}: {why}"

    spent = objective.passes
    with quiet():
        foreseen = trial(objective, workload, enough=certain / workload.lbfgs_iteration)
    name, why = _least(workload, _costs(replace(workload, trials={TRIED: foreseen})))
    return name, f"{why} ({TRIED} by a trial of {objective.passes - spent:.1f})"


def trial(objective: Objective, workload: Workload, enough: float = 0.0) -> float:
    """Iterations that L-BFGS is expected to take, from those it takes on a sample of the rows.

    It ends by the rule that ends a fit, a bound on the relative error below `tol`; after
    `costs.TRIAL_ITERATIONS`, or once clearly fewer than `enough` are foreseen after a fair part
    of them, the rest follows from the rate at which the bound has fallen. Infinite where it does
    not fall.
    """
    share = workload.trial_share
    part = objective.sample(share, costs.TRIAL_SEED)
    if share * workload.summary.n_rows < costs.FULL_SCALE_ROWS * objective.size:
        part.C *= share**costs.WIDE_SCALE_POWER
    errors: list[float] = []
    first = 0.0
    iterates = lbfgs(part, objective.origin)
    for iterate in itertools.islice(iterates, costs.TRIAL_ITERATIONS + 1):
        first = first or iterate.point.gradient_norm
        error = relative_error(part, iterate.point, first)
        errors.append(min(error, errors[-1]) if errors else error)
        # the mean rate so far: that of the last iterations may be that of a halt
        seen = max(len(errors) - 1, costs.RATE_WINDOW)
        foreseen = len(errors) + iterations_left(errors, workload.tol, window=seen)
        if errors[-1] <= workload.tol:
            return foreseen
        worth = len(errors) * share >= costs.TRIAL_STAKE * enough
        if worth and foreseen <= costs.SURE_SHARE * enough:
            return foreseen
    # else no lower value was to be found
    return foreseen if len(errors) > costs.TRIAL_ITERATIONS else len(errors)


def _costs(workload: Workload) -> dict[str, float]:
    """Expected passes of the solvers that `auto` may choose here."""
    specs = map(get_solver, solver_names())
    return {
        spec.name: spec.cost(workload)
        for spec in specs
        if spec.cost is not None and spec.applies(workload)
    }


def _least(workload: Workload, expected: dict[str, float]) -> tuple[str, str]:
    """Return the solver of the least cost, and the reason."""
    ordered = sorted(expected.items(), key=lambda item: item[1])
    name, least = ordered[0]
    if name == "newton" and least <= costs.FEW_PASSES:
        if not workload.samples:
            return name, f"{_shape(workload)}: fewest passes over rows read anew, or on a device"
        return name, f"{_shape(workload)}: about {least:.0f} passes' work with the Hessian formed"
    known = ", ".join(f"{each} {cost:.0f}" for each, cost in ordered if math.isfinite(cost))
    shape = _shape(workload)
    if math.isfinite(workload.curvature_ratio):
        shape += f", curvature of {workload.curvature_ratio:.2g} penalties a row"
    if workload.remote:
        shape += f", a round trip of {workload.rounds():.2g} passes"
    return name, f"{shape}; expected passes: {known}"


def _shape(workload: Workload) -> str:
    summary = workload.summary
    if workload.blocks:
        levels = f", {workload.levels:,} of them eliminated"
    else:
        levels = ""
    kind = f"sparse, {summary.per_row:.0f} stored a row" if summary.sparse else "dense"
    return f"{workload.n_features:,} features{levels}, {kind}"
