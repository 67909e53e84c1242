"""Sparse models of real sets: the gap is proved, here again by NumPy, in process and on two workers."""

import functools

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from dask import delayed
from scipy.special import expit, xlogy

import daskglm
from tests.covering import covering

from . import real_families as real

# Text and genes have more columns than rows, up to 1,606,139 of news20.
TEXTS = ("rcv1_binary", "amazon_reviews", "news20_text")
SELECTIONS = ("ALLAML", "BASEHOCK", "PCMAC", "RELATHE")
INSURANCE = ("norauto", "swmotorcycle", "ausprivauto0405", "beMTPL97")
SLOW = {*TEXTS, "beMTPL97", "norauto"}
SHARES = (10, 100, 1000)
RATIOS = (1.0, 0.5)
GAP = 1e-6
# Of a fit that rounding may end first.
TIGHTER = 1e-24
# Partitions of the rows on a cluster.
PARTITIONS = 5


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def marked(names):
    return [
        pytest.param(each, marks=pytest.mark.nightly) if each in SLOW else each for each in names
    ]


def losses(family, y, z):
    """Values and slopes of half the unit deviance."""
    if family == "binomial":
        return np.logaddexp(0.0, z) - y * z, expit(z) - y
    mean = np.exp(z)
    return mean - y - y * z + xlogy(y, np.where(y > 0, y, 1.0)), mean - y


def best_intercept(family, y, z, b, s):
    """The intercept for margins z without one, by Newton's method from b."""
    for _ in range(50):
        _, slope = losses(family, y, z + b)
        mean = slope + y
        curvature = mean * (1.0 - mean) if family == "binomial" else mean
        step = (s @ slope) / (s @ curvature)
        b -= step
        if abs(step) < 1e-15 * max(1.0, abs(b)):
            break
    return b


def largest_alpha(X, y, family, s, offset):
    """max |gradient| where all coefficients are zero, and the intercept is best."""
    z = np.broadcast_to(offset, y.shape)
    b = best_intercept(family, y, z, 0.0, s)
    return np.abs(X.T @ (s * losses(family, y, z + b)[1])).max()


def bounds(X, y, family, model, *, lam, mu, s, offset):
    """The value of sum s l + lam |w|_1 + mu/2 |w|^2, and a bound below by shrunken slopes.

    The conjugates obey l*(c u) <= c l*(u) for c in [0, 1] where the least loss is zero, so that
    D = c (L - w.g) - sum (c |g_j| - lam)_+^2 / (2 mu), for slopes that sum to zero.
    """
    w = np.ravel(model.coef_)
    z = X @ w + offset
    b = best_intercept(family, y, z, float(np.ravel(model.intercept_)[0]), s)
    value, slope = losses(family, y, z + b)
    loss, g = s @ value, X.T @ (s * slope)
    primal = loss + lam * np.abs(w).sum() + mu / 2 * w @ w
    shares = [min(1.0, lam / np.abs(g).max())]
    if mu > 0.0:
        shares += [1.0, *(1.0 - np.geomspace(1e-12, 1.0, 100))]
    dual = max(
        c * (loss - w @ g)
        - (np.sum(np.maximum(c * np.abs(g) - lam, 0.0) ** 2) / (2 * mu) if mu > 0.0 else 0.0)
        for c in shares
    )
    return primal, dual


def assert_proved(X, y, family, model, fit_again, **given):
    """Whether the value is within GAP of the least one, by NumPy.

    The bound is linear in the error of the slopes, and the package has better ones: where the
    fit's own point proves too little, that of a tighter fit does.
    """
    primal, dual = bounds(X, y, family, model, **given)
    if primal - dual > GAP * primal:
        dual = bounds(X, y, family, fit_again(), **given)[1]
    assert primal - dual <= 1.01 * GAP * primal


def lazy(X, *vectors):
    """Rows as a dask array of five blocks, sparse where they are, and vectors beside them."""
    step = -(-X.shape[0] // PARTITIONS)
    cuts = [slice(at, at + step) for at in range(0, X.shape[0], step)]
    if sp.issparse(X):
        blocks = [da.from_delayed(delayed(X[cut]), X[cut].shape, X.dtype) for cut in cuts]
        return da.concatenate(blocks), *(da.from_array(v, chunks=step) for v in vectors)
    return da.from_array(X, chunks=(step, -1)), *(da.from_array(v, chunks=step) for v in vectors)


@functools.cache
def classes(name, load):
    X, y = load(name)
    X = sp.csr_matrix(X) if sp.issparse(X) else np.asarray(X)
    return X, (y > 0).astype(float)


def fitted(model, X, where, request, y, **vectors):
    """Fit rows in this process, or as dask arrays on two workers."""
    if where == "on two workers":
        request.getfixturevalue("client")
        X, y, *lists = lazy(X, y, *vectors.values())
        vectors = dict(zip(vectors, lists, strict=True))
    model.fit(X, y, **vectors)
    assert model.report_.workers == (2 if where == "on two workers" else 1)
    assert model.report_.relative_gap <= max(model.tol, GAP)
    return model


@pytest.mark.timeout(1800)
@covering(where=["in process", "on two workers"], l1_ratio=RATIOS, share=SHARES)
@pytest.mark.parametrize("name", marked([*SELECTIONS, *TEXTS]))
@pytest.mark.nightly
def test_sparse_classifiers(name, share, l1_ratio, where, real_set, request):
    X, y = classes(name, real_set)
    s = np.ones(len(y))
    C = share * l1_ratio / largest_alpha(X, y, "binomial", s, 0.0)

    def fit(tol):
        model = daskglm.LogisticRegression(C=C, l1_ratio=l1_ratio, tol=tol)
        return fitted(model, X, where, request, y)

    model = fit(GAP)
    terms = {"lam": l1_ratio, "mu": 1.0 - l1_ratio, "s": C * s, "offset": 0.0}
    assert_proved(X, y, "binomial", model, lambda: fit(TIGHTER), **terms)
    assert 0 < np.count_nonzero(model.coef_) < X.shape[1]


@covering(where=["in process", "on two workers"], l1_ratio=RATIOS, share=SHARES)
@pytest.mark.parametrize("name", marked(INSURANCE))
@pytest.mark.nightly
def test_sparse_counts(name, share, l1_ratio, where, request):
    """Claims of insurance policies, with years as exposure; the largest set with its postcodes."""
    found = real.postcode_counts() if name == "beMTPL97" else real.claim_counts(name)
    X, y, years = found.X, found.y, found.exposure
    s, offset = np.full(len(y), 1.0 / len(y)), np.log(years)
    alpha = largest_alpha(X, y, "poisson", s, offset) / l1_ratio / share

    def fit(tol):
        model = daskglm.PoissonRegressor(alpha=alpha, l1_ratio=l1_ratio, tol=tol)
        return fitted(model, X, where, request, y, exposure=years)

    model = fit(GAP)
    terms = {"lam": alpha * l1_ratio, "mu": alpha * (1.0 - l1_ratio), "s": s, "offset": offset}
    assert_proved(X, y, "poisson", model, lambda: fit(TIGHTER), **terms)
    assert np.count_nonzero(model.coef_) > 0
