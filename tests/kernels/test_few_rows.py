"""Rows without curvature are left out of Grams and products, and change neither."""

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.requests import Evaluate, HessianVector
from daskglm.kernels import few_rows, storages, sweep
from tests.kernels.cases import build, weighted_case
from tests.losses.formulas import reference

N = 1301


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [5, 31, 33, 64, 65, 130, 300])
@pytest.mark.parametrize("far", [0.0, 1.0, 30.0])
def test_grams_and_products_of_rows_of_which_some_have_curvature(far, d, dtype, sparse):
    engine, problem, X, y, s, o, w, rng = build(
        weighted_case("squared_hinge", d, dtype, sparse=sparse, seed=int(10 * far))
    )
    if far > 1.0:  # along the labels, where few rows are within the margin
        w = far * np.linalg.lstsq(np.asarray(X), y - o, rcond=None)[0]
    elif far == 0.0:
        w = 0.0 * w
    _, _, curvature = reference("squared_hinge", y, X @ w + o)
    got = engine.total(problem, Evaluate(w, 1, gram=True, diagonal=True))
    assert (curvature == 0.0).any() or far == 0.0
    hessian = X.T @ ((s * curvature)[:, None] * X)
    scale = np.sqrt(np.outer(np.diag(hessian), np.diag(hessian))) + 1e-300
    error = 1e-5 if dtype == np.float32 else 1e-10
    assert (np.abs(np.triu(got["gram"]) - np.triu(hessian)) <= error * scale + 1e-300).all()
    np.testing.assert_allclose(got["diagonal"], np.diag(hessian), rtol=1e-10, atol=1e-14)
    v = rng.standard_normal(len(w))
    product = engine.total(problem, HessianVector(v, (1, w)))["product"]
    size = np.abs(hessian) @ np.abs(v)
    assert (np.abs(product - hessian @ v) <= 1e-10 * size + 1e-14).all()
    engine.close()


@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_products_by_the_share_of_rows_with_curvature(share, kind):
    rng = np.random.default_rng(int(100 * share))
    X = rng.standard_normal((N, 70)) * (rng.random((N, 70)) < 0.3)
    curvature = np.where(rng.random(N) < share, rng.random(N), 0.0)
    v = rng.standard_normal(70)
    rows = storages.arrays_of(sp.csr_matrix(X) if kind == "csr" else X)
    out = np.zeros(71)
    for start, stop in ((0, 900), (900, N)):
        sweep.hessian_vector(rows, curvature, v, 0.2, start, stop, out)
    expected = np.column_stack([X, np.ones(N)]).T @ (curvature * (X @ v + 0.2))
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-11)


def test_few_are_fewer_than_a_quarter():
    assert few_rows.are_few.py_func(np.zeros(8))
    assert few_rows.are_few.py_func(np.array([0.0, 0.0, 0.0, 0.0, 1.0]))
    assert not few_rows.are_few.py_func(np.array([0.0, 0.0, 0.0, 2.0]))


def test_rows_without_curvature_are_not_read():
    """A row whose values are no numbers shows that it was."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 40))
    curvature = np.zeros(400)
    curvature[::50] = 1.0
    X[curvature == 0.0] = np.nan
    out = np.zeros(41)
    sweep.hessian_vector(storages.arrays_of(X), curvature, np.ones(40), 0.0, 0, 400, out)
    assert np.isfinite(out).all()
