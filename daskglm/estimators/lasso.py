"""`Lasso` and `ElasticNet`: scikit-learn's parameters and attributes, for least squares."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from daskglm.core.arguments import check_choice, is_sequence, shown
from daskglm.estimators.ridge import Ridge
from daskglm.fitting.config import FitConfig
from daskglm.fitting.report import Report

SELECTIONS = ("cyclic", "random")


class ElasticNet(Ridge):
    r"""Least squares with an L1 and an L2 penalty.

    It minimises the weighted mean of :math:`\frac12 (y - z)^2` plus
    :math:`\alpha (\rho |w|_1 + \frac{1 - \rho}{2} |w|^2)`, with `alpha` and, for :math:`\rho`,
    `l1_ratio`: scikit-learn's problem of this name. The intercept is not penalised.

    Parameters
    ----------
    alpha : float or (t,) array, default 1.0
        Strength of the penalty; an array has one for each target. 0: no penalty.
    l1_ratio : float, default 0.5
        Share of the L1 penalty, from 0 to 1.
    fit_intercept : bool, default True
    precompute, copy_X, selection
        Accepted as in scikit-learn, without effect: Gram matrices are computed where they pay, X is
        never changed, and coordinates are visited in the order that the solver chooses.
    max_iter : int, optional
        Iterations of the solver at most, not passes over coordinates; default: the solver's own.
    tol : float, default 1e-6
        Bound on relative suboptimality, :math:`(f - f^*) / f^*`, at which to stop. scikit-learn's
        `tol` bounds the duality gap beside the mean of :math:`y^2`.
    warm_start : bool, default False
        Whether to start from the coefficients of the previous fit.
    positive : bool, default False
        Whether no coefficient may be negative.
    random_state : int, optional
        Seed of solvers that draw.
    penalty_factor, P2, lower_bounds, upper_bounds, groups, standardize, schema
        See `daskglm.fit`.
    solver, n_jobs, verbose, progress, stop, solver_options, device, device_memory_limit
        As of `LogisticRegression`.

    Attributes
    ----------
    coef_ : (d,) array of float64, or (t, d) where y has several columns
    sparse_coef_ : (1, d) or (t, d) CSR matrix
    intercept_ : float, or (t,) array
    dual_gap_ : float, or (t,) array
        Proved bound on how far the objective above is from its minimum; nan for alpha = 0.
    n_iter_ : int, or (t,) array
    solver_ : str
        Solver that ran.
    n_features_in_ : int
    feature_names_in_ : (d,) array, where X has string column names
    report_ : Report
        How good the answer is and what it cost. Its objective is that above, divided by alpha.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [0.0, 1.0, 2.0, 3.0]
    >>> daskglm.ElasticNet(alpha=0.5, tol=1e-12).fit(X, y).coef_.round(6)
    array([0.666667, 0.      ])
    """

    _selections: ClassVar[tuple[str, ...]] = SELECTIONS

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        precompute: Any = False,
        max_iter: int | None = None,
        copy_X: bool = True,
        tol: float = 1e-6,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
        solver: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
        progress: bool | None = None,
        stop: str = "gap",
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.copy_X = copy_X
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.random_state = random_state
        self.selection = selection
        self.penalty_factor = penalty_factor
        self.P2 = P2
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        self.groups = groups
        self.standardize = standardize
        self.schema = schema
        self.solver = solver
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.progress = progress
        self.stop = stop
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit

    def _settings(self, **more: Any) -> FitConfig:
        check_choice(self.selection, "selection", self._selections)
        auto = isinstance(self.precompute, str) and self.precompute == "auto"
        matrix = is_sequence(self.precompute)
        if not (auto or matrix or isinstance(self.precompute, (bool, np.bool_))):
            raise ValueError(
                f"precompute={shown(self.precompute)} must be True, False, 'auto' or a Gram matrix "
                "(it has no effect)"
            )
        return super()._settings(**{"average": True, **more})

    @property
    def sparse_coef_(self) -> Any:
        """The coefficients as a SciPy CSR matrix, (1, d) or (t, d)."""
        check_is_fitted(self)
        return sp.csr_matrix(self.coef_)

    @property
    def dual_gap_(self) -> Any:
        """Proved bound on how far the objective is from its minimum."""
        check_is_fitted(self, "report_")
        if np.ndim(self.intercept_) == 0:
            return _gap(self.report_, float(np.ravel(self.alpha)[0]))
        parts = self.report_.parts
        alphas = np.broadcast_to(np.ravel(self.alpha), len(parts))
        each = zip(parts, alphas.tolist(), strict=True)
        return np.array([_gap(report, alpha) for report, alpha in each])


class Lasso(ElasticNet):
    r"""Least squares with an L1 penalty: `ElasticNet` with l1_ratio 1, and without that argument.

    It minimises the weighted mean of :math:`\frac12 (y - z)^2` plus :math:`\alpha |w|_1`,
    scikit-learn's problem of this name. Other parameters and attributes are those of `ElasticNet`.

    Parameters
    ----------
    alpha : float or (t,) array, default 1.0
        Strength of the penalty; 0: none.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [0.0, 1.0, 2.0, 3.0]
    >>> daskglm.Lasso(alpha=0.25, tol=1e-12).fit(X, y).coef_.round(6)
    array([0.8, 0. ])
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        precompute: Any = False,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-6,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
        solver: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
        progress: bool | None = None,
        stop: str = "gap",
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        super().__init__(
            alpha,
            l1_ratio=1.0,
            fit_intercept=fit_intercept,
            precompute=precompute,
            copy_X=copy_X,
            max_iter=max_iter,
            tol=tol,
            warm_start=warm_start,
            positive=positive,
            random_state=random_state,
            selection=selection,
            penalty_factor=penalty_factor,
            P2=P2,
            lower_bounds=lower_bounds,
            upper_bounds=upper_bounds,
            groups=groups,
            standardize=standardize,
            schema=schema,
            solver=solver,
            n_jobs=n_jobs,
            verbose=verbose,
            progress=progress,
            stop=stop,
            solver_options=solver_options,
            device=device,
            device_memory_limit=device_memory_limit,
        )

    def _params(self) -> dict[str, Any]:
        return {**super()._params(), "l1_ratio": 1.0}


def _gap(report: Report, alpha: float) -> float:
    """Return the proved gap of a fit, on the scale of scikit-learn's objective."""
    if alpha == 0.0:
        return math.nan
    # the report's gap is beside the least value that the optimum can have
    gap = report.relative_gap
    share = 1.0 if math.isinf(gap) else gap / (1.0 + gap)
    return alpha * share * report.objective
