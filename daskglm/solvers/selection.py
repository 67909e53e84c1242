"""Choose the solver that is expected to cost least, and say why.

Every solver has a cost in passes, a function of the `Workload`; the least one is taken.
"""

from __future__ import annotations

import math

from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.opening import may_be_easy
from daskglm.solvers.spec import get_solver, solver_names
from daskglm.solvers.workload import Workload


def choose(objective: Objective, tol: float = 1e-6) -> tuple[str, str]:
    """Return the name of the solver with the least cost, and the reason in words.

    Nothing is timed or tried: two calls with equal data choose equally. Cost: nothing.
    """
    workload = Workload.of(objective, tol)
    expected = _costs(workload)
    if not workload.smooth and len(expected) == 1:
        return next(iter(expected)), f"{objective.loss.name}: the primal is not smooth, its dual is"
    if workload.blocks and expected.get("newton", math.inf) <= costs.ELIMINATION_PASSES:
        expected = {"newton": expected["newton"]}
    return _least(workload, expected)


def _costs(workload: Workload) -> dict[str, float]:
    """Expected passes of the solvers that `auto` may choose here."""
    specs = map(get_solver, solver_names())
    return {
        spec.name: spec.cost(workload)
        for spec in specs
        if spec.cost is not None and spec.applies(workload)
    }


def _least(workload: Workload, expected: dict[str, float]) -> tuple[str, str]:
    """Return the solver of the least cost, and the reason.

    Newton's method goes before TRON also where it is foreseen to cost a little more.
    """
    ordered = sorted(expected.items(), key=lambda item: item[1])
    name, least = ordered[0]
    if name == "tron" and expected.get("newton", math.inf) <= costs.CERTAIN * least:
        name, least = "newton", expected["newton"]
    if name == "newton" and least <= costs.FEW_PASSES:
        if not workload.samples:
            return name, f"{_shape(workload)}: fewest passes over rows read anew, or on a device"
        return name, f"{_shape(workload)}: about {least:.0f} passes' work with the Hessian formed"
    known = ", ".join(f"{each} {cost:.0f}" for each, cost in ordered if math.isfinite(cost))
    known += f" ({name}'s are certain)" if name != ordered[0][0] else ""
    shape = _shape(workload)
    if math.isfinite(workload.curvature_ratio):
        shape += f", curvature of {workload.curvature_ratio:.2g} penalties a row"
    if workload.remote:
        shape += f", a round trip of {workload.rounds():.2g} passes"
    if get_solver(name).opens and may_be_easy(workload, least):
        known += "; lbfgs first, since rows may be easy"
    return name, f"{shape}; expected passes: {known}"


def _shape(workload: Workload) -> str:
    summary = workload.summary
    if workload.blocks:
        levels = f", {workload.levels:,} of them eliminated"
    else:
        levels = ""
    kind = f"sparse, {summary.per_row:.0f} stored a row" if summary.sparse else "dense"
    return f"{workload.n_features:,} features{levels}, {kind}"
