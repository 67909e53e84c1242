"""Offsets and exposures, from every container of rows, on every way to a fit."""

import math
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import train
from daskglm.losses.links import LOG
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.losses.formulas import reference
from tests.oracle.problem import Reference

RNG = np.random.default_rng(0)
N, D = 500, 4
X, _ = make_problem(N, D)
EXPOSURE = RNG.uniform(0.1, 3.0, N)
OFFSET = np.log(EXPOSURE)
Y = RNG.poisson(EXPOSURE * np.exp(0.3 + X @ [0.5, -1.0, 2.0, 0.1])).astype(float)
FRAME = pd.DataFrame(X, columns=list("abcd"))
NAMED = FRAME.assign(claims=Y, years=EXPOSURE, moved=OFFSET)
CUTS = (0, 3, 3, 240, N)


def fitted(rows=X, y=Y, *, loss="poisson", offset=None, exposure=None, client=None, **options):
    config = FitConfig(loss, **{"tol": 1e-12, "C": 0.5, **options})
    return train(rows, y, config, offset=offset, exposure=exposure, client=client)


def parts(values):
    return [dask.delayed(values[a:b]) for a, b in zip(CUTS[:-1], CUTS[1:], strict=True)]


WHOLE = fitted(exposure=EXPOSURE)
KINDS = {
    "offset": lambda: (X, Y, {"offset": OFFSET}),
    "lists": lambda: (X.tolist(), Y.tolist(), {"exposure": EXPOSURE.tolist()}),
    "half of each": lambda: (X, Y, {"offset": 0.5 * OFFSET, "exposure": np.sqrt(EXPOSURE)}),
    "csr": lambda: (sp.csr_matrix(X), Y, {"offset": OFFSET}),
    "pandas": lambda: (FRAME, pd.Series(Y), {"exposure": pd.Series(EXPOSURE)}),
    "pandas, by name": lambda: (NAMED.drop(columns="moved"), "claims", {"exposure": "years"}),
    "pandas, both": lambda: (
        NAMED.assign(years=1.0),
        "claims",
        {"exposure": "years", "offset": "moved"},
    ),
    "dask array": lambda: (
        da.from_array(X, chunks=(90, D)),
        da.from_array(Y, chunks=90),
        {"offset": da.from_array(OFFSET, chunks=90)},
    ),
    "dask array, other chunks": lambda: (
        da.from_array(X, chunks=(90, 2)),
        Y,
        {"exposure": da.from_array(EXPOSURE, chunks=77)},
    ),
    "dask array, offset in memory": lambda: (
        da.from_array(X, chunks=(90, D)),
        Y,
        {"offset": OFFSET},
    ),
    "dask frame": lambda: (
        dd.from_pandas(FRAME, npartitions=3),
        dd.from_pandas(pd.Series(Y), npartitions=3),
        {"exposure": dd.from_pandas(pd.Series(EXPOSURE), npartitions=3)},
    ),
    "dask frame, by name": lambda: (
        dd.from_pandas(NAMED.drop(columns="moved"), npartitions=4),
        "claims",
        {"exposure": "years"},
    ),
    "delayed": lambda: (parts(X), parts(Y), {"exposure": parts(EXPOSURE)}),
}


def same(found, whole=WHOLE, rtol=1e-8):
    np.testing.assert_allclose(found.coef, whole.coef, rtol=rtol)
    np.testing.assert_allclose(found.intercept, whole.intercept, rtol=rtol)


