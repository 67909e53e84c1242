"""`LinearSVR`: scikit-learn's parameters and attributes, with the epsilon-insensitive losses."""

from __future__ import annotations

from typing import Any

from daskglm.core.arguments import check_choice, is_number, shown
from daskglm.estimators.regressor import Regressor

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class LinearSVR(Regressor):
    r"""Linear support vector regression.

    It minimises :math:`\frac12 |w|^2 + C \sum_i s_i \max(0, |y_i - z_i| - \epsilon)`, or the same
    with the square of that loss. The intercept is not penalised; LIBLINEAR penalises it, and so
    does scikit-learn's class of this name.

    Other parameters are those of `LinearSVC`.

    Parameters
    ----------
    epsilon : float, default 0.0
        Residuals up to this cost nothing.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default "epsilon_insensitive"
    dual : bool or "auto", default "auto"
        True solves the dual problem, by "sdca". False and "auto" leave the choice to `solver`; the
        first loss refuses False, as scikit-learn does.
    l1_ratio, penalty_factor, P2, lower_bounds, upper_bounds, positive, groups, standardize, schema
        As of `LogisticRegression`.

    Attributes
    ----------
    coef_ : (d,) array of float64
    intercept_ : float
    n_iter_ : int
    solver_ : str
        Solver that ran.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]
    >>> daskglm.LinearSVR(C=100.0).fit(X, y).predict([[3.0]]).round(4)
    array([7.])
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-6,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: bool | str = "auto",
        verbose: int = 0,
        random_state: Any = None,
        max_iter: int | None = None,
        solver: str = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        progress: bool | None = None,
        stop: str = "gap",
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
        l1_ratio: float = 0.0,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        positive: bool = False,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.solver = solver
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.progress = progress
        self.stop = stop
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit
        self.l1_ratio = l1_ratio
        self.penalty_factor = penalty_factor
        self.P2 = P2
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        self.positive = positive
        self.groups = groups
        self.standardize = standardize
        self.schema = schema

    @property
    def _loss(self) -> str:  # type: ignore[override]
        check_choice(self.loss, "loss", LOSSES)
        if not is_number(self.epsilon):
            raise ValueError(f"epsilon={shown(self.epsilon)} must be a number not below 0")
        return f"{self.loss}({float(self.epsilon)!r})"
