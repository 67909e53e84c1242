"""Contestants by name. One file per library, each with

`fit(X, y, *, loss, C, fit_intercept, tol, threads, **options) -> (coef (d,), intercept, info)`

and, where it needs it, `prepare(X, y, *, fit_intercept, threads, **options) -> (X, y)`, what the
library wants to hold before the clock starts.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

OURS = ("auto", "newton", "tron", "lbfgs", "gd", "sdca")
LOSSES = ("logistic", "squared_hinge", "squared")


class NotApplicable(Exception):
    """The contestant does not solve this problem, with the reason."""


class Contestant(NamedTuple):
    """A contestant: its file, options, losses, and the package it measures.

    `environment` names the peer's own (`environments.py`), `tols` its tolerances from loose to
    tight in suites that give none: their meaning differs from library to library, so each has those
    that span 1e-2 to 1e-7 of suboptimality.
    """

    module: str
    options: dict[str, Any]
    losses: tuple[str, ...]
    package: str
    environment: str | None = None
    tols: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)

    @property
    def ours(self) -> bool:
        """Whether this is daskglm."""
        return self.package == "daskglm"

    def load(self) -> Any:
        """Import the file; ImportError where the library is missing."""
        return importlib.import_module(f"benchmarks.contestants.{self.module}")


def select(words: Iterable[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Return the contestants that words name: each a contestant, a package, "sklearn", or "all".

    The third kind is the first part of names. Packages and first parts mean those of `offered`, and
    all that exist if none is offered.

    Raises
    ------
    ValueError
        For a word that names nothing.
    """
    found: list[str] = []
    for word in words:
        if word in CONTESTANTS:
            found.append(word)
            continue
        named = [
            name
            for name, contestant in CONTESTANTS.items()
            if word in ("all", contestant.package) or name.startswith(f"{word}-")
        ]
        if not named:
            packages = sorted({contestant.package for contestant in CONTESTANTS.values()})
            raise ValueError(
                f"no contestant or package is called {word!r}; packages: {', '.join(packages)}"
            )
        found += [name for name in named if name in offered and word != "all"] or named
    return tuple(dict.fromkeys(found))


DECADES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # for bounds on the mean gradient's entries
SECOND_ORDER = (1e-2, 1e-4, 1e-6, 1e-8)
CHANGES = (1.0, 0.3, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # for bounds on the change of the coefficients
# for bounds on the entries of the gradient of a sum over rows
SUMS = (1e3, 1e2, 1e1, 1.0, 1e-1, 1e-2)


def _sklearn(
    losses: tuple[str, ...], tols: tuple[float, ...] = DECADES, **options: Any
) -> Contestant:
    return Contestant("scikit_learn", options, losses, "scikit-learn", tols=tols)


def _liblinear(solver: int, loss: str, *, multicore: bool = False) -> Contestant:
    package = "liblinear-multicore" if multicore else "liblinear-official"
    environment = "liblinear-multicore" if multicore else "liblinear"
    return Contestant(
        "liblinear", {"solver": solver, "multicore": multicore}, (loss,), package, environment
    )


def _dask(solver: str, package: str, tols: tuple[float, ...], workers: int = 0) -> Contestant:
    options = {"solver": solver, "estimator": package == "dask-ml", "workers": workers}
    return Contestant("dask_algorithms", options, ("logistic",), package, "dask-ml", tols)


def _peer(
    module: str, package: str, tols: tuple[float, ...] = DECADES, **options: Any
) -> Contestant:
    return Contestant(module, options, ("logistic",), package, package, tols)


def _daskglm(solver: str, workers: int = 0) -> Contestant:
    return Contestant("daskglm_solvers", {"solver": solver, "workers": workers}, LOSSES, "daskglm")


# what stops each of dask-glm's algorithms: coefficients (newton), the objective, tolerances of its
# own (admm)
DASK_TOLS = {
    "newton": (1.0, 1e-1, 1e-2, 1e-4),
    "lbfgs": SUMS,
    "gradient_descent": (1e-3, 1e-4, 1e-5, 1e-6),
    "proximal_grad": (1e-3, 1e-4, 1e-5, 1e-6),
    "admm": (1e-1, 1e-2, 1e-3, 1e-4),
}

CONTESTANTS: dict[str, Contestant] = {
    "sklearn-lbfgs": _sklearn(("logistic",), solver="lbfgs"),
    "sklearn-newton-cholesky": _sklearn(("logistic",), SECOND_ORDER, solver="newton-cholesky"),
    "sklearn-newton-cg": _sklearn(("logistic",), solver="newton-cg"),
    **{
        f"sklearn-{solver}": _sklearn(("logistic",), (1e-1, 1e-2, 1e-3, 1e-4, 1e-5), solver=solver)
        for solver in ("liblinear", "sag", "saga")
    },
    # float32 data are cast before the clock starts: some solvers stop early in float32
    "sklearn-lbfgs-f64": _sklearn(("logistic",), solver="lbfgs", dtype="float64"),
    "sklearn-newton-cholesky-f64": _sklearn(
        ("logistic",), SECOND_ORDER, solver="newton-cholesky", dtype="float64"
    ),
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
    "liblinear-s3": _liblinear(3, "hinge"),
    "liblinear-s11": _liblinear(11, "squared"),
    "liblinear-multicore-s0": _liblinear(0, "logistic", multicore=True),
    "liblinear-multicore-s1": _liblinear(1, "squared_hinge", multicore=True),
    "liblinear-multicore-s2": _liblinear(2, "squared_hinge", multicore=True),
    "snapml-dual": Contestant(
        "snap_ml",
        {"dual": True},
        ("logistic", "squared_hinge", "hinge"),
        "snapml",
        "snapml",
        CHANGES,
    ),
    "snapml-primal": Contestant(
        "snap_ml", {"dual": False}, ("logistic",), "snapml", "snapml", CHANGES
    ),
    "glum-irls": _peer("glum_regressor", "glum", SECOND_ORDER, solver="irls-ls"),
    "glum-lbfgs": _peer("glum_regressor", "glum", solver="lbfgs"),
    "skglm-lbfgs": _peer("skglm_lbfgs", "skglm"),
    **{f"dask-glm-{solver}": _dask(solver, "dask-glm", tols) for solver, tols in DASK_TOLS.items()},
    **{
        f"dask-ml-{solver}": _dask(solver, "dask-ml", DASK_TOLS[solver])
        for solver in ("newton", "lbfgs")
    },
    **{
        f"dask-ml-{solver}-cluster": _dask(solver, "dask-ml", DASK_TOLS[solver], 2)
        for solver in ("newton", "lbfgs")
    },
    "h2o-irlsm": _peer("h2o_server", "h2o", SECOND_ORDER, solver="IRLSM"),
    "h2o-lbfgs": _peer("h2o_server", "h2o", solver="L_BFGS"),
    "spark-lbfgs": _peer("spark_mllib", "spark"),
    "torch-lbfgs": _peer("torch_optim", "torch", solver="lbfgs"),
    "torch-gd": _peer("torch_optim", "torch", solver="gd"),
    "cuml-qn": _peer("cuml_logistic", "cuml"),
    **{f"daskglm-{solver}": _daskglm(solver) for solver in OURS},
    **{f"daskglm-{solver}-cluster": _daskglm(solver, workers=2) for solver in OURS},
}
