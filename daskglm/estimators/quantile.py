"""`QuantileRegressor`: scikit-learn's parameters and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.arguments import is_number, shown
from daskglm.estimators.base import LinearModel
from daskglm.estimators.fitted_data import Known
from daskglm.estimators.fitted_record import record_of_fit
from daskglm.estimators.parameters import settings_of
from daskglm.estimators.regressor import Regressor
from daskglm.fitting.config import FitConfig
from daskglm.fitting.record import record_of, several
from daskglm.fitting.report import combine
from daskglm.fitting.runner import Trained, warn_unconverged
from daskglm.fitting.same_rows import same_rows


class QuantileRegressor(Regressor):
    r"""Linear regression of a quantile, or of several.

    It minimises the mean of the quantile loss, :math:`q (y - z)` for y above the prediction z and
    :math:`(1 - q) (z - y)` below, plus :math:`\alpha (\rho |w|_1 + \frac{1 - \rho}{2} |w|^2)` with
    `l1_ratio` for :math:`\rho`. By default that is the problem of scikit-learn's class of this
    name.

    Other parameters are those of `Ridge`.

    Parameters
    ----------
    quantile : float or sequence of float, default 0.5
        Between 0 and 1. Several quantiles are fitted to rows that are loaded once; their
        predictions are not kept from crossing.
    alpha : float, default 1.0
        Strength of the penalty; 0: none, and the problem is a linear program.
    l1_ratio : float, default 1.0
        Share of the L1 penalty.
    tol : float, default 1e-7
        Less than elsewhere, since the last steps, which make coefficients exact, cost little.
    solver : {"auto", "proximal", "sdca"}, default "auto"
        The names of scikit-learn's solvers, "highs" and others, mean "proximal".

    Attributes
    ----------
    coef_ : (d,) array of float64, or (k, d) for k quantiles
    intercept_ : float, or (k,) array
    n_iter_ : int, or (k,) array
    solver_ : str
        Solver that ran.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [1.0, 3.0, 5.0, 7.0, 90.0]
    >>> daskglm.QuantileRegressor(alpha=0).fit(X, y).predict([[5.0]]).round(4)
    array([11.])
    """

    def __init__(
        self,
        *,
        quantile: Any = 0.5,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        solver: str = "auto",
        solver_options: Any = None,
        max_iter: int | None = None,
        tol: float = 1e-7,
        random_state: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        progress: bool | None = None,
        stop: str = "gap",
        device: str | None = None,
        device_memory_limit: int | str | None = None,
        l1_ratio: float = 1.0,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        positive: bool = False,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
    ) -> None:
        self.quantile = quantile
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_options = solver_options
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.progress = progress
        self.stop = stop
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
        return self._losses()[0]

    def _losses(self) -> list[str]:
        """Return the loss of each quantile; raises ValueError for what is none."""
        quantiles = [self.quantile] if np.ndim(self.quantile) == 0 else list(self.quantile)
        if not quantiles or not all(is_number(q) and 0.0 < q < 1.0 for q in quantiles):
            raise ValueError(
                f"quantile={shown(self.quantile)} must be a number above 0 and below 1, or a "
                "sequence of them"
            )
        return [f"quantile({float(q)!r})" for q in quantiles]

    def _each(self, **more: Any) -> list[FitConfig]:
        params = self._params()
        return [settings_of(params, loss, average=True, **more) for loss in self._losses()]

    def _settings(self, **more: Any) -> FitConfig:
        return self._each(**more)[0]

    def _start(self, given: Any) -> Any:
        """Return where a fit starts; with `warm_start` each quantile at the nearest one before."""
        start, quantiles = super()._start(given), np.atleast_1d(self.quantile)
        if start is None:
            return None
        coef, intercept = np.atleast_2d(start[0]), np.atleast_1d(start[1])
        if given is None:
            record = record_of_fit(self)
            before = np.array([part.of_loss.p1 for part in record.parts or (record,)])
            nearest = np.abs(before - quantiles[:, None].astype(float)).argmin(axis=1)
            return coef[nearest], intercept[nearest]
        if np.ndim(self.quantile) and len(coef) not in (1, len(quantiles)):
            raise ValueError(
                f"warm_start has coefficients of shape {np.shape(start[0])}, and there are "
                f"{len(quantiles)} quantiles: give a row for each, or one for all"
            )
        return start

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        offset: Any = None,
        exposure: Any = None,
        start: Any = None,
        client: Any = None,
        **more: Any,
    ) -> Any:
        beside = {"offset": offset, "exposure": exposure}
        if np.ndim(self.quantile) == 0:
            more |= {"start": start, "client": client}
            return super()._fit(X, y, sample_weight, **beside, **more)
        each = self._each(**more)
        for settings in each:
            settings.check()
        start = self._start(start)

        def work(X: Any, y: Any, each: list[FitConfig], known: Known, data: dict[str, Any]) -> Any:
            return self._fit_each(X, y, each, known, data, start, client)

        beside["sample_weight"] = sample_weight
        return self._on_rows(X, y, beside, each, client, work)

    def _fit_each(
        self,
        X: Any,
        y: Any,
        each: list[FitConfig],
        known: Known,
        data: dict[str, Any],
        start: Any,
        client: Any,
    ) -> LinearModel:
        found: list[Any] = []
        starts: list[Any] = [None] * len(each)
        if start is not None:
            coef, intercept = np.atleast_2d(start[0]), np.atleast_1d(start[1])
            coef = np.broadcast_to(coef, (len(each), coef.shape[1]))
            starts = list(zip(coef, np.broadcast_to(intercept, len(each)), strict=True))
        with same_rows(X, y, each[0], **data, start=start, client=client) as rows:
            for settings, begin in zip(each, starts, strict=True):
                found.append(rows.fit(settings, begin))
            records = [record_of(settings, rows.facts) for settings in each]
        report = combine([fit.report for fit in found])
        if not report.converged:
            warn_unconverged(report, each[0])
        coef = np.array([fit.coef for fit in found])
        intercept = np.array([fit.intercept for fit in found])
        record = several(records)
        return self._adopt(Trained(coef, intercept, None, report, record), known)

    def _set_fitted(self, trained: Trained) -> None:
        super()._set_fitted(trained)
        if np.ndim(self.quantile):
            self.coef_ = trained.coef
            self.intercept_ = trained.intercept
            self.n_iter_ = np.array([part.n_iter for part in trained.report.parts], np.int32)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Coefficient of determination :math:`R^2`, as scikit-learn's; for one quantile.

        X, y, weights and errors are those of `fit`. Of dask collections only sums are fetched.
        """
        if np.ndim(getattr(self, "intercept_", 0.0)) == 1:
            raise ValueError(
                f"score is for one quantile, not quantile={shown(self.quantile)}: compare "
                "predictions with sklearn.metrics.mean_pinball_loss"
            )
        return super().score(X, y, sample_weight, offset)
