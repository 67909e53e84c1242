"""Fits of families beside the figures that were published of them, in process and on a cluster."""

import dask.array as da
import numpy as np
import pytest

import daskglm
from tests import published

FAMILIES = (
    "gaussian",
    "binomial",
    "poisson",
    "gamma",
    "inverse_gaussian",
    "tweedie",
    "negative_binomial",
)
# the inverse Gaussian and Tweedie have no identity link here
CASES = [
    name
    for family in FAMILIES
    for name in published.names(family)
    if name not in ("medpar_identity", "cpunish_identity")
]


def model_of(case):
    """The estimator of a case, at a precision beyond what was printed."""
    family = case.family
    if family == "tweedie":
        family = f"tweedie({case.power!r})"
    if family == "negative_binomial":
        family = f"negative_binomial({float(case.theta)!r})"
    return daskglm.GeneralizedLinearRegressor(
        family, link=case.link, alpha=0, fit_intercept=case.fit_intercept, tol=1e-14
    )


def scaled(case):
    """Columns over their largest values, and these: published columns differ by 1e6 in scale."""
    X = np.asarray(case.X, dtype=np.float64)
    scale = np.abs(X).max(axis=0)
    return X / scale, scale


def check(case, model, scale):
    case.assert_close("coef", model.coef_ / scale, rtol=1e-6)
    if case.fit_intercept:
        case.assert_close("intercept", model.intercept_, rtol=1e-6)
    for name in ("deviance", "null_deviance", "log_likelihood", "aic", "dispersion"):
        expected = getattr(case, name)
        if expected is not None and not (name == "null_deviance" and not case.fit_intercept):
            case.assert_close(name, getattr(model, f"{name}_"), rtol=1e-7)
    gap = model.report_.relative_gap
    if case.link in ("inverse", "1/mu^2", "probit"):
        # by rates of curvatures near the optimum
        assert gap <= 1e-12
    assert np.isnan(gap) or gap <= 1e-12 or model.report_.gradient_ratio <= 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CASES)
def test_published_figures(name):
    case = published.case(name)
    if case.theta_estimated or (case.family == "negative_binomial" and case.theta is None):
        pytest.skip("theta is estimated in this case")
    X, scale = scaled(case)
    model = model_of(case).fit(
        X, case.y, case.sample_weight, offset=case.offset, exposure=case.exposure
    )
    check(case, model, scale)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CASES[::2])
def test_published_figures_on_two_workers(name, client):
    case = published.case(name)
    if case.theta_estimated or (case.family == "negative_binomial" and case.theta is None):
        pytest.skip("theta is estimated in this case")
    X, scale = scaled(case)
    rows = -(-len(X) // 3)

    def lazy(values):
        return None if values is None else da.from_array(np.asarray(values, float), chunks=rows)

    model = model_of(case).fit(
        da.from_array(X, chunks=(rows, -1)),
        lazy(case.y),
        lazy(case.sample_weight),
        offset=lazy(case.offset),
        exposure=lazy(case.exposure),
    )
    assert model.report_.workers == 2
    check(case, model, scale)
