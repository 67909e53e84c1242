"""daskglm: generalised linear models on Dask, in process or on a cluster, with a bound on how good
the answer is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daskglm.data.svmlight import read_svmlight
    from daskglm.estimators.absorbed import LeftOutWarning
    from daskglm.estimators.any_loss import LinearClassifier, LinearRegressor
    from daskglm.estimators.cross_validation import LogisticRegressionCV
    from daskglm.estimators.families import (
        GammaRegressor,
        GeneralizedLinearRegressor,
        PoissonRegressor,
        TweedieRegressor,
    )
    from daskglm.estimators.family_cv import GeneralizedLinearRegressorCV
    from daskglm.estimators.functional import fit
    from daskglm.estimators.huber import HuberRegressor
    from daskglm.estimators.inference import Inference
    from daskglm.estimators.lasso import ElasticNet, Lasso
    from daskglm.estimators.likelihood_ratio import likelihood_ratio_test
    from daskglm.estimators.logistic import LogisticRegression
    from daskglm.estimators.ordinal import OrdinalRegression
    from daskglm.estimators.penalty_cv import ElasticNetCV, LassoCV
    from daskglm.estimators.persistence import load, save
    from daskglm.estimators.pipeline import Pipeline
    from daskglm.estimators.quantile import QuantileRegressor
    from daskglm.estimators.regularization_path import RegularizationPath, regularization_path
    from daskglm.estimators.ridge import Ridge
    from daskglm.estimators.svm import LinearSVC
    from daskglm.estimators.svr import LinearSVR
    from daskglm.estimators.tables import AliasedColumnWarning
    from daskglm.fitting.report import Report
    from daskglm.frames.design import UnseenLevelWarning
    from daskglm.frames.schema import Schema
    from daskglm.losses.base import Loss
    from daskglm.losses.table import register_loss

__version__ = "0.2.0"

# Where the public names are: their modules are imported when a name is first asked for (PEP 562),
# since scikit-learn, SciPy, pandas and numba take seconds to import.
_MODULES = {
    "AliasedColumnWarning": "estimators.tables",
    "ElasticNet": "estimators.lasso",
    "ElasticNetCV": "estimators.penalty_cv",
    "GammaRegressor": "estimators.families",
    "GeneralizedLinearRegressor": "estimators.families",
    "Inference": "estimators.inference",
    "HuberRegressor": "estimators.huber",
    "GeneralizedLinearRegressorCV": "estimators.family_cv",
    "Lasso": "estimators.lasso",
    "LassoCV": "estimators.penalty_cv",
    "LeftOutWarning": "estimators.absorbed",
    "LinearClassifier": "estimators.any_loss",
    "LinearRegressor": "estimators.any_loss",
    "LinearSVC": "estimators.svm",
    "LinearSVR": "estimators.svr",
    "LogisticRegression": "estimators.logistic",
    "LogisticRegressionCV": "estimators.cross_validation",
    "Loss": "losses.base",
    "OrdinalRegression": "estimators.ordinal",
    "Pipeline": "estimators.pipeline",
    "PoissonRegressor": "estimators.families",
    "QuantileRegressor": "estimators.quantile",
    "Report": "fitting.report",
    "Ridge": "estimators.ridge",
    "Schema": "frames.schema",
    "TweedieRegressor": "estimators.families",
    "UnseenLevelWarning": "frames.design",
    "fit": "estimators.functional",
    "likelihood_ratio_test": "estimators.likelihood_ratio",
    "load": "estimators.persistence",
    "read_svmlight": "data.svmlight",
    "register_loss": "losses.table",
    "RegularizationPath": "estimators.regularization_path",
    "regularization_path": "estimators.regularization_path",
    "save": "estimators.persistence",
}
__all__ = [
    "AliasedColumnWarning",
    "ElasticNet",
    "ElasticNetCV",
    "GammaRegressor",
    "GeneralizedLinearRegressor",
    "GeneralizedLinearRegressorCV",
    "HuberRegressor",
    "Inference",
    "Lasso",
    "LassoCV",
    "LeftOutWarning",
    "LinearClassifier",
    "LinearRegressor",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Loss",
    "OrdinalRegression",
    "Pipeline",
    "PoissonRegressor",
    "QuantileRegressor",
    "RegularizationPath",
    "Report",
    "Ridge",
    "Schema",
    "TweedieRegressor",
    "UnseenLevelWarning",
    "fit",
    "likelihood_ratio_test",
    "load",
    "read_svmlight",
    "register_loss",
    "regularization_path",
    "save",
]


if not TYPE_CHECKING:  # type checkers would take any name for one of these

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'daskglm' has no attribute {name!r}")
        found = getattr(importlib.import_module(f"daskglm.{_MODULES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