def test_the_fit_with_exposures_is_the_optimum_in_long_double():
    problem = Reference("poisson", X, Y, 0.5, True, offset=OFFSET)
    value = problem.value(WHOLE.coef[0], WHOLE.intercept[0])
    assert value - problem.least() <= 1e-12 * value
    assert WHOLE.report.relative_gap <= 1e-12
    assert WHOLE.report.objective == pytest.approx(float(value), rel=1e-12)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_container_gives_the_same_fit(kind):
    rows, y, beside = KINDS[kind]()
    same(fitted(rows, y, **beside))


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron", "gd"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_solvers_and_storages(solver, storage, dtype):
    tol = 1e-6 if solver == "gd" else 1e-10
    found = fitted(storage(X.astype(dtype)), exposure=EXPOSURE, solver=solver, tol=tol)
    assert found.report.converged
    same(found, fitted(X.astype(dtype), exposure=EXPOSURE), rtol=30 * math.sqrt(tol))


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("loss", ["poisson", "squared", "logistic"])
def test_on_workers(client, loss, scattered):
    y = {"poisson": Y, "squared": Y, "logistic": np.where(Y > 1.0, "many", "few")}[loss]
    rows = (X, y, OFFSET)
    if not scattered:
        rows = (da.from_array(X, chunks=(100, D)), da.from_array(y, chunks=100), OFFSET)
    found = fitted(rows[0], rows[1], loss=loss, offset=rows[2], client=client)
    same(found, fitted(X, y, loss=loss, offset=OFFSET))


def test_rows_that_are_read_for_each_pass():
    frame = dd.from_pandas(NAMED.drop(columns="moved"), npartitions=4)
    same(fitted(frame, "claims", exposure="years", out_of_core=True))
    array = da.from_array(X, chunks=(100, D))
    same(fitted(array, da.from_array(Y, chunks=100), offset=OFFSET, out_of_core=True))


def test_many_rows_whose_samples_have_their_offsets():
    rng = np.random.default_rng(1)
    n, d = 60_000, 60
    rows = rng.standard_normal((n, d))
    offset = rng.standard_normal(n)
    w = rng.standard_normal(d) / np.sqrt(d)
    y = rng.poisson(np.exp(offset + rows @ w)).astype(float)
    found = fitted(rows, y, offset=offset, solver="newton", tol=1e-8)
    assert found.report.converged
    # samples lead almost to the optimum
    assert found.report.passes < 8
    np.testing.assert_allclose(found.coef[0], w, atol=0.05)


# ---- what offsets and exposures mean
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs", "sdca"])
def test_an_offset_of_least_squares_is_a_shift_of_the_targets(solver, storage, dtype):
    rows = storage(X.astype(dtype))
    options = {"loss": "squared", "solver": solver, "random_state": 0}
    found = fitted(rows, Y, offset=OFFSET, **options)
    shifted = fitted(rows, Y - OFFSET, **options)
    np.testing.assert_array_equal(found.coef, shifted.coef)
    np.testing.assert_array_equal(found.intercept, shifted.intercept)
    assert found.report.objective == shifted.report.objective


@pytest.mark.parametrize("C", [0.5, np.inf])
def test_an_exposure_of_counts_is_a_weight_of_rates(C):
    counts = fitted(exposure=EXPOSURE, C=C)
    config = FitConfig("poisson", C=C, tol=1e-12)
    rates = train(X, Y / EXPOSURE, config, sample_weight=EXPOSURE)
    same(counts, rates, rtol=1e-9)
    assert counts.report.objective == pytest.approx(rates.report.objective, rel=1e-9)


