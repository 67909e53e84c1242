"""scikit-learn's pipeline with names: of encoded columns, and of columns beside the features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sklearn.pipeline
from sklearn.utils.metaestimators import available_if

from daskglm.data.containers import Named
from daskglm.data.partitions import is_lazy
from daskglm.estimators.base import LinearModel
from daskglm.estimators.tables import with_roles
from daskglm.frames.take import is_table

ADDED = ("offset", "exposure")
WEIGHTED = (*ADDED, "sample_weight")
ROLES = (*WEIGHTED, "clusters")


def _last_has(name: str) -> Callable[[Any], bool]:
    """Return a check that the last step has a method; its AttributeError is the pipeline's."""

    def check(pipeline: Any) -> bool:
        getattr(pipeline.steps[-1][1], name)
        return True

    return check


class Pipeline(sklearn.pipeline.Pipeline):
    """scikit-learn's `Pipeline`, whose last step, a model of daskglm, knows names.

    It is `sklearn.pipeline.Pipeline` in all that this has, and more:

    - Coefficients have the names that the encoder's `get_feature_names_out` tells, also where its
      rows are NumPy, sparse or dask arrays: in `inference`, in warnings and errors of the fit, in
      penalties by name, and as `feature_names_out_` of the model.
    - y, `model__exposure`, `model__offset` and `model__sample_weight` may be names of columns of
      the table that the pipeline is fitted to. The steps do not see these columns; `predict`,
      `score`, `residuals` and `inference` use them again where the table has them.
    - `inference` and `residuals` are those of the model, of rows before they are encoded.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As of `sklearn.pipeline.Pipeline`.

    Examples
    --------
    >>> import daskglm, pandas
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> frame = pandas.DataFrame({"area": [*"abba"], "claims": [1.0, 2.0, 2.0, 3.0]})
    >>> model = daskglm.PoissonRegressor(alpha=0)
    >>> pipe = daskglm.Pipeline([("encode", OneHotEncoder(drop="first")), ("model", model)])
    >>> pipe.fit(frame, "claims").inference(frame, "claims").names
    ('area_b', 'intercept')
    """

    roles_: dict[str, str]
    _beside: tuple[str, ...]

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit all steps.

        Parameters
        ----------
        X : rows that the first step takes
        y : targets, or the name of a column of X
        params : as of `sklearn.pipeline.Pipeline.fit`
            Of the last step those beside the rows may be names of columns of X.

        Returns
        -------
        self
        """
        self.roles_, self._beside = {}, ()
        if not (self.steps and isinstance(self._model, LinearModel)):
            return super().fit(X, y, **params)
        last = f"{self.steps[-1][0]}__"
        named = {
            name: value
            for name, value in params.items()
            if name.removeprefix(last) in ROLES and _is_column(value, X)
        }
        self.roles_ = {name.removeprefix(last): value for name, value in named.items()}
        self._beside = (*named.values(), *([y] if _is_column(y, X) else []))
        given = params | {name: X[value] for name, value in named.items()}
        return super().fit(self._features(X), _column(y, X), **given)

    def _fit(self, *args: Any, **kwargs: Any) -> Any:
        """Fit all steps but the last, and return rows with the names of their columns."""
        rows = super()._fit(*args, **kwargs)
        if not isinstance(self._model, LinearModel):
            return rows
        names = self._names_of(rows)
        return rows if names is None else Named(rows, names)

    def _names_of(self, rows: Any) -> tuple[str, ...] | None:
        """Return the names of encoded columns, if the rows have none and the encoders tell them."""
        encoders = self._encoders
        if not encoders or hasattr(rows, "columns"):
            return None
        # some of dask-ml's have no method for names, and those after them need not ask them
        for encoder in (self[:-1], encoders[-1]):
            try:
                names = tuple(map(str, encoder.get_feature_names_out()))
            except (AttributeError, TypeError, ValueError):
                continue
            width = None if isinstance(rows, (list, tuple)) else rows.shape[1]
            if width == len(names) or (is_lazy(rows) and (width is None or width != width)):
                return names
        return None

    # ---- after the fit
    @available_if(_last_has("predict"))
    def predict(self, X: Any, **params: Any) -> Any:
        """Encode rows, and return what the last step predicts."""
        return self._ask("predict", super().predict, X, params)

    @available_if(_last_has("predict_proba"))
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Encode rows, and return the probabilities of the last step."""
        return self._ask("predict_proba", super().predict_proba, X, params)

    @available_if(_last_has("predict_log_proba"))
    def predict_log_proba(self, X: Any, **params: Any) -> Any:
        """Encode rows, and return the logarithms of probabilities of the last step."""
        return self._ask("predict_log_proba", super().predict_log_proba, X, params)

    @available_if(_last_has("decision_function"))
    def decision_function(self, X: Any, **params: Any) -> Any:
        """Encode rows, and return the decision values of the last step."""
        return self._ask("decision_function", super().decision_function, X, params)

    @available_if(_last_has("score"))
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Any:
        """Encode rows, and return the score of the last step.

        y, sample_weight, offset and exposure may be names of columns of X.
        """
        y, given = _column(y, X), {"sample_weight": sample_weight, **params}
        found = self._with_roles(X, given, WEIGHTED)
        if not set(found) & set(ADDED):
            weight = found.pop("sample_weight", None)
            return super().score(self._features(X), y, sample_weight=weight, **found)
        return self._model.score(self._encoded(X), y, **found)

    @available_if(_last_has("inference"))
    def inference(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        """Encode rows, and return standard errors, tests and intervals of the last step.

        Parameters
        ----------
        X, y, sample_weight : as of `fit`
            The data of the fit, before they are encoded.
        params : as of `PoissonRegressor.inference`
            Of these offset, exposure and clusters may be names of columns of X.

        Returns
        -------
        Inference, with the encoder's names. Its own `predict` takes rows that are encoded, as by
        `self[:-1].transform(X)`.
        """
        return self._of_model("inference", X, y, sample_weight, params)

    @available_if(_last_has("residuals"))
    def residuals(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Any:
        """Encode rows, and return the residuals of the last step; `params` are those it takes."""
        return self._of_model("residuals", X, y, sample_weight, params)

    # ---- pieces
    @property
    def _model(self) -> Any:
        return self.steps[-1][1]

    @property
    def _encoders(self) -> list[Any]:
        return [step for _, step in self.steps[:-1] if step not in (None, "passthrough")]

    def _ask(self, method: str, usual: Callable[..., Any], X: Any, params: dict[str, Any]) -> Any:
        """Return predictions: by scikit-learn's way, unless columns of X are beside the rows."""
        found = self._with_roles(X, params, ADDED)
        if found == params:
            return usual(self._features(X), **params)
        return getattr(self._model, method)(self._encoded(X), **found)

    def _of_model(self, method: str, X: Any, y: Any, weight: Any, params: dict[str, Any]) -> Any:
        roles = ROLES if method == "inference" else WEIGHTED
        found = self._with_roles(X, {"sample_weight": weight, **params}, roles)
        return getattr(self._model, method)(self._encoded(X), _column(y, X), **found)

    def _with_roles(
        self, X: Any, given: Mapping[str, Any], roles: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return what is given, with columns of X for names and for roles of the fit."""
        known = {role: None for role in roles} | dict(given)
        found = with_roles(getattr(self, "roles_", {}), X, known)
        return {
            name: _column(value, X) if name in roles else value
            for name, value in found.items()
            if value is not None or (name in given and name not in roles)
        }

    def _features(self, X: Any) -> Any:
        """Return a table without the columns that are beside the features."""
        beside = set(getattr(self, "_beside", ()))
        if not beside or not is_table(X) or not beside & set(X.columns):
            return X
        return X[[name for name in X.columns if name not in beside]]

    def _encoded(self, X: Any) -> Any:
        """Return rows as the last step takes them."""
        X = self._features(X)
        for encoder in self._encoders:
            X = encoder.transform(X)
        return X


def _is_column(value: Any, X: Any) -> bool:
    return isinstance(value, str) and is_table(X) and value in X.columns


def _column(value: Any, X: Any) -> Any:
    """Return the column of a table that a name stands for; anything else as it is."""
    return X[value] if _is_column(value, X) else value
