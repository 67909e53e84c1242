"""Kernels of the softmax on wide sparse rows, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from daskglm.core.output_requests import EvaluateOutputs, OutputsAlong, OutputsHessianVector
from daskglm.core.requests import Problem
from daskglm.losses.table import find
from daskglm.worker.outputs import DENSE_WIDTH
from tests.covering import each_choice
from tests.kernels.softmax_case import draw, sums
from tests.worker.softmax_shard import engine_of

PROBLEM = Problem(find("multinomial").ref, classes=(0, 1, 2))


@each_choice
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["csr", "pattern"])
@pytest.mark.parametrize(("n", "K"), [(300, 3), (70, 20)])
def test_sums_are_those_of_numpy(kind, dtype, n, K):
    d = DENSE_WIDTH + 60
    X, codes, weight, W, V = draw(n, d, K, kind=kind, dtype=dtype)
    expected = sums(X, codes, weight, W, V)
    engine = engine_of(X, codes, weight)
    problem = replace(PROBLEM, classes=tuple(range(K)))
    found = engine.total(problem, EvaluateOutputs(W, 1, basis=np.eye(K)))
    assert found["value"] == pytest.approx(expected["value"], rel=1e-13)
    scale = np.abs(expected["gradient"]).max()
    np.testing.assert_allclose(found["gradient"], expected["gradient"], atol=1e-13 * scale)
    scale = np.abs(expected["product"]).max()
    for token in (1, 2):  # margins that are cached, and others that are not
        product = engine.total(problem, OutputsHessianVector(V, (token, W)))
        assert product["rows"] == token * n
        np.testing.assert_allclose(product["product"], expected["product"], atol=1e-12 * scale)
    request = OutputsAlong(((1, W),), np.ones((1, 1)), np.zeros((1, K)))
    assert engine.total(problem, request)["values"][0] == pytest.approx(expected["value"])


def test_grams_of_wide_rows_are_of_dense_tiles():
    X, codes, weight, W, V = draw(90, DENSE_WIDTH + 8, 3, kind="csr")
    expected, engine = sums(X, codes, weight, W, V), engine_of(X, codes, weight)
    found = engine.total(PROBLEM, EvaluateOutputs(W, 1, gram=True))
    grams = np.triu(expected["grams"])
    np.testing.assert_allclose(np.triu(found["grams"]), grams, atol=1e-12 * np.abs(grams).max())
