"""LIBLINEAR -s 6: L1 logistic regression by newGLMNET, on one thread."""

from __future__ import annotations

from typing import Any

from benchmarks.contestants import NotApplicable, liblinear
from benchmarks.penalties.contestants import Answer, one
from benchmarks.penalties.problems import Problem

packages = ("liblinear-official",)
SOLVER = 6


def prepare(problem: Problem, **_: Any) -> Any:
    """Return its own form of the rows."""
    if problem.family != "binomial" or problem.l1_ratio < 1.0:
        raise NotApplicable("LIBLINEAR has no elastic net, and no other families")
    return liblinear.prepare(
        problem.X, problem.y, solver=SOLVER, fit_intercept=problem.fit_intercept
    )[0]


def fit(problem: Problem, rows: Any, tol: float, threads: int) -> Answer:
    """Fit; `tol` bounds the violation of the optimality conditions, relative to the first."""
    coef, intercept, _ = liblinear.fit(
        rows,
        problem.y,
        loss="logistic",
        C=problem.C,
        fit_intercept=False,
        tol=tol,
        threads=threads,
        solver=SOLVER,
        multicore=False,
    )
    return one(coef, intercept, "")
