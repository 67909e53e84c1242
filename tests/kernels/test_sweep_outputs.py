"""Kernels of the softmax, on tiles of columns and on wide sparse rows, against NumPy; through a shard, which lays out W."""

from dataclasses import replace

import numpy as np
import pytest

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Problem
from daskglm.losses.table import find
from daskglm.worker.output_layouts import DENSE_WIDTH
from tests.covering import each_choice
from tests.kernels.softmax_case import draw, sums
from tests.worker.softmax_shard import engine_of

PROBLEM = Problem(find("multinomial").ref, classes=(0, 1, 2, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "csr", "pattern"])
@pytest.mark.parametrize(("n", "d", "K"), [(321, 7, 3), (1300, 54, 7), (40, 1, 4), (5, 30, 3)])
def test_sums_are_those_of_numpy(kind, dtype, n, d, K):
    X, codes, weight, W, V = draw(n, d, K, kind=kind, dtype=dtype)
    expected = sums(X, codes, weight, W, V)
    engine = engine_of(X, codes, weight)
    problem = replace(PROBLEM, classes=tuple(range(K)))
    found = engine.total(problem, Evaluate(W, 1, gram=True, diagonal=True))
    assert found["rows"] == n
    assert found["value"] == pytest.approx(expected["value"], rel=1e-13)
    scale = np.abs(expected["gradient"]).max()
    np.testing.assert_allclose(found["gradient"], expected["gradient"], atol=1e-13 * scale)

    single = kind == "dense" and dtype == np.float32
    grams = np.triu(expected["grams"])
    tolerance = (1e-5 if single else 1e-12) * np.abs(grams).max()
    np.testing.assert_allclose(np.triu(found["grams"]), grams, atol=tolerance)
    exact = engine.total(problem, Evaluate(W, 2, gram=True, exact=True))
    np.testing.assert_allclose(np.triu(exact["grams"]), grams, atol=1e-12 * np.abs(grams).max())

    of_class = [
        sum(
            gram
            for gram, pair in zip(grams, zip(*np.triu_indices(K, 1), strict=True), strict=True)
            if k in pair
        )
        for k in range(K)
    ]
    diagonals = np.array([np.diag(each) for each in of_class])
    np.testing.assert_allclose(found["diagonal"], diagonals, rtol=1e-10)
    product = engine.total(problem, HessianVector(V, (1, W)))
    scale = np.abs(expected["product"]).max()
    np.testing.assert_allclose(product["product"], expected["product"], atol=1e-12 * scale)


def test_without_an_intercept():
    X, codes, weight, W, V = draw()
    W[:, -1] = V[:, -1] = 0.0
    expected, engine = sums(X, codes, weight, W, V), engine_of(X, codes, weight)
    found = engine.total(PROBLEM, Evaluate(W[:, :-1], 1, gram=True))
    assert found["value"] == pytest.approx(expected["value"], rel=1e-13)
    np.testing.assert_allclose(found["gradient"], expected["gradient"][:, :-1], atol=1e-11)
    assert found["grams"].shape == (6, 7, 7)
    product = engine.total(PROBLEM, HessianVector(V[:, :-1], (1, W[:, :-1])))
    np.testing.assert_allclose(product["product"], expected["product"][:, :-1], atol=1e-11)


@each_choice
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["csr", "pattern"])
@pytest.mark.parametrize(("n", "K"), [(300, 3), (70, 20)])
def test_sums_of_wide_sparse_rows_are_those_of_numpy(kind, dtype, n, K):
    d = DENSE_WIDTH + 60
    X, codes, weight, W, V = draw(n, d, K, kind=kind, dtype=dtype)
    expected = sums(X, codes, weight, W, V)
    engine = engine_of(X, codes, weight)
    problem = replace(PROBLEM, classes=tuple(range(K)))
    found = engine.total(problem, Evaluate(W, 1, diagonal=True, basis=np.eye(K)))
    assert found["value"] == pytest.approx(expected["value"], rel=1e-13)
    scale = np.abs(expected["gradient"]).max()
    np.testing.assert_allclose(found["gradient"], expected["gradient"], atol=1e-13 * scale)
    scale = np.abs(expected["product"]).max()
    for token in (1, 2):  # margins that are cached, and others that are not
        product = engine.total(problem, HessianVector(V, (token, W)))
        assert product["rows"] == token * n
        np.testing.assert_allclose(product["product"], expected["product"], atol=1e-12 * scale)
    request = EvaluateAlong(((1, W),), np.ones((1, 1)), np.zeros((1, K)))
    assert engine.total(problem, request)["values"][0] == pytest.approx(expected["value"])


def test_grams_of_wide_rows_are_of_dense_tiles():
    X, codes, weight, W, V = draw(90, DENSE_WIDTH + 8, 3, kind="csr")
    expected, engine = sums(X, codes, weight, W, V), engine_of(X, codes, weight)
    found = engine.total(replace(PROBLEM, classes=(0, 1, 2)), Evaluate(W, 1, gram=True))
    grams = np.triu(expected["grams"])
    np.testing.assert_allclose(np.triu(found["grams"]), grams, atol=1e-12 * np.abs(grams).max())
