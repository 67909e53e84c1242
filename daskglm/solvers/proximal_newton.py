"""Proximal Newton: for penalties with kinks or bounds, and for any strength of each feature.

Each iteration minimises the quadratic model of the smooth part plus the penalty itself (Lee, Sun &
Saunders 2014), over all features, or over a working set of them where there are many.
"""

from __future__ import annotations

import math

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.column_descents import by_descents, descends
from daskglm.solvers.first_set import with_support
from daskglm.solvers.iterate import Iterates
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.newton import SAMPLE_REQUESTS, SAMPLE_SEED, is_inside, sample_sizes
from daskglm.solvers.proximal_steps import change_of_model, model_minimum, with_hessians
from daskglm.solvers.spec import SolverSpec
from daskglm.solvers.working_sets import KeptSet, with_working_sets
from daskglm.solvers.workload import Workload


def proximal_newton(
    objective: Objective,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    begin: Point | None = None,
    kept: KeptSet | None = None,
) -> Iterates:
    """Minimise models of the smooth part plus the penalty, damped by a line search.

    Where the Hessian of all features costs little it is formed, and samples of growing size come
    first, as in Newton's method. Cost: 1 pass and 1 round for an accepted unit step. Else a working
    set of features is solved for, whose columns workers copy; its Hessian is formed, or multiplied
    by vectors, whichever costs less. Cost: 1 pass with all features for each set, 1 to copy its
    columns, and passes over these. OWL-QN finds the first set where it is large.

    Parameters
    ----------
    tol : float
        Wanted bound on relative suboptimality, by which models are minimised.
    begin : Point, optional
        The objective at w, if it is known; its Hessian serves the first two steps.
    kept : KeptSet, optional
        Working set of an earlier solve of the same rows.
    """
    if takes_sets(objective):
        if descends(objective):
            begin = yield from by_descents(objective, w, tol, begin)
            w = begin.w
        elif begin is None:
            begin = yield from with_support(objective, w)
        return (yield from with_working_sets(objective, w, tol, begin, kept or KeptSet()))
    if begin is None and objective.is_origin(w) and not objective.loss.is_quadratic:
        w = _from_samples(objective, w, tol)
    return (yield from with_hessians(objective, w, tol, begin))


def takes_sets(objective: Objective) -> bool:
    """Return whether to solve for working sets.

    Up to `costs.LARGEST_HESSIAN` features only if the Hessian of all costs more than products with
    it, and is not needed for proofs.
    """
    if objective.n_features > costs.LARGEST_HESSIAN:
        return True
    needed = objective.bounds.is_local or not objective.penalty.is_held
    return not (needed or Workload.of(objective).forms_hessian)


def _from_samples(objective: Objective, w: np.ndarray, tol: float) -> np.ndarray:
    """Return the minimum of random samples of the rows, each larger than the last.

    As `newton.from_samples`, each is solved to its statistical accuracy; or w, where samples would
    not pay.
    """
    sizes = sample_sizes(objective.engine.facts, objective.size, tol)
    if not objective.engine.capabilities.cheap_samples:
        return w
    n, origin = objective.engine.facts.n_rows, w
    parts = objective.samples(sizes, SAMPLE_SEED, SAMPLE_REQUESTS)
    for part, fraction in zip(parts, sizes, strict=True):
        least = min(10.0 * objective.size / (fraction * n), 0.03)
        point = part.at(w, gram=True)
        while True:
            found = model_minimum(objective, point, point.known_hessian, tol)
            fall = change_of_model(objective, point, found)
            if not -0.5 * fall > least * point.value:
                break
            trial = part.at(found.w, gram=True, beside=point)
            accepted = backtrack(part, point, trial, slope=fall, gram=True)
            if accepted is None:
                break
            point = accepted
        better = found.w if objective.is_inside(found.w) else point.w
        if not math.isfinite(float(better @ better)):
            return w
        w = better
    return w if is_inside(objective, w) else origin


def cost(workload: Workload) -> float:
    """Foresee the passes of proximal Newton; infinite for penalties that all solvers take."""
    if not workload.kinked:
        return math.inf
    if workload.coefficients > costs.LARGEST_HESSIAN or not (
        (workload.quadratic and not workload.descends) or workload.forms_hessian
    ):
        if workload.descends:
            return costs.DESCENT_PASSES
        return costs.WORKING_SET_PASSES + workload.vectors(costs.WORKING_SET_VECTORS)
    return workload.newton_steps * (1.0 + workload.gram + workload.factorisation)


def passes_left(workload: Workload, nonzero: int) -> float:
    """Foresee the passes from where dual ascent has come to, with so many nonzero coefficients.

    Few of these change from there. How many products with the Hessian follow depends on its
    condition number, for which their number times the curvature ratio stands.
    """
    condition = nonzero * workload.curvature_ratio / workload.workers
    models = 1.0 if workload.quadratic else costs.SET_MODELS
    passes = models * costs.SET_PASSES_LEFT * condition**costs.SET_PASSES_POWER
    return passes * (1.0 + workload.rounds()) + workload.vectors(costs.SET_VECTORS_LEFT)


SPEC = SolverSpec(
    "proximal_newton",
    proximal_newton,
    max_iter=100,
    settings=("tol",),
    takes_kinks=True,
    takes_groups=True,
    cost=cost,
)