@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie(1.5)", "negative_binomial(0.7)"])
def test_a_constant_exposure_moves_the_intercept_alone(loss):
    y = Y + (0.5 if loss == "gamma" else 0.0)
    plain, exposed = fitted(X, y, loss=loss), fitted(X, y, loss=loss, exposure=np.full(N, 7.0))
    np.testing.assert_allclose(exposed.coef, plain.coef, rtol=1e-7)
    np.testing.assert_allclose(exposed.intercept, plain.intercept - math.log(7.0), rtol=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge"])
@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs"])
def test_classes_take_offsets_too(loss, solver):
    y = np.where(Y > 1.0, 1.0, -1.0)
    found = fitted(X, y, loss=loss, offset=OFFSET, solver=solver, tol=1e-9)
    assert found.report.converged
    assert found.report.relative_gap <= 1e-9

    def value(w, b):
        return 0.5 * w @ w + 0.5 * reference(loss, y, X @ w + b + OFFSET)[0].sum()

    w, b = found.coef[0], found.intercept[0]
    assert found.report.objective == pytest.approx(value(w, b), rel=1e-12)
    for step in 1e-3 * np.random.default_rng(0).standard_normal((20, D + 1)):
        assert value(w + step[:D], b + step[D]) >= value(w, b) * (1 - 2e-9)


# ---- what is refused
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_sdca_takes_no_offset(loss):
    y = np.where(Y > 1.0, 1.0, -1.0)
    with pytest.raises(ValueError, match="takes no offset"):
        fitted(X, y, loss=loss, offset=OFFSET, solver="sdca")


@pytest.mark.parametrize("loss", ["squared", "logistic", "binomial", "gamma_inverse"])
def test_an_exposure_wants_a_log_link(loss):
    with pytest.raises(ValueError, match="has no log link"):
        fitted(X, (Y > 1.0).astype(float), loss=loss, exposure=EXPOSURE)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("beside", "row", "value", "said"),
    [
        ("exposure", 417, 0.0, "exposure is 0, which is not above 0"),
        ("exposure", 417, -2.0, "exposure is -2, which is not above 0"),
        ("exposure", 417, np.nan, "exposure contains NaN"),
        ("offset", 417, np.nan, "offset contains NaN"),
        ("offset", 417, np.inf, "offset contains infinity"),
        ("offset", 417, -1e300, r"offset is -1e\+300, and a sum of such squares overflows"),
    ],
)
def test_bad_values_are_named_with_their_row(beside, row, value, said, lazy):
    values = (EXPOSURE if beside == "exposure" else OFFSET).copy()
    values[row] = value
    rows, y = X, Y
    where = "row 417"
    if lazy:
        rows, y = da.from_array(X, chunks=(100, D)), da.from_array(Y, chunks=100)
        where = "partition 4, row 17"
    # these have the place at the end, others before
    with pytest.raises(ValueError, match=f"{where}.*{said}|{said}.*{where}"):
        fitted(rows, y, **{beside: values})


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("loss", "value", "said"),
    [
        ("poisson", -1.0, "y is -1, but poisson has targets at least 0"),
        ("tweedie(1.5)", -0.5, r"y is -0.5, but tweedie\(1.5\) has targets at least 0"),
        ("tweedie(2.5)", 0.0, r"y is 0, but tweedie\(2.5\) has targets above 0"),
        ("gamma", 0.0, "y is 0, but gamma has targets above 0"),
        ("inverse_gaussian", 0.0, "has targets above 0"),
        ("negative_binomial", -3.0, "has targets at least 0"),
        ("binomial", 1.5, "y is 1.5, but binomial has targets from 0 to 1"),
        ("poisson", np.nan, "y contains NaN"),
        ("poisson", np.inf, "y contains infinity"),
        ("poisson", 1e300, r"y is 1e\+300, and a sum of such squares overflows"),
        ("squared", -1e200, r"y is -1e\+200, and a sum of such squares overflows"),
    ],
)
def test_targets_out_of_the_domain_are_named_with_their_row(loss, value, said, lazy):
    y = np.full(N, 0.5)
    y[[130, 417]] = 0.75, value
    rows, where = X, "row 417"
    if lazy:
        rows, y, where = da.from_array(X, chunks=(100, D)), da.from_array(y, chunks=100), "row 17"
    # these have the place at the end, others before
    with pytest.raises(ValueError, match=f"{where}.*{said}|{said}.*{where}"):
        fitted(rows, y, loss=loss)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["squared", "squared_epsilon_insensitive", "huber"])
