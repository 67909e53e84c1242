"""daskglm: generalised linear models on Dask, in process or on a cluster, with a bound on how good
the answer is.
"""

from daskglm.data.svmlight import read_svmlight
from daskglm.estimators.any_loss import LinearClassifier, LinearRegressor
from daskglm.estimators.cross_validation import LogisticRegressionCV
from daskglm.estimators.functional import fit
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.persistence import load, save
from daskglm.estimators.ridge import Ridge
from daskglm.estimators.svm import LinearSVC
from daskglm.fitting.report import Report
from daskglm.losses.base import Loss
from daskglm.losses.table import register_loss

__version__ = "0.1.0"
__all__ = [
    "LinearClassifier",
    "LinearRegressor",
    "LinearSVC",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Loss",
    "Report",
    "Ridge",
    "fit",
    "load",
    "read_svmlight",
    "register_loss",
    "save",
]
