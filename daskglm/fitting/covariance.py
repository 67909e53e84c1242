"""From sums over rows to a covariance of coefficients: inverses, sandwiches, what is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from daskglm.core.warn import warn
from daskglm.system.blas import one_thread

# Share of a column's own sum of squares, once other columns are taken out, below which it counts as
# dependent on them. Rounding of sums in float64, and of float32 rows, leaves about 1e-15.
DEPENDENT = 1e-12
# Share of the largest part of a combination below which a column is not named.
NAMED = 1e-6
# Coefficients up to which one thread multiplies scores. Chosen.
FEW = 100
# Columns that an error names, at most.
MOST_NAMES = 8
# Standard errors by which one more Newton step may move a coefficient: from the first on there is
# a warning, from the second on an error. Chosen.
INEXACT, ELSEWHERE = 0.01, 1.0
# Relative size of a Newton step that may be rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Covariance:
    """Covariance of coefficients, and what it was made with.

    Parameters
    ----------
    matrix : (p, p) array
    dispersion : float
        phi of the variance phi V(mu) of a row.
    df_model : float
        Coefficients, or effective degrees of freedom of a penalised fit.
    df_resid : float
        Rows less that.
    """

    matrix: np.ndarray
    dispersion: float
    df_model: float
    df_resid: float


def inverse_of(hessian: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Invert a positive definite Hessian (p, p).

    Raises
    ------
    ValueError
        If it is singular or nearly, with the names of the dependent columns.
    """
    diagonal = np.diag(hessian)
    if not np.isfinite(hessian).all():
        raise ValueError("the Hessian is not finite at these coefficients: scale the columns of X")
    if (diagonal <= 0.0).any():
        empty = [names[int(j)] for j in np.flatnonzero(diagonal <= 0.0)]
        raise ValueError(
            f"the Hessian is singular: {_listed(empty)} has no information in any row (a column of "
            "zeros, or margins so large that all rows are predicted without doubt). Drop such "
            "columns"
        )
    scale = 1.0 / np.sqrt(diagonal)
    scaled = hessian * np.outer(scale, scale)
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(scaled, tol=DEPENDENT)
    if rank < len(scaled):
        raise ValueError(_dependent(factor, pivots - 1, rank, names))
    inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(scaled), np.eye(len(scaled)))
    inverse *= np.outer(scale, scale)
    return 0.5 * (inverse + inverse.T)


def _dependent(factor: np.ndarray, order: np.ndarray, rank: int, names: Sequence[str]) -> str:
    """Return the message for a Hessian of which pivoting has left `rank` columns."""
    parts = scipy.linalg.solve_triangular(
        np.triu(factor[:rank, :rank]), factor[:rank, rank:], check_finite=False
    )
    found = []
    for k, j in enumerate(order[rank:]):
        part = np.abs(parts[:, k])
        of = [names[order[i]] for i in np.flatnonzero(part > NAMED * part.max(initial=0.0))]
        found.append(f"{names[j]!r} is a linear combination of {_listed(of)}")
    more = f", and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    return (
        f"the Hessian is singular: {'; '.join(found[:MOST_NAMES])}{more}. Coefficients of "
        "dependent columns are not determined: drop a column of each such group (one level of "
        "every category, where there is an intercept)"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_NAMES]))
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def classical(
    hessian: np.ndarray,
    ridge: np.ndarray,
    n: float,
    spread: float,
    fixed: float | None,
    names: Sequence[str],
) -> tuple[np.ndarray, Covariance]:
    """Return the inverse Hessian of the objective, and the covariance phi H^-1.

    Parameters
    ----------
    hessian : (p, p) array
        That of the losses.
    ridge : (p,) array
        Strength of the penalty on each coefficient; zeros: none. With a penalty the covariance is
        phi P H P, P the inverse of H and the penalty's Hessian, and tr(P H) are the effective
        degrees of freedom (Hastie, Tibshirani & Friedman 2009, section 5.4).
    n : float
        Number of rows.
    spread : float
        Pearson's chi^2, or the deviance: what the dispersion is estimated from.
    fixed : float, optional
        The dispersion, where it is not estimated.
    """
    inverse = inverse_of(hessian + np.diag(ridge), names)
    product = inverse @ hessian
    df_model = float(np.trace(product)) if ridge.any() else float(len(hessian))
    matrix = product @ inverse if ridge.any() else inverse
    return inverse, covariance_of(matrix, n, df_model, spread, fixed)


