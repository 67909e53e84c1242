"""Inference takes what `fit` takes, in process, out of core and on workers, and refuses what is not the data of the fit."""

import asyncio

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.estimators import infer
from tests.estimators.inference_cases import CASES, data_of, fitted

DATA = data_of(CASES["logistic"], n=3000)
X, Y, WEIGHT, CLUSTERS = DATA.X, DATA.y, DATA.weight, DATA.clusters
NAMES = list("abc")
MODEL = fitted("logistic", pd.DataFrame(X, columns=NAMES), Y, WEIGHT)
PLAIN = fitted("logistic", X, Y, WEIGHT)
KINDS = ("classical", "HC0", "HC1", "cluster")
WANTED = {
    kind: PLAIN.inference(
        X, Y, WEIGHT, covariance=kind, clusters=CLUSTERS if kind == "cluster" else None
    )
    for kind in KINDS
}
FRAME = pd.DataFrame(X, columns=NAMES).assign(y=Y, w=WEIGHT, g=[f"g{k}" for k in CLUSTERS])
CUTS = [(0, 1100), (1100, 1200), (1200, 3000)]


def delayed(values):
    return [dask.delayed(values[a:b]) for a, b in CUTS]


def chunked(values):
    return da.from_array(values, chunks=(700, *values.shape[1:]))


def lazy(npartitions=5):
    return dd.from_pandas(FRAME, npartitions=npartitions)


CONTAINERS = {
    "lists": lambda: (X.tolist(), Y.tolist(), WEIGHT.tolist(), CLUSTERS.tolist()),
    "sparse": lambda: (sp.csc_matrix(X), Y, WEIGHT, CLUSTERS.astype(str)),
    "frame and columns": lambda: (FRAME[NAMES], FRAME["y"], FRAME["w"], FRAME["g"]),
    "frame and categories": lambda: (FRAME[NAMES], Y, WEIGHT, FRAME["g"].astype("category")),
    "frame and names": lambda: (FRAME, "y", "w", "g"),
    "dask array": lambda: tuple(map(chunked, (X, Y, WEIGHT, CLUSTERS))),
    "dask array and NumPy": lambda: (chunked(X), Y, chunked(WEIGHT), CLUSTERS),
    "dask dataframe and names": lambda: (lazy(), "y", "w", "g"),
    "dask dataframe and series": lambda: (lazy()[NAMES], lazy()["y"], lazy()["w"], lazy()["g"]),
    "delayed": lambda: tuple(map(delayed, (X, Y, WEIGHT, CLUSTERS))),
}


def check(rows, y, weight, clusters, kinds=KINDS, **more):
    model = MODEL if hasattr(rows, "columns") else PLAIN
    for kind in kinds:
        given = rows
        if kind != "cluster" and isinstance(clusters, str):
            given = rows.drop(columns=clusters)
        of = clusters if kind == "cluster" else None
        found = model.inference(given, y, weight, covariance=kind, clusters=of, **more)
        wanted = WANTED[kind]
        np.testing.assert_allclose(found.cov_params(), wanted.cov_params(), rtol=1e-9, atol=1e-13)
        assert found.llf == pytest.approx(wanted.llf, rel=1e-12)
        assert found.nobs == wanted.nobs == 3000
        assert found.found.clusters == wanted.found.clusters
        assert found.passes == 1.0
        names = ["x0", "x1", "x2"] if model is PLAIN else NAMES
        assert list(found.bse.index) == [*names, "intercept"]


@pytest.mark.parametrize("container", list(CONTAINERS))
def test_every_container_has_the_same_inference(container):
    check(*CONTAINERS[container]())


@pytest.mark.parametrize("container", ["dask dataframe and names", "delayed"])
def test_out_of_core_in_one_pass(container):
    check(*CONTAINERS[container](), out_of_core=True)


@pytest.mark.slow
@pytest.mark.parametrize("out_of_core", [False, True])
def test_clusters_that_span_workers(client, out_of_core):
    check(*CONTAINERS["dask dataframe and names"](), out_of_core=out_of_core)
    check(*CONTAINERS["delayed"](), kinds=["cluster"], out_of_core=out_of_core)


def test_rows_in_memory_are_sent_to_a_client_that_is_named(client):
    check(X, Y, WEIGHT, CLUSTERS, client=client)


LEVERAGED = PLAIN.inference(X, Y, WEIGHT, covariance="HC3", dispersion="pearson")


