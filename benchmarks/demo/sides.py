"""The two that fit: daskglm on a cluster, scikit-learn in this process, timed stage by stage."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import scipy.sparse as sp
from dask.delayed import delayed
from distributed import Client, wait
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.preprocessing import OneHotEncoder

import daskglm
from benchmarks.demo.problem import Problem, take
from benchmarks.suites.evaluate import objective

PARTITIONS = 10
STAGES = ("loading", "encoding", "fitting")
# A fit before these, on the same rows: it compiles kernels, once per machine.
FIRST_FIT = "first fit"
# Column of the classes in a table on the workers.
CLASS = "class"


@dataclass
class Side:
    """One of the two, with seconds of each stage, its model, and what it says of held-out rows."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    model: Any = None
    probability: np.ndarray = field(default_factory=lambda: np.empty(0))
    objective: float = np.nan

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; a second time adds to it."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def metrics(self, y: np.ndarray) -> dict[str, float]:
        """Return measures on held-out rows."""
        p = self.probability
        return {
            "accuracy": accuracy_score(y, p > 0.5),
            "area under ROC": roc_auc_score(y, p),
            "log loss": log_loss(y, p),
            "Brier score": brier_score_loss(y, p),
        }


def by_daskglm(client: Client, problem: Problem) -> Side:
    """Fit on the workers, to which the rows are sent in partitions, a table as it is."""
    side = Side("daskglm, 2 workers")
    with side.stage("loading"):
        X, y = _on_workers(client, problem)
    schema = {}
    if isinstance(problem.table, pd.DataFrame):
        # rows held out may have a level that the others have not, as for the encoder below
        schema = {"schema": {"categories": problem.categories, "unseen": "zero"}}
    with side.stage(FIRST_FIT):
        daskglm.fit(X, y, **schema)
    with side.stage("fitting"):
        side.model = daskglm.fit(X, y, progress=True, **schema)
    return side


def by_scikit_learn(problem: Problem) -> tuple[Side, OneHotEncoder | None]:
    """Fit in this process, with the same penalty; a table wants an encoder, which is returned."""
    side = Side("scikit-learn, lbfgs")
    train = len(problem.y) - problem.held_out
    X, encoder = take(problem.table, slice(train)), None
    with side.stage("encoding"):
        if isinstance(X, pd.DataFrame):
            encoder = OneHotEncoder(handle_unknown="ignore")
            X = encoder.fit_transform(X)
    with side.stage("fitting"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops early shows in the table
        side.model = LogisticRegression(max_iter=1000).fit(X, problem.y[:train])
    return side, encoder


def judge(ours: Side, theirs: Side, encoder: OneHotEncoder | None, problem: Problem) -> float:
    """Evaluate both objectives on the training rows, and predict the held-out ones.

    Returns a proved lower bound on the objective of any model, from the gap that daskglm reports.
    """
    train = len(problem.y) - problem.held_out
    signs = np.where(problem.y[:train] == 1, 1.0, -1.0)
    X = problem.table if encoder is None else encoder.transform(problem.table)
    for side in (ours, theirs):
        coef, intercept = side.model.coef_[0], float(side.model.intercept_[0])
        if encoder is not None and side is ours:
            coef = _as_encoded(side.model, encoder)
        side.objective = objective(X[:train], signs, coef, intercept, loss="logistic", C=1.0)
        later = take(problem.table, slice(train, None)) if side is ours else X[train:]
        side.probability = side.model.predict_proba(later)[:, 1]
    report = ours.model.report_
    return float(report.objective / (1.0 + report.relative_gap))


def _on_workers(client: Client, problem: Problem) -> tuple[Any, Any]:
    """Return training rows and classes on the workers: a dask dataframe, or dask arrays."""
    train = len(problem.y) - problem.held_out
    table, y = take(problem.table, slice(train)), problem.y[:train]
    if isinstance(table, pd.DataFrame):
        rows = dd.from_pandas(table.assign(**{CLASS: y}), npartitions=PARTITIONS, sort=False)
        rows = client.persist(rows)
        wait(rows)
        return rows, CLASS
    edges = np.linspace(0, train, PARTITIONS + 1).astype(int)
    sent = client.scatter([take(table, slice(lo, hi)) for lo, hi in itertools.pairwise(edges)])
    width = table.shape[1]
    meta = sp.csr_matrix((0, width)) if sp.issparse(table) else np.empty((0, width))
    parts = [
        da.from_delayed(delayed(part), (int(rows), width), dtype=table.dtype, meta=meta)
        for part, rows in zip(sent, np.diff(edges), strict=True)
    ]
    X = da.concatenate(parts).persist()
    lazy_y = da.from_array(y, chunks=(tuple(np.diff(edges)),)).persist()
    wait([X, lazy_y])
    return X, lazy_y


def _as_encoded(model: Any, encoder: OneHotEncoder) -> np.ndarray:
    """Return the coefficients of a table's model in the order of the encoder's columns."""
    by_name = dict(zip(model.feature_names_out_, model.coef_[0], strict=True))
    columns = zip(encoder.feature_names_in_, encoder.categories_, strict=True)
    names = [f"{column}[{level}]" for column, levels in columns for level in levels]
    assert set(names) == set(by_name)
    return np.array([by_name[name] for name in names])
