"""The races, and who takes part in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.penalties.problems import DRAWS, Problem, largest_alpha


class Contestant(NamedTuple):
    """A contestant: its file, environment, options and tolerances from loose to tight.

    The meaning of a tolerance differs from package to package.
    """

    module: str
    environment: str | None = None
    options: dict[str, Any] | None = None
    ladder: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)


CHANGES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
# adelie's and glmnet's tolerances are of squares of changes
SQUARES = (1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-14)
# Of scikit-learn-intelex 2026.2: its lasso and elastic net are in a package that came with it, and
# are not in the classes that it patches into scikit-learn 1.9.
NETS_OF_INTELEX = {"module": "daal4py.sklearn.linear_model"}
RIDGE_OF_INTELEX = {"module": "sklearnex.linear_model"}

CONTESTANTS = {
    "daskglm": Contestant("ours", ladder=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9)),
    "sklearn cd": Contestant("scikit_learn", options={"solver": "cd"}),
    "sklearn gram": Contestant("scikit_learn", options={"solver": "gram"}),
    "sklearn ridge": Contestant("scikit_learn", ladder=(1e-6,)),
    "sklearn saga": Contestant("scikit_learn", options={"solver": "saga"}),
    "sklearn liblinear": Contestant("scikit_learn", options={"solver": "liblinear"}),
    "sklearn": Contestant("scikit_learn"),
    "intelex": Contestant("scikit_learn", "scikit-learn-intelex", NETS_OF_INTELEX),
    "intelex ridge": Contestant("scikit_learn", "scikit-learn-intelex", RIDGE_OF_INTELEX, (1e-6,)),
    "celer": Contestant("celer", "celer"),
    "skglm": Contestant("skglm", "skglm"),
    "glum": Contestant("glum_irls", "glum", ladder=(1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)),
    "glmnet": Contestant("glmnet", "python-glmnet", ladder=SQUARES),
    "adelie": Contestant("adelie", "adelie", ladder=SQUARES),
    "liblinear -s 6": Contestant("liblinear_l1", "liblinear", ladder=CHANGES),
    "snapml primal": Contestant("snap_ml_l1", "snapml", ladder=CHANGES),
}

GAUSSIAN = ("sklearn cd", "sklearn gram", "intelex", "celer", "skglm", "glum", "glmnet", "adelie")
FOLDED = ("sklearn gram", "celer", "glum", "glmnet", "adelie", "skglm")
RIDGE = ("sklearn ridge", "intelex ridge", "glum", "glmnet", "adelie")
MEANS = ("glum", "skglm", "adelie", "sklearn", "celer", "glmnet")
WIDE = (
    *("celer", "liblinear -s 6", "skglm", "snapml primal", "sklearn liblinear", "sklearn saga"),
    *("glmnet", "adelie", "glum"),
)
NET = ("snapml primal", "liblinear -s 6", "skglm", "sklearn saga", "glmnet", "adelie", "glum")


@dataclass(frozen=True)
class Race:
    """One problem and its contestants.

    Parameters
    ----------
    title : str
    draw : str
        Of `problems.DRAWS`.
    rows : int
        Of the whole problem.
    family, l1_ratio, fit_intercept, task
        As of `problems.Problem`.
    peers : tuple of str
        Beside this package.
    share : float
        alpha over the largest one.
    alpha : float, optional
        Instead of a share of the largest one.
    values : int
        Number of alphas of a path, from the largest to `share` of it.
    """

    title: str
    draw: str
    rows: int
    family: str
    l1_ratio: float
    peers: tuple[str, ...]
    share: float = 0.01
    alpha: float | None = None
    values: int = 1
    fit_intercept: bool = True
    task: str = "one"

    @property
    def contestants(self) -> tuple[str, ...]:
        """This package and the peers."""
        return ("daskglm", *self.peers)

    def make(self, rows: int, seed: int) -> Problem:
        """Draw the rows, and find alpha."""
        X, y = DRAWS[self.draw](rows, seed)
        if self.alpha is not None:
            alphas = np.array([self.alpha])
        else:
            largest = largest_alpha(X, y, self.family, self.l1_ratio, self.fit_intercept)
            alphas = largest * np.geomspace(1.0, self.share, self.values)
            if self.values == 1:
                alphas = np.array([largest * self.share])
        return Problem(X, y, self.family, alphas, self.l1_ratio, self.fit_intercept, self.task)


# A ridge as scikit-learn's default, alpha=1 for the sum of squares, at these rows.
def _ridge(draw: str, rows: int, columns: int) -> Race:
    title = f"Ridge, {columns} float32 columns, alpha=1 of the sum"
    return Race(title, draw, rows, "gaussian", 0.0, RIDGE, alpha=1.0 / rows)


def _dense(draw: str, rows: int, columns: int) -> dict[str, Race]:
    return {
        f"ridge-{draw}": _ridge(draw, rows, columns),
        f"lasso-{draw}": Race(
            f"Lasso, {columns} float32 columns, alpha_max/100",
            *(draw, rows, "gaussian", 1.0, GAUSSIAN),
        ),
        f"elastic-net-{draw}": Race(
            f"elastic net, l1_ratio=0.5, {columns} float32 columns, alpha_max/100",
            *(draw, rows, "gaussian", 0.5, GAUSSIAN),
        ),
    }


def _means(family: str, draw: str) -> dict[str, Race]:
    return {
        f"{family}-l1": Race(
            f"L1 {family}, one-hot, 315 columns, alpha=1e-3",
            *(draw, 600_000, family, 1.0, MEANS),
            alpha=1e-3,
        ),
        f"{family}-path": Race(
            f"L1 {family}, one-hot, 315 columns, path of 50 alphas to alpha_max/100",
            *(draw, 600_000, family, 1.0, MEANS),
            values=50,
            task="path",
        ),
    }


def _wide(draw: str, rows: int, share: int) -> Race:
    title = f"L1 logistic, rows like {draw}'s, alpha_max/{share}, no intercept"
    return Race(title, draw, rows, "binomial", 1.0, WIDE, share=1.0 / share, fit_intercept=False)


RACES = (
    {
        "net-path-folds": Race(
            "gaussian elastic net, l1_ratio=0.5, 100 alphas to alpha_max/1000, 5 folds",
            *("path", 2_000_000, "gaussian", 0.5, FOLDED),
            share=1e-3,
            values=100,
            task="folds",
        )
    }
    | _means("poisson", "counts")
    | _means("gamma", "amounts")
    | {
        f"{draw}-l1-{share}": _wide(draw, rows, share)
        for draw, rows in (("rcv1", 200_000), ("topics", 100_000), ("news20", 20_000))
        for share in (10, 100)
    }
    | {
        "criteo-l1": _wide("criteo", 1_000_000, 100),
        "criteo-elastic-net": Race(
            "elastic net logistic, l1_ratio=0.5, rows like criteo's, alpha_max/100, no intercept",
            *("criteo", 1_000_000, "binomial", 0.5, NET),
            fit_intercept=False,
        ),
    }
    | _dense("higgs", 2_000_000, 28)
    | _dense("susy", 5_000_000, 18)
)
