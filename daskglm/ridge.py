"""`Ridge`: scikit-learn's parameters and attributes, for least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from daskglm.estimators import LinearModel, explained, same
from daskglm.inputs import is_lazy
from daskglm.training import Trained


class Ridge(RegressorMixin, LinearModel):
    """Least squares with an L2 penalty: loss 1/2 (z - y)^2, so C is scikit-learn's 1 / alpha.

    Other parameters and attributes are those of `LogisticRegression`, without classes.

    Parameters
    ----------
    alpha : float, optional
        Strength of the penalty; default 1.0, 0: none.
    C : float, optional
        1 / alpha, for those who think in it; giving both is an error.
    copy_X : bool, default True
        For scikit-learn's scripts: X is never changed, nor copied where it is float and C ordered.
    positive : False
        Coefficients of one sign are not implemented.

    Attributes
    ----------
    coef_ : (d,) array of float64
    intercept_ : float
    n_iter_ : int
    solver_ : str
        What ran, by the name it has here.
    """

    _loss = "squared"

    def __init__(
        self,
        alpha: float | None = None,
        *,
        C: float | None = None,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-6,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        progress: bool | None = None,
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        self.alpha = alpha
        self.C = C
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.positive = positive
        self.random_state = random_state
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.progress = progress
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to numbers; arguments, result and errors as for classifiers."""
        return self._fit(X, y, sample_weight)

    def _set_fitted(self, trained: Trained) -> None:
        self.coef_, self.intercept_ = trained.coef[0], float(trained.intercept[0])
        self.n_iter_, self.solver_ = trained.report.n_iter, trained.report.solver

    def predict(self, X: Any) -> Any:
        """Predicted numbers, (n,), in the kind of X."""
        return self._values(X, same, np.empty(0))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the variance of y that is explained (R^2); for dask collections nothing else is fetched."""
        if not is_lazy(X):
            return float(super().score(X, y, sample_weight))
        return explained(self.predict(X), y, sample_weight)
