"""Contestants by name. One file per library, each with

`fit(X, y, *, loss, C, fit_intercept, tol, threads, **options) -> (coef (d,), intercept, info)`

and, where it needs them, `prepare(X, y, *, fit_intercept, threads, **options) -> (X, y)`, what the library wants to
hold before the clock starts, and `finish() -> dict` after the clock.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

OURS = ("auto", "newton", "tron", "lbfgs", "gd", "sdca")
LOSSES = ("logistic", "squared_hinge", "squared")


class NotApplicable(Exception):
    """The contestant does not solve this problem, with the reason."""


class Contestant(NamedTuple):
    """A file of this folder, the options it is called with, the losses it knows, and the package it measures."""

    module: str
    options: dict[str, Any]
    losses: tuple[str, ...]
    package: str

    @property
    def ours(self) -> bool:
        """Whether this is daskglm."""
        return self.package == "daskglm"

    def load(self) -> Any:
        """Import the file; ImportError where the library is missing."""
        return importlib.import_module(f"benchmarks.rivals.{self.module}")


def _sklearn(losses: tuple[str, ...], **options: Any) -> Contestant:
    return Contestant("scikit_learn", options, losses, "scikit-learn")


def _liblinear(solver: int, loss: str) -> Contestant:
    return Contestant("liblinear_official", {"solver": solver}, (loss,), "liblinear-official")


def _daskglm(solver: str, workers: int = 0) -> Contestant:
    return Contestant("daskglm_solvers", {"solver": solver, "workers": workers}, LOSSES, "daskglm")


CONTESTANTS: dict[str, Contestant] = {
    **{
        f"sklearn-{solver}": _sklearn(("logistic",), solver=solver)
        for solver in ("lbfgs", "newton-cholesky", "newton-cg", "liblinear", "sag", "saga")
    },
    # float32 data are cast before the clock starts: some solvers stop early in float32
    "sklearn-lbfgs-f64": _sklearn(("logistic",), solver="lbfgs", dtype="float64"),
    "sklearn-newton-cholesky-f64": _sklearn(("logistic",), solver="newton-cholesky", dtype="float64"),
    "sklearn-linearsvc-dual": _sklearn(("squared_hinge",), solver="dual"),
    "sklearn-linearsvc-primal": _sklearn(("squared_hinge",), solver="primal"),
    **{
        f"sklearn-ridge-{solver}": _sklearn(("squared",), solver=solver)
        for solver in ("auto", "cholesky", "lsqr", "sparse_cg", "sag")
    },
    "liblinear-s0": _liblinear(0, "logistic"),
    "liblinear-s7": _liblinear(7, "logistic"),
    "liblinear-s1": _liblinear(1, "squared_hinge"),
    "liblinear-s2": _liblinear(2, "squared_hinge"),
    "liblinear-s11": _liblinear(11, "squared"),
    "snapml-dual": Contestant("snap_ml", {"dual": True}, ("logistic", "squared_hinge"), "snapml"),
    "snapml-primal": Contestant("snap_ml", {"dual": False}, ("logistic",), "snapml"),
    **{f"daskglm-{solver}": _daskglm(solver) for solver in OURS},
    **{f"daskglm-{solver}-cluster": _daskglm(solver, workers=2) for solver in OURS},
}
