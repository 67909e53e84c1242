"""`Ridge`: scikit-learn's parameters and attributes, for least squares."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from daskglm.data.containers import Named, plain
from daskglm.data.partitions import feature_names, is_lazy
from daskglm.engines.factory import awaitable_on
from daskglm.estimators.base import LinearModel, same
from daskglm.estimators.fitted_data import ADDED, Known
from daskglm.estimators.multi_output import count_of, each_strength, rows_of_each, train_each
from daskglm.estimators.score_rows import r_squared
from daskglm.estimators.tables import check_levels
from daskglm.fitting.runner import Trained
from daskglm.frames.schema import schema_of


class Ridge(RegressorMixin, LinearModel):
    r"""Least squares with an L2 penalty.

    The loss is :math:`\frac12 (z - y)^2`, so that C is one over scikit-learn's `alpha`. Other
    parameters and attributes are those of `LogisticRegression`, without classes.

    Parameters
    ----------
    alpha : float or (t,) array, optional
        Strength of the penalty; an array has one for each target. Default 1.0; 0: no penalty.
    C : float, optional
        1 / alpha. Passing both is an error.
    copy_X : bool, default True
        Accepted as in scikit-learn. X is never changed; floats in C order are not copied either.
    l1_ratio : float, default 0.0
        Share of the L1 penalty. The losses are a sum here; `ElasticNet` and `Lasso` take their
        mean, as scikit-learn's do.
    positive : bool, default False
        Whether no coefficient may be negative.
    penalty_factor, P2, lower_bounds, upper_bounds, groups, standardize, schema
        See `daskglm.fit`.

    Attributes
    ----------
    coef_ : (d,) array of float64, or (t, d) where y has several columns
        A column alone, (n, 1), is one target.
    intercept_ : float, or (t,) array
    n_iter_ : int, or (t,) array
    solver_ : str
        Solver that ran, by its name here.

    Examples
    --------
    >>> import daskglm
    >>> model = daskglm.Ridge(alpha=0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.coef_.round(6), round(float(model.intercept_), 6)
    (array([2.]), 1.0)
    """

    _loss = "squared"

    def __init__(
        self,
        alpha: Any = None,
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
        stop: str = "gap",
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
        l1_ratio: float = 0.0,
        penalty_factor: Any = None,
        P2: Any = None,
        lower_bounds: Any = None,
        upper_bounds: Any = None,
        groups: Any = None,
        standardize: bool = False,
        schema: Any = None,
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
        self.stop = stop
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit
        self.l1_ratio = l1_ratio
        self.penalty_factor = penalty_factor
        self.P2 = P2
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        self.groups = groups
        self.standardize = standardize
        self.schema = schema

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit to numbers; arguments, result and errors as for classifiers.

        y may have several columns where it is in memory or X and y are dask arrays: (n, t). An
        offset is for one target only.
        """
        return self._fit(X, y, sample_weight, offset=offset)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        start: Any = None,
        client: Any = None,
        **more: Any,
    ) -> Any:
        X = plain(X)
        y = plain(y)
        sample_weight = plain(sample_weight)
        targets = count_of(y)
        alphas = each_strength(self.alpha, targets)
        if targets == 1 and np.ndim(self.alpha) == 0:
            return super()._fit(X, y, sample_weight, start=start, client=client, **more)
        schema = schema_of(self.schema)
        roles = schema.roles
        more |= {name: roles[name] for name in ADDED if name in roles}
        sample_weight = roles.get("sample_weight") if sample_weight is None else sample_weight
        only_one = ("checkpoint", "resume", *ADDED)
        if refused := [name for name in only_one if more.get(name) is not None]:
            raise ValueError(
                f"y has {targets} targets, whose fits take no {' or '.join(refused)}; fit one at a "
                "time"
            )
        more = {name: value for name, value in more.items() if name not in ADDED}
        settings = [self._with_alpha(alpha)._settings(**more) for alpha in alphas]
        for each in settings:
            each.check()
        by_name = {"sample_weight": sample_weight} if isinstance(sample_weight, str) else {}
        names = feature_names(X, *by_name.values())
        known = Known(names, roles=by_name, told=isinstance(X, Named))
        again, start = start is None, self._start(start)
        y = y if targets > 1 else np.reshape(y, (-1, 1))
        rows = rows_of_each(X, y, sample_weight, settings, known, schema, client)

        def work() -> LinearModel:
            of_all, weight, each, known = rows()
            if again and start is not None:
                check_levels(self, known.design)
            trained = train_each(of_all, y, each, sample_weight=weight, start=start, client=client)
            return self._adopt(trained, known)

        return awaitable_on(client, is_lazy(X), work)

    def _with_alpha(self, alpha: Any) -> Ridge:
        """Return a copy with another strength, whose other parameters are the same objects."""
        model = copy.copy(self)
        model.alpha = alpha
        return model

    def _set_fitted(self, trained: Trained) -> None:
        one = len(trained.coef) == 1
        self.coef_ = trained.coef[0] if one else trained.coef
        self.intercept_ = trained.intercept[0] if one else trained.intercept
        n_iter = np.array([part.n_iter for part in trained.report.parts], dtype=np.int32)
        self.n_iter_: Any = trained.report.n_iter if one else n_iter
        self.solver_ = trained.report.solver

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Predicted numbers, (n,) or (n, t), with the container type of X."""
        check_is_fitted(self)
        targets = len(np.atleast_1d(self.intercept_))
        like = np.empty(0 if targets == 1 else (0, targets))
        return self._values(X, same, like, range(targets), offset=offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Coefficient of determination :math:`R^2`; the mean of those of several targets.

        X, y, weights and errors are those of `fit`. Of dask collections only sums are fetched.
        """
        work = partial(r_squared, self, X, y, sample_weight, offset)
        return awaitable_on(None, is_lazy(X), work)  # type: ignore[return-value]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