def check_leverages(container, **more):
    """HC3 and pseudo R^2 of all containers; leverages take a pass more."""
    rows, y, weight, clusters = CONTAINERS[container]()
    rows = rows.drop(columns=clusters) if isinstance(clusters, str) else rows
    model = MODEL if hasattr(rows, "columns") else PLAIN
    how = {"covariance": "HC3", "dispersion": "pearson", **more}
    found = model.inference(rows, y, weight, **how)
    np.testing.assert_allclose(found.cov_params(), LEVERAGED.cov_params(), rtol=1e-9, atol=1e-13)
    assert found.dispersion == pytest.approx(LEVERAGED.dispersion, rel=1e-12)
    assert found.llnull == pytest.approx(LEVERAGED.llnull, rel=1e-12)
    assert found.passes == 2.0


@pytest.mark.parametrize("container", list(CONTAINERS))
def test_every_container_has_the_same_leverages(container):
    check_leverages(container)


@pytest.mark.parametrize("container", ["dask dataframe and names", "delayed"])
def test_leverages_out_of_core_in_two_passes(container):
    check_leverages(container, out_of_core=True)


@pytest.mark.parametrize("out_of_core", [False, True])
def test_leverages_on_workers(client, out_of_core):
    for container in ("dask dataframe and names", "dask array", "delayed"):
        check_leverages(container, out_of_core=out_of_core)


def test_offsets_of_the_null_model_on_workers(client):
    data = data_of(CASES["poisson"])
    model = fitted("poisson", data.X, data.y, data.weight, data.offset)
    rows, *others = map(chunked, (data.X, data.y, data.weight, data.offset))
    here = model.inference(data.X, data.y, data.weight, offset=data.offset)
    there = model.inference(rows, *others[:2], offset=others[2])
    assert there.llnull == pytest.approx(here.llnull, rel=1e-12)
    assert there.null_deviance == pytest.approx(here.null_deviance, rel=1e-12)
    # of a constant alone the best offset-adjusted mean has a closed form
    shift = np.log((data.weight @ data.y) / (data.weight @ np.exp(data.offset)))
    mu = np.exp(shift + data.offset)
    terms = np.where(data.y > 0, data.y * np.log(np.maximum(data.y, 1) / mu), 0.0) - data.y + mu
    assert here.null_deviance == pytest.approx(2.0 * data.weight @ terms, rel=1e-12)


def test_an_asynchronous_client_is_awaited(_cluster):
    from distributed import Client

    async def infer():
        async with Client(_cluster.scheduler_address, asynchronous=True) as client:
            return await PLAIN.inference(X, Y, WEIGHT, client=client)

    found = asyncio.run(infer())
    np.testing.assert_allclose(found.bse, WANTED["classical"].bse, rtol=1e-9)


def test_many_runs_out_of_core_add_up(monkeypatch):
    monkeypatch.setattr("daskglm.engines.factory.STREAMED_SHARE", 1e-12)
    monkeypatch.setattr("daskglm.worker.streaming.RUNS_AT_ONCE", 1)
    monkeypatch.setattr("daskglm.engines.factory.memory_left", lambda: 70_000 * 10**12)
    frame = lazy(3)  # of 24,000 bytes each: two runs
    check(frame, "y", "w", "g", kinds=["cluster", "HC1"], out_of_core=True)


def test_float32_rows_have_exact_grams():
    rows = X.astype(np.float32)
    model = fitted("logistic", rows, Y, WEIGHT)
    exact = fitted("logistic", rows.astype(float), Y, WEIGHT).inference(
        rows.astype(float), Y, WEIGHT
    )
    found = model.inference(rows, Y, WEIGHT)
    np.testing.assert_allclose(found.cov_params(), exact.cov_params(), rtol=1e-6)


# ---- what is refused
def test_frequencies_that_are_no_whole_numbers(client):
    def of(weight, rows=X, model=PLAIN, y=Y):
        return model.inference(rows, y, weight, weights="frequency")

    for weight in (np.full(3000, 1.5), np.where(np.arange(3000) == 2999, 0.5, 2.0)):
        count = (weight % 1 > 0).sum()
        match = f"weights='frequency' takes .* and {count} of them are no whole numbers"
        model = fitted("logistic", X, Y, weight)
        for rows, given in ((X, weight), (sp.csr_matrix(X), weight), (chunked(X), chunked(weight))):
            with pytest.raises(ValueError, match=match):
                of(given, rows, model)
    classes = np.arange(3000) % 3
    weight = np.where(np.arange(3000) < 5, 0.25, 1.0)
    three = daskglm.LogisticRegression(C=np.inf, tol=1e-10).fit(X, classes, weight)
    with pytest.raises(ValueError, match="and 5 of them are no whole numbers"):
        of(weight, X, three, classes)
    balanced = daskglm.LogisticRegression(C=np.inf, tol=1e-10, class_weight="balanced")
    balanced.fit(X, Y, WEIGHT)
    with pytest.raises(ValueError, match=r"no whole numbers \(class weights multiply them\)"):
        of(WEIGHT, X, balanced)
    assert of(WEIGHT).nobs == WEIGHT.sum()
    assert (
        of(
            np.where(np.arange(3000) < 9, 0.0, WEIGHT),
            model=fitted("logistic", X, Y, np.where(np.arange(3000) < 9, 0.0, WEIGHT)),
        ).nobs
        == WEIGHT[9:].sum()
    )


