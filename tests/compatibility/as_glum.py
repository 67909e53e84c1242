"""glum's `GeneralizedLinearRegressor` and its CV over ours, for glum's own tests: names are translated, nothing else.

Constructors are glum's, so that its parameters can be set and cloned. Methods of glum that are not given here end a
test as not applicable.
"""

from __future__ import annotations

import types
from typing import Any

import glum
import numpy as np
import scipy.stats
import tabmat
from sklearn.utils.validation import check_is_fitted

import daskglm
from tests.compatibility.as_statsmodels import not_applicable

FAMILIES = {
    "Normal": "gaussian",
    "Binomial": "binomial",
    "Poisson": "poisson",
    "Gamma": "gamma",
    "InverseGaussian": "inverse_gaussian",
    "normal": "gaussian",
    "inverse.gaussian": "inverse_gaussian",
}
LINKS = {"IdentityLink": "identity", "LogLink": "log", "LogitLink": "logit"}
LINKS |= {"CloglogLink": "cloglog", "ProbitLink": "probit"}
# Not there, by the parameter that asks for it.
ABSENT = {
    "alpha_search": "paths of alphas are a function, regularization_path",
    "A_ineq": "linear inequalities between coefficients",
    "monotonic_constraints": "linear inequalities between coefficients",
    "formula": "formulas",
    "drop_first": "categories as columns",
    "start_params": "starts that are given",
    "min_alpha": "the least alpha of a path as a number",
}


def family_of(given: Any) -> str:
    """Our name of a family, which glum gives as a name or as an object."""
    if isinstance(given, str):
        name = given.replace("tweedie (", "tweedie(").replace(
            "negative.binomial", "negative_binomial"
        )
        return FAMILIES.get(name, name.replace(" (", "("))
    if hasattr(given, "power") and type(given).__name__ == "TweedieDistribution":
        return f"tweedie({float(given.power)})"
    if hasattr(given, "theta"):
        return f"negative_binomial({float(given.theta)})"
    name = type(given).__name__.removesuffix("Distribution")
    if name == "GeneralizedHyperbolicSecant":
        not_applicable("the family of hyperbolic secants")
    return FAMILIES.get(name, name)


def rows(X: Any) -> Any:
    """Matrices of tabmat as SciPy's, or dense ones; categorical ones have a column for each category."""
    if isinstance(X, tabmat.SparseMatrix):
        return X.tocsc()
    return X.toarray() if isinstance(X, tabmat.MatrixBase) else X


