"""Every question by every kind of array: tensors give what NumPy gives, to the last bit."""

import pickle

import dask
import dask.array as da
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score

import daskglm

rng = np.random.default_rng(8)
X = rng.normal(size=(120, 4))
z = X @ [1.0, -0.5, 0.0, 0.3]
TWO, THREE = (z + rng.logistic(size=120) > 0).astype(int), np.digitize(z, [-0.5, 0.5])
NUMBERS, COUNTS = z + rng.normal(size=120), rng.poisson(np.exp(z / 2)).astype(float)
WEIGHT, OFFSET = rng.uniform(0.5, 2.0, size=120), rng.uniform(-0.2, 0.2, size=120)
OF_CLASSES = rng.uniform(-0.2, 0.2, size=(120, 3))
CLUSTERS = np.arange(120) // 10
FOLDS = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
D = daskglm

# Each of a function that makes an array of a kind.
FITS = {
    "logistic": lambda of: fitted(D.LogisticRegression(), of, TWO, OFFSET),
    "multinomial": lambda of: fitted(D.LogisticRegression(), of, THREE, OF_CLASSES),
    "ordinal": lambda of: fitted(D.OrdinalRegression(), of, THREE, OFFSET),
    "svc": lambda of: fitted(D.LinearSVC(), of, TWO, OFFSET),
    "svr": lambda of: fitted(D.LinearSVR(), of, NUMBERS, OFFSET),
    "ridge": lambda of: fitted(D.Ridge(), of, NUMBERS, OFFSET),
    "lasso": lambda of: fitted(D.Lasso(0.1), of, NUMBERS, OFFSET),
    "elastic net": lambda of: fitted(D.ElasticNet(0.1), of, NUMBERS, OFFSET),
    "huber": lambda of: fitted(D.HuberRegressor(), of, NUMBERS, OFFSET),
    "quantile": lambda of: fitted(D.QuantileRegressor(), of, NUMBERS, OFFSET),
    "gamma": lambda of: fitted(D.GammaRegressor(), of, COUNTS + 0.5, OFFSET),
    "tweedie": lambda of: fitted(D.TweedieRegressor(), of, COUNTS, OFFSET),
    "negative binomial": lambda of: fitted(
        D.GeneralizedLinearRegressor("negative_binomial"), of, COUNTS, OFFSET
    ),
    "logistic cv": lambda of: fitted(D.LogisticRegressionCV(Cs=3), of, TWO, OFFSET),
    "lasso cv": lambda of: fitted(D.LassoCV(alphas=5), of, NUMBERS, OFFSET),
    "family cv": lambda of: fitted(
        D.GeneralizedLinearRegressorCV("poisson", alphas=3), of, COUNTS, OFFSET
    ),
    # folds and groups of tensors
    "folds": lambda of: fitted(
        D.LassoCV(alphas=5, cv=[(of(train), of(test)) for train, test in FOLDS]), of, NUMBERS
    ),
    "groups": lambda of: D.LogisticRegressionCV(Cs=3, cv=GroupKFold(3)).fit(
        of(X), of(TWO), groups=of(CLUSTERS)
    ),
    # parameters of tensors
    "Cs": lambda of: fitted(D.LogisticRegressionCV(Cs=of(np.array([0.1, 1.0]))), of, TWO),
    "alphas": lambda of: fitted(D.LassoCV(alphas=of(np.array([0.1, 0.3]))), of, NUMBERS),
    "l1_ratio": lambda of: fitted(
        D.LogisticRegressionCV(Cs=2, l1_ratios=of(np.array([0.5, 1.0]))), of, TWO
    ),
    "alpha of targets": lambda of: D.Ridge(of(np.array([1.0, 3.0]))).fit(
        of(X), of(np.c_[NUMBERS, z])
    ),
    "factors": lambda of: fitted(
        D.Lasso(0.1, penalty_factor=of(np.array([0.0, 1.0, 2.0, 1.0]))), of, NUMBERS
    ),
    "bounds": lambda of: fitted(D.Ridge(lower_bounds=of(np.zeros(4))), of, NUMBERS),
    "P2": lambda of: fitted(D.Ridge(P2=of(np.diag([1.0, 2.0, 3.0, 4.0]))), of, NUMBERS),
    "labels of groups": lambda of: fitted(
        D.LogisticRegression(l1_ratio=1, C=0.3, groups=of(np.array([0, 0, 1, 1]))), of, TWO
    ),
    # other ways in
    "fit of several": lambda of: D.fit(of(X), of(TWO), C=of(np.array([0.1, 1.0])))[1],
    "blocks": lambda of: D.LogisticRegression().fit(
        [dask.delayed(of(X[:50])), dask.delayed(of(X[50:]))],
        [dask.delayed(of(TWO[:50])), dask.delayed(of(TWO[50:]))],
    ),
    "beside a lazy target": lambda of: D.Ridge().fit(of(X), da.from_array(NUMBERS, chunks=50)),
    "beside lazy rows": lambda of: D.PoissonRegressor().fit(
        da.from_array(X, chunks=50), of(COUNTS), of(WEIGHT), exposure=of(WEIGHT)
    ),
}


def fitted(model, of, y, offset=None):
    added = {} if offset is None else {"offset": of(offset)}
    return model.fit(of(X), of(y), sample_weight=of(WEIGHT), **added)


