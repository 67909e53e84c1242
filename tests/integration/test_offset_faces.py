"""Offsets at every face of every estimator: in `fit`, predictions, scores and cross-validation alike."""

import contextlib
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import accuracy_score, get_scorer, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import daskglm
from daskglm.estimators.base import LinearModel
from tests.covering import each_choice, first_by_default

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
        nothing = {beside: 0.0 if beside == "offset" else 1.0}
        WHOLE[name, beside] = (
            model.coef_,
            answers(model, X, y, **values),
            answers(model, X, y, **nothing),
        )
    return WHOLE[name, beside]


@each_choice
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


@each_choice
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


@pytest.mark.parametrize("name", first_by_default(MODELS, 3))
def test_a_cluster_finds_the_same(client, name):
    coef, wanted, _ = in_memory(name, "offset")
    model, y = MODELS[name]
    rows, target, offset = given("dask array", y, OFFSET)
    model = clone(model).fit(rows, target, offset=offset)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-4, atol=1e-5)
    assert model.score(rows, target, offset=offset) == pytest.approx(wanted["score"], abs=1e-3)


def rows_of(kind):
    """Rows, two classes, numbers and counts in a container that is lazy, or not."""
    if kind == "memory":
        return X, TWO, NUMBERS, COUNTS
    if kind == "dask array":
        return tuple(da.from_array(v, chunks=(CHUNK, *v.shape[1:])) for v in rows_of("memory"))
    if kind == "dask frame":
        frame = dd.from_pandas(FRAME.assign(t=TWO, n=NUMBERS, k=COUNTS), npartitions=3)
        return frame[list("abc")], frame["t"], frame["n"], frame["k"]
    return tuple(
        [dask.delayed(v[i : i + CHUNK]) for i in range(0, N, CHUNK)] for v in rows_of("memory")
    )


def whole(values):
    return np.concatenate(dask.compute(*values)) if isinstance(values, list) else np.asarray(values)


