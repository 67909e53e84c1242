"""skglm: coordinate descent and proximal Newton on working sets, compiled by numba."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from skglm import GeneralizedLinearEstimator
from skglm.datafits import Gamma, Logistic, Poisson, Quadratic
from skglm.penalties import L1, L1_plus_L2
from skglm.solvers import AndersonCD, ProxNewton

from benchmarks.contestants import NotApplicable
from benchmarks.penalties.contestants import Answer
from benchmarks.penalties.problems import Problem

packages = ("skglm", "numba")
MAX_ITER = 1000
DATAFITS = {"gaussian": Quadratic, "binomial": Logistic, "poisson": Poisson, "gamma": Gamma}


def prepare(problem: Problem, **_: Any) -> Any:
    """Lay rows out by columns, in float64.

    Those of Poisson and gamma fits dense: skglm 0.5 has exp(z - y) for exp(z) - y in the gradient
    of sparse ones.
    """
    X = problem.X
    if sp.issparse(X) and problem.family in ("poisson", "gamma"):
        X = X.toarray(order="F")
    X = sp.csc_matrix(X) if sp.issparse(X) else np.asfortranarray(X)
    return X.astype(np.float64, copy=False)


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit, a path from the last alpha's coefficients; `tol` bounds the distance to optimality."""
    if problem.task == "folds":
        raise NotApplicable("skglm has no cross-validation")
    if problem.l1_ratio == 0.0:
        raise NotApplicable("its solvers of L2 alone have no intercept")
    how = {
        "tol": tol,
        "max_iter": MAX_ITER,
        "fit_intercept": problem.fit_intercept,
        "warm_start": True,
    }
    solver = AndersonCD(**how) if problem.family == "gaussian" else ProxNewton(**how)
    model = GeneralizedLinearEstimator(DATAFITS[problem.family](), None, solver)
    coefs, intercepts, rounds = [], [], 0
    for alpha in problem.alphas:
        rho = problem.l1_ratio
        model.penalty = L1(alpha) if rho == 1.0 else L1_plus_L2(alpha, rho)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, problem.y.astype(np.float64))
        coefs.append(np.ravel(model.coef_).copy())
        intercepts.append(float(np.ravel(model.intercept_)[0]))
        rounds += int(model.n_iter_)
    return Answer(coefs, intercepts, f"{rounds} working sets")
