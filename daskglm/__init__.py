"""daskglm: generalised linear models on Dask, in process or on a cluster, with a bound on how good the answer is."""

from daskglm.crossvalidated import LogisticRegressionCV
from daskglm.fit import fit
from daskglm.logistic import LogisticRegression
from daskglm.report import Report
from daskglm.ridge import Ridge
from daskglm.saving import load, save
from daskglm.svm import LinearSVC
from daskglm.svmlight import read_svmlight

__version__ = "0.1.0"
__all__ = [
    "LinearSVC",
    "LogisticRegression",
    "LogisticRegressionCV",
    "Report",
    "Ridge",
    "fit",
    "load",
    "read_svmlight",
    "save",
]
