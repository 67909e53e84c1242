"""What tests/real_families.py loads can be fitted: domains, full rank, and optima of the reference."""

import numpy as np
import pytest
import scipy.sparse as sp

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
SLOW = {"rwm5yr", "DoctorContacts", "RandHIE", "bike_hour", "beMTPL97", "norauto", "mnist"}


def marked(names):
    return [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in names]


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
    s = problem.sample_weight
    np.testing.assert_allclose(s @ (problem.y / found.mean), s.sum(), rtol=1e-12)


@pytest.mark.slow
def test_counts_and_premium_of_motorcycles():
    for make, share in ((real.claim_counts, 0.1311), (real.pure_premium, 0.2546)):
        found = fit(make("swmotorcycle"))
        assert round(1 - found.deviance / found.null_deviance, 4) == share


@pytest.mark.slow
def test_postcodes_are_sparse():
    problem = real.postcode_counts()
    assert sp.issparse(problem.X)
    assert problem.X.shape == (163_212, 622)
    assert len(problem.exposure) == len(problem.y) == 163_212


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
