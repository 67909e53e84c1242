"""Fits of coded rows find what fits of the same rows as CSR find."""

import warnings
from dataclasses import replace

import dask
import numpy as np
import pytest

import daskglm
from daskglm import (
    ElasticNetCV,
    GeneralizedLinearRegressorCV,
    LogisticRegression,
    LogisticRegressionCV,
)
from daskglm.data.blocks import merge, to_block
from daskglm.data.values import Place
from daskglm.kernels import coded_csr
from daskglm.worker.device_placement import AS_THEY_ARE, place
from tests.kernels import coded_cases

N = 1500
X = coded_cases.coded(N, k=3, seed=3)
SPARSE = coded_cases.sparse(X)
D = X.shape[1]
# of more coefficients than tiles of rows are made dense for, or Hessians are formed for
WIDE = coded_cases.coded(N, k=3, seed=3, counts=((5,), (600,), (1500,)), ranks=(1, 2, 0))
WIDE_SPARSE = coded_cases.sparse(WIDE)
RNG = np.random.default_rng(0)
MARGINS = SPARSE @ RNG.normal(size=D)
NOISY = MARGINS + RNG.logistic(size=N)
TWO, THREE = (NOISY > 0).astype(int), np.digitize(NOISY, [-1.0, 1.0])
NUMBERS, COUNTS = MARGINS + RNG.normal(size=N), RNG.poisson(np.exp(0.2 * MARGINS))
TARGETS = {"two": TWO, "three": THREE, "numbers": NUMBERS, "counts": COUNTS}


def coefficients(model):
    rest = model.intercept_ if hasattr(model, "intercept_") else model.thresholds_
    return np.append(model.coef_, rest)


def assert_alike(fit, rows=(X, SPARSE), atol=1e-9):
    """Fit coded rows and sparse ones; return both models."""
    one, other = (fit(given) for given in rows)
    np.testing.assert_allclose(coefficients(one), coefficients(other), rtol=1e-7, atol=atol)
    return one, other


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_two_classes(solver):
    one, other = assert_alike(lambda given: daskglm.fit(given, TWO, solver=solver, tol=1e-10))
    assert one.score(X, TWO) == other.score(SPARSE, TWO)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(SPARSE), atol=1e-8)
    assert one.n_features_in_ == D


def test_coordinate_ascent():
    one, other = assert_alike(
        lambda given: daskglm.fit(given, TWO, solver="sdca", tol=1e-10), atol=1e-4
    )
    assert one.report_.objective == pytest.approx(other.report_.objective, rel=1e-9)


def test_inference():
    def fit(given):
        return LogisticRegression(C=np.inf, tol=1e-10).fit(given, TWO)

    models = assert_alike(fit)
    for how in (
        {"covariance": "HC1"},
        {"covariance": "HC3"},
        {"covariance": "cluster", "clusters": THREE},
    ):
        one, other = (
            model.inference(given, TWO, **how)
            for model, given in zip(models, (X, SPARSE), strict=True)
        )
        np.testing.assert_allclose(one.bse, other.bse, rtol=1e-7)
    one, other = (m.residuals(g, TWO) for m, g in zip(models, (X, SPARSE), strict=True))
    np.testing.assert_allclose(one, other, atol=1e-8)


def test_working_sets_and_groups():
    groups = np.arange(D) // 4
    assert_alike(lambda given: daskglm.fit(given, TWO, l1_ratio=1.0, C=0.05, tol=1e-10))
    assert_alike(
        lambda given: daskglm.fit(given, TWO, l1_ratio=1.0, C=0.05, groups=groups, tol=1e-10)
    )
    assert_alike(
        lambda given: daskglm.fit(given, TWO, l1_ratio=1.0, C=0.2, tol=1e-9), (WIDE, WIDE_SPARSE)
    )


def test_no_more_than_runs_of_codes_become_sparse_rows(monkeypatch):
    """In fits, inference, scores and residuals, so that a report has nothing to say of it."""
    n, expanded, as_csr = 100_000, [], coded_csr.as_csr

    def counted(rows, start, stop):
        expanded.append(stop - start)
        return as_csr(rows, start, stop)

    monkeypatch.setattr(coded_csr, "as_csr", counted)
    rows = coded_cases.coded(n, k=3)
    own = np.random.default_rng(7)
    two, three = own.integers(0, 2, n), own.integers(0, 3, n)
    for given in ({}, {"solver": "sdca", "max_iter": 2}, {"l1_ratio": 1.0, "C": 1e-3}):
        with warnings.catch_warnings(action="ignore"):
            daskglm.fit(rows, two, tol=1e-4, **given).score(rows, two)
    daskglm.fit(rows, three, loss="multinomial", tol=1e-4).predict(rows)
    LogisticRegressionCV(Cs=2, cv=2, tol=1e-3).fit(rows, two)
    model = LogisticRegression(C=np.inf).fit(rows, two)
    model.inference(rows, two, covariance="HC3")
    model.residuals(rows, two)
    assert expanded
    assert max(expanded) < n // 2


