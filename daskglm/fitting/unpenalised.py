"""What a fit without a penalty (C = inf) has to look at when it ends: whether there is an optimum,
and only one.

Separable classes have no optimum of the logistic loss. Where the columns of X are linearly
dependent there are many, of which least squares takes the shortest coefficients, as scikit-learn
and LAPACK do.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from daskglm.core.device import to_host
from daskglm.core.outcome import Reason
from daskglm.core.warn import warn
from daskglm.fitting.driver import Solution
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective, Point

# Most features of a Gram that is formed to find dependent columns: 32 MB, and a second for its
# eigenvectors.
MOST_FEATURES = 2000
# Most multiplications of a Gram that is formed for that alone: some seconds.
MOST_WORK = 1e11
# Share of the largest possible margin below which a margin may be rounding.
ROUNDING = 2.0**-50
# Eigenvalues of a scaled Gram below this, times d roundoffs, times the largest count as zero.
DEPENDENT = 64
# Share of the largest curvature that rounding leaves along a flat direction of a Gram of float32
# rows.
FLAT = 1e-12
# Share of the value at zero by which the value of a shorter solution may differ.
SAME = 1e-10


def settled(objective: Objective, solution: Solution) -> Solution:
    """Return the solution as it should be reported, and the shortest one for least squares.

    Cost: 1 pass for classes, and 1 with the Gram of the columns where that is cheap.

    Warns
    -----
    ConvergenceWarning
        If the coefficients of a classifier are not unique, or those of least squares not the
        shortest.
    """
    if objective.is_penalised or objective.only_side or not math.isfinite(solution.point.value):
        return solution
    if objective.loss.is_quadratic:
        return _shortest(objective, solution)
    if objective.loss.classifies and _separates(objective, solution.point):
        if not objective.loss.attains_infimum:
            return replace(solution, reason=Reason.SEPARABLE)
        _warn_of_many("the classes are linearly separable")
    elif _too_few_rows(objective) or _is_dependent(objective, solution.point):
        _warn_of_many("the columns of X are linearly dependent")
    return solution


def _warn_of_many(why: str) -> None:
    warn(
        f"C=inf and {why}: the coefficients that were found are some of many that fit as well. "
        "Give a finite C for unique ones.",
        ConvergenceWarning,
    )


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
    return objective.engine.facts.n_rows < objective.size


def _gram(objective: Objective, point: Point) -> np.ndarray | None:
    """Return the Hessian at the point if it is known or cheap."""
    facts, d = objective.engine.facts, objective.n_features
    if point.gram is None and (d > MOST_FEATURES or facts.nonzeros * float(d) > MOST_WORK):
        return None
    known = point if point.gram is not None else objective.at(point.w, gram=True)
    return np.asarray(to_host(known.gram))


def _centred(objective: Objective, gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the features' Hessian at best intercepts, and the rows' weighted mean."""
    d = objective.n_features
    if not objective.fit_intercept:
        return gram, np.zeros(d)
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
    return root, values, vectors, values <= least * max(values[-1], least)


def _is_dependent(objective: Objective, point: Point) -> bool:
    """Return whether margins stay the same along some direction of the coefficients.

    False if that is not known. Columns of zeros do not count: no solver moves their coefficients.
    Cost: that of the Gram if it is not known, and a pass for the curvature along the flattest
    direction.
    """
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
    v[d:] = -float(mean @ v[:d])
    curvature = float(v @ to_host(objective.hessian_vector(point, objective.xp.asarray(v))))
    return curvature <= FLAT * d * max(float(values[-1]), 0.0)


def _shortest(objective: Objective, solution: Solution) -> Solution:
    """Return the least squares solution with the shortest coefficients.

    It takes a Newton step within the span of the rows, and leaves out what is outside.
    """
    point, d = solution.point, objective.n_features
    gram = _gram(objective, point)
    if gram is None:
        if _too_few_rows(objective):
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
