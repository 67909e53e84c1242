"""Models of proximal Newton that are minimised by coordinate descent beside few dense rows.

Sets of features, copies of their columns and Hessians of these take a request each; where rows are
few those take longer than the work. Descents of one request are given up where they are slow.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from daskglm.core.column_requests import ColumnDescent
from daskglm.core.view import ALL
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.iterate import Iterate
from daskglm.solvers.line_search import backtrack

# Share of `tol` that the residual of a coefficient may be of its strength at the end: the bound is
# up to twice that share of the value. Chosen.
ENOUGH = 0.5
# Share of the bound at a point to which the model around it is minimised at least. Chosen.
COARSEST = 0.1
# Passes over all columns that a descent may take. Chosen.
MOST_PASSES = 50.0
# Descents in turn, each of which begins anew. Chosen.
MOST_DESCENTS = 20


def descends(objective: Objective) -> bool:
    """Return whether models are minimised so: all features have a strength then, and few values."""
    penalty, there = objective.penalty, objective.engine.capabilities.descends_columns
    separable = penalty.quadratic.is_diagonal and not penalty.is_grouped
    held = there and separable and bool((penalty.feature_kinks.strengths > 0.0).all())
    return held and objective.margins.moves_alike and objective.rows.view == ALL


def by_descents(
    objective: Objective, w: np.ndarray, tol: float, begin: Point | None
) -> Generator[Iterate, None, Point]:
    """Iterate by descents; return the point where they are given up.

    Cost: 1 pass, and those of the descent, 2 rounds for each.
    """
    point = objective.at(w) if begin is None else begin
    kinks, wanted = objective.penalty.kinks, ENOUGH * tol
    # what a strong penalty leaves of coefficients counts, however little it changes values
    more = begin is None and objective.loss.is_quadratic and point.gradient_norm > 0.0
    for _ in range(MOST_DESCENTS):
        yield Iterate(point, more=more)
        more = False
        share = wanted
        if not objective.loss.is_quadratic:
            bound = point.nominal_bound / max(point.value, 1e-300)
            share = max(wanted, COARSEST * min(bound, 1.0) ** 2)
        to, ended = _end_of(point, share)
        fall = float(point.gradient @ (to - point.w)) + kinks.value(to) - kinks.value(point.w)
        # an optimum needs no more coefficients than there are rows: with more it is far away
        if not (ended or np.count_nonzero(to) <= objective.engine.facts.n_rows) or not fall < 0.0:
            return point
        trial = objective.at(to, beside=point)
        accepted = backtrack(objective, point, trial, slope=fall)
        if accepted is None or not accepted.value < point.value:
            return point
        point = accepted
        if not ended:
            break
        if share <= wanted:
            wanted *= 0.1
    return point


def _end_of(point: Point, wanted: float) -> tuple[np.ndarray, bool]:
    """Return where a descent on the model around a point leads to, and whether it has ended there.

    `wanted` is the residual that a coefficient may have, as a share of its strength.
    """
    objective, kinks = point.objective, point.objective.penalty.kinks
    ridge = objective.penalty.quadratic.diagonal(objective.size)
    model = np.array([point.gradient, ridge, kinks.strengths, kinks.lower, kinks.upper])
    at = point.token, point.w
    totals = objective.ask(ColumnDescent(at, objective.C, model, wanted, MOST_PASSES))
    return totals["v"], totals["ended"]
