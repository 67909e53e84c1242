"""Sums of the ordinal loss over dense rows against long double, and against finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings

from daskglm.core.requests import Evaluate, HessianVector
from tests.kernels.ordinal_cases import Case, cases, hessian_of


def check(case):
    """Value, gradient, Hessian, its diagonal, and a product."""
    value, g, H = case.logistic_terms()
    d = len(case.w)
    request = Evaluate(np.append(case.w, case.t), 1, gram=True, diagonal=True)
    got = case.engine.total(case.problem, request)
    size = np.sqrt(np.outer(np.diag(H), np.diag(H)))
    assert got["value"] == pytest.approx(value, rel=1e-11)
    mass = case.shares.sum()
    np.testing.assert_allclose(got["gradient"], g, atol=1e-11 * mass)
    assert (np.abs(hessian_of(got) - H) <= case.gram_error * size + 1e-12 * mass).all()
    np.testing.assert_allclose(got["diagonal"], np.diag(H)[:d], rtol=1e-9, atol=1e-13 * mass)
    np.testing.assert_allclose(got["weights"], case.shares, rtol=1e-12)
    product = HessianVector(case.v, (1, np.append(case.w, case.t)))
    got = case.engine.total(case.problem, product)
    expected = H @ case.v
    bound = 1e-11 * mass * (1 + np.abs(case.v).max()) * d
    np.testing.assert_allclose(got["product"], expected, atol=bound)


@settings(max_examples=40, deadline=None)
@given(cases)
def test_values_and_derivatives(drawn):
    case = Case(drawn, sparse=False)
    check(case)
    exact = Evaluate(np.append(case.w, case.t), 2, gram=True, exact=True)
    H = case.logistic_terms()[2]
    size = np.sqrt(np.outer(np.diag(H), np.diag(H)))
    error = 1e-11 * size + 1e-12 * case.shares.sum()
    assert (np.abs(hessian_of(case.engine.total(case.problem, exact)) - H) <= error).all()
    case.engine.close()


def test_gradients_and_products_are_finite_differences():
    drawn = {
        "dtype": np.float64,
        "weighted": True,
        "moved": True,
        "K": 5,
        "n": 300,
        "d": 6,
        "seed": 3,
    }
    case, h = Case(drawn, sparse=False), 1e-6

    def at(step, token):
        v = np.append(case.w, case.t) + step * case.v
        request = Evaluate(v, token)
        got = case.engine.total(case.problem, request)
        return got["value"], got["gradient"]

    (low, before), (_, here), (high, after) = (at(step, k) for k, step in enumerate((-h, 0.0, h)))
    assert here @ case.v == pytest.approx((high - low) / (2 * h), rel=1e-7)
    request = HessianVector(case.v, (1, np.append(case.w, case.t)))
    got = case.engine.total(case.problem, request)
    numeric = (after - before) / (2 * h)
    np.testing.assert_allclose(got["product"], numeric, rtol=1e-6, atol=1e-6)


def test_long_sums_are_made_in_runs():
    drawn = {
        "dtype": np.float64,
        "weighted": False,
        "moved": False,
        "K": 3,
        "n": 5000,
        "d": 3,
        "seed": 1,
    }
    check(Case(drawn, sparse=False))
