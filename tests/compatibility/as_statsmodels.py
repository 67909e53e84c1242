"""statsmodels' `GLM` over `GeneralizedLinearRegressor` and its inference, for statsmodels' own tests.

The model's side (formulas, data, scores and Hessians at coefficients that are given) stays statsmodels'; what a fit
returns is ours alone. What has no counterpart here ends a test as not applicable, what ought to be here lets it fail.
"""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.base import model as base
from statsmodels.tools.sm_exceptions import SpecificationWarning

import daskglm

FAMILIES = {
    "Gaussian": "gaussian",
    "Binomial": "binomial",
    "Poisson": "poisson",
    "Gamma": "gamma",
    "InverseGaussian": "inverse_gaussian",
}
LINKS = {"InversePower": "inverse", "InverseSquared": "1/mu^2", "CLogLog": "cloglog"}
KINDS = {"mean": "response", "linear": "link"}
# Bound on relative suboptimality: its root is the digits of coefficients, of which the tests want up to seven.
TOL = 1e-14
# Of statsmodels' results alone: histories and internals of its solvers, plots, distributions, tests of scores.
ITS_OWN = {
    "optimizers": "fit_history method mle_settings mle_retvals results_wls _results attach_wls",
    "plots": "plot_added_variable plot_partial_residuals plot_ceres_residuals",
    "marginal effects": "get_margeff",
    "distributions": "get_distribution",
    "score tests": "score_test compare_lm_test",
    "memory and pickles of results": "remove_data save _data_attr _data_in_cache",
    "tables as text": "summary summary2 info_criteria",
    "private arrays": "_iweights _var_weights _freq_weights _endog normalized_cov_params _cache",
}
WHY = {name: why for why, names in ITS_OWN.items() for name in names.split()}


def not_applicable(why: str) -> Any:
    """End the test: what it asks for is the other project's alone."""
    pytest.skip(f"not applicable: {why}")


class GLM(sm.GLM):
    """statsmodels' model, whose fits are ours."""

    def fit(
        self, start_params: Any = None, maxiter: int = 100, method: str = "IRLS", **given: Any
    ) -> Any:
        if maxiter < 2 or given.get("attach_wls"):
            not_applicable("optimizers")
        kind = given.get("cov_type", "nonrobust")
        # its HC1 is HC0, and its robust covariances have the observed Hessian (docs/inference.md)
        kind = {"nonrobust": "classical", "eim": "classical", "HC1": "HC0"}.get(kind, kind)
        more = {
            "covariance": kind,
            "observed": kind != "classical",
            "use_t": bool(given.get("use_t")),
        }
        if kind == "cluster":
            more["clusters"] = np.asarray(given["cov_kwds"]["groups"])
            if self._has_freq_weights or self._has_var_weights:
                warnings.warn("as statsmodels warns", SpecificationWarning, stacklevel=2)
        self.scaletype = scale = given.get("scale")
        if scale is not None:
            more["dispersion"] = {"x2": "pearson", "dev": "deviance"}.get(str(scale).lower(), scale)
            if "dispersion" not in inspect.signature(daskglm.Ridge.inference).parameters:
                raise NotImplementedError(f"missing: a dispersion by choice ({scale})")
        return Results(self, more)

    def fit_regularized(
        self, method: str = "elastic_net", alpha: Any = 0.0, L1_wt: float = 0.0, **kwds: Any
    ) -> Any:
        if method != "elastic_net" or kwds.get("refit"):
            not_applicable("optimizers")
        strengths = np.broadcast_to(np.asarray(alpha, float), self.exog.shape[1])
        model = regressor(self, alpha=float(strengths.max()), l1_ratio=L1_wt, fit_intercept=False)
        if strengths.max() > 0.0 and np.ptp(strengths) > 0.0:
            model.set_params(penalty_factor=strengths / strengths.max())
        model.fit(self.exog, self.endog, **data_of(self)[0])
        return types.SimpleNamespace(params=model.coef_, converged=model.report_.converged)

    def fit_constrained(self, *args: Any, **kwds: Any) -> Any:
        not_applicable("constraints of equality")


