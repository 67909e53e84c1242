"""`OrdinalRegression`: proportional odds of ordered classes, and other links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from daskglm.core.decisions import (
    ordinal_log_probabilities,
    ordinal_predicted,
    ordinal_probabilities,
)
from daskglm.data.partitions import is_lazy
from daskglm.engines.factory import awaitable_on
from daskglm.estimators.base import LinearModel, same
from daskglm.estimators.fitted_record import loss_of_fit
from daskglm.estimators.score_rows import accuracy
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import Trained
from daskglm.losses.ordinal import link_of_loss, loss_of_link


class OrdinalRegression(ClassifierMixin, LinearModel):
    r"""Regression of ordered classes, by thresholds on one linear predictor.

    The model is :math:`P(\mathrm{class} \le k) = F(t_k - x \cdot w)` with rising thresholds t. With
    the logistic :math:`F(a) = 1 / (1 + \exp(-a))` it is that of proportional odds, also called
    ordinal or cumulative logit. Minimises :math:`\frac12 |w|^2 - C \sum_i s_i \log P(y_i)` over
    coefficients w and thresholds, which are not penalised. Classes are in the order of their
    labels: numbers by size, texts by alphabet; those of an ordered categorical of pandas are in its
    own.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet", None}, default "l2"
        As of `LogisticRegression`, and so are `l1_ratio` and the parameters after it. Thresholds
        have no penalty and no bounds.
    C : float, default 1.0
        Weight of the losses against the penalty; infinity: no penalty.
    link : {"logit", "probit", "cloglog"}, default "logit"
        F: logistic, normal, or :math:`1 - \exp(-\exp(a))`, as in McCullagh (1980); gaps are proved
        for the first.
    tol : float, default 1e-6
        Bound on relative suboptimality, :math:`(f - f^*) / f^*`, at which to stop; where nothing is
        proved (`report_` says so), share of the value by which Newton's step would lower it.
    class_weight : dict or "balanced", optional
        Factors of the rows' weights by label.
    solver : {"auto", "newton", "tron", "lbfgs", "gd", "proximal_newton", "owlqn"}, default "auto"
        Or names of scikit-learn's solvers, for which the nearest of these are taken.
    max_iter : int, optional
        Iterations at most; default: the solver's own.
    random_state, verbose, warm_start, n_jobs, progress, stop, solver_options
        As of `LogisticRegression`.
    device, device_memory_limit
        As of `LogisticRegression`.

    Attributes
    ----------
    coef_ : (d,) array of float64
        Positive coefficients make higher classes more likely.
    thresholds_ : (classes - 1,) array
        A class whose rows have no weight lies between equal thresholds; at an end, 37 beyond the
        next class.
    classes_ : (classes,) array
    n_iter_ : (1,) array
    n_features_in_ : int
    feature_names_in_ : (d,) array, where X has string column names
    report_ : Report
        How good the answer is and what it cost; deviance, log-likelihood and, without a penalty,
        AIC and BIC.

    Examples
    --------
    >>> import daskglm
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [1, 1, 2, 2, 3, 3]
    >>> model = daskglm.OrdinalRegression(C=10).fit(X, y)
    >>> model.predict([[0.5], [2.5], [4.5]])
    array([1, 2, 3])
    """

    classes_: np.ndarray
    thresholds_: np.ndarray
    # labels in their order while rows have their places in it, or None: labels are sorted
    _order: list[Any] | None = None

    def __init__(
        self,
        penalty: str | None = "l2",
        *,
        C: float = 1.0,
        link: str = "logit",
        tol: float = 1e-6,
        class_weight: Any = None,
        random_state: Any = None,
        solver: str = "auto",
        max_iter: int | None = None,
        verbose: int = 0,
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
        self.penalty = penalty
        self.C = C
        self.link = link
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
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
        return loss_of_link(self.link).name

    @property
    def _link(self) -> str:
        """The link of the fit."""
        return link_of_loss(loss_of_fit(self).name).name

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit to labels of two or more ordered classes.

        Parameters
        ----------
        X : (n, d) array, CSR matrix, DataFrame, dask array or dataframe, or list of delayed blocks
        y : (n,) labels in a matching container, or the name of a column of X
            Their sorted order is that of the classes; of an ordered categorical, its own is.
        sample_weight : (n,) non-negative weights, or the name of a column of X; default: ones
        offset : (n,) numbers that are added to x.w, or the name of a column of X

        Returns
        -------
        self; an awaitable of it where the current client is asynchronous.

        Raises
        ------
        ValueError
            For NaN or infinite values, one class only, an ordered categorical of dask whose
            categories are not known, lengths that differ, or parameters out of range.
        """
        return self._fit(X, y, sample_weight, offset=offset)

    def _fit(self, X: Any, y: Any, sample_weight: Any, **more: Any) -> Any:
        self._order = own_order(X, y)
        return super()._fit(*self._placed(X, y), sample_weight, **more)

    def _settings(self, **more: Any) -> FitConfig:
        settings = super()._settings(**more)
        given = settings.class_weight
        if self._order is None or not isinstance(given, Mapping):
            return settings
        places = {label: k for k, label in enumerate(self._order)}
        weights = {places[label]: factor for label, factor in given.items() if label in places}
        return replace(settings, class_weight=weights)

    def _placed(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return rows and labels, which are their places where they have an order of their own."""
        if self._order is None or y is None:
            return X, y
        if isinstance(y, str):
            return X.assign(**{y: places_of(X[y], self._order)}), y
        return X, places_of(y, self._order)

    def inference(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Any:
        """Return standard errors, tests and intervals of coefficients and thresholds.

        Parameters and errors are those of `LinearModel.inference`; labels are taken in the order
        of the fit.
        """
        check_is_fitted(self)
        labels = self.classes_.tolist()
        self._order = None if _is_sorted(labels) else labels
        return super().inference(*self._placed(X, y), sample_weight, **options)

    def _set_fitted(self, trained: Trained) -> None:
        assert trained.classes is not None
        self.classes_ = trained.classes
        if self._order is not None:
            self.classes_ = np.array([self._order[int(place)] for place in trained.classes])
        self.coef_ = trained.coef[0]
        self.thresholds_ = trained.intercept
        self.n_iter_ = np.array([trained.report.n_iter], dtype=np.int32)

    @property
    def _constants(self) -> Any:
        return 0.0

    @property
    def _decide(self) -> Any:
        """What turns x.w into numbers of classes."""
        return partial(ordinal_predicted, self.thresholds_, link=self._link)

    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """Return x.w plus the offset, (n,), in the container of X; larger means a higher class."""
        check_is_fitted(self)
        return self._values(X, same, np.empty(0), offset=offset)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return the most likely labels, (n,), in the container of X."""
        check_is_fitted(self)
        like = np.empty(0, self.classes_.dtype)
        finish = partial(_labels, self.classes_, self._decide)
        return self._values(X, finish, like, offset=offset, labels=True)

    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Return probabilities of the classes, (n, classes), in the container of X."""
        return self._by_class(X, ordinal_probabilities, offset)

    def predict_log_proba(self, X: Any, offset: Any = None) -> Any:
        """Return logarithms of probabilities, exact where these are tiny; see `predict_proba`."""
        return self._by_class(X, ordinal_log_probabilities, offset)

    def _by_class(self, X: Any, what: Any, offset: Any) -> Any:
        check_is_fitted(self)
        like = np.empty((0, len(self.classes_)))
        finish = partial(what, self.thresholds_, link=self._link)
        return self._values(X, finish, like, self.classes_, offset=offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Accuracy: the share of rows, by weight, whose label is predicted.

        Arguments and errors are those of `fit`. Of dask collections only sums are fetched.
        """
        work = partial(accuracy, self, X, y, sample_weight, offset)
        return awaitable_on(None, is_lazy(X), work)  # type: ignore[return-value]


def own_order(X: Any, y: Any) -> list[Any] | None:
    """Return the labels of an ordered categorical in its order, None where that is the sorted one.

    Raises ValueError for a categorical of dask whose categories are not known.
    """
    if isinstance(y, str) and hasattr(X, "columns") and y in X.columns:
        y = X[y]
    dtype = getattr(y, "dtype", None)
    if not getattr(dtype, "ordered", False):
        return None
    if getattr(getattr(y, "cat", None), "known", True) is False:
        raise ValueError(
            "y is an ordered categorical whose categories are not known, so neither is the order "
            "of its classes; give y.cat.as_known()"
        )
    labels = list(getattr(dtype, "categories", ()))
    return None if _is_sorted(labels) else labels


def _is_sorted(labels: list[Any]) -> bool:
    try:
        return labels == sorted(labels)
    except TypeError:  # of different kinds
        return False


def places_of(y: Any, order: list[Any]) -> Any:
    """Return the place of each label in the order as floats, (n,), in the container of y.

    Missing ones and labels that are not in the order are NaN, which data may not have.
    """
    if hasattr(y, "map_partitions"):
        return y.map_partitions(places_of, order, meta=pd.Series([], dtype=float, name=y.name))
    if hasattr(y, "map_blocks"):
        return y.map_blocks(places_of, order, dtype=float)
    codes = pd.Categorical(np.asarray(y), categories=order).codes
    places = np.where(codes < 0, np.nan, codes.astype(float))
    return pd.Series(places, index=y.index, name=y.name) if isinstance(y, pd.Series) else places


def _labels(classes: np.ndarray, decide: Any, scores: np.ndarray) -> np.ndarray:
    """Return the most likely classes."""
    return classes[decide(scores)]
