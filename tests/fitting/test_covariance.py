"""Inverses, sandwiches and refusals, on small matrices."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from daskglm.fitting.covariance import (
    check_optimum,
    classical,
    clustered,
    inverse_of,
    sandwich,
)

RNG = np.random.default_rng(0)
NAMES = ["a", "b", "c", "intercept"]


def hessian(columns=None):
    x = RNG.normal(size=(50, 4)) if columns is None else columns
    return x.T @ x


def test_inverses_of_any_scale_are_exact():
    scales = np.array([1e-8, 1.0, 1e6, 1e3])
    plain = hessian()
    found = inverse_of(plain * np.outer(scales, scales), NAMES)
    np.testing.assert_allclose(found * np.outer(scales, scales), np.linalg.inv(plain), rtol=1e-10)


def test_dependent_columns_are_named_with_what_they_depend_on():
    x = RNG.normal(size=(50, 4))
    x[:, 2] = 2.0 * x[:, 0] - 3.0 * x[:, 3]
    with pytest.raises(ValueError, match="linear combination of") as refused:
        inverse_of(hessian(x), NAMES)
    named = str(refused.value).split("Coefficients")[0]
    assert all(f"'{name}'" in named for name in ("a", "c", "intercept"))
    assert "'b'" not in named


def test_columns_that_differ_by_more_than_rounding_are_not_dependent():
    x = RNG.normal(size=(50, 4))
    noise = RNG.normal(size=50)
    x[:, 2] = x[:, 0] + 1e-5 * noise
    inverse_of(hessian(x), NAMES)
    x[:, 2] = x[:, 0] + 1e-7 * noise
    with pytest.raises(ValueError, match="singular"):
        inverse_of(hessian(x), NAMES)


def test_columns_without_information_and_infinite_ones_are_told():
    x = RNG.normal(size=(50, 4))
    x[:, 1] = 0.0
    with pytest.raises(ValueError, match="'b' has no information in any row"):
        inverse_of(hessian(x), NAMES)
    with pytest.raises(ValueError, match="not finite"):
        inverse_of(np.full((4, 4), np.nan), NAMES)


def test_many_dependent_columns_are_not_all_named():
    x = RNG.normal(size=(50, 3))
    names = [f"column{k}" for k in range(40)]
    with pytest.raises(ValueError, match="and 29 more") as refused:
        inverse_of(hessian(x @ RNG.normal(size=(3, 40))), names)
    assert len(str(refused.value)) < 2000


def test_dispersion_is_estimated_unless_it_is_fixed():
    inverse, found = classical(hessian(), np.zeros(4), 50.0, 23.0, None, NAMES)
    assert found.dispersion == 23.0 / 46.0
    np.testing.assert_allclose(found.matrix, 0.5 * inverse)
    assert classical(hessian(), np.zeros(4), 50.0, 23.0, 1.0, NAMES)[1].dispersion == 1.0
    assert np.isnan(classical(hessian(), np.zeros(4), 4.0, 23.0, None, NAMES)[1].dispersion)


def test_penalties_take_degrees_of_freedom():
    h, ridge = hessian(), np.array([5.0, 5.0, 5.0, 0.0])
    _, found = classical(h, ridge, 50.0, 23.0, None, NAMES)
    P = np.linalg.inv(h + np.diag(ridge))
    assert found.df_model == pytest.approx(np.trace(P @ h))
    assert 1.0 < found.df_model < 4.0
    np.testing.assert_allclose(found.matrix, 23.0 / (50.0 - found.df_model) * P @ h @ P)


def test_sandwiches_and_their_factors():
    inverse, meat = inverse_of(hessian(), NAMES), hessian()
    np.testing.assert_allclose(sandwich(inverse, meat, "HC0", 50.0, 4.0), inverse @ meat @ inverse)
    np.testing.assert_allclose(
        sandwich(inverse, meat, "HC1", 50.0, 4.0), 50 / 46 * inverse @ meat @ inverse
    )
    scores = RNG.normal(size=(6, 4))
    wanted = 6 / 5 * 49 / 46 * inverse @ scores.T @ scores @ inverse
    np.testing.assert_allclose(clustered(inverse, scores, 50.0, 4.0), wanted)


def test_factors_that_would_divide_by_zero_are_refused():
    inverse = np.eye(4)
    with pytest.raises(ValueError, match="at least two clusters, and clusters has 1"):
        clustered(inverse, np.ones((1, 4)), 50.0, 4.0)
    with pytest.raises(ValueError, match="'HC1' divides by rows less coefficients"):
        sandwich(inverse, inverse, "HC1", 4.0, 4.0)
    with pytest.raises(ValueError, match="'cluster' divides by rows less coefficients"):
        clustered(inverse, np.ones((3, 4)), 3.0, 4.0)


@pytest.mark.parametrize("step", [0.0, 0.009])
def test_small_steps_are_an_optimum(step):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_optimum(np.ones(2), np.array([0.0, step]), np.ones(2), np.eye(2), ["a", "b"])


def test_longer_steps_warn_and_long_ones_are_refused():
    def check(step, errors=1.0):
        given = np.ones(2), np.array([0.0, step]), np.full(2, errors), np.eye(2), ["a", "b"]
        check_optimum(*given)

    with pytest.warns(ConvergenceWarning, match="moves 'b' by 0.5 standard errors"):
        check(0.5)
    with pytest.raises(ValueError, match="moves 'b' by 1.5 standard errors.*not those of the fit"):
        check(-1.5)
    check(1e-10, errors=0.0)  # rounding, in a fit without any error
