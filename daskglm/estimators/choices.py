"""What there is to choose of for a fit and for predictions, without what estimators import."""

from __future__ import annotations

# Losses that have an estimator of their own, and its name.
ESTIMATORS = {
    "logistic": "LogisticRegression",
    "multinomial": "LogisticRegression",
    "squared_hinge": "LinearSVC",
    "hinge": "LinearSVC",
    "smoothed_hinge": "LinearSVC",
    "squared": "Ridge",
    "ordinal": "OrdinalRegression",
}

SKLEARN, DASK_ML = "scikit-learn", "dask-ml"

SOLVER_NAMES = {
    "newton-cholesky": (SKLEARN, "newton"),
    "newton-cg": (SKLEARN, "tron"),
    "liblinear": (SKLEARN, "tron"),
    "sag": (SKLEARN, "sdca"),
    "saga": (SKLEARN, "sdca"),
    "svd": (SKLEARN, "newton"),
    "cholesky": (SKLEARN, "newton"),
    "lsqr": (SKLEARN, "tron"),
    "sparse_cg": (SKLEARN, "tron"),
    "highs": (SKLEARN, "proximal"),
    "highs-ds": (SKLEARN, "proximal"),
    "highs-ipm": (SKLEARN, "proximal"),
    "admm": (DASK_ML, "lbfgs"),
    "proximal_grad": (DASK_ML, "lbfgs"),
    "gradient_descent": (DASK_ML, "gd"),
}
"""Solvers of other packages: whose they are, and the solver here that does what they are taken
for.
"""

# Formats of files of data; auto: by their names.
DATA_FORMATS = ("auto", "svmlight", "csv", "parquet")
# Formats of predictions, by how names of files end.
PREDICTION_FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
