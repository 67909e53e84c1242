"""scikit-learn estimators: parameters, fitted attributes, predictions. The work is in `training`."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data

from daskglm.engines import awaitable_on
from daskglm.inputs import feature_names, is_lazy
from daskglm.kernels import on_device
from daskglm.predict import checked_rows, in_kind
from daskglm.report import Report
from daskglm.settings import Settings
from daskglm.targets import in_memory
from daskglm.training import Trained, train


class LinearModel(BaseEstimator):
    """What the estimators share: 1/2 |w|^2 + C sum_i s_i loss(y_i, x_i.w + b), the intercept b not penalised.

    `fit` takes data in memory (fitted in this process) or dask collections (fitted on the current
    `distributed.Client`, or in this process where there is none). Fitted attributes are plain NumPy, so a fitted
    estimator pickles without a cluster.
    """

    _loss: ClassVar[str]
    coef_: np.ndarray
    intercept_: Any
    report_: Report

    def _settings(self, **more: Any) -> Settings:
        names = set(Settings.__dataclass_fields__) - {"loss"}
        params = self.get_params(deep=False)
        return Settings(self._loss, **{name: params[name] for name in sorted(names & set(params))}, **more)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *, start: Any = None, client: Any = None, **more: Any) -> Any:
        settings = self._settings(**more)
        settings.check()
        X, y, sample_weight, names = self._taken(X, y, sample_weight)
        if start is None and getattr(self, "warm_start", False) and hasattr(self, "coef_"):
            start = (self.coef_, self.intercept_)
        work = partial(self._fit_now, X, y, settings, names, sample_weight, start, client)
        return awaitable_on(client, is_lazy(X), work)

    def _taken(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
        """Data as solvers want them, and the names of the features; raises ValueError without y."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        names = feature_names(X, y, sample_weight)
        return (*((X, y, sample_weight) if is_lazy(X) else in_memory(X, y, sample_weight)), names)

    def _fit_now(
        self, X: Any, y: Any, settings: Settings, names: Any, sample_weight: Any, start: Any, client: Any
    ) -> LinearModel:
        return self._adopt(train(X, y, settings, sample_weight=sample_weight, start=start, client=client), names)

    def _adopt(self, trained: Trained, names: Any) -> LinearModel:
        self.n_features_in_ = trained.report.n_features
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.report_ = trained.report
        self._set_fitted(trained)
        return self

    def _set_fitted(self, trained: Trained) -> None:
        raise NotImplementedError

    def _values(self, X: Any, finish: Any, like: np.ndarray, names: Any = None) -> Any:
        check_is_fitted(self)
        if hasattr(X, "map_partitions") or hasattr(X, "map_blocks") or on_device(X):
            if hasattr(X, "_meta") and hasattr(X._meta, "columns"):
                _check_feature_names(self, X._meta, reset=False)
            if X.ndim != 2 or X.shape[1] != self.n_features_in_:
                width = X.shape[1] if X.ndim == 2 else f"{X.ndim} dimension(s) instead of 2 and no"
                raise ValueError(
                    f"X has {width} features, but {type(self).__name__} is expecting {self.n_features_in_} features"
                )
        else:
            X = validate_data(self, checked_rows(X), accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        coef = np.atleast_2d(self.coef_)
        return in_kind(X, coef, np.atleast_1d(self.intercept_), finish, like=like, names=names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Classifier(ClassifierMixin, LinearModel):
    """Classes, decision values and accuracy."""

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to labels of two or more classes; more than two are fitted one against the rest.

        Parameters
        ----------
        X : (n, d) array, CSR matrix, DataFrame, dask array or dataframe, or list of delayed blocks
        y : (n,) labels in a matching container, or the name of a column of X
        sample_weight : (n,) non-negative weights, or the name of a column of X; default: ones

        Returns
        -------
        self; an awaitable of it where the current client is asynchronous.

        Raises
        ------
        ValueError
            For NaN or infinite values, one class only, lengths that differ, or parameters out of range.
        """
        return self._fit(X, y, sample_weight)

    def _set_fitted(self, trained: Trained) -> None:
        assert trained.classes is not None
        self.classes_ = trained.classes
        self.coef_, self.intercept_ = trained.coef, trained.intercept
        self.n_iter_ = np.array([part.n_iter for part in trained.report.parts or (trained.report,)], dtype=np.int32)

    def decision_function(self, X: Any) -> Any:
        """Signed distances times |w|: (n,) for two classes, (n, classes) otherwise, in the kind of X."""
        check_is_fitted(self)
        k = len(self.classes_)
        return self._values(X, _same, np.empty(0 if k == 2 else (0, k)), self.classes_)

    def predict(self, X: Any) -> Any:
        """Most likely labels, (n,), in the kind of X: NumPy, lazy dask array, or dask series with X's index."""
        check_is_fitted(self)
        return self._values(X, partial(_labels, self.classes_), np.empty(0, self.classes_.dtype))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share (by weight) of rows whose label is predicted; for dask collections nothing else is fetched."""
        if not is_lazy(X):
            return float(super().score(X, y, sample_weight))
        return _weighted_mean(_array(self.predict(X)) == _array(y), sample_weight)


class LogisticRegression(_Classifier):
    """Logistic regression: loss log(1 + exp(-y z)).

    Parameters
    ----------
    C : float, default 1.0
        Weight of the losses against the penalty 1/2 |w|^2; infinity: no penalty.
    fit_intercept : bool, default True
        Whether to fit an intercept, which is never penalised.
    class_weight : dict or "balanced", optional
        Factors of the rows' weights by label.
    solver : {"auto", "newton", "tron", "lbfgs", "gd"}, default "auto"
        "auto" picks by the shape of the data and says why in `report_`.
    tol : float, default 1e-6
        Bound on relative suboptimality, (f - f*) / f*, at which to stop. With C = inf: ratio of gradient norms.
    max_iter : int, optional
        Iterations at most; default: the solver's own.
    warm_start : bool, default False
        Whether to start from the coefficients of the previous fit.
    random_state : int, optional
        For solvers that draw random numbers; none of the present ones does.
    progress : bool, optional
        True shows a progress bar, False none; default: on long fits in a terminal or notebook.
    solver_options : dict, optional
        Further arguments of the solver: `step` and `epsilon` of "gd".
    device, device_memory_limit
        See `daskglm.fit`.

    Attributes
    ----------
    coef_ : (1, d) or (classes, d) array
    intercept_ : (1,) or (classes,) array
    classes_ : (classes,) array
    n_iter_ : (1,) or (classes,) array
    n_features_in_ : int
    feature_names_in_ : (d,) array, where X has string column names
    report_ : Report
        How good the answer is and what it cost.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import daskglm
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = daskglm.LogisticRegression().fit(X, y)
    >>> model.report_.relative_gap <= 1e-6
    True
    """

    _loss = "logistic"

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        progress: bool | None = None,
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.progress = progress
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, (n, classes), in the kind of X; one-vs-rest scores are normalised."""
        check_is_fitted(self)
        k = len(self.classes_)
        return self._values(X, _probabilities, np.empty((0, k)), self.classes_)

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of `predict_proba`."""
        probabilities = self.predict_proba(X)
        if hasattr(probabilities, "map_partitions"):
            return probabilities.map_partitions(np.log)
        return np.log(probabilities)


HINGES = ("squared_hinge", "hinge", "smoothed_hinge")


class LinearSVC(_Classifier):
    """Linear support vector machine: squared hinge loss max(0, 1 - y z)^2, or the hinge loss max(0, 1 - y z).

    Parameters and attributes are those of `LogisticRegression`, but for `loss`.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "smoothed_hinge"}, default "squared_hinge"
        LIBLINEAR's L2-loss and L1-loss SVM; the hinge with its corner replaced by the parabola 1/2 (1 - y z)^2.
    """

    def __init__(
        self,
        loss: str = "squared_hinge",
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        progress: bool | None = None,
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        self.loss = loss
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.progress = progress
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit

    @property
    def _loss(self) -> str:  # type: ignore[override]
        if self.loss not in HINGES:
            raise ValueError(f"loss={self.loss!r} is not one of {', '.join(map(repr, HINGES))}")
        return self.loss


class Ridge(RegressorMixin, LinearModel):
    """Least squares with an L2 penalty: loss 1/2 (z - y)^2, so C is scikit-learn's 1 / alpha.

    Parameters and attributes are those of `LogisticRegression`, without classes; `coef_` is (d,), `intercept_` a
    float and `n_iter_` an int.
    """

    _loss = "squared"

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        progress: bool | None = None,
        solver_options: Any = None,
        device: str | None = None,
        device_memory_limit: int | str | None = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.progress = progress
        self.solver_options = solver_options
        self.device = device
        self.device_memory_limit = device_memory_limit

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit to numbers; arguments, result and errors as for classifiers."""
        return self._fit(X, y, sample_weight)

    def _set_fitted(self, trained: Trained) -> None:
        self.coef_, self.intercept_ = trained.coef[0], float(trained.intercept[0])
        self.n_iter_ = trained.report.n_iter

    def predict(self, X: Any) -> Any:
        """Predicted numbers, (n,), in the kind of X."""
        return self._values(X, _same, np.empty(0))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the variance of y that is explained (R^2); for dask collections nothing else is fetched."""
        if not is_lazy(X):
            return float(super().score(X, y, sample_weight))
        y, predicted = _array(y), _array(self.predict(X))
        mean = _weighted_mean(y, sample_weight)
        missed = _weighted_mean((y - predicted) ** 2, sample_weight)
        spread = _weighted_mean((y - mean) ** 2, sample_weight)
        return 1.0 - missed / spread if spread else float(missed == 0.0)


# ---------------------------------------------------------------------------- pieces
def _same(scores: np.ndarray) -> np.ndarray:
    return scores


def _labels(classes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def _probabilities(scores: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    if scores.ndim == 1:
        return np.stack([expit(-scores), expit(scores)], axis=1)
    p = expit(scores)
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / scores.shape[1])


def _array(values: Any) -> Any:
    return values.to_dask_array() if hasattr(values, "to_dask_array") else values


def _weighted_mean(values: Any, weight: Any) -> float:
    """Mean of a lazy vector, fetched as one number."""
    import dask.array as da

    if weight is None:
        return float(values.mean().compute())
    weight = _array(weight)
    total, mass = da.compute((values * weight).sum(), weight.sum())
    return float(total / mass)