class _Facade:
    """What glum's two estimators have in common."""

    _ours: Any = None
    _stored: Any = None

    def _parameters(self) -> dict[str, Any]:
        for name, why in ABSENT.items():
            if not (getattr(self, name, None) is None or getattr(self, name, None) is False):
                not_applicable(why)
        tol, link = self.gradient_tol, self.link
        found = {
            "family": family_of(self.family),
            "link": link if isinstance(link, str) else LINKS.get(type(link).__name__, str(link)),
            "max_iter": None if self.max_iter == 100 else self.max_iter,
            "standardize": self.scale_predictors,
            "solver": "lbfgs" if self.solver == "lbfgs" else "auto",
            # a suboptimality is of the order of a gradient's square; glum's last Newton step goes beyond it
            "tol": max(1e-2 * (1e-4 if tol is None else tol) ** 2, 1e-15),
        }
        same = "fit_intercept l1_ratio lower_bounds upper_bounds random_state verbose"
        found |= {name: getattr(self, name) for name in same.split()}
        ratio = np.max(self.l1_ratio)
        if not isinstance(self.P2, str) and ratio < 1:
            found["P2"] = np.diag(self.P2) if np.ndim(self.P2) == 1 else self.P2
        if not isinstance(self.P1, str) and ratio > 0:
            found["penalty_factor"] = np.asarray(self.P1, float)
        return found

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None, **more: Any
    ) -> Any:
        if self._ours is None or not getattr(self, "warm_start", False):
            self._ours = self._class()
        self._ours.set_params(**self._parameters())
        self._ours.fit(rows(X), y, sample_weight=sample_weight, offset=offset)
        self._stored = None
        if more.pop("store_covariance_matrix", False):
            self.covariance_matrix(
                X, y, sample_weight, offset, store_covariance_matrix=True, **more
            )
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "term_names_":
            not_applicable("formulas")
        if name == "train_deviance_path_":
            not_applicable("deviances of the rows that were fitted")
        if name in ("deviance_path_", "coef_path_", "intercept_path_"):
            # of the chosen l1_ratio, folds before alphas
            found = np.swapaxes(getattr(self._ours, name), 0, 1)[None]
            return found[..., None] if name == "intercept_path_" else found
        if name == "feature_names_":
            if not hasattr(self._ours, "feature_names_in_"):
                not_applicable("names of columns that have none")
            return self._ours.feature_names_in_
        if name.endswith("_") and not name.startswith("_") and self._ours is not None:
            return getattr(self._ours, name)
        raise AttributeError(name)

    def __sklearn_is_fitted__(self) -> bool:
        return self._ours is not None

    def predict(self, X: Any, sample_weight: Any = None, offset: Any = None, **path: Any) -> Any:
        if any(path.get(name) is not None for name in ("alpha", "alpha_index")):
            not_applicable(ABSENT["alpha_search"])
        check_is_fitted(self)
        return self._ours.predict(rows(X), offset=offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, **_: Any) -> Any:
        return self._ours.score(rows(X), y, sample_weight=sample_weight, offset=offset)

    # ---- inference: the intercept is first in glum, and last here
    def covariance_matrix(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        **more: Any,
    ) -> Any:
        if X is None and y is None and self._stored is not None:
            return self._stored[0]
        if more.get("mu") is not None:
            not_applicable("inference at means that are given")
        chosen = {"robust": getattr(self, "robust", True)}
        chosen |= {"expected_information": getattr(self, "expected_information", False)}
        chosen |= {name: value for name, value in more.items() if value is not None}
        clusters = chosen.get("clusters")
        kind = "cluster" if clusters is not None else "HC1" if chosen["robust"] else "classical"
        penalized = getattr(self._ours, "alpha_", getattr(self, "alpha", 0)) or None
        found = self._ours.inference(
            rows(X),
            y,
            sample_weight,
            offset=offset,
            covariance=kind,
            clusters=clusters,
            observed=kind != "classical" and not chosen["expected_information"],
            penalized=penalized and "effective",
            use_t=False,
        )
        p = len(found.names)
        order = [p - 1, *range(p - 1)] if self.fit_intercept else list(range(p))
        # glum's classical covariance has this factor beside Pearson's dispersion
        factor = found.nobs / found.df_resid if kind == "classical" else 1.0
        matrix = factor * found.cov_params().to_numpy()[np.ix_(order, order)]
        self._last = matrix, found, factor, order
        if more.get("store_covariance_matrix"):
            self._stored = self._last
        return matrix

    def std_errors(self, *args: Any, **more: Any) -> Any:
        return np.sqrt(np.diag(self.covariance_matrix(*args, **more)))

    def wald_test(
        self, *data: Any, R: Any = None, features: Any = None, r: Any = None, **more: Any
    ) -> Any:
        if more.pop("formula", None) is not None or more.pop("terms", None) is not None:
            not_applicable("formulas")
        if (R is None) == (features is None):
            raise ValueError("one of R and features")
        self._last = self._stored
        if data or more:
            self.covariance_matrix(*data, **more)
        _, found, factor, order = self._last
        if features is None:
            features = np.atleast_2d(np.asarray(R, float))[:, np.argsort(order)]
        test = found.wald_test(features, r)
        statistic = test.statistic / factor
        pvalue = scipy.stats.chi2.sf(statistic, test.df)
        return types.SimpleNamespace(test_statistic=statistic, p_value=pvalue, df=test.df)

    def _wald_test_matrix(self, R: Any, r: Any = None, **more: Any) -> Any:
        return self.wald_test(R=R, r=r, **more)

    def _wald_test_feature_names(self, features: Any, values: Any = None, **more: Any) -> Any:
        return self.wald_test(features=features, r=values, **more)


def _facade(theirs: type, ours: type, parameters: Any) -> type:
    """glum's class with our fits; its other methods, but for scikit-learn's, are not applicable."""
    space: dict[str, Any] = {"_class": ours, "_parameters": parameters}
    kept = {"__init__", "__sklearn_tags__", "__getattr__", "_get_param_names"}
    for base in theirs.__mro__:
        if base.__module__.startswith("glum"):
            for name, member in vars(base).items():
                inner = callable(member) or isinstance(member, property)
                if inner and name not in kept and name not in vars(_Facade) and "__" not in name:
                    space[name] = property(lambda self, n=name: not_applicable(f"glum's {n}"))
    return type(theirs.__name__, (_Facade, theirs), space)


def _one(self: Any) -> dict[str, Any]:
    found = _Facade._parameters(self)
    return {
        **found,
        "alpha": 0.0 if self.alpha is None else self.alpha,
        "warm_start": self.warm_start,
    }


def _several(self: Any) -> dict[str, Any]:
    found = _Facade._parameters(self)
    if self.min_alpha_ratio is not None:
        if "eps" not in self._class._get_param_names():
            raise NotImplementedError("missing: the ratio of the least alpha to the largest, eps")
        found["eps"] = self.min_alpha_ratio
    found["alphas"] = self.n_alphas if self.alphas is None else self.alphas
    return {**found, "cv": self.cv, "n_jobs": self.n_jobs}


GeneralizedLinearRegressor = _facade(
    glum.GeneralizedLinearRegressor, daskglm.GeneralizedLinearRegressor, _one
)
GeneralizedLinearRegressorCV = _facade(
    glum.GeneralizedLinearRegressorCV, daskglm.GeneralizedLinearRegressorCV, _several
)
