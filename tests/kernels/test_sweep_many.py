"""Many problems in one sweep over the rows."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from daskglm.core.batch_requests import EvaluateMany
from daskglm.core.requests import Folds, LossRef, Problem
from daskglm.core.summation import MOMENT
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.worker.output_layouts import DENSE_WIDTH
from tests.conftest import make_problem


@pytest.mark.parametrize("d", [1, 5, 28, 100])
@pytest.mark.parametrize("kind", ["float32", "float64", "csr"])
def test_one_sweep_of_many_tiles_is_numpys(d, kind):
    X, y = make_problem(2600, d, sparse=kind == "csr", seed=4)
    X = X.astype(np.float32) if kind == "float32" else X
    rng = np.random.default_rng(0)
    groups = rng.choice(3, len(y), p=[0.7, 0.297, 0.003])  # the last is missing from some tiles
    folds = Folds("three", ((1, 0), (0, 1), (0, 2)), groups=groups)
    engine = Local(partitions(X, y, None, classify=True).load())
    W, anchors = (
        rng.standard_normal((3, d + 1)) / np.sqrt(d),
        rng.standard_normal((1, d + 1)) / np.sqrt(d),
    )
    of, fold = np.zeros(3, int), np.array([-1, 0, 1])
    request = EvaluateMany(
        W, of, fold, (1.0,), (0, 2), anchors=anchors, anchor=np.array([0, -1, 0])
    )
    got = engine.total(Problem(LossRef("logistic"), folds=folds), request)
    by = engine.total(
        Problem(LossRef("logistic"), folds=folds),
        EvaluateMany(W, of, fold * 0 - 1, (1.0,), (0, 1, 2), by_group=True),
    )
    basis = np.c_[X.toarray() if sp.issparse(X) else X, np.ones(len(y))].astype(np.float64)
    rounding = 1e-6 if kind == "float32" else 1e-12
    for p in range(3):
        z = basis @ W[p]
        loss, slope, curvature = np.logaddexp(0, -y * z), -y * expit(-y * z), expit(z) * expit(-z)
        trained = np.array(
            [True] * 3 if fold[p] < 0 else [role[fold[p]] == 0 for role in folds.roles]
        )[groups]
        np.testing.assert_allclose(
            got["gradients"][0, p], basis.T @ (slope * trained), atol=1e-10 * len(y)
        )
        for g in range(3):
            here = groups == g
            np.testing.assert_allclose(by["values"][g, p], loss @ here, rtol=1e-12)
            np.testing.assert_allclose(
                by["gradients"][g, p], basis.T @ (slope * here), atol=1e-10 * len(y)
            )
            gram = basis.T @ ((curvature * here)[:, None] * basis)
            np.testing.assert_allclose(by["grams"][g, p], gram, atol=rounding * np.abs(gram).max())
        if p != 1:
            gram = basis.T @ ((curvature * trained)[:, None] * basis)
            np.testing.assert_allclose(
                got["grams"][0, p // 2], gram, atol=rounding * np.abs(gram).max()
            )
            moment = ((z - basis @ anchors[0]) ** MOMENT).sum()
            np.testing.assert_allclose(got["moments"][p], moment, rtol=1e-9)
    engine.close()


def test_wide_sparse_rows_add_up_by_group_and_from_anchors():
    X, y = make_problem(700, DENSE_WIDTH + 20, sparse=True, seed=5)
    rng = np.random.default_rng(1)
    folds = Folds("two", ((1, 0), (0, 1)), groups=rng.integers(0, 2, len(y)))
    engine = Local(partitions(X, y, None, classify=True).load())
    W, anchors = 0.1 * rng.standard_normal((2, 3, X.shape[1] + 1))
    request = EvaluateMany(
        *(W, np.zeros(3, int), np.full(3, -1), (1.0,)),
        by_group=True,
        anchors=anchors,
        anchor=np.array([2, -1, 0]),
    )
    found = engine.total(Problem(LossRef("logistic"), folds=folds), request)
    basis = np.c_[X.toarray(), np.ones(len(y))].astype(np.float64)
    z, near = basis @ W.T, basis @ anchors.T
    for p in range(3):
        for g in range(2):
            slope = -y * expit(-y * z[:, p]) * (folds.groups == g)
            np.testing.assert_allclose(found["gradients"][g, p], basis.T @ slope, atol=1e-10)
    moved = ((z[:, [0, 2]] - near[:, [2, 0]]) ** MOMENT).sum(axis=0)
    np.testing.assert_allclose(found["moments"], [moved[0], 0.0, moved[1]], rtol=1e-9)
    with pytest.raises(NotImplementedError, match="no Hessians"):
        engine.total(Problem(LossRef("logistic"), folds=folds), replace(request, gram=(0,)))
    engine.close()