def covariance_of(
    matrix: np.ndarray, n: float, df_model: float, spread: float, fixed: float | None
) -> Covariance:
    """Return the dispersion times a matrix; other arguments are those of `classical`."""
    df_resid = n - df_model
    dispersion = fixed
    if dispersion is None:
        dispersion = spread / df_resid if df_resid > 0.0 else np.nan
    return Covariance(dispersion * matrix, dispersion, df_model, df_resid)


def sandwich(
    inverse: np.ndarray, meat: np.ndarray, kind: str, n: float, df_model: float
) -> np.ndarray:
    """Return H^-1 M H^-1 of independent rows, for HC1 times n / (n - p).

    Raises ValueError for HC1 of no more rows than coefficients.
    """
    factor = 1.0
    if kind == "HC1":
        factor = n / _left(n, df_model, kind)
    matrix: np.ndarray = factor * (inverse @ meat @ inverse)
    return 0.5 * (matrix + matrix.T)


def clustered(inverse: np.ndarray, scores: np.ndarray, n: float, df_model: float) -> np.ndarray:
    """Return the covariance of rows in clusters: H^-1 (sum of u u') H^-1, u the scores (G, p).

    It is multiplied by G / (G - 1) (n - 1) / (n - p), as Stata does.

    Raises
    ------
    ValueError
        For fewer than two clusters, and no more rows than coefficients.
    """
    count = len(scores)
    if count < 2:
        raise ValueError(
            f"covariance='cluster' wants at least two clusters, and clusters has {count}: give a "
            "column that tells groups of rows apart, or another covariance"
        )
    factor = count / (count - 1.0) * (n - 1.0) / _left(n, df_model, "cluster")
    # threads of BLAS took a hundred times as long for 100,000 x 31 numbers on a busy machine
    with one_thread() if scores.shape[1] <= FEW else contextlib.nullcontext():
        meat = scores.T @ scores
    matrix: np.ndarray = factor * (inverse @ meat @ inverse)
    return 0.5 * (matrix + matrix.T)


def _left(n: float, df_model: float, kind: str) -> float:
    if not n > df_model:
        raise ValueError(
            f"covariance={kind!r} divides by rows less coefficients, and there are {n:g} rows and "
            f"{df_model:g} coefficients"
        )
    return n - df_model


def check_optimum(
    w: np.ndarray,
    step: np.ndarray,
    errors: np.ndarray,
    diagonal: np.ndarray,
    names: Sequence[str],
) -> None:
    """Check that coefficients are an optimum: one more Newton step hardly moves them.

    Parameters
    ----------
    w, step, errors : (p,) arrays
        Coefficients, the Newton step from them, and their standard errors.
    diagonal : (p,) array
        That of the Hessian.

    Raises
    ------
    ValueError
        If the step is longer than `ELSEWHERE` standard errors. ConvergenceWarning if it is longer
        than `INEXACT`.
    """
    size = np.sqrt(diagonal)
    if not (np.abs(step) * size).max() > ROUNDING * (np.abs(w) * size).max():
        return
    ratios = np.abs(step) / np.maximum(errors, np.finfo(float).tiny)
    j = int(np.nanargmax(ratios))
    if not ratios[j] > INEXACT:
        return
    said = (
        f"the gradient is not zero at the coefficients: a Newton step moves {names[j]!r} by "
        f"{ratios[j]:.2g} standard errors"
    )
    if ratios[j] > ELSEWHERE:
        raise ValueError(
            f"{said}. X, y, weights or offsets are not those of the fit, or the fit stopped early: "
            "give the same data, or fit again with a smaller tol"
        )
    warn(f"{said}; fit again with a smaller tol", ConvergenceWarning)
