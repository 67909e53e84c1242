"""Offsets at every face of every estimator: in `fit`, predictions, scores and cross-validation alike."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, get_scorer, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

import daskglm
from daskglm.estimators.base import LinearModel

N, D, CHUNK = 240, 3, 80
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
OFFSET = 0.7 * RNG.standard_normal(N)
WEIGHT = RNG.uniform(0.5, 2.0, N)
NUMBERS = X @ [1.0, -1.0, 0.5] + 0.3 + OFFSET + RNG.standard_normal(N)
COUNTS = RNG.poisson(np.exp(0.3 * NUMBERS)).astype(float)
TWO = (NUMBERS > 0.0).astype(int)
THREE = np.digitize(NUMBERS, [-1.0, 1.0])
FRAME = pd.DataFrame(X, columns=list("abc"))

# estimators by name, their targets, and whether they take an exposure
MODELS = {
    "Ridge": (daskglm.Ridge(tol=1e-13), NUMBERS),
    "HuberRegressor": (daskglm.HuberRegressor(tol=1e-13), NUMBERS),
    "QuantileRegressor": (daskglm.QuantileRegressor(alpha=1e-3, tol=1e-8), NUMBERS),
    "LinearSVR": (daskglm.LinearSVR(tol=1e-8, random_state=0), NUMBERS),
    "LinearSVC": (daskglm.LinearSVC(tol=1e-13), TWO),
    "LogisticRegression": (daskglm.LogisticRegression(tol=1e-13), TWO),
    "one against the rest": (daskglm.LogisticRegression(tol=1e-13, multi_class="ovr"), THREE),
    "LogisticRegressionCV": (daskglm.LogisticRegressionCV(Cs=[0.5], cv=3, tol=1e-13), TWO),
    "OrdinalRegression": (daskglm.OrdinalRegression(tol=1e-13), THREE),
    "LinearClassifier": (daskglm.LinearClassifier(loss="squared_hinge", tol=1e-13), TWO),
    "LinearRegressor": (daskglm.LinearRegressor(tol=1e-13), NUMBERS),
    "Lasso": (daskglm.Lasso(alpha=0.01, tol=1e-13), NUMBERS),
    "ElasticNet": (daskglm.ElasticNet(alpha=0.01, tol=1e-13), NUMBERS),
    "LassoCV": (daskglm.LassoCV(alphas=[0.01], cv=3, tol=1e-13), NUMBERS),
    "ElasticNetCV": (daskglm.ElasticNetCV(alphas=[0.01], cv=3, tol=1e-13), NUMBERS),
    "PoissonRegressor": (daskglm.PoissonRegressor(tol=1e-13), COUNTS),
    "GammaRegressor": (daskglm.GammaRegressor(tol=1e-13), COUNTS + 0.5),
    "TweedieRegressor": (daskglm.TweedieRegressor(power=1.5, tol=1e-13), COUNTS),
    "GeneralizedLinearRegressor": (
        daskglm.GeneralizedLinearRegressor("negative_binomial(0.7)", tol=1e-13),
        COUNTS,
    ),
    "GeneralizedLinearRegressorCV": (
        daskglm.GeneralizedLinearRegressorCV("poisson", alphas=[0.1], cv=3, tol=1e-13),
        COUNTS,
    ),
}
WITH_EXPOSURE = [name for name in MODELS if "exposure" in MODELS[name][0].fit.__code__.co_varnames]
KINDS = (
    "lists",
    "dask array",
    "dask array, other chunks",
    "pandas",
    "pandas, by name",
    "dask frame",
)
WHOLE = {}
METHODS = ("predict", "decision_function", "predict_proba")


def test_every_estimator_is_here():
    named = {name for name in daskglm.__all__ if isinstance(getattr(daskglm, name), type)}
    estimators = {name for name in named if issubclass(getattr(daskglm, name), LinearModel)}
    assert estimators == {type(model).__name__ for model, _ in MODELS.values()}


def given(kind, y, beside):
    """Rows, their targets and what is beside them, in a container."""
    if kind == "lists":
        return X.tolist(), y.tolist(), beside.tolist()
    if kind.startswith("dask array"):
        chunks = 60 if kind.endswith("other chunks") else CHUNK
        lazy = da.from_array(X, chunks=(CHUNK, D)), da.from_array(y, chunks=CHUNK)
        return (*lazy, da.from_array(beside, chunks=chunks))
    if kind == "pandas":
        return FRAME, pd.Series(y), pd.Series(beside)
    frame = FRAME.assign(y=y, o=beside)
    return (frame if "pandas" in kind else dd.from_pandas(frame, npartitions=3)), "y", "o"


def answers(model, rows, y, **beside):
    """All that a fitted model says of rows."""
    features = rows.drop(columns="y") if isinstance(y, str) else rows
    found = {"score": model.score(rows, y, **beside)}
    for method in METHODS:
        if hasattr(model, method):
            values = getattr(model, method)(features, **beside)
            found[method] = np.asarray(values.compute() if hasattr(values, "compute") else values)
    return found


def in_memory(name, beside):
    """Answers of a fit to arrays, once."""
    if (name, beside) not in WHOLE:
        model, y = MODELS[name]
        values = {beside: OFFSET if beside == "offset" else np.exp(OFFSET)}
        model = clone(model).fit(X, y, **values)
        WHOLE[name, beside] = model.coef_, answers(model, X, y, **values), answers(model, X, y)
    return WHOLE[name, beside]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", list(MODELS))
def test_every_estimator_and_container_takes_offsets(name, kind):
    coef, wanted, plain = in_memory(name, "offset")
    # the classes of one against the rest stay as they are, their margins and probabilities do not
    last = list(plain)[-1]
    assert not np.allclose(wanted[last], plain[last], rtol=1e-3)
    model, y = MODELS[name]
    rows, target, offset = given(kind, y, OFFSET)
    model = clone(model).fit(rows, target, offset=offset)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-4, atol=1e-5)
    found = answers(model, rows, target, offset=offset)
    assert found.keys() == wanted.keys()
    for what, values in wanted.items():
        np.testing.assert_allclose(found[what], values, rtol=1e-4, atol=1e-4, err_msg=what)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WITH_EXPOSURE)
def test_exposures_are_offsets_by_their_logarithm(name, kind):
    coef, wanted, _ = in_memory(name, "offset")
    model, y = MODELS[name]
    rows, target, exposure = given(kind, y, np.exp(OFFSET))
    model = clone(model).fit(rows, target, exposure=exposure)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-4, atol=1e-6)
    found = answers(model, rows, target, exposure=exposure)
    for what, values in wanted.items():
        np.testing.assert_allclose(found[what], values, rtol=1e-4, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("name", list(MODELS))
def test_a_cluster_finds_the_same(client, name):
    coef, wanted, _ = in_memory(name, "offset")
    model, y = MODELS[name]
    rows, target, offset = given("dask array", y, OFFSET)
    model = clone(model).fit(rows, target, offset=offset)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-4, atol=1e-5)
    assert model.score(rows, target, offset=offset) == pytest.approx(wanted["score"], abs=1e-3)


def test_outliers_by_names_of_columns():
    frame = FRAME.assign(y=NUMBERS, o=OFFSET, s=WEIGHT)
    named = daskglm.HuberRegressor().fit(frame, "y", "s", offset="o")
    arrays = daskglm.HuberRegressor().fit(X, NUMBERS, WEIGHT, offset=OFFSET)
    np.testing.assert_array_equal(named.outliers_, arrays.outliers_)
    assert 0 < named.outliers_.sum() < N


# ---- cross-validation of classes
SCORES = {
    "accuracy": lambda y, z, s: accuracy_score(y, z > 0.0, sample_weight=s),
    "neg_log_loss": lambda y, z, s: -log_loss(y, 1.0 / (1.0 + np.exp(-z)), sample_weight=s),
    "roc_auc": lambda y, z, s: roc_auc_score(y, z, sample_weight=s),
    "matthews_corrcoef": lambda y, z, s: get_scorer("matthews_corrcoef")._score_func(
        y, z > 0.0, sample_weight=s
    ),
}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("scoring", list(SCORES))
def test_rows_held_out_are_scored_with_their_offsets(scoring, weight):
    Cs, folds, offset = [0.01, 1.0], StratifiedKFold(3), 4.0 * OFFSET
    model = daskglm.LogisticRegressionCV(Cs=Cs, cv=folds, scoring=scoring, tol=1e-12)
    model.fit(X, TWO, weight, offset)
    for i, (train, test) in enumerate(folds.split(X, TWO)):
        s = (None, None) if weight is None else (weight[train], weight[test])
        for j, C in enumerate(Cs):
            alone = daskglm.LogisticRegression(C=C, tol=1e-12)
            alone.fit(X[train], TWO[train], s[0], offset[train])
            wanted = SCORES[scoring](
                TWO[test], alone.decision_function(X[test], offset[test]), s[1]
            )
            assert model.scores_[1][i, j] == pytest.approx(wanted, abs=1e-8)
    values = model.decision_function(X, offset)
    assert model.score(X, TWO, weight, offset) == pytest.approx(
        SCORES[scoring](TWO, values, weight)
    )


def test_functions_of_rows_would_predict_without_offsets():
    def worst(estimator, rows, y):
        return -float((estimator.predict(rows) != y).max())

    model = daskglm.LogisticRegressionCV(Cs=2, cv=3, scoring=worst)
    with pytest.raises(ValueError, match="given to it without their offset"):
        model.fit(X, TWO, offset=OFFSET)
    model.fit(X, TWO)
    with pytest.raises(ValueError, match="given to it without their offset"):
        model.score(X, TWO, offset=OFFSET)


# ---- rows on disk
@pytest.fixture
def wanted():
    return daskglm.fit(X, COUNTS, family="poisson", alpha=0.1, offset=OFFSET, tol=1e-12)


def fitted(rows, y, offset, **options):
    return daskglm.fit(rows, y, family="poisson", alpha=0.1, offset=offset, tol=1e-12, **options)


def test_memory_maps(tmp_path, wanted):
    for name, values in {"X": X, "y": COUNTS, "o": OFFSET}.items():
        np.save(tmp_path / f"{name}.npy", values)
    rows, y, offset = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("X", "y", "o"))
    np.testing.assert_allclose(fitted(rows, y, offset).coef_, wanted.coef_, rtol=1e-8)
    lazy = [da.from_array(values, chunks=(70, *values.shape[1:])) for values in (rows, y, offset)]
    found = fitted(*lazy, out_of_core=True)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-8)


def test_parquet_files(tmp_path, wanted):
    frame = FRAME.assign(y=COUNTS, o=OFFSET)
    for i in range(3):
        frame[i * CHUNK : (i + 1) * CHUNK].to_parquet(tmp_path / f"rows{i}.parquet")
    read = dd.read_parquet(tmp_path / "*.parquet")
    for out_of_core in (False, True):
        found = fitted(read, "y", "o", out_of_core=out_of_core)
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-8)
        assert list(found.feature_names_in_) == list("abc")


def test_svmlight_files(tmp_path, wanted):
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(X, COUNTS, str(tmp_path / "rows.svm"), zero_based=False)
    rows, y = daskglm.read_svmlight(tmp_path / "rows.svm", n_features=D, blocksize=4000)
    found = fitted(rows, y, OFFSET)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-6)


@pytest.mark.parametrize("loss", ["quantile(0.3)", "huber(1.0)", "epsilon_insensitive(0.2)"])
def test_offsets_of_robust_losses_are_shifts_of_the_targets(loss):
    moved = daskglm.fit(X, NUMBERS, loss=loss, C=0.5, offset=OFFSET, tol=1e-8, random_state=0)
    shifted = daskglm.fit(X, NUMBERS - OFFSET, loss=loss, C=0.5, tol=1e-8, random_state=0)
    np.testing.assert_allclose(moved.coef_, shifted.coef_, atol=1e-6)


@pytest.mark.parametrize("given", [{"family": "poisson", "alpha": [1.0, 0.01]}, {"C": [0.1, 9.0]}])
def test_lists_of_strengths_take_exposures(given):
    kind = given if "family" in given else {"loss": "poisson", **given}
    path = daskglm.fit(X, COUNTS, **kind, exposure=np.exp(OFFSET), tol=1e-12)
    name = "alpha" if "alpha" in kind else "C"
    for model, value in zip(path, kind[name], strict=True):
        alone = daskglm.fit(X, COUNTS, **{**kind, name: value}, offset=OFFSET, tol=1e-12)
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-5)


# ---- what is refused
@pytest.mark.parametrize("name", list(MODELS))
def test_offsets_that_do_not_fit_are_refused(name):
    model, y = MODELS[name]
    bad = OFFSET.copy()
    bad[131] = np.nan
    with pytest.raises(ValueError, match="offset contains NaN.*row 131|row 131.*offset contains"):
        clone(model).fit(X, y, offset=bad)
    lazy = da.from_array(X, chunks=(CHUNK, D)), da.from_array(y, chunks=CHUNK)
    with pytest.raises(ValueError, match="partition 1, row 51"):
        clone(model).fit(*lazy, offset=da.from_array(bad, chunks=CHUNK))
    with pytest.raises(ValueError, match=r"numbers of samples: X 240, offset 239"):
        clone(model).fit(X, y, offset=OFFSET[1:])
    with pytest.raises(ValueError, match="offset='o' would name a column"):
        clone(model).fit(X, y, offset="o")
    with pytest.raises(ValueError, match="numbers of samples: X 240, offset 200|offset"):
        clone(model).fit(*lazy, offset=da.from_array(OFFSET[:200], chunks=CHUNK))
