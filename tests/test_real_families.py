"""Fits of real sets: coefficients are those of the reference in long double, to 1e-8."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

import daskglm

from . import real_families as real
from .reference import solve

SHARE = {  # deviance explained on the rows of the fit, by tests/reference.py, 2026-11
    "rwm5yr": 0.0662,
    "medpar": 0.1064,
    "NMES1988": 0.1280,
    "DoctorVisits": 0.2227,
    "RecreationDemand": 0.5245,
    "DoctorContacts": 0.1399,
    "RandHIE": 0.1625,
    "bike_hour": 0.8014,
}
SLOW = {
    *("rwm5yr", "DoctorContacts", "RandHIE", "bike_hour"),
    *("beMTPL97", "norauto", "swmotorcycle", "ausprivauto0405", "mnist"),
}


def marked(names):
    return [
        pytest.param(each, marks=pytest.mark.nightly) if each in SLOW else each for each in names
    ]


def fit(problem, **options):
    return solve(
        problem.X,
        problem.y,
        problem.family,
        problem.link,
        sample_weight=problem.sample_weight,
        exposure=problem.exposure,
        power=problem.power,
        groups=problem.groups,
        **options,
    )


def agrees(problem, found):
    """Whether our coefficients and intercept are those of the reference, to 1e-8 of each."""
    power = "" if problem.power is None else f"({problem.power})"
    model = daskglm.GeneralizedLinearRegressor(
        problem.family + power, alpha=0, tol=1e-18, solver="newton"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding may end it first
        model.fit(problem.X, problem.y, problem.sample_weight, exposure=problem.exposure)
    largest = np.abs(found.coef).max()
    np.testing.assert_allclose(model.coef_, found.coef, rtol=1e-8, atol=1e-8 * largest)
    np.testing.assert_allclose(model.intercept_, found.intercept, rtol=1e-8)
    assert model.report_.relative_gap < 1e-12
    return True


def has_full_rank(X):
    columns = np.column_stack([X, np.ones(len(X))])
    gram = columns.T @ columns
    scale = 1 / np.sqrt(np.diag(gram))
    return np.linalg.eigvalsh(gram * np.outer(scale, scale))[0] > 1e-6


@pytest.mark.parametrize("name", marked(real.EVENTS))
def test_counts(name):
    problem = real.event_counts(name)
    assert np.all(problem.y >= 0)
    assert np.all(problem.y == np.round(problem.y))
    assert has_full_rank(problem.X)
    found = fit(problem)
    assert round(1 - found.deviance / found.null_deviance, 4) == SHARE[name]
    np.testing.assert_allclose(found.mean.sum(), problem.y.sum(), rtol=1e-12)
    assert agrees(problem, found)
    if name in real.CLUSTERS:
        assert problem.groups.shape == problem.y.shape
        assert np.all(found.bse("cluster")[:-1] > 0.5 * found.bse("HC1")[:-1])


@pytest.mark.parametrize("name", marked(real.CLAIMS))
def test_claims(name):
    counts, severity, premium = (
        make(name) for make in (real.claim_counts, real.claim_severity, real.pure_premium)
    )
    assert counts.X is premium.X
    assert np.all(counts.exposure > 0)
    assert 0 < counts.y.mean() < 0.2
    assert np.all(severity.y > 0)
    assert len(severity.y) < 0.2 * len(counts.y)
    assert np.all(premium.y >= 0)
    assert np.mean(premium.y == 0) > 0.8
    paid = severity.y @ severity.sample_weight
    np.testing.assert_allclose(premium.y @ premium.sample_weight, paid, rtol=1e-3)
    for problem in (counts, severity, premium):
        assert has_full_rank(problem.X)


def test_severity_of_motorcycles():
    """For Gamma with log link the weighted ratios of targets and means sum to the weights."""
    problem = real.claim_severity("swmotorcycle")
    found = fit(problem)
    assert round(1 - found.deviance / found.null_deviance, 4) == 0.1286
    assert agrees(problem, found)
    s = problem.sample_weight
    np.testing.assert_allclose(s @ (problem.y / found.mean), s.sum(), rtol=1e-12)


@pytest.mark.nightly
def test_counts_and_premium_of_motorcycles():
    for make, share in ((real.claim_counts, 0.1311), (real.pure_premium, 0.2546)):
        problem = make("swmotorcycle")
        found = fit(problem)
        assert agrees(problem, found)
        assert round(1 - found.deviance / found.null_deviance, 4) == share


@pytest.mark.nightly
def test_postcodes_are_sparse():
    problem = real.postcode_counts()
    assert sp.issparse(problem.X)
    assert problem.X.shape == (163_212, 622)
    assert len(problem.exposure) == len(problem.y) == 163_212


@pytest.mark.slow
@pytest.mark.parametrize("name", marked(real.CLASSES))
def test_classes(name):
    problem = real.classes(name, rows=2000)
    number = {"letter": 26, "covtype15k": 7, "news20_libsvm": 20}.get(name, 10)
    assert problem.X.shape[0] == len(problem.y) == 2000
    assert set(problem.y) == set(range(number))
    assert np.abs(problem.X).max() <= (10 if name == "covtype15k" else 1)
    assert sp.issparse(problem.X) == (name == "news20_libsvm")
    if problem.test is not None:
        assert problem.test[0].shape == (len(problem.test[1]), problem.X.shape[1])
        assert set(problem.test[1]) == set(range(number))


# C, and rows where the whole set takes too long
FITTED = {
    "pendigits": (1.0, None),
    "letter": (1.0, None),
    "covtype15k": (1.0, None),
    "mnist": (0.01, 5000),
    "news20_libsvm": (1.0, 4000),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly)
        if name in ("mnist", "news20_libsvm")
        else name
        for name in FITTED
    ],
)
@pytest.mark.slow
def test_coefficients_of_classes_are_within_their_gradient_of_the_optimum(name):
    """The objective is 1-strongly convex in W: |W - W*| <= |g|, here formed by NumPy."""
    C, rows = FITTED[name]
    problem = real.classes(name, rows=rows) if rows else real.classes(name)
    X, y = problem.X, problem.y
    few = X.shape[1] < 100
    model = daskglm.LogisticRegression(
        C=C, tol=1e-20 if few else 1e-16, solver="newton" if few else "auto"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding may end it first
        model.fit(X, y)
    slopes = softmax(X @ model.coef_.T + model.intercept_, axis=1)
    slopes[np.arange(len(y)), y] -= 1.0
    gradient = model.coef_ + C * (X.T @ slopes).T
    # the intercepts' part moves that of the coefficients by at most the largest row
    rest = C * np.abs(slopes.sum(axis=0)).sum() * np.sqrt(np.max(sp.csr_array(X).power(2).sum(1)))
    size = np.linalg.norm(model.coef_)
    assert np.linalg.norm(gradient) <= 1e-8 * size if few else 1e-7 * size
    assert rest <= 1e-6 * size
    assert model.report_.relative_gap < 1e-6
