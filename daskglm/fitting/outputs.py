"""Multinomial fits between settings and solvers: classes, where they start, what they give back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.certificates.constants import contrasts
from daskglm.core.arguments import plain_label
from daskglm.core.engine import Engine
from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Solution
from daskglm.fitting.penalised import with_penalty
from daskglm.losses.base import Loss
from daskglm.objectives.primal import Objective
from daskglm.objectives.softmax import Softmax
from daskglm.solvers import get_solver
from daskglm.solvers.iterate import Iterate, Iterates

# Solver that takes the place of scikit-learn's stochastic ones, for which "sdca" stands elsewhere.
INSTEAD = "lbfgs"
# Binary logarithm of the largest coefficient to which those of a fit are scaled up, so that exp
# underflows between margins that differ.
LARGE = 800


def multinomial_objective(
    engine: Engine, problem: Problem, weights: tuple[float, ...], loss: Loss, settings: FitConfig
) -> Objective:
    """Make the objective of all classes, which have these weights, in the order of their labels.

    Classes without weight are left out where there are intercepts, since theirs would be minus
    infinity; of one class alone another is kept beside it. Raises ValueError for offsets that are
    not one for each of the classes.
    """
    labels = sorted(label for label, _, _ in engine.facts.classes)
    places = range(len(labels))
    if settings.fit_intercept:
        places = [k for k in places if weights[k] > 0.0]  # type: ignore[assignment]
        if len(places) == 1:
            places = sorted({places[0], 0 if places[0] else 1})  # type: ignore[assignment]
    K = len(places)
    if len(labels) > K and engine.facts.offset_columns > 1:
        without = plain_label(next(v for k, v in enumerate(labels) if k not in places))
        raise ValueError(
            f"class {without!r} has no weight, but a column of the offset: leave out its rows "
            "and the column"
        )
    shares = np.array([weights[k] for k in places], float)
    margins = Softmax(
        engine.facts.n_features or 0,
        classes=tuple(labels[k] for k in places),
        shares=shares if loss.shares is None else loss.shares(shares, loss.p1),
        # kinks want the coefficients of the classes themselves
        basis=contrasts(K) if settings.penalty.is_smooth else np.eye(K),
        fit_intercept=bool(settings.fit_intercept),
    )
    return with_penalty(engine, problem, loss, settings, margins, C=float(settings.C))


def solvable(settings: FitConfig) -> FitConfig:
    """Return the settings for more than two classes, which have no dual problem here.

    Raises ValueError where "sdca" is asked for by its name, or by `dual=True`.
    """
    if settings.solver == "auto" or not get_solver(settings.solver).solves_dual:
        return settings
    if not settings.why.startswith("solver="):
        raise ValueError(
            f"solver={settings.solver!r} solves the dual, and the multinomial loss of more than "
            "two classes has none here; give another solver, or multi_class='ovr' to fit one "
            "class against the rest"
        )
    return replace(settings, solver=INSTEAD, why=f"{settings.why}; multinomial: {INSTEAD}")


def start_of_outputs(start: Any, objective: Objective, labels: np.ndarray) -> np.ndarray:
    """Return where a multinomial fit starts, from coefficients (K, d) and intercepts (K,)."""
    if start is None:
        return np.array(objective.origin)  # a copy
    coef, intercept = np.atleast_2d(start[0]), np.atleast_1d(start[1])
    margins, K = Softmax.of(objective), len(labels)
    if coef.shape != (K, margins.width) or len(intercept) not in (1, K):
        raise ValueError(
            f"warm_start has coefficients of shape {np.shape(start[0])} and intercepts of shape "
            f"{np.shape(start[1])}; this fit has {K} classes and {margins.width} features: it "
            f"wants ({K}, {margins.width}) and ({K},)"
        )
    W = coef
    if objective.fit_intercept:
        W = np.concatenate([coef, np.broadcast_to(intercept, K)[:, None]], axis=1)
    return margins.vector(W[objective.margins.places_among(labels)])


def coefficients(
    objective: Objective, w: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (K, d) and intercepts (K,) of all labels; intercepts sum to zero.

    A class that was left out has coefficients of zero, and an intercept that gives it a probability
    of at most the rounding of one anywhere: the largest of the other margins is nowhere below their
    mean, which is that of their intercepts.
    """
    margins, K = Softmax.of(objective), len(labels)
    W, d = margins.matrix(w), margins.width
    coef, intercept = np.zeros((K, d)), np.zeros(K)
    places = objective.margins.places_among(labels)
    coef[places] = W[:, :d]
    if objective.fit_intercept:
        intercept[:] = -objective.loss.rest_margin
        intercept[places] = W[:, d]
        intercept -= intercept.mean()
    return coef, intercept


def with_last_bound(objective: Objective, iterates: Iterates) -> Iterates:
    """Pass on the iterates of a solver, and at its end the last point with a better bound.

    That is by how near its intercepts are to the best ones. Cost: 0 passes, 1 round.
    """
    last: Iterate | None = None
    while True:
        try:
            iterate = next(iterates)
        except StopIteration as end:
            if last is not None and objective.is_penalised and objective.fit_intercept:
                yield replace(last, point=objective.bounds.with_near_constants(last.point))
            reason: Reason = end.value
            return reason
        last = iterate
        yield iterate


def settled_outputs(objective: Objective, solution: Solution) -> Solution:
    """Return the solution as it should be reported: separable classes have none without a penalty.

    Cost: 1 pass without a penalty, else nothing.
    """
    point = solution.point
    if objective.is_penalised or objective.only_side or not math.isfinite(point.value):
        return solution
    if objective.bounds.any_penalty and point.value > 0.0:
        return solution  # only some coefficients can be without a penalty
    largest = float(np.abs(point.w).max(initial=0.0))
    if not largest > 0.0:
        return solution
    # a power of two: margins are scaled exactly, and far apart unless they are equal
    scale = 2.0 ** (LARGE - math.ceil(math.log2(largest)))
    with np.errstate(over="ignore"):
        apart = objective.at(scale * point.w, keep=False).value == 0.0
    return replace(solution, reason=Reason.SEPARABLE) if apart else solution