LOSSES = {
    "squared": "numbers",
    "smoothed_hinge": "two",
    "multinomial": "three",
    "ordinal": "three",
    "logistic": "three",
}


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
@pytest.mark.parametrize("loss", LOSSES)
def test_other_losses(loss, solver):
    y = TARGETS[LOSSES[loss]]
    assert_alike(
        lambda given: daskglm.fit(given, y, loss=loss, solver=solver, tol=1e-10),
        atol=5e-6 if solver == "tron" else 1e-9,  # how many pairs are kept depends on the storage
    )


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "gradient_descent", "sdca"])
def test_families(solver):
    assert_alike(
        lambda given: daskglm.fit(
            given, COUNTS, family="poisson", alpha=0.01, solver=solver, tol=1e-10, max_iter=3000
        ),
        atol=1e-4 if solver == "gradient_descent" else 1e-8,
    )


@pytest.mark.slow
def test_the_hinge_has_the_same_optimum():
    one, other = (daskglm.fit(given, TWO, loss="hinge", tol=1e-6) for given in (X, SPARSE))
    assert one.report_.objective == pytest.approx(other.report_.objective, rel=1e-5)


@pytest.mark.slow
def test_paths_and_cross_validation():
    def path(given):
        return daskglm.fit(given, TWO, C=[0.01, 0.1, 1.0], tol=1e-10)

    for one, other in zip(path(X), path(SPARSE), strict=True):
        np.testing.assert_allclose(coefficients(one), coefficients(other), atol=1e-8)
    for make, y in (
        (lambda: LogisticRegressionCV(Cs=3, cv=3, tol=1e-10), TWO),
        (lambda: ElasticNetCV(alphas=3, cv=2, tol=1e-10), NUMBERS),
        (lambda: GeneralizedLinearRegressorCV("poisson", alphas=2, cv=2, tol=1e-10), COUNTS),
    ):
        assert_alike(lambda given, make=make, y=y: make().fit(given, y), atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["tron", "lbfgs"])
@pytest.mark.parametrize("loss", ["multinomial", "ordinal", "logistic"])
def test_many_coefficients(loss, solver):
    assert_alike(
        lambda given: daskglm.fit(given, THREE, loss=loss, solver=solver, tol=1e-8, C=0.1),
        (WIDE, WIDE_SPARSE),
        atol=1e-6,
    )


@pytest.mark.slow
def test_standardized_columns():
    assert_alike(
        lambda given: daskglm.fit(
            given, NUMBERS, loss="squared", l1_ratio=0.5, C=1e-3, standardize=True, tol=1e-10
        )
    )


# ---- blocks
def block(rows, lo, hi):
    return to_block(rows[lo:hi], TWO[lo:hi], place=Place(), classify=True)


def test_blocks_describe_and_join_coded_rows():
    one, other = block(X, 0, 40), block(X, 40, 100)
    assert one.facts.sparse
    assert one.facts.nonzeros == 40 * 8
    assert one.facts.nbytes == 40 * (3 + 2 + 4 + 24)
    assert one.facts.longest_row >= np.diff(SPARSE.indptr).max()
    squares = SPARSE[:40].multiply(SPARSE[:40]).sum()
    assert one.facts.squared_norms == pytest.approx(squares)
    assert one.facts.row_products == pytest.approx(
        to_block(SPARSE[:40], TWO[:40], place=Place(), classify=True).facts.row_products
    )
    both = merge([one, other])
    assert both.X.shape == (100, D)
    names, placed = place([("a", one), ("b", other)], AS_THEY_ARE, {})
    assert names == [("a", "b")]
    assert len(placed[0].y) == 100
    apart = block(coded_cases.coded(60, k=3, seed=4), 0, 60)
    assert len(place([("a", one), ("b", apart)], AS_THEY_ARE, {})[0]) == 2


def test_numbers_are_checked():
    bad = X.dense.copy()
    bad[7, 1] = np.nan
    with pytest.raises(ValueError, match=rf"X contains NaN: row 7, column {D - 2}"):
        daskglm.fit(replace(X, dense=bad), TWO)


def test_delayed_blocks_are_joined():
    cuts = [(0, 200), (200, 900), (900, N)]
    parts = [dask.delayed(X[slice(*cut)]) for cut in cuts]
    labels = [dask.delayed(TWO[lo:hi]) for lo, hi in cuts]
    one = daskglm.fit(parts, labels, tol=1e-10, solver="newton")
    other = daskglm.fit(SPARSE, TWO, tol=1e-10, solver="newton")
    np.testing.assert_allclose(coefficients(one), coefficients(other), atol=1e-8)


