"""`HuberRegressor`: scikit-learn's parameters and attributes, with the scale estimated or given."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from daskglm.core.arguments import check_whole, is_number, shown
from daskglm.data.containers import plain
from daskglm.data.partitions import is_lazy
from daskglm.estimators.base import LinearModel
from daskglm.estimators.fitted_data import Known
from daskglm.estimators.fitted_record import record_of_fit
from daskglm.estimators.parameters import inverse, settings_of
from daskglm.estimators.regressor import Regressor
from daskglm.fitting.config import FitConfig
from daskglm.fitting.huber_scale import JointScale, Scaled
from daskglm.fitting.record import record_of
from daskglm.fitting.runner import Trained, warn_unconverged
from daskglm.fitting.same_rows import same_rows


class HuberRegressor(Regressor):
    r"""Linear regression that is robust to outliers, by the Huber loss with its scale.

    It minimises :math:`\sum_i s_i (\sigma + \sigma H((y_i - z_i) / \sigma)) + \alpha |w|^2` over
    coefficients, intercept and the scale :math:`\sigma`, with :math:`H(r) = r^2` up to
    :math:`\epsilon` and :math:`2 \epsilon |r| - \epsilon^2` beyond: scikit-learn's problem of this
    name. `report_.objective` and `relative_gap` are of it.

    Other parameters are those of `Ridge`.

    Parameters
    ----------
    epsilon : float, default 1.35
        At least 1. Residuals beyond epsilon times the scale count as outliers.
    max_iter : int, default 100
        Most changes of the scale; with a given scale, most iterations of the solver.
    alpha : float, default 0.0001
        Strength of the penalty; 0: none.
    l1_ratio : float, default 0.0
        The share :math:`\rho` in the penalty
        :math:`2 \alpha (\rho |w|_1 + \frac{1 - \rho}{2} |w|^2)`.
    scale : float, optional
        Holds the scale fixed at this value. Default: it is estimated.

    Attributes
    ----------
    coef_ : (d,) array of float64
    intercept_ : float
    scale_ : float
        The scale sigma.
    outliers_ : (n,) array of bool
        Rows with residuals beyond epsilon times the scale. Only after a fit to data in memory;
        `outliers` marks those of any data.
    n_iter_ : int
        Changes of the scale.
    solver_ : str
        Solver that ran for each scale.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [1.0, 3.5, 4.5, 7.5, 90.0]
    >>> daskglm.HuberRegressor().fit(X, y).outliers_
    array([False, False, False, False,  True])
    """

    _loss = "huber"
    scale_: float
    outliers_: Any

    def __init__(
        self,
        *,
        epsilon: float = 1.35,
        max_iter: int = 100,
        alpha: float = 0.0001,
        warm_start: bool = False,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        scale: float | None = None,
        solver: str = "auto",
        solver_options: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        progress: bool | None = None,
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
        self.max_iter = max_iter
        self.alpha = alpha
        self.warm_start = warm_start
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.scale = scale
        self.solver = solver
        self.solver_options = solver_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.progress = progress
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

    def _check(self) -> None:
        """Raise ValueError for parameters that no fit can use."""
        if not is_number(self.epsilon) or not 1.0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon={shown(self.epsilon)} must be a number of at least 1")
        if self.scale is not None and not (is_number(self.scale) and 0.0 < self.scale < math.inf):
            raise ValueError(
                f"scale={shown(self.scale)} must be a number above 0, or None to estimate it"
            )
        check_whole(self.max_iter, "max_iter", 0)
        inverse(self.alpha)

    def _settings(self, **more: Any) -> FitConfig:
        self._check()
        loss = f"huber({float(self.epsilon) * float(self.scale or 1.0)!r})"
        return settings_of(self._params(), loss, **more)

    def _fit_now(
        self,
        X: Any,
        y: Any,
        settings: FitConfig,
        known: Known,
        data: dict[str, Any],
        start: Any,
        client: Any,
    ) -> LinearModel:
        scale = getattr(self, "scale_", None) if start is not None else None
        with same_rows(X, y, settings, **data, start=start, client=client) as rows:
            facts = rows.facts
            joint = JointScale(rows, settings, float(self.epsilon), float(self.alpha))
            if self.scale is None:
                found = joint.solve(start, scale, int(self.max_iter))
            else:
                fit = joint.fit(float(self.scale), start)
                found = Scaled(fit, float(self.scale), fit.report.n_iter, fit.report)
        if not found.report.converged:
            warn_unconverged(found.report, settings)
        fit = found.fit
        record = record_of(
            joint.settings_for(found.scale),
            facts,
            scale=found.scale,
            estimated="scale" if self.scale is None else None,
        )
        coef, intercept = fit.coef[None, :], np.array([fit.intercept])
        self._adopt(Trained(coef, intercept, None, found.report, record), known)
        self.n_iter_ = found.steps
        if hasattr(self, "outliers_"):
            del self.outliers_
        if not is_lazy(X):
            weight = data["sample_weight"]
            rows = X.drop(columns=weight) if isinstance(weight, str) else X
            self.outliers_ = np.asarray(self.outliers(rows, y, data["offset"]))
        return self

    def _set_fitted(self, trained: Trained) -> None:
        super()._set_fitted(trained)
        self.scale_ = trained.record.scale

    def outliers(self, X: Any, y: Any, offset: Any = None) -> Any:
        """Mark rows with residuals beyond epsilon times the scale: (n,) bool.

        Of dask collections it is lazy, with their partitions. y and offset may be names of columns
        of X.
        """
        if isinstance(y, str):
            X = plain(X)
            X, y = X.drop(columns=y), X[y]
        finish = partial(_beyond, record_of_fit(self).of_loss.p1)
        return self._values(X, finish, np.empty(0, bool), offset=offset, y=y)


def _beyond(most: float, residuals: np.ndarray) -> np.ndarray:
    """Mark residuals of more than this size."""
    return np.abs(residuals) > most
