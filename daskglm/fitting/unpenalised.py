"""What a fit without a penalty (C = inf) has to look at when it ends: whether there is an optimum,
and only one.

Separable classes have no optimum of the logistic loss, nor have levels whose counts are all zero
one of a log link: their coefficients run away. Where the columns of X are linearly
dependent there are many, of which least squares takes the shortest coefficients, as scikit-learn
and LAPACK do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from daskglm.core.block_hessian import BlockHessian
from daskglm.core.device import to_host
from daskglm.core.outcome import Reason
from daskglm.core.warn import warn
from daskglm.fitting.driver import Solution
from daskglm.fitting.separation import free_entries, runaways, with_hessian
from daskglm.losses.table import LOSSES
from daskglm.objectives.point import Point
from daskglm.objectives.primal import SAME_VALUE, Objective
from daskglm.solvers.block_systems import flat_direction

# Share of the largest possible margin below which a margin may be rounding.
ROUNDING = 2.0**-50
# Eigenvalues of a scaled Gram below this, times d roundoffs, times the largest count as zero.
DEPENDENT = 64
# Share of the largest curvature that rounding leaves along a flat direction of a Gram of float32
# rows.
FLAT = 1e-12
# Share of the value at zero by which the value of a shorter solution of least squares may differ.
SAME = 1e-10
# Share of the largest part of a margin from which a coefficient counts as large.
LARGE = 0.1
# What warnings say of rows whose coefficients run away.
ALL_AT_THE_END = "all targets are at the end of their range"
ONE_IS_MISSING = "some class does not occur"
# Columns named in a warning.
MOST_NAMED = 5


def settled(
    objective: Objective, solution: Solution, columns: Sequence[str] | None = None
) -> Solution:
    """Return the solution as it should be reported, and the shortest one for least squares.

    Cost: 1 pass for classes, and 1 with the Gram of the columns where that is cheap; where that
    does not prove an optimum what `separation.runaways` takes.

    Parameters
    ----------
    objective : Objective
    solution : Solution
    columns : sequence of str, optional
        Names of the features, for warnings.

    Warns
    -----
    ConvergenceWarning
        If the coefficients of a classifier are not unique, or those of least squares not the
        shortest; if coefficients run away, which are named.
    """
    if objective.only_side or not math.isfinite(solution.point.value):
        return solution
    # a proof at an end says that there is an optimum, and that columns differ
    if solution.reason is Reason.EDGE and math.isfinite(solution.relative_gap):
        return solution
    loss, point = objective.loss, solution.point
    may_grow = loss.classifies and _costs_nothing(objective, point)
    apart = may_grow and _separates(objective, point)
    if apart and loss.attains_infimum:
        _warn_of_many("the classes are linearly separable")
        return solution
    unpenalised = not (objective.bounds.any_penalty or objective.is_penalised)
    if unpenalised and not apart and (loss.bends or loss.classifies):
        point = with_hessian(objective, point)
    found = _largest(objective, point) if apart else runaways(objective, point)
    if apart or found:
        reason = Reason.SEPARABLE if apart else Reason.NO_OPTIMUM
        warn_of_runaways(reason, [_name(j, objective, columns) for j in found])
        return replace(solution, reason=reason)
    if not unpenalised:
        return solution  # only some coefficients can be without a penalty
    if loss.is_quadratic:
        return _shortest(objective, solution)
    if not warn_if_dependent(objective, point):
        return solution
    return _projected(objective, solution) if loss.bends else solution


def warn_of_separated_classes(
    objective: Objective, solution: Solution, columns: Sequence[str] | None
) -> Solution:
    """Return the solution of all classes together as it should be reported.

    Warns of coefficients that run away, by their columns: where all classes are separable, and
    where some class does not occur on a side of a column. Cost: that of `runaways`.
    """
    if solution.reason is Reason.SEPARABLE:
        found = _largest(objective, solution.point)
    else:
        if not math.isfinite(solution.point.value):
            return solution
        d, width = objective.n_features, len(objective.feature_sizes(to_host(solution.point.w)))
        grown = runaways(objective, solution.point)
        if not grown:
            return solution
        # vectors of solvers have the features of one set after those of another
        found = list(dict.fromkeys(j % width for j in grown if j < d))
        solution = replace(solution, reason=Reason.NO_OPTIMUM)
    names = [_name(j, objective, columns) for j in found]
    warn_of_runaways(solution.reason, names, ONE_IS_MISSING)
    return solution


def warn_if_dependent(objective: Objective, point: Point) -> bool:
    """Warn if other coefficients fit as well, and return whether they do.

    Cost: a Gram where that is cheap, or nothing.
    """
    found = _too_few_rows(objective) or _is_dependent(objective, point)
    if found:
        _warn_of_many("the columns of X are linearly dependent")
    return found


def _warn_of_many(why: str) -> None:
    warn(
        f"there is no penalty, and {why}: the coefficients that were found are some of many that "
        "fit as well. Give a finite C, or alpha above 0, for unique ones.",
        ConvergenceWarning,
    )


def warn_of_runaways(reason: Reason, names: list[str], rows: str = ALL_AT_THE_END) -> None:
    """Warn of coefficients that grow for ever, by the names of their columns where known.

    `rows` says what is so where such a column is not zero, unless all classes are separable.
    """
    named = ", ".join(names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    why = (
        "together such columns tell the classes apart"
        if reason is Reason.SEPARABLE
        else f"where such a column is not zero, or on one side of it, {rows}. Drop the column, or "
        "join its level with another"
    )
    along = f" The objective falls along {named}{more}: {why}." if names else ""
    warn(
        f"{reason.value}.{along} A penalty makes an optimum: give a finite C, or alpha above 0.",
        ConvergenceWarning,
    )


def _name(j: int, objective: Objective, columns: Sequence[str] | None) -> str:
    if j == objective.n_features:
        return "the intercept"
    return f"column {columns[j]!r}" if columns is not None else f"column {j}"


def _largest(objective: Objective, point: Point) -> list[int]:
    """Return the free features whose coefficients make the largest margins, the largest first."""
    if not objective.rounding.is_surveyed:
        objective.bounds.survey()
    free = free_entries(objective)
    sizes = objective.feature_sizes(np.where(free, to_host(point.w), 0.0))
    columns = objective.rounding.columns
    margins = sizes * (columns[: len(sizes)] if np.ndim(columns) else columns)
    large = np.flatnonzero(margins >= LARGE * margins.max(initial=0.0))
    return sorted(large.tolist(), key=lambda j: -margins[j])


def _costs_nothing(objective: Objective, point: Point) -> bool:
    """Return whether multiples of a point's coefficients have no penalty. Cost: nothing."""
    if not objective.bounds.any_penalty:
        return not objective.is_penalised
    penalty = objective.penalty.value(point.w)
    inside = bool((objective.penalty.kinks.clip(2.0 * point.w) == 2.0 * point.w).all())
    return not objective.penalty.is_held and penalty == 0.0 and inside


