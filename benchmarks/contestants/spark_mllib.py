"""Spark's MLlib in this process's own Java machine, which holds the rows before the clock starts.

Its objective is the mean loss plus regParam / 2 |w|^2, so regParam is 1 / (n C).
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, StructField, StructType

if shutil.which("java") is None:
    raise ImportError("Spark runs on Java, and there is no java on the path")

HEAP = "8g"
MAX_ITER = 10_000
SPARSE, DENSE = 0, 1  # kinds of its vectors


@cache
def _session(threads: int) -> Any:
    """Start one session for the life of this process, reached from this machine only."""
    build = SparkSession.builder.master(f"local[{threads}]")
    own = "127.0.0.1"
    for name, value in {
        "spark.driver.memory": HEAP,
        "spark.driver.host": own,
        "spark.driver.bindAddress": own,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }.items():
        build = build.config(name, value)
    return build.getOrCreate()


def _vectors(X: Any) -> pa.StructArray:
    """Lay rows out as the structs that its vectors are in a file."""
    n, d = X.shape
    if sp.issparse(X):
        X = sp.csr_matrix(X)
        X.sort_indices()
        ends = pa.array(X.indptr, pa.int32())
        indices = pa.ListArray.from_arrays(ends, pa.array(X.indices, pa.int32()))
        kind, size = SPARSE, pa.array(np.full(n, d, np.int32))
        values = X.data
    else:
        ends = pa.array(np.arange(n + 1) * d, pa.int32())
        kind, size, indices = DENSE, pa.nulls(n, pa.int32()), pa.nulls(n, pa.list_(pa.int32()))
        values = X.ravel()
    held = pa.ListArray.from_arrays(ends, pa.array(values, pa.float64()))
    kinds = pa.array(np.full(n, kind, np.int8))
    return pa.StructArray.from_arrays(
        [kinds, size, indices, held], ["type", "size", "indices", "values"]
    )


def prepare(X: Any, y: np.ndarray, *, threads: int, **_: Any) -> tuple[Any, int]:
    """Have Spark keep rows and labels 0 and 1 in memory, a part for each thread, in float64."""
    table = pa.table({"features": _vectors(X), "label": pa.array((y > 0).astype(np.float64))})
    schema = StructType([StructField("features", VectorUDT()), StructField("label", DoubleType())])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(table, path)
        held = _session(threads).read.schema(schema).parquet(str(path)).repartition(threads).cache()
        count = held.count()
    return held, count


def fit(
    X: Any, y: int, *, loss: str, C: float, fit_intercept: bool, tol: float, threads: int
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Fit by its L-BFGS; `tol` bounds changes of the objective and the gradient."""
    model = LogisticRegression(
        family="binomial",
        regParam=1.0 / (y * C),
        elasticNetParam=0.0,
        standardization=False,
        fitIntercept=fit_intercept,
        maxIter=MAX_ITER,
        tol=tol,
    ).fit(X)
    info = {"iterations": model.summary.totalIterations}
    return model.coefficients.toArray(), float(model.intercept), info
