"""What the estimators share: fitting, fitted attributes, predictions. The work is in `training`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import _check_feature_names, check_is_fitted, validate_data

from daskglm.core.arguments import check_choice, check_flag, starting_point
from daskglm.core.decisions import predicted
from daskglm.core.device import on_device
from daskglm.data.array_api import in_library_of
from daskglm.data.beside import refuse_another_order
from daskglm.data.containers import Named, plain
from daskglm.data.frames import is_sparse_frame
from daskglm.data.partitions import feature_names, is_lazy
from daskglm.data.targets import in_memory, rows_of
from daskglm.data.values import Place
from daskglm.engines.factory import awaitable_on
from daskglm.estimators.absorbed import coefficients_of, hide_absorbed
from daskglm.estimators.fitted_data import Known, added_in, with_columns_of_fit
from daskglm.estimators.fitted_record import record_of_fit
from daskglm.estimators.infer import inference_of
from daskglm.estimators.parameters import settings_of
from daskglm.estimators.row_numbers import residuals
from daskglm.estimators.row_scorer import RowScorer, row_scorer
from daskglm.estimators.score_rows import accuracy
from daskglm.estimators.tables import as_rows, as_table, check_levels, design_of_model, with_roles
from daskglm.fitting.config import FitConfig
from daskglm.fitting.independence import ColumnsInDoubt
from daskglm.fitting.inference import InferenceConfig
from daskglm.fitting.record import FitRecord
from daskglm.fitting.report import Report
from daskglm.fitting.runner import Trained, train
from daskglm.frames.design import Design
from daskglm.frames.schema import schema_of
from daskglm.kernels.coded_rows import Coded
from daskglm.worker.prediction import Margins, checked_rows, in_kind, with_offset

# What `scorer` may predict, and X of the methods that it asks for how.
SCORED = ("predict", "predict_proba", "decision_function")
ROW_BY_ROW = object()


class LinearModel(BaseEstimator):
    """Base of the estimators: penalty(w) + C sum_i s_i loss(y_i, x_i.w + b).

    The intercept b is not penalised. `fit` takes data in memory (fitted in this process) or dask
    collections (fitted on the current `distributed.Client`, or in this process if there is none).
    Fitted attributes are plain NumPy, so a fitted estimator pickles without a cluster. What was
    fitted is in `record_`: after the fit nothing reads the parameters for it.
    """

    _loss: ClassVar[str]
    _parameters: ClassVar[tuple[str, ...]]
    coef_: Any
    intercept_: Any
    report_: Report
    record_: FitRecord
    fitted_with_: tuple[str, ...]
    schema: Any
    schema_: Design
    roles_: dict[str, str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # scikit-learn looks the names up at every call, which takes a tenth of a small fit
        cls._parameters = tuple(inspect.signature(cls).parameters)

    def _params(self) -> dict[str, Any]:
        """Return the parameters that settings are made of."""
        return {name: getattr(self, name) for name in self._parameters}

    def _settings(self, **more: Any) -> FitConfig:
        return settings_of(self._params(), self._loss, **more)

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
        settings = self._settings(**more)
        settings.check(one_fit=True)
        again, start = start is None, self._start(start)
        beside = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure}

        def work(X: Any, y: Any, settings: FitConfig, known: Known, data: dict[str, Any]) -> Any:
            if again and start is not None:
                check_levels(self, known.design)
            return self._fit_now(X, y, settings, known, data, start, client)

        # what starts from names of coefficients wants them before it starts
        looks = start is None and settings.checkpoint is None and settings.resume is None
        return self._on_rows(X, y, beside, settings, client, work, one_fit=True, looks=looks)

    def _on_rows(
        self,
        X: Any,
        y: Any,
        beside: dict[str, Any],
        settings: Any,
        client: Any,
        work: Callable[[Any, Any, Any, Known, dict[str, Any]], Any],
        *,
        one_fit: bool = False,
        looks: bool = False,
    ) -> Any:
        """Return what `work` makes of data as solvers want them, of settings and what is known.

        `beside` has sample_weight, and offset and exposure if the fit takes them; `settings` are
        those of one fit, or a list of them. `looks` says that the work raises `ColumnsInDoubt`,
        after which it is done without columns that depend on others. An awaitable where the client
        is asynchronous.
        """
        schema = schema_of(self.schema)
        if schema.absorb and not one_fit:
            raise ValueError(
                f"absorb={list(schema.absorb)}: a path, a search or quantiles are many fits, with "
                "effects of each; fit one model, or search by scikit-learn's GridSearchCV"
            )
        X = plain(X)
        beside = {"exposure": None, **beside}
        given = [role for role in schema.roles if beside.get(role, "") is None]
        beside |= {role: schema.roles[role] for role in given}  # refused where X has them not
        X, y, beside["sample_weight"], known = self._taken(X, y, **beside)
        of_fit = partial(as_rows, X, y, settings, known, beside, schema, client)

        def now() -> Any:
            if not looks:
                return work(*of_fit())
            try:
                return work(*of_fit(looks=True))
            except ColumnsInDoubt:
                return work(*of_fit())

        return awaitable_on(client, is_lazy(X), now)

    def _start(self, given: Any) -> Any:
        """Return where a fit starts: as given, or with `warm_start` where the previous one ended.

        None: at zero.
        """
        check_flag(again := getattr(self, "warm_start", False), "warm_start")
        return starting_point(self) if given is None and again and hasattr(self, "coef_") else given

    @property
    def _all_of_fit(self) -> Any:
        """The model; (coefficients, intercept) with effects of absorbed factors, if there are."""
        if not hasattr(self, "absorbed_"):
            return self
        coef = coefficients_of(self)
        return coef if np.ndim(self.coef_) > 1 else coef[0], self._constants

    def _taken(
        self, X: Any, y: Any, sample_weight: Any, **beside: Any
    ) -> tuple[Any, Any, Any, Known]:
        """Data as solvers want them, and what `_adopt` is told; raises ValueError without y."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = plain(X)
        y = plain(y)
        sample_weight = plain(sample_weight)
        _refuse_empty_array(X)
        roles = {"sample_weight": sample_weight, **beside}
        roles = {role: name for role, name in roles.items() if isinstance(name, str)}
        names, told = feature_names(X, y, *roles.values()), isinstance(X, Named)
        known = Known(names, added_in(beside), roles, told=told)
        return (*((X, y, sample_weight) if is_lazy(X) else in_memory(X, y, sample_weight)), known)

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
        return self._adopt(train(X, y, settings, **data, start=start, client=client), known)

    def _adopt(self, trained: Trained, known: Known) -> LinearModel:
        self.n_features_in_ = trained.report.n_features
        self.fitted_with_, self.roles_ = known.fitted_with, dict(known.roles)
        for name in ("schema_", "feature_names_out_", "absorbed_"):
            self.__dict__.pop(name, None)
        names = known.names
        if known.design is not None:
            self.schema_ = known.design
            names = np.array(known.design.columns, dtype=object)
            self.n_features_in_ = len(names)
            self.feature_names_out_ = np.array(known.design.names, dtype=object)
        if known.told:
            self.feature_names_out_, names = np.asarray(names), None
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.report_, self.record_ = trained.report, trained.record
        self._set_fitted(trained)
        if known.design is not None and known.design.absorbed:
            hide_absorbed(self)
        return self

    def _set_fitted(self, trained: Trained) -> None:
        raise NotImplementedError

    @property
    def _constants(self) -> Any:
        """What is added to products of rows and coefficients: intercepts."""
        return self.intercept_

    def _values(
        self,
        X: Any,
        finish: Any,
        like: np.ndarray,
        names: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
        y: Any = None,
        labels: bool = False,
    ) -> Any:
        """Return `finish` of the margins of X, less y if it is given, in the container of X.

        `labels` says that the results are classes, whose dtype is that of y.
        """
        check_is_fitted(self)
        if X is ROW_BY_ROW:
            return self._row_scorer(finish)
        design, given = None if isinstance(X, (Named, Coded)) else design_of_model(self), X
        if design is not None:
            X = as_table(X, design)
        roles = getattr(self, "roles_", {})
        added = with_roles(roles, plain(X), {"offset": offset, "exposure": exposure})
        offset, exposure = added["offset"], added["exposure"]
        if design is None:
            X = with_columns_of_fit(self, X, (offset, exposure))
        X, beside = with_offset(X, offset, exposure)
        X = X.rows if isinstance(X, Named) else X
        if hasattr(self, "classes_"):
            refuse_another_order(offset, self.classes_.tolist(), Place())
        if y is not None:
            beside = beside._replace(values={**beside.values, "y": plain(y)})
        features = getattr(self, "feature_names_in_", None)
        if design is not None or isinstance(X, Coded):
            pass  # by names, or rows of coefficients
        elif isinstance(X, (list, tuple)) and is_lazy(X):
            X = list(X)
        elif (
            hasattr(X, "map_partitions")
            or hasattr(X, "map_blocks")
            or on_device(X)
            or is_sparse_frame(X)
        ):
            meta = X if is_sparse_frame(X) else getattr(X, "_meta", None)
            if hasattr(meta, "columns"):
                _check_feature_names(self, meta, reset=False)
            if X.ndim != 2 or X.shape[1] != self.n_features_in_:
                width = X.shape[1] if X.ndim == 2 else f"{X.ndim} dimension(s) instead of 2 and no"
                raise ValueError(
                    f"X has {width} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features"
                )
        else:
            X = checked_rows(rows_of(X))
            if not self.n_features_in_ and X.ndim == 2 and not X.shape[1]:
                X = np.empty(X.shape)  # rows of a model without features
            else:
                X = validate_data(
                    self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
                )
            features = None  # by now an array
        constants = np.atleast_1d(self._constants)
        of = Margins(coefficients_of(self), constants, finish, names, features, design)
        return in_library_of(given, in_kind(X, of, like=like, beside=beside), labels=labels)

    def scorer(self, method: str = "predict", **options: Any) -> RowScorer:
        """Return a function that predicts one row in microseconds, for a service.

        Parameters
        ----------
        method : {"predict", "predict_proba", "decision_function"}
            What is predicted.
        options
            Further arguments of the method, such as type="link".

        Returns
        -------
        callable
            Of one row: a dict by column, or the values of the columns in order, and optionally
            `offset` and `exposure`. It can be pickled, and needs neither X nor the model.

        Raises
        ------
        ValueError
            For methods that the model does not have.

        Examples
        --------
        >>> import daskglm, pandas
        >>> frame = pandas.DataFrame({"area": ["a", "b", "b"], "y": [1.0, 2.0, 2.0]})
        >>> score = daskglm.PoissonRegressor(alpha=0).fit(frame, "y").scorer()
        >>> print(round(score({"area": "b"}), 6))
        2.0
        """
        check_choice(method, "method", [name for name in SCORED if hasattr(self, name)])
        found: RowScorer = getattr(self, method)(ROW_BY_ROW, **options)
        return found

    def _row_scorer(self, finish: Any) -> RowScorer:
        names = getattr(self, "feature_names_in_", None)
        return row_scorer(
            design_of_model(self),
            int(self.n_features_in_) if names is None else names.tolist(),
            coefficients_of(self),
            np.atleast_1d(np.asarray(self._constants, float)),
            finish,
            getattr(self, "roles_", {}),
        )

    def inference(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        exposure: Any = None,
        covariance: str = "classical",
        clusters: Any = None,
        weights: str = "precision",
        observed: bool = False,
        penalized: str | None = None,
        use_t: bool | None = None,
        reference: Any = None,
        dispersion: str | float | None = None,
        client: Any = None,
        out_of_core: bool = False,
    ) -> Any:
        r"""Return standard errors, tests and intervals of the fitted coefficients.

        One pass over the rows beyond loading them, where they are. For smooth losses and one vector
        of coefficients, and for classes that were fitted together. Formulas are in
        docs/inference.md.

        Parameters
        ----------
        X, y, sample_weight : as of `fit`
            The data of the fit.
        offset, exposure : (n,) array in a matching container, or name of a column, optional
            Those of the fit: what is added to the margins, and what its logarithm is added of.
        covariance : {"classical", "HC0", "HC1", "HC2", "HC3", "cluster"}
            From the Hessian and the dispersion; robust to a wrong variance function, HC1 with the
            factor n / (n - p), HC2 and HC3 with residuals divided by powers of 1 less the leverage
            (a second pass); or robust to dependence within clusters, too.
        clusters : (n,) array of labels in a matching container, or name of a column, optional
            For "cluster".
        weights : {"precision", "frequency"}
            Whether a weight divides the variance of one row, or counts equal rows and is a whole
            number.
        observed : bool
            Whether second derivatives are taken in the Hessian, not expected ones (Fisher's).
        penalized : {None, "effective"}
            A penalised fit is refused, or has the covariance around its penalised optimum.
        use_t : bool, optional
            Whether p-values and intervals are by Student's distribution; default: only for least
            squares with the classical covariance, as in statsmodels.
        reference : label, optional
            Of more than two classes that were fitted together: the class that coefficients of the
            others are log odds against; default: the first.
        dispersion : {"pearson", "deviance"} or number, optional
            Estimated by Pearson's :math:`\chi^2` or by the deviance, over residual degrees of
            freedom, or as given; default: the family's, or else "pearson". Quasi-Poisson and
            quasi-binomial are the families with "pearson".
        client : distributed.Client, optional
            Where to run; default as of `fit`.
        out_of_core : bool
            Whether dask collections are read in the pass instead of loaded.

        Returns
        -------
        Inference; an awaitable of it where the client is asynchronous.

        Raises
        ------
        ValueError
            For penalised fits, dependent columns, data that the coefficients are no optimum of,
            losses with corners, and what `fit` refuses.
        """
        config = InferenceConfig(
            covariance, weights, observed, penalized, use_t, reference, dispersion
        )
        beside = {
            "y": y,
            "sample_weight": sample_weight,
            "offset": offset,
            "exposure": exposure,
            "clusters": clusters,
        }
        return inference_of(self, X, beside, config, client=client, out_of_core=out_of_core)

    def residuals(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        kind: str = "response",
        offset: Any = None,
        exposure: Any = None,
    ) -> Any:
        r"""Return the residuals of rows from the fitted means.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure : as of `fit`
            Of the fit, or of other rows.
        kind : {"response", "working", "pearson", "deviance", "anscombe"}
            The difference :math:`y - \mu`; divided by the derivative of the mean in the margin; by
            :math:`\sqrt{V(\mu) / s}`, s the weight; the signed root of the row's part of the
            deviance; or on the scale on which the family is nearest to normal. Formulas are in
            docs/inference.md.

        Returns
        -------
        (n,) array; a lazy dask array or series of dask collections, a list of delayed arrays of
        a list.

        Raises
        ------
        ValueError
            For losses that are of no family (of numbers they have "response"), several vectors of
            coefficients, and what `fit` refuses.
        """
        beside = {"offset": offset, "exposure": exposure}
        return residuals(self, record_of_fit(self).of_loss, X, y, sample_weight, kind, **beside)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Classifier(ClassifierMixin, LinearModel):
    """Classes, decision values and accuracy."""

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit to labels of two or more classes; more than two are fitted one against the rest.

        Parameters
        ----------
        X : (n, d) array, CSR matrix, DataFrame, dask array or dataframe, or list of delayed blocks
        y : (n,) labels in a matching container, or the name of a column of X
        sample_weight : (n,) non-negative weights, or the name of a column of X; default: ones
        offset : (n,) numbers that are added to the margins, or the name of a column of X; of
            multinomial fits (n, K), a column for each class in the order of `classes_`

        Returns
        -------
        self; an awaitable of it where the current client is asynchronous.

        Raises
        ------
        ValueError
            For NaN or infinite values, one class only, lengths that differ, or parameters out of
            range.
        """
        return self._fit(X, y, sample_weight, offset=offset)

    def _set_fitted(self, trained: Trained) -> None:
        assert trained.classes is not None
        self.classes_ = trained.classes
        self.coef_ = trained.coef
        self.intercept_ = trained.intercept
        self.n_iter_ = np.array(
            [part.n_iter for part in trained.report.parts or (trained.report,)], dtype=np.int32
        )

    def sparsify(self) -> Any:
        """Convert `coef_` to a SciPy CSR matrix, for models with few nonzero coefficients.

        Returns self.
        """
        check_is_fitted(self)
        self.coef_ = sp.csr_matrix(self.coef_)
        return self

    def densify(self) -> Any:
        """Keep `coef_` as a NumPy array again; returns self."""
        check_is_fitted(self)
        self.coef_ = self.coef_.toarray() if sp.issparse(self.coef_) else self.coef_
        return self

    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """Return signed distances times :math:`|w|`: (n,) for two classes, (n, classes) otherwise.

        The container is that of X.
        """
        check_is_fitted(self)
        k = len(self.classes_)
        like = np.empty(0 if k == 2 else (0, k))
        return self._values(X, same, like, self.classes_, offset=offset)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return the most likely labels, (n,), in the container of X.

        That is NumPy, a lazy dask array, or a dask series with X's index.
        """
        check_is_fitted(self)
        like = np.empty(0, self.classes_.dtype)
        return self._values(X, partial(labels, self.classes_), like, offset=offset, labels=True)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Accuracy: the share of rows, by weight, whose label is predicted.

        X, y, weights and errors are those of `fit`. Of dask collections only sums are fetched.
        """
        work = partial(accuracy, self, X, y, sample_weight, offset)
        return awaitable_on(None, is_lazy(X), work)  # type: ignore[return-value]


# ---- pieces
def _refuse_empty_array(X: Any) -> None:
    """Raise ValueError for an array in memory without columns, as scikit-learn's checks want it.

    An array of no columns is mostly a selection that went wrong; other containers without columns
    ask for the intercept alone.
    """
    if isinstance(X, list) and len(X) and isinstance(X[0], (list, tuple)) and not X[0]:
        X = np.empty((len(X), 0))
    if isinstance(X, np.ndarray) and X.ndim == 2 and len(X) and not X.shape[1]:
        raise ValueError(
            f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required: X has no columns. "
            "To fit the intercept alone give a dataframe, a sparse matrix or a dask array without "
            "columns, such as pandas.DataFrame(index=range(n))"
        )


def same(scores: np.ndarray) -> np.ndarray:
    """Decision values as they are."""
    return scores


def labels(classes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the classes of the largest decision values."""
    return classes[predicted(scores)]
