"""Values, gradients, diagonals, Grams and products of rows of every storage."""

import numpy as np
import pytest
from hypothesis import given, settings

from daskglm.core.requests import Evaluate, HessianVector
from daskglm.kernels import dense
from tests.conftest import make_problem
from tests.kernels.cases import KINKED, build, problems
from tests.losses.formulas import FAMILIES, reference


@settings(max_examples=60, deadline=None)
@given(problems)
def test_value_gradient_diagonal_gram_and_product(case):
    engine, problem, X, y, s, o, w, rng = build(case)
    value, slope, curvature = reference(case["loss"], y, X @ w + o)
    got = engine.total(problem, Evaluate(w, 1, gram=True, diagonal=True))
    # sums of float32 products reach float64 after 128 rows; gradients are float64 throughout
    gram_error = 1e-5 if case["dtype"] == np.float32 else 1e-10
    # slopes of families are differences of numbers of the size of their curvatures
    of_slopes = np.abs(slope) + (curvature if case["loss"] in FAMILIES else 0.0)
    size = np.abs(X).T @ (s * of_slopes) + 1e-300
    np.testing.assert_allclose(got["value"], s @ value, rtol=1e-12)
    assert (np.abs(got["gradient"] - X.T @ (s * slope)) <= 1e-12 * size).all()
    hessian = X.T @ ((s * curvature)[:, None] * X)
    np.testing.assert_allclose(got["diagonal"], np.diag(hessian), rtol=1e-10, atol=1e-14)
    scale = np.sqrt(np.outer(np.diag(hessian), np.diag(hessian))) + 1e-300
    assert (np.abs(np.triu(got["gram"]) - np.triu(hessian)) <= gram_error * scale + 1e-300).all()
    v = rng.standard_normal(len(w))
    product = engine.total(problem, HessianVector(v, (1, w)))["product"]
    np.testing.assert_allclose(
        product, hessian @ v, rtol=1e-9, atol=1e-10 * np.abs(hessian).max(initial=1e-3) * len(w)
    )
    engine.close()


@settings(max_examples=25, deadline=None)
@given(problems)
def test_finite_differences(case):
    engine, problem, X, y, s, o, w, rng = build(case)
    direction = rng.standard_normal(len(w)) / max(np.sqrt(len(w)), 1.0)
    h = 1e-6
    ends = [
        engine.total(problem, Evaluate(w + t * direction, i)) for i, t in enumerate((-h, 0.0, h))
    ]
    slope = ends[1]["gradient"] @ direction
    numeric = (ends[2]["value"] - ends[0]["value"]) / (2 * h)
    assert abs(slope - numeric) <= 1e-5 * (1 + abs(slope) + abs(ends[1]["value"]))
    if case["loss"] not in KINKED:  # its slope has kinks
        product = engine.total(problem, HessianVector(direction, (1, w)))["product"]
        numeric = (ends[2]["gradient"] - ends[0]["gradient"]) / (2 * h)
        np.testing.assert_allclose(
            product, numeric, rtol=1e-4, atol=1e-5 * (1 + np.abs(product).max())
        )
    engine.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_added_by_code(dtype):
    X, values = make_problem(50, 6, dtype=dtype)
    codes = np.arange(50) % 3
    out = np.ones((4, 7))
    dense.add_by_code(X, values, codes, 2, 50, out)
    of = np.eye(4)[codes[2:]].T @ (values[2:, None] * np.hstack([X, np.ones((50, 1))])[2:])
    np.testing.assert_allclose(out, 1.0 + of, rtol=1e-12)