def _separates(objective: Objective, point: Point) -> bool:
    """Return whether every row with weight is on the right side of the hyperplane, beyond rounding.

    The hinge of margins scaled up so far is zero then. Cost: 1 pass.
    """
    w, d = to_host(point.w), objective.n_features
    largest = objective.engine.facts.largest_row_norm * float(np.linalg.norm(w[:d])) + float(
        np.abs(w[d:]).sum()
    )
    if not 0.0 < largest < math.inf:
        return False
    # a power of two: margins are scaled exactly
    scale = 2.0 ** (-math.floor(math.log2(largest * ROUNDING)))
    loss = LOSSES["squared_hinge"]
    hinge = Objective(
        objective.engine,
        replace(objective.problem, loss=loss.ref),
        loss,
        C=math.inf,
        fit_intercept=objective.fit_intercept,
    )
    return hinge.at(objective.xp.asarray(scale * w), keep=False).value == 0.0


def _too_few_rows(objective: Objective) -> bool:
    return objective.engine.facts.n_used < objective.size


def _gram(objective: Objective, point: Point) -> np.ndarray | None:
    """Return the Hessian at the point if it is known or cheap, and has all its entries."""
    known = with_hessian(objective, point)
    if known.hessian is None or isinstance(known.hessian, BlockHessian):
        return None
    return np.asarray(to_host(known.hessian))