def test_offsets_that_are_taken_have_squares_whose_sum_is_finite(loss):
    """Up to 1e154 each square was, and the objective of some rows infinite."""
    for signs in (np.ones(N), np.where(np.arange(N) % 2, 1.0, -1.0)):
        found = fitted(X, np.ones(N), offset=1e149 * signs, loss=loss)
        assert np.isfinite(found.report.objective)
        with pytest.raises(ValueError, match="a sum of such squares overflows"):
            fitted(X, np.ones(N), offset=1.01e149 * signs, loss=loss)


@pytest.mark.parametrize("beside", ["offset", "exposure"])
def test_lengths_and_names_that_do_not_fit(beside):
    with pytest.raises(ValueError, match=beside):
        fitted(**{beside: EXPOSURE[:-1]})
    with pytest.raises(ValueError, match=beside):
        fitted(da.from_array(X, chunks=(100, D)), Y, **{beside: EXPOSURE[:-1]})
    with pytest.raises((ValueError, TypeError), match="years"):
        fitted(FRAME, Y, **{beside: "years"})
    with pytest.raises((ValueError, TypeError), match=beside):
        fitted(X, Y, **{beside: "years"})
    with pytest.raises((ValueError, TypeError), match=beside):
        fitted(parts(X), parts(Y), **{beside: EXPOSURE})


def test_a_column_that_is_the_exposure_is_no_feature():
    found = fitted(NAMED.drop(columns="moved"), "claims", exposure="years")
    assert found.coef.shape == (1, D)


def test_the_start_is_near_the_best_intercept():
    """The mean rate, not the mean count: the first gradient has almost no part by the intercept."""
    found = fitted(X * 1e-6, exposure=EXPOSURE * 1e3, C=1e-6, max_iter=None)
    assert found.report.n_iter <= 2
    assert found.intercept[0] == pytest.approx(LOG.of_mean(Y.sum() / (EXPOSURE * 1e3).sum()))


@each_choice
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie(1.5)", "negative_binomial(1.0)"])
@pytest.mark.parametrize("all_rows", [True, False])
def test_offsets_as_large_as_exponents_may_be(loss, all_rows):
    y = Y + (0.5 if loss == "gamma" else 0.0)
    if all_rows:
        for large in (700.0, -700.0):
            found = fitted(X, y, loss=loss, offset=np.full(N, large), tol=1e-6)
            assert found.report.converged
            assert found.intercept[0] == pytest.approx(fitted(X, y, loss=loss).intercept[0] - large)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fitted(X, y, loss=loss, offset=np.where(np.arange(N) == 3, 700.0, 0.0), tol=1e-6)
    assert np.isfinite(found.coef).all()
    # either way the report says so
    assert found.report.converged == (found.report.relative_gap <= 1e-6)
    if found.report.converged:
        margins = X @ found.coef[0] + found.intercept[0] + 700.0 * (np.arange(N) == 3)
        value = (
            0.5 * found.coef[0] @ found.coef[0]
            + 0.5 * reference(loss.partition("(")[0], y, margins)[0].sum()
        )
        assert found.report.objective == pytest.approx(float(value), rel=1e-8)


@each_choice
@pytest.mark.parametrize("scale", [1e9, 1e50, 1e100, 1e140])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie(1.5)", "negative_binomial(1.0)"])
def test_gaps_of_huge_targets_are_none_too_small(loss, scale):
    """A fit that stands still at zero coefficients was once reported with a gap of zero."""
    y = scale * (Y + (0.5 if loss == "gamma" else 0.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = fitted(X, y, loss=loss, tol=1e-6).report
    # the coefficients of the targets as they are, whose margins are less by the logarithm of the scale
    power = {"poisson": 1.0, "gamma": 0.0, "tweedie(1.5)": 0.5}.get(loss)
    if power is None:
        assert report.relative_gap <= 1e-6
        return
    best = fitted(X, y / scale, loss=loss, C=0.5 * scale**power, tol=1e-10).report
    least = best.objective * (1.0 - best.relative_gap)
    assert report.objective <= least * (1.0 + report.relative_gap) * (1.0 + 1e-9)
