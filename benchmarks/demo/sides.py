"""The two that fit: daskglm on a cluster, scikit-learn in this process, timed stage by stage."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dask
import dask.array as da
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


def encoder_of(categories: list[Any] | str = "auto") -> OneHotEncoder:
    """Return the encoder that both sides use: a column of zeros and ones for each category."""
    return OneHotEncoder(categories=categories, handle_unknown="ignore")


def by_daskglm(client: Client, problem: Problem) -> tuple[Side, OneHotEncoder | None]:
    """Fit on the workers, to which the rows are sent in partitions."""
    side = Side("daskglm, 2 workers")
    train = len(problem.y) - problem.held_out
    edges = np.linspace(0, train, PARTITIONS + 1).astype(int)
    with side.stage("loading"):
        parts = [take(problem.table, slice(lo, hi)) for lo, hi in itertools.pairwise(edges)]
        sent = client.scatter(parts)
        y = da.from_array(problem.y[:train], chunks=(tuple(np.diff(edges)),)).persist()
        wait([sent, y])

    encoder = None
    with side.stage("encoding"):
        blocks = [delayed(part) for part in sent]
        if isinstance(problem.table, pd.DataFrame):
            found = dask.compute(*(delayed(_categories)(block) for block in blocks))
            categories = [np.unique(np.concatenate(column)) for column in zip(*found, strict=True)]
            encoder = encoder_of(categories).fit(problem.table.iloc[:1])
            blocks = [delayed(encoder.transform)(block) for block in blocks]
        X = _array(blocks, np.diff(edges), problem, encoder).persist()
        wait(X)

    with side.stage(FIRST_FIT):
        daskglm.fit(X, y)
    with side.stage("fitting"):
        side.model = daskglm.fit(X, y, progress=True)
    return side, encoder


def by_scikit_learn(problem: Problem) -> tuple[Side, OneHotEncoder | None]:
    """Fit in this process, with the same penalty."""
    side = Side("scikit-learn, lbfgs")
    train = len(problem.y) - problem.held_out
    X, encoder = take(problem.table, slice(train)), None
    with side.stage("encoding"):
        if isinstance(X, pd.DataFrame):
            encoder = encoder_of()
            X = encoder.fit_transform(X)
    with side.stage("fitting"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it stops early shows in the table
        side.model = LogisticRegression(max_iter=1000).fit(X, problem.y[:train])
    return side, encoder


def judge(sides: list[tuple[Side, OneHotEncoder | None]], problem: Problem) -> float:
    """Evaluate both objectives on the training rows, and predict the held-out ones.

    Returns a proved lower bound on the objective of any model, from the gap that daskglm reports.
    """
    train = len(problem.y) - problem.held_out
    signs = np.where(problem.y[:train] == 1, 1.0, -1.0)
    for side, encoder in sides:
        X = problem.table if encoder is None else encoder.transform(problem.table)
        coef, intercept = side.model.coef_[0], float(side.model.intercept_[0])
        side.objective = objective(X[:train], signs, coef, intercept, loss="logistic", C=1.0)
        side.probability = side.model.predict_proba(X[train:])[:, 1]
    report = sides[0][0].model.report_
    return float(report.objective / (1.0 + report.relative_gap))


def _categories(frame: pd.DataFrame) -> list[np.ndarray]:
    return [frame[name].unique() for name in frame]


def _array(blocks: list[Any], sizes: Any, problem: Problem, encoder: OneHotEncoder | None) -> Any:
    """Return a dask array of the encoded partitions."""
    first = take(problem.table, slice(1))
    like = first if encoder is None else encoder.transform(first)
    width = like.shape[1]
    meta = sp.csr_matrix((0, width)) if sp.issparse(like) else np.empty((0, width))
    parts = [
        da.from_delayed(block, (int(rows), width), dtype=like.dtype, meta=meta)
        for block, rows in zip(blocks, sizes, strict=True)
    ]
    return da.concatenate(parts)