@pytest.fixture(params=["array_api_strict", "torch", "jax.numpy"])
def of(request):
    """What makes an array of the library of an array of NumPy."""
    module = pytest.importorskip(request.param)
    if request.param == "jax.numpy":
        pytest.importorskip("jax").config.update("jax_enable_x64", True)
    return module.asarray


@pytest.fixture
def dispatched(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # which scikit-learn asks for
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize("question", FITS)
def test_fits_to_tensors_are_those_to_numpy(question, of):
    found, wanted = FITS[question](of), FITS[question](np.asarray)
    attributes = [name for name in vars(wanted) if name.endswith("_") and name[0] != "_"]
    assert "coef_" in attributes
    for name in attributes:
        values = getattr(found, name)
        assert type(values) is type(getattr(wanted, name)), name
        if isinstance(values, np.ndarray) and values.dtype != object:
            np.testing.assert_array_equal(values, getattr(wanted, name), err_msg=name)


@pytest.mark.parametrize(
    "question", ["logistic", "ordinal", "huber", "lasso cv", "factors", "bounds", "P2", "alphas"]
)
def test_saved_models_of_tensors_predict_tensors(question, of, dispatched, tmp_path):
    model = FITS[question](of)
    daskglm.save(model, tmp_path / "model.json")
    same = daskglm.load(tmp_path / "model.json")
    found = same.predict(of(X))
    assert type(found) is type(of(X))
    np.testing.assert_array_equal(np.asarray(found), model.predict(X))
    again = same.fit(of(X), of(TWO if hasattr(model, "classes_") else NUMBERS))  # parameters, too
    assert again.report_.converged


def test_pickles_and_copies_of_models(of, dispatched):
    model = FITS["logistic"](of)
    packed = pickle.dumps(model)
    assert type(of(X)).__module__.partition(".")[0].encode() not in packed
    np.testing.assert_array_equal(pickle.loads(packed).coef_, model.coef_)
    again = clone(FITS["factors"](of)).fit(of(X), of(NUMBERS), sample_weight=of(WEIGHT))
    np.testing.assert_array_equal(again.coef_, FITS["factors"](np.asarray).coef_)


def test_scores_by_folds_of_tensors(of, dispatched):
    found, wanted = (
        cross_val_score(D.Ridge(), as_is(X), as_is(NUMBERS)) for as_is in (of, np.asarray)
    )
    np.testing.assert_array_equal(found, wanted)


def test_a_table_of_means_stays_a_dataframe(of, dispatched):
    model = D.PoissonRegressor(alpha=0).fit(of(X), of(COUNTS))
    ours, plain = (
        model.inference(as_is(X), as_is(COUNTS), covariance="cluster", clusters=as_is(CLUSTERS))
        for as_is in (of, np.asarray)
    )
    np.testing.assert_array_equal(ours.bse, plain.bse)
    found = ours.predict(of(X))
    assert list(found.columns) == ["mean", "se", "lower", "upper"]
    np.testing.assert_array_equal(found, plain.predict(X))


def test_lazy_rows_beside_tensors_predict_lazily(of):
    model = FITS["beside lazy rows"](of)
    rows = da.from_array(X, chunks=50)
    found = model.predict(rows, exposure=of(WEIGHT))
    assert isinstance(found, da.Array)
    np.testing.assert_array_equal(found, model.predict(rows, exposure=WEIGHT))
    blocks = D.LogisticRegression().fit(X, TWO).predict_proba([dask.delayed(of(X))])
    assert dask.compute(blocks)[0][0].shape == (120, 2)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda of: D.Ridge().fit(of(X), of(NUMBERS[:-1])), "120.*119"),
        (lambda of: D.Ridge().fit(of(X), of(NUMBERS), offset=of(OFFSET[1:])), "offset.*119"),
        (lambda of: D.fit(of(X), of(TWO), out_of_core=True), "out_of_core=True.*in memory"),
        (lambda of: D.Ridge(lower_bounds=of(np.zeros(3))).fit(of(X), of(NUMBERS)), "lower_bounds"),
        (lambda of: D.Ridge().fit(of(np.where(X > 2, np.nan, X)), of(NUMBERS)), "NaN"),
    ],
)
def test_what_cannot_be_is_told(ask, message, of):
    with pytest.raises((ValueError, TypeError), match=message) as found:
        ask(of)
    with pytest.raises(type(found.value)) as wanted:
        ask(np.asarray)
    assert str(found.value) == str(wanted.value)


def test_rows_of_two_devices_are_refused_by_the_name_of_one():
    strict = pytest.importorskip("array_api_strict")
    other = strict.Device("device1")
    here, there = strict.asarray(X), strict.asarray(NUMBERS, device=other)
    for ask in (
        lambda: D.Ridge().fit(here, there),
        lambda: D.Ridge().fit(strict.asarray(X, device=other), strict.asarray(NUMBERS)),
        lambda: D.Ridge().fit(here, strict.asarray(NUMBERS), sample_weight=there),
        lambda: D.Lasso(penalty_factor=there[:4]).fit(here, strict.asarray(NUMBERS)),
    ):
        with pytest.raises(TypeError, match="device1.*memory of the CPU"):
            ask()