@each_choice
@pytest.mark.parametrize("number", [0.5, np.float32(0.5), 2, np.array(0.5)], ids=repr)
@pytest.mark.parametrize("kind", ["memory", "dask array", "dask frame", "delayed"])
def test_a_number_is_the_offset_the_exposure_or_the_weight_of_all_rows(kind, number):
    rows, classes, numbers, counts = rows_of(kind)
    value = float(number)
    of_all = np.full(N, value)
    for model, targets, y, names in (
        (daskglm.LogisticRegression(tol=1e-12), classes, TWO, ["offset", "sample_weight"]),
        (daskglm.Ridge(tol=1e-12), numbers, NUMBERS, ["offset", "sample_weight"]),
        (daskglm.PoissonRegressor(tol=1e-12), counts, COUNTS, ["offset", "exposure"]),
    ):
        fitted = clone(model).fit(rows, targets, **dict.fromkeys(names, number))
        wanted = clone(model).fit(X, y, **dict.fromkeys(names, of_all))
        np.testing.assert_allclose(fitted.coef_, wanted.coef_, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(fitted.intercept_, wanted.intercept_, rtol=1e-5, atol=1e-7)
        beside = [name for name in names if name != "sample_weight"]
        one, each = dict.fromkeys(beside, number), dict.fromkeys(beside, of_all)
        np.testing.assert_allclose(
            whole(fitted.predict(rows, **one)), wanted.predict(X, **each), rtol=1e-5, atol=1e-7
        )
        assert fitted.score(rows, targets, **one) == pytest.approx(wanted.score(X, y, **each))
        if kind != "delayed":
            found = fitted.inference(
                rows, targets, **dict.fromkeys(names, number), penalized="effective"
            )
            known = wanted.inference(X, y, **dict.fromkeys(names, of_all), penalized="effective")
            np.testing.assert_allclose(found.bse, known.bse, rtol=1e-5)
            np.testing.assert_allclose(
                found.predict(rows, **one), known.predict(X, **each), rtol=1e-5, atol=1e-7
            )


@pytest.mark.parametrize("kind", ["memory", "dask array"])
def test_cross_validation_and_paths_take_a_number(kind):
    rows, classes, numbers, counts = rows_of(kind)
    of_all = np.full(N, 0.5)
    for model, targets, y in (
        (daskglm.LogisticRegressionCV(Cs=2, cv=2), classes, TWO),
        (daskglm.LassoCV(alphas=2, cv=2), numbers, NUMBERS),
        (daskglm.GeneralizedLinearRegressorCV("poisson", alphas=2, cv=2), counts, COUNTS),
    ):
        fitted = clone(model).fit(rows, targets, offset=0.5)
        wanted = clone(model).fit(X, y, offset=of_all)
        np.testing.assert_allclose(fitted.coef_, wanted.coef_, rtol=1e-2, atol=1e-3)
        assert fitted.fitted_with_ == ("offset",)
    models = daskglm.fit(rows, numbers, loss="squared", C=[0.1, 1.0], offset=0.5, tol=1e-12)
    known = daskglm.fit(X, NUMBERS, loss="squared", C=[0.1, 1.0], offset=of_all, tol=1e-12)
    np.testing.assert_allclose(models[1].intercept_, known[1].intercept_, rtol=1e-6)


SAVED = {name for name in MODELS if not name.startswith(("LinearC", "LinearReg"))} - {
    "LogisticRegressionCV",
    "GeneralizedLinearRegressorCV",
}


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_that_was_fitted_with_an_offset_is_not_scored_without(name, tmp_path):
    model, y = MODELS[name]
    taken = ["offset"] + ["exposure"] * (name in WITH_EXPOSURE)
    for beside in taken:
        fitted = clone(model).set_params(tol=1e-3).fit(X, y, **{beside: np.exp(OFFSET)})
        models = [fitted]
        if type(fitted).__name__ in SAVED:
            daskglm.save(fitted, tmp_path / "m.json")
            models.append(daskglm.load(tmp_path / "m.json"))
        for each in models:
            assert each.fitted_with_ == (beside,)
            for rows, target in (
                (X, y),
                (da.from_array(X, chunks=(80, 3)), da.from_array(y, chunks=80)),
            ):
                with pytest.raises(
                    ValueError, match=f"was fitted with an {beside}, and score got none"
                ):
                    each.score(rows, target)
            assert np.isfinite(each.score(X, y, **{beside: 1.0}))
            assert len(each.predict(X)) == N  # for one unit of exposure
    again = clone(model).set_params(tol=1e-3).fit(X, y, offset=0.0)  # which is none
    assert again.fitted_with_ == ()
    assert np.isfinite(again.score(X, y))


def test_inference_wants_the_exposure_of_the_fit():
    for rows, counts in ((FRAME, COUNTS), (lazily(FRAME), lazily(COUNTS))):
        with pytest.raises(ValueError, match="fitted with an exposure, and inference got none"):
            MEANS.inference(rows, counts)


def test_an_offset_may_stand_for_an_exposure_but_not_one_for_both():
    model = daskglm.PoissonRegressor().fit(X, COUNTS, exposure=np.exp(OFFSET))
    by_exposure = model.score(X, COUNTS, exposure=np.exp(OFFSET))
    assert model.score(X, COUNTS, offset=OFFSET) == pytest.approx(by_exposure)
    both = daskglm.PoissonRegressor().fit(X, COUNTS, offset=OFFSET, exposure=2.0)
    assert both.fitted_with_ == ("offset", "exposure")
    for name, other in (("offset", "exposure"), ("exposure", "offset")):
        with pytest.raises(ValueError, match=f"fitted with an {other}"):
            both.score(X, COUNTS, **{name: 1.0})


def test_a_search_does_not_score_without_the_exposure_of_its_fits():
    exposure = np.exp(OFFSET)
    grid = GridSearchCV(
        daskglm.PoissonRegressor(), {"alpha": [0.1, 1.0]}, cv=2, error_score="raise"
    )
    with pytest.raises(ValueError, match="was fitted with an exposure, and score got none"):
        grid.fit(X, COUNTS, exposure=exposure)
    with sklearn.config_context(enable_metadata_routing=True):
        model = daskglm.PoissonRegressor().set_fit_request(exposure=True)
        grid = GridSearchCV(model.set_score_request(exposure=True), {"alpha": [0.1, 1.0]}, cv=2)
        grid.fit(X, COUNTS, exposure=exposure)
    folds = [(np.arange(N // 2, N), np.arange(N // 2)), (np.arange(N // 2), np.arange(N // 2, N))]
    scores = [
        daskglm.PoissonRegressor(alpha=0.1)
        .fit(X[a], COUNTS[a], exposure=exposure[a])
        .score(X[b], COUNTS[b], exposure=exposure[b])
        for a, b in folds
    ]
    assert grid.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(scores))


# ---- what is beside lazy rows, in predictions
def lazily(values, **how):
    return dd.from_pandas(
        pd.Series(values) if isinstance(values, np.ndarray) else values, npartitions=3, **how
    )


SHUFFLED = pd.Series(np.exp(OFFSET)).sample(frac=1.0, random_state=0)
APART = {
    "another order": (lazily(SHUFFLED, sort=False), "the index of {} is not that of X"),
    "other labels": (
        lazily(pd.Series(np.exp(OFFSET), index=np.arange(N) + 7)).clear_divisions(),
        "the index of {} is not that of X",
    ),
    "other divisions": (
        lazily(pd.Series(np.exp(OFFSET), index=np.arange(N) + 7)),
        "different divisions",
    ),
    "other partitions": (
        dd.from_pandas(pd.Series(np.exp(OFFSET)), npartitions=2),
        "3 partitions but {} has 2",
    ),
    "too few": (lazily(np.exp(OFFSET)[:-1]).clear_divisions(), "X has 80 rows but {} has 79"),
    "in memory": (np.exp(OFFSET), "whose partitions have unknown lengths, but {} is a ndarray"),
    "two columns": (lazily(pd.DataFrame({"a": OFFSET, "b": OFFSET})), "{} should be one column"),
}
LAZILY = {
    "predict": lambda rows, name, e: MEANS.predict(rows, **{name: e}),
    "predict, link": lambda rows, name, e: MEANS.predict(rows, type="link", **{name: e}),
    "inference.predict": lambda rows, name, e: INFERENCE.predict(rows, **{name: e}),
    "score": lambda rows, name, e: MEANS.score(rows, lazily(COUNTS), **{name: e}),
    "predict of classes": lambda rows, name, e: CLASSES.predict(rows, offset=e),
    "predict_proba": lambda rows, name, e: CLASSES.predict_proba(rows, offset=e),
    "predict_log_proba": lambda rows, name, e: CLASSES.predict_log_proba(rows, offset=e),
    "decision_function": lambda rows, name, e: CLASSES.decision_function(rows, offset=e),
    "ordinal": lambda rows, name, e: ORDINAL.predict_proba(rows, offset=e),
    "outliers": lambda rows, name, e: HUBER.outliers(rows, lazily(NUMBERS), offset=e),
    "y of outliers": lambda rows, name, e: HUBER.outliers(rows, e),
}
MEANS = daskglm.PoissonRegressor(alpha=0.0).fit(FRAME, COUNTS, exposure=np.exp(OFFSET))
INFERENCE = MEANS.inference(FRAME, COUNTS, exposure=np.exp(OFFSET))
CLASSES = daskglm.LogisticRegression().fit(FRAME, TWO)
ORDINAL = daskglm.OrdinalRegression().fit(FRAME, THREE)
HUBER = daskglm.HuberRegressor().fit(FRAME, NUMBERS)


@each_choice
@pytest.mark.parametrize("what", list(LAZILY))
@pytest.mark.parametrize("apart", list(APART))
def test_predictions_refuse_what_is_beside_other_rows(apart, what):
    beside, said = APART[apart]
    names = (
        ("offset", "exposure")
        if what in list(LAZILY)[:4]
        else ("y" if "y of" in what else "offset",)
    )
    for name in names:
        with pytest.raises(ValueError, match=said.format(name)):
            dask.compute(LAZILY[what](lazily(FRAME), name, beside))


@each_choice
@pytest.mark.parametrize("what", list(LAZILY))
@pytest.mark.parametrize(
    "kind", ["frame", "array beside", "array", "array, other chunks", "by name"]
)
def test_predictions_take_what_is_beside_the_same_rows(kind, what):
    e = np.exp(OFFSET)
    rows = lazily(FRAME.assign(e=e)) if kind == "by name" else lazily(FRAME)
    beside = {
        "frame": lambda: lazily(e),
        "array beside": lambda: lazily(e).to_dask_array(),
        "array": lambda: da.from_array(e, chunks=80),
        "array, other chunks": lambda: da.from_array(e, chunks=70),
        "by name": lambda: "e",
    }[kind]()
    if kind.startswith("array,") or kind == "array":
        rows = da.from_array(X, chunks=(80, 3))
    if what == "score" and kind in ("array", "array, other chunks"):
        pytest.skip("test_every_estimator_and_container_takes_offsets")
    with contextlib.ExitStack() as stack:
        if not hasattr(rows, "columns"):
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", UserWarning)
        found = LAZILY[what](rows, "exposure", beside)
        local = FRAME.assign(e=e) if kind == "by name" else FRAME
        wanted = LAZILY[what](local, "exposure", "e" if kind == "by name" else e)
    if what == "score":
        assert found == pytest.approx(wanted)
        return
    np.testing.assert_allclose(
        *map(np.asarray, (found.compute(), dask.compute(wanted)[0])), rtol=1e-10
    )


def test_predictions_with_offsets_are_cut_as_the_frame_is():
    frame = lazily(FRAME.assign(e=np.exp(OFFSET))).clear_divisions()
    whole = frame.assign(p=MEANS.predict(frame, exposure="e")).compute()
    np.testing.assert_allclose(whole["p"], MEANS.predict(FRAME, exposure=np.exp(OFFSET)))
    shuffled = frame.shuffle("a", npartitions=2)
    pairs = shuffled.assign(
        p=MEANS.predict(shuffled[list("abc")], exposure=shuffled["e"])
    ).compute()
    np.testing.assert_allclose(pairs["p"], MEANS.predict(pairs[list("abc")], exposure=pairs["e"]))


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
