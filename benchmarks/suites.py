"""What is run against what: suites of problems and contestants."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

GENERATED = ("higgs-like",)


@dataclass(frozen=True)
class Problem:
    """Data, loss and penalty: what has one optimum."""

    data: str
    rows: int | None
    seed: int
    dtype: str | None
    loss: str
    C: float
    fit_intercept: bool

    def fields(self) -> dict[str, Any]:
        """As in the JSON lines."""
        return asdict(self)

    def __str__(self) -> str:
        size = "" if self.rows is None else f" {self.rows:,} rows"
        return f"{self.data}{size} {self.loss} C={self.C:g}{' with intercept' if self.fit_intercept else ''}"


@dataclass(frozen=True)
class Suite:
    """Defaults of a suite; the command line overrides any of them."""

    data: tuple[str, ...]
    contestants: tuple[str, ...]
    rows: tuple[int, ...] = (1_000_000,)
    losses: tuple[str, ...] = ("logistic",)
    Cs: tuple[float, ...] = (1.0,)
    tols: tuple[float, ...] = (1e-2, 1e-4, 1e-6)
    repeats: int = 3

    def problems(self, *, limit: int | None, seed: int, dtype: str | None, fit_intercept: bool) -> list[Problem]:
        """All problems in order; `limit` replaces the rows of generated sets and cuts the others."""
        found = []
        for name in self.data:
            sizes = self.rows if name in GENERATED and limit is None else (limit,)
            found += [
                Problem(name, rows, seed, dtype, loss, C, fit_intercept)
                for rows in sizes
                for loss in self.losses
                for C in self.Cs
            ]
        return found


OURS = ("daskglm-newton", "daskglm-tron", "daskglm-lbfgs")
SUITES = {
    "spine": Suite(
        data=("higgs-like", "covtype15k", "a9a", "rcv1_binary", "amazon_reviews"),
        contestants=(
            *("sklearn-lbfgs", "sklearn-newton-cholesky", "sklearn-newton-cg", "liblinear-s0", "liblinear-s7"),
            *OURS,
            "daskglm-auto-cluster",
        ),
    ),
    "losses": Suite(
        data=("higgs-like", "a9a", "rcv1_binary"),
        losses=("squared_hinge", "squared"),
        contestants=(
            *("sklearn-linearsvc-dual", "sklearn-linearsvc-primal", "liblinear-s1", "liblinear-s2", "liblinear-s11"),
            *("sklearn-ridge-auto", "sklearn-ridge-cholesky", "sklearn-ridge-lsqr", "sklearn-ridge-sparse_cg"),
            *OURS,
        ),
    ),
    "overhead": Suite(
        data=("breast_cancer", "higgs-like"),
        rows=(1_000, 30_000, 1_000_000),
        contestants=("sklearn-lbfgs", "sklearn-newton-cholesky", "daskglm-auto", "daskglm-auto-cluster"),
        tols=(1e-6,),
        repeats=5,
    ),
    "sdca": Suite(
        data=("rcv1-like", "criteo-like", "epsilon-like"),
        contestants=("snapml-dual", "daskglm-sdca"),
        tols=(1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    ),
    "quick": Suite(
        data=("breast_cancer", "higgs-like"),
        rows=(20_000,),
        contestants=("sklearn-lbfgs", "sklearn-newton-cholesky", "liblinear-s0", *OURS),
        tols=(1e-2, 1e-6),
        repeats=1,
    ),
}