def regressor(model: sm.GLM, **more: Any) -> Any:
    """Our estimator of statsmodels' family and link."""
    family = type(model.family).__name__
    link = type(model.family.link).__name__
    link = LINKS.get(link, link.lower())
    if link == "power":
        power = float(model.family.link.power)
        link = {0.0: "log", 1.0: "identity"}.get(power, f"power({power:g})")
    if family == "Tweedie":
        power = float(model.family.var_power)
        name = {0.0: "gaussian", 1.0: "poisson"}.get(power, f"tweedie({power})")
    elif family == "NegativeBinomial":
        name = f"negative_binomial({model.family.alpha})"
    else:
        name = FAMILIES[family]
    more = {"alpha": 0.0, "tol": TOL, **more}
    return daskglm.GeneralizedLinearRegressor(name, link=link, **more)


def data_of(model: sm.GLM) -> tuple[dict[str, Any], str]:
    """What goes beside X and y, and what its weights are."""
    frequencies, precisions = model.freq_weights, model.var_weights * model.n_trials
    counts = bool(np.any(frequencies != 1.0))
    if counts and np.any(precisions != 1.0):
        raise NotImplementedError("differs on purpose: weights of two kinds at once")
    weight = frequencies if counts else precisions
    offset = model._offset_exposure
    beside = {
        "sample_weight": None if np.all(weight == 1.0) else np.asarray(weight, float),
        "offset": None if np.ndim(offset) == 0 else np.asarray(offset, float),
    }
    return beside, "frequency" if counts else "precision"