# ---- rows from elsewhere
def with_code(part, column, code):
    codes = getattr(X, part).copy()
    codes[N - 1, column] = code
    return replace(X, **{part: codes})


def with_tables(**changed):
    return replace(X, tables=X.tables._replace(**changed))


def with_entry(name, at, value):
    values = getattr(X.tables, name).copy()
    values[at] = value
    return with_tables(**{name: values})


FIRST, INDPTR, STORED = X.tables.first, X.tables.indptr, X.tables.columns
FOREIGN = {
    "a code of one byte": (lambda: with_code("narrow", 0, 5), "column 0 has the code 5, of 5 lev"),
    "a code of two bytes": (lambda: with_code("middle", 0, 60_000), "code 60000, of 30 levels"),
    "a code of four bytes": (lambda: with_code("wide", 0, 2**32 - 1), "code 4294967295, of 7"),
    "signed codes": (lambda: replace(X, narrow=X.narrow.astype(np.int8)), "narrow.*dtype int8"),
    "wide codes": (lambda: replace(X, middle=X.middle.astype(np.int64)), "middle.*dtype int64"),
    "codes in one dimension": (lambda: replace(X, wide=X.wide[:, 0]), "wide .*two dimensions"),
    "no numbers": (lambda: replace(X, dense=None), "dense .* is a NoneType"),
    "whole numbers": (lambda: replace(X, dense=X.dense.astype(int)), "float32 or float64"),
    "fewer rows": (lambda: replace(X, dense=X.dense[1:]), r"have \[1499, 1500\] rows"),
    "fewer columns": (lambda: replace(X, wide=X.wide[:, :0]), "4 code columns have tables"),
    "a list": (lambda: with_tables(first=list(FIRST)), "tables.first is a list"),
    "float32 values": (lambda: with_tables(values=X.tables.values.astype("f")), "values is .*f"),
    "an infinite value": (lambda: with_entry("values", 3, np.inf), "values are not all finite"),
    "a negative column": (lambda: with_entry("columns", 0, -1), "not all from 0 to"),
    "a column beyond": (lambda: with_entry("columns", -1, X.tables.width), "not all from 0 to"),
    "a column of another": (lambda: with_entry("columns", -1, 0), "which one before it has|ascend"),
    "a narrow table": (lambda: with_tables(width=X.tables.width - 1), "not all from 0 to"),
    "a falling indptr": (lambda: with_entry("indptr", 3, INDPTR[-1]), "does not ascend from 0"),
    "a long indptr": (lambda: with_entry("indptr", -1, INDPTR[-1] + 9), "indptr ends at"),
    "no indptr": (lambda: with_tables(indptr=INDPTR[:0]), "does not ascend from 0"),
    "ranks twice": (lambda: with_entry("ranks", 0, 1), "a place from 0 on of its own"),
    "a negative first": (lambda: with_entry("first", 0, -3), "does not ascend from 0"),
    "a first beyond": (lambda: with_entry("first", -1, len(INDPTR) + 5), "does not ascend from 0"),
    "columns that fall": (
        lambda: with_tables(columns=STORED[::-1].copy()),
        "do not ascend within a level",
    ),
}


@pytest.mark.parametrize(("make", "says"), FOREIGN.values(), ids=FOREIGN)
def test_rows_that_lead_out_of_their_tables_are_refused(make, says):
    for ask in (lambda X: daskglm.fit(X, TWO), COUNTED.predict):
        with pytest.raises(ValueError, match=says):
            ask(make())


COUNTED = daskglm.fit(X, COUNTS, family="poisson", alpha=0.1, max_iter=100)


def test_delayed_rows_name_the_partition():
    parts, labels = [dask.delayed(X), dask.delayed(with_code("narrow", 1, 4))], [TWO, TWO]
    with pytest.raises(ValueError, match="partition 1, code column 1 has the code 4"):
        daskglm.fit(parts, list(map(dask.delayed, labels)))


def test_other_rows_than_the_models_are_refused():
    with pytest.raises(ValueError, match=f"X has {WIDE.shape[1]} features.*expecting {D}"):
        COUNTED.predict(WIDE)


def test_every_second_row_and_fortran_order():
    again = daskglm.fit(X[::2], COUNTS[::2], family="poisson", alpha=0.1)
    turned = replace(X[::2], dense=np.asfortranarray(X.dense[::2]))
    same = daskglm.fit(turned, COUNTS[::2], family="poisson", alpha=0.1)
    np.testing.assert_array_equal(again.coef_, same.coef_)
    np.testing.assert_allclose(same.predict(turned), same.predict(SPARSE[::2]))
