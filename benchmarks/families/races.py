"""The races: problems, contestants, and the judge of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.families import classes, quantiles
from benchmarks.families.contestants import Contestant, of_family
from benchmarks.families.judge import objective
from benchmarks.families.problems import FAMILIES, Rows, problem

# Penalty of the regressions of means, on scikit-learn's scale.
ALPHA = 1e-3
ONE_HOT_ROWS, DENSE_ROWS = 600_000, 2_000_000
COVTYPE_ROWS, MNIST_ROWS, QUANTILE_ROWS = 581_012, 60_000, 1_000_000
QUANTILES = (0.5, 0.9)


@dataclass(frozen=True)
class Race:
    """One problem and those who solve it.

    Parameters
    ----------
    problem : str
        What it is, for the heading of its table.
    rows : int
        Of the whole problem.
    make : callable
        A number of rows to the problem with so many.
    contestants : dict
        By name; this package's is "daskglm".
    judge : callable
        (rows, w, b) to the objective in float64.
    """

    problem: str
    rows: int
    make: Callable[[int], Rows]
    contestants: dict[str, Contestant]
    judge: Callable[[Rows, Any, Any], float]


def _means() -> dict[str, Race]:
    return {
        f"{shape}-{family}": Race(
            f"{family} ridge, alpha={ALPHA:g}, {shape} rows",
            rows,
            partial(problem, shape, family),
            of_family(family, ALPHA),
            partial(objective, family=family, alpha=ALPHA),
        )
        for shape, rows in (("one-hot", ONE_HOT_ROWS), ("dense", DENSE_ROWS))
        for family in FAMILIES
    }


def _classes() -> dict[str, Race]:
    # the Hessian of MNIST's 7,840 coefficients is too much for newton-cholesky
    solvers = ("lbfgs", "newton-cg")
    return {
        "covtype": Race(
            "multinomial, 7 classes, rows like covtype's 54 columns, C=1",
            COVTYPE_ROWS,
            classes.covtype_like,
            classes.contestants(*solvers, "newton-cholesky"),
            classes.objective,
        ),
        "mnist": Race(
            "multinomial, 10 classes, MNIST's 784 columns, C=1",
            MNIST_ROWS,
            classes.mnist,
            classes.contestants(*solvers),
            classes.objective,
        ),
    }


def _quantiles() -> dict[str, Race]:
    return {
        f"quantile-{q:g}": Race(
            f"quantile {q:g} without a penalty, {quantiles.COLUMNS} columns",
            QUANTILE_ROWS,
            quantiles.problem,
            quantiles.contestants(q),
            partial(quantiles.objective, q),
        )
        for q in QUANTILES
    }


RACES = _means() | _classes() | _quantiles()