def _centred(objective: Objective, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the features' Hessian at best intercepts, and the rows' weighted mean."""
    d = objective.n_features
    if not objective.fit_intercept:
        return gram, np.zeros(d)
    if len(gram) > d + 1:  # several constants
        mean = np.linalg.lstsq(gram[d:, d:], gram[d:, :d], rcond=1e-14)[0]
        return gram[:d, :d] - gram[:d, d:] @ mean, mean
    mean = gram[:d, d] / gram[d, d] if gram[d, d] > 0.0 else np.zeros(d)
    return gram[:d, :d] - np.outer(mean, gram[:d, d]), mean


def _spectrum(
    objective: Objective, gram: np.ndarray, centred: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Decompose the centred Gram, scaled to a unit diagonal.

    Returns the roots of the diagonal, eigenvalues, eigenvectors, and which eigenvalues are zero.
    """
    d, facts = objective.n_features, objective.engine.facts
    roundoff = np.finfo(
        np.float32 if not facts.sparse and facts.nbytes <= 4 * facts.nonzeros else np.float64
    ).eps
    least = DEPENDENT * d * roundoff
    constant = np.diag(centred) <= least * np.diag(gram)[:d]
    root = np.sqrt(np.where(constant, 1.0, np.diag(centred)))
    scaled = centred / root[:, None] / root
    scaled[constant] = scaled[:, constant] = 0.0
    values, vectors = scipy.linalg.eigh(scaled)
    return root, values, vectors, values <= least * values.max(initial=least)


def _is_dependent(objective: Objective, point: Point) -> bool:
    """Return whether margins stay the same along some direction of the coefficients.

    False if that is not known. Columns of zeros do not count: no solver moves their coefficients.
    Cost: that of the Gram if it is not known, and a pass for the curvature along the flattest
    direction.
    """
    if objective.blocks:
        point = with_hessian(objective, point)
        if isinstance(point.hessian, BlockHessian):
            way = flat_direction(point.hessian)
            return way is not None and _is_flat(objective, point, way)
    gram = _gram(objective, point)
    if gram is None:
        return False
    d = objective.n_features
    centred, mean = _centred(objective, gram)
    root, values, vectors, zero = _spectrum(objective, gram, centred)
    empty = int((np.diag(gram)[:d] == 0.0).sum())
    if zero.sum() <= empty:
        return False
    v = np.zeros(objective.size)
    v[:d] = vectors[:, empty] / root
    v[d:] = -(mean @ v[:d])
    curvature = float(v @ to_host(objective.hessian_vector(point, objective.xp.asarray(v))))
    return curvature <= FLAT * d * max(float(values[-1]), 0.0)


def _is_flat(objective: Objective, point: Point, way: np.ndarray) -> bool:
    """Return whether margins stay the same along a direction, to rounding. Cost: a pass."""
    curvature = float(way @ objective.hessian_vector(point, way))
    most = float(np.square(way) @ point.known_hessian.diagonal())
    return curvature <= FLAT * objective.size * most


def _projected(objective: Objective, solution: Solution) -> Solution:
    """Return the shortest coefficients with the same margins. Cost: a pass, and that of a Gram.

    Rows of next to no curvature have other margins: the value may rise by no more than is left
    where a fit without a proof has converged.
    """
    point, d = solution.point, objective.n_features
    gram = _gram(objective, point)
    if gram is None:
        return solution
    centred, mean = _centred(objective, gram)
    root, _, vectors, zero = _spectrum(objective, gram, centred)
    if not zero.any():
        return solution
    w = to_host(point.w).copy()
    null = np.linalg.qr(vectors[:, zero] / root[:, None])[0]
    moved = null @ (null.T @ w[:d])
    w[:d] -= moved
    if objective.fit_intercept:
        w[d] += float(mean @ moved)
    shorter = objective.at(objective.xp.asarray(w))
    at_start = objective.at(objective.origin).value
    same = shorter.value <= point.value + SAME_VALUE * at_start
    return replace(solution, point=shorter) if same else solution


def _shortest(objective: Objective, solution: Solution) -> Solution:
    """Return the least squares solution with the shortest coefficients.

    It takes a Newton step within the span of the rows, and leaves out what is outside.
    """
    point, d = solution.point, objective.n_features
    gram = _gram(objective, point)
    if gram is None:
        if objective.blocks:
            warn_if_dependent(objective, point)
        elif _too_few_rows(objective):
            _warn_of_many(
                f"there are {objective.engine.facts.n_rows:,} rows for {objective.size:,} "
                "coefficients"
            )
        return solution
    centred, mean = _centred(objective, gram)
    root, values, vectors, zero = _spectrum(objective, gram, centred)
    if not zero.any():
        return solution
    w, g = to_host(point.w).copy(), to_host(point.gradient)
    slope = float(g[d]) if objective.fit_intercept else 0.0
    kept = vectors[:, ~zero]
    step = -(kept @ ((kept.T @ ((g[:d] - slope * mean) / root)) / values[~zero])) / root
    null = np.linalg.qr(vectors[:, zero] / root[:, None])[0]
    features = w[:d] + step
    features -= null @ (null.T @ features)
    if objective.fit_intercept:
        w[d] -= slope / gram[d, d] + float(mean @ (features - w[:d]))
    w[:d] = features
    shorter = objective.at(objective.xp.asarray(w))
    at_zero = objective.at(objective.xp.zeros(objective.size)).value
    if not shorter.value <= point.value + SAME * at_zero:
        _warn_of_many("the columns of X are nearly dependent in their precision")
        return solution
    before = float(np.linalg.norm(point.gradient))
    ratio = solution.gradient_ratio * (
        float(np.linalg.norm(shorter.gradient)) / before if before > 0.0 else 1.0
    )
    return replace(solution, point=shorter, gradient_ratio=ratio)