class Results:
    """Our fit under the names of statsmodels' results, in the containers of its data."""

    def __init__(self, model: GLM, more: dict[str, Any]) -> None:
        self.model, self.family = model, model.family
        X = np.asarray(model.exog, float)
        constant = np.flatnonzero((X == 1.0).all(axis=0))
        self.ours = regressor(model, fit_intercept=len(constant) > 0)
        p = X.shape[1]
        free = [j for j in range(p) if len(constant) == 0 or j != constant[0]]
        if not free:  # nothing but the intercept: as a feature, since X needs a column
            free, constant = list(range(p)), constant[:0]
            self.ours.set_params(fit_intercept=False)
        self._free = free
        # where our coefficients, the intercept last, are among statsmodels'
        self._order = np.argsort([*free, *constant[:1]])
        beside, weights = data_of(model)
        y = np.asarray(model.endog, float)
        self.ours.fit(X[:, free], y, **beside)
        self.inference = self.ours.inference(X[:, free], y, **beside, weights=weights, **more)
        self.cov_type = more["covariance"]

    def _shown(self, values: Any, by: str = "xnames") -> Any:
        values = np.asarray(values, float)
        if not isinstance(self.model.data.orig_endog, (pd.Series, pd.DataFrame)):
            return values
        if by == "xnames":
            return pd.Series(values, index=self.model.exog_names)
        return pd.Series(values, index=self.model.data.row_labels)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("inference", "model"):
            raise AttributeError(name)
        if name in ("params", "bse", "tvalues", "pvalues"):
            return self._shown(np.asarray(getattr(self.inference, name))[self._order])
        if name in ("llf", "scale", "deviance", "pearson_chi2", "df_resid", "nobs", "use_t"):
            value = getattr(self.inference, name)
            return np.float64(value) if isinstance(value, float) else value
        if name in ("fittedvalues", "mu"):
            return self._shown(self.predict(), "rows")
        if name in WHY:
            not_applicable(WHY[name])
        if name.startswith("resid_") and hasattr(self.ours, "residuals"):
            kind = name.removeprefix("resid_").removesuffix("_unscaled")
            beside, weights = data_of(self.model)
            beside["sample_weight"] = beside["sample_weight"] if weights == "precision" else None
            X = self.model.exog[:, self._free]
            found = self.ours.residuals(X, self.model.endog, **beside, kind=kind)
            return self._shown(found, "rows")
        if hasattr(self.inference, name):
            return getattr(self.inference, name)
        raise AttributeError(f"missing: {name}")

    # ---- numbers whose definition differs
    @property
    def df_model(self) -> float:
        return float(len(self._order) - 1)

    @property
    def null_deviance(self) -> float:
        return getattr(self.inference, "null_deviance", self.ours.null_deviance_)

    @property
    def converged(self) -> bool:
        return self.ours.report_.converged

    @property
    def aic(self) -> float:
        """As in R the estimated dispersion is a parameter of ours, as in statsmodels it is none."""
        return getattr(self.inference, "aic", self.ours.aic_) - (0.0 if self._fixed else 2.0)

    @property
    def _fixed(self) -> bool:
        return type(self.family).__name__ in ("Binomial", "Poisson", "NegativeBinomial")

    @property
    def bic_deviance(self) -> float:
        return self.deviance - self.df_resid * np.log(self.nobs)

    @property
    def bic(self) -> float:
        return getattr(self.inference, "bic", self.ours.bic_) - (
            0.0 if self._fixed else np.log(self.nobs)
        )

    bic_llf = bic

    def conf_int(self, alpha: float = 0.05, cols: Any = None) -> Any:
        found = self.inference.conf_int(1.0 - alpha).to_numpy()[self._order]
        pandas = isinstance(self.params, pd.Series)
        return pd.DataFrame(found, index=self.params.index) if pandas else found

    def cov_params(self) -> Any:
        return self.inference.cov_params().to_numpy()[np.ix_(self._order, self._order)]

    # ---- predictions
    def predict(
        self,
        exog: Any = None,
        transform: bool = True,
        offset: Any = None,
        exposure: Any = None,
        **given: Any,
    ) -> Any:
        X, beside, index = self._rows(exog, transform, offset, exposure)
        which = "linear" if given.get("linear") else given.get("which", "mean")
        if which not in ("mean", "linear"):
            not_applicable("distributions")
        found = self.ours.predict(X, type=KINDS[which], **beside)
        return found if index is None else pd.Series(found, index=index)

    def get_prediction(
        self,
        exog: Any = None,
        exposure: Any = None,
        offset: Any = None,
        transform: bool = True,
        **given: Any,
    ) -> Any:
        X, beside, _ = self._rows(exog, transform, offset, exposure)
        which = given.get("which") or "mean"
        if which not in KINDS:
            not_applicable("distributions")
        found, margins = (
            Prediction(functools.partial(self.inference.predict, X, type=kind, **beside))
            for kind in (KINDS[which], "link")
        )
        found.linpred = margins
        return found

    def _rows(self, exog: Any, transform: bool, offset: Any, exposure: Any) -> Any:
        given = {"offset": offset, "exposure": exposure}
        if exog is None:
            X, index = self.model.exog, None
            # the model has logarithms of exposures
            if offset is None:
                given["offset"] = self.model.offset
            if exposure is None and self.model.exposure is not None:
                given["exposure"] = np.exp(self.model.exposure)
        else:
            shell = base.Results(self.model, np.zeros(self.model.exog.shape[1]))
            X, index = shell._transform_predict_exog(exog, transform=transform)
        beside = {name: np.asarray(v, float) for name, v in given.items() if v is not None}
        return np.asarray(X, float)[:, self._free], beside, index


class Prediction:
    """Means with errors, under statsmodels' names."""

    def __init__(self, of: Any) -> None:
        self._of, frame = of, of()
        self.predicted = self.predicted_mean = frame["mean"].to_numpy()
        self.se = self.se_mean = frame["se"].to_numpy()

    def conf_int(self, alpha: float = 0.05, **kwds: Any) -> Any:
        return self._of(level=1.0 - alpha)[["lower", "upper"]].to_numpy()

    def summary_frame(self, alpha: float = 0.05) -> Any:
        names = {"se": "mean_se", "lower": "mean_ci_lower", "upper": "mean_ci_upper"}
        return self._of(level=1.0 - alpha).rename(columns=names)