def test_data_that_are_not_those_of_the_fit():
    with pytest.raises(ValueError, match="not those of the fit"):
        PLAIN.inference(X, 1.0 - Y, WEIGHT)
    with pytest.raises(ValueError, match="not those of the fit"):
        PLAIN.inference(X[:, ::-1], Y, WEIGHT)
    with pytest.raises(ValueError, match=r"y has the classes \[5.0, 6.0\]"):
        PLAIN.inference(X, Y + 5.0, WEIGHT)
    with pytest.raises(ValueError, match="X has 2 features, but the model was fitted to 3"):
        PLAIN.inference(X[:, :2], Y)
    with pytest.raises(ValueError, match="feature names should match"):
        MODEL.inference(FRAME[["b", "a", "c"]], Y)
    with pytest.raises(ValueError, match="target y is None"):
        PLAIN.inference(X, None)
    with pytest.raises(ValueError, match="not a|not fitted"):
        daskglm.Ridge().inference(X, Y)


def test_clusters_that_do_not_fit_the_rows():
    def of(clusters, rows=X, y=Y):
        PLAIN.inference(rows, y, covariance="cluster", clusters=clusters)

    with pytest.raises(ValueError, match="inconsistent numbers of samples: X 3000, clusters 2999"):
        of(CLUSTERS[1:])
    with pytest.raises(ValueError, match="clusters"):
        of(np.arange(10), chunked(X), chunked(Y))
    with pytest.raises(ValueError, match="clusters contains NaN or None: row 7"):
        of(np.where(np.arange(3000) == 7, np.nan, CLUSTERS))
    missing = np.where(np.arange(3000) == 1000, None, CLUSTERS.astype(str))
    with pytest.raises(ValueError, match="clusters contains NaN or None: partition 1, row 300"):
        of(chunked(missing), chunked(X), chunked(Y))
    with pytest.raises(ValueError, match="clusters='g' would name a column, but X is a ndarray"):
        of("g")
    with pytest.raises(ValueError, match="clusters should be a 1d array"):
        of(np.stack([CLUSTERS, CLUSTERS], axis=1))


def test_one_cluster_is_refused():
    with pytest.raises(ValueError, match="at least two clusters, and clusters has 1"):
        PLAIN.inference(X, Y, WEIGHT, covariance="cluster", clusters=np.zeros(3000))


def test_dependent_columns_are_named():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "twice a": 2.0 * X[:, 0]})
    model = daskglm.Ridge(alpha=0).fit(frame, Y)
    with pytest.raises(
        ValueError, match=r"singular: '(twice )?a' is a linear comb.* of '(twice )?a'"
    ):
        model.inference(frame, Y)


def test_one_column_for_every_level_beside_an_intercept_is_told():
    codes = np.arange(3000) % 4
    hot = sp.csr_matrix((np.ones(3000), (np.arange(3000), codes)))
    model = daskglm.Ridge(alpha=0).fit(hot, Y)
    with pytest.raises(
        ValueError, match=r"one level of every category, where there is an intercept"
    ):
        model.inference(hot, Y)
    daskglm.Ridge(alpha=0).fit(hot[:, 1:], Y).inference(hot[:, 1:], Y)


def test_penalised_fits_are_refused_unless_it_is_said():
    model = daskglm.LogisticRegression(C=0.1, tol=1e-12).fit(X, Y)
    with pytest.raises(ValueError, match=r"penalised \(C=0.1\)"):
        model.inference(X, Y)
    found = model.inference(X, Y, penalized="effective")
    p = 1 / (1 + np.exp(-(X @ model.coef_[0] + model.intercept_)))
    x = DATA.with_constant
    H = x.T @ (x * (p * (1 - p))[:, None])
    P = np.linalg.inv(H + np.diag([10.0, 10.0, 10.0, 0.0]))
    np.testing.assert_allclose(found.cov_params(), P @ H @ P, rtol=1e-8)
    assert found.df_resid == pytest.approx(3000 - np.trace(P @ H))
    scores = x * (p - Y)[:, None]
    robust = model.inference(X, Y, penalized="effective", covariance="HC0")
    np.testing.assert_allclose(robust.cov_params(), P @ scores.T @ scores @ P, rtol=1e-8)


def test_a_search_has_the_penalty_that_it_found():
    search = daskglm.LogisticRegressionCV(Cs=[0.01, 0.1], cv=3, tol=1e-12).fit(X, Y)
    with pytest.raises(ValueError, match="penalised"):
        search.inference(X, Y)
    one = daskglm.LogisticRegression(C=float(search.C_[0]), tol=1e-12).fit(X, Y)
    found, wanted = (model.inference(X, Y, penalized="effective") for model in (search, one))
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-6)


def test_several_vectors_of_coefficients_are_refused():
    three = daskglm.LogisticRegression(C=np.inf, multi_class="ovr").fit(X, np.arange(3000) % 3)
    with pytest.raises(ValueError, match="for each of 3 classes"):
        three.inference(X, np.arange(3000) % 3)
    two = daskglm.Ridge(alpha=0).fit(X, np.stack([Y, Y], axis=1))
    with pytest.raises(ValueError, match="each of 2 targets"):
        two.inference(X, Y)


def test_a_fit_that_stopped_early_is_told():
    early = daskglm.LogisticRegression(C=np.inf)
    exact = PLAIN.coef_
    early.fit(X, Y, WEIGHT)
    early.coef_ = exact + 0.5 * WANTED["classical"].bse.to_numpy()[:3] * [1, 0, 0]
    early.intercept_ = PLAIN.intercept_
    with pytest.warns(ConvergenceWarning, match="moves 'x0' by .* standard errors; fit again"):
        early.inference(X, Y, WEIGHT)


def test_smooth_losses_that_are_no_likelihood_have_robust_errors():
    svm = daskglm.LinearClassifier(loss="squared_hinge", C=np.inf, tol=1e-12).fit(X, Y)
    found = svm.inference(X, Y, covariance="HC0", observed=True)
    z = DATA.with_constant @ found.params.to_numpy()
    s = 2 * Y - 1
    active = s * z < 1
    bread = np.linalg.inv(2.0 * DATA.with_constant[active].T @ DATA.with_constant[active])
    scores = DATA.with_constant * (-2.0 * s * np.maximum(1 - s * z, 0.0))[:, None]
    np.testing.assert_allclose(found.cov_params(), bread @ scores.T @ scores @ bread, rtol=1e-6)
    assert np.isnan(found.llf)
    with pytest.raises(ValueError, match="no family"):
        svm.inference(X, Y)


def test_families_and_their_scale_of_the_penalty():
    data = data_of(CASES["poisson"])
    model = daskglm.PoissonRegressor(alpha=0.01, tol=1e-12).fit(
        data.X, data.y, data.weight, data.offset
    )
    given = data.X, data.y, data.weight
    with pytest.raises(ValueError, match="penalised"):
        model.inference(*given, offset=data.offset)
    found = model.inference(*given, offset=data.offset, penalized="effective")
    x = data.with_constant
    H = x.T @ (x * (data.weight * np.exp(x @ found.params.to_numpy() + data.offset))[:, None])
    mu = 0.01 * data.weight.sum()
    P = np.linalg.inv(H + np.diag([mu, mu, mu, 0.0]))
    np.testing.assert_allclose(found.cov_params(), P @ H @ P, rtol=1e-8)
    free = daskglm.GeneralizedLinearRegressor("poisson", alpha=0, tol=1e-12)
    free.fit(*given, exposure=np.exp(data.offset))
    found = free.inference(*given, exposure=np.exp(data.offset))
    assert found.llf == pytest.approx(free.log_likelihood_, rel=1e-12)
    assert found.deviance == pytest.approx(free.deviance_, rel=1e-12)


def test_exposures_want_a_log_link():
    data = data_of(CASES["gamma_inverse"])
    model = fitted("gamma_inverse", data.X, data.y)
    with pytest.raises(ValueError, match="exposure is given, but loss='gamma_inverse' has no log"):
        model.inference(data.X, data.y, exposure=np.ones(400))


def test_more_coefficients_than_a_covariance_can_be_formed_of_are_refused(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(50, 4)), np.arange(50.0)
    model = daskglm.Ridge(alpha=0.0).fit(X, y)
    monkeypatch.setattr(infer, "MOST_COEFFICIENTS", 3)
    with pytest.raises(ValueError, match="X has 4 coefficients, whose covariance takes .* up to 3"):
        model.inference(X, y)
