"""Tensors of PyTorch and arrays of the strict array library: fitted and predicted as NumPy is, and predictions in their library where scikit-learn dispatches."""

import types

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import MinMaxScaler

import daskglm
from daskglm.data.array_api import CUDA, from_library, in_library_of
from tests.conftest import make_problem

X, y = make_problem(200, 4, seed=3)
X, y = np.asarray(X, float), (np.asarray(y) > 0).astype(np.int64)
NUMBERS, THREE = X[:, 0] + np.sin(np.arange(200.0)), np.arange(200) % 3
LOGISTIC = daskglm.LogisticRegression().fit(X, y)


@pytest.fixture(params=["array_api_strict", "torch"])
def library(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def dispatched(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # which scikit-learn asks for
    with sklearn.config_context(array_api_dispatch=True):
        yield


def predictions(of, dtype="float64"):
    """What each method returns of arrays that `of` makes, with the NumPy kind of it."""
    rows, labels, numbers = of(X.astype(dtype)), of(y), of(NUMBERS.astype(dtype))
    ones = of(np.ones(200))
    model = daskglm.LogisticRegression().fit(rows, labels, sample_weight=ones)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        yield name, getattr(model, name)(rows), name == "predict"
    yield "score", model.score(rows, labels, sample_weight=ones), False
    three = daskglm.OrdinalRegression().fit(rows, of(THREE))
    yield "ordinal", three.predict(rows), True
    yield "ordinal proba", three.predict_proba(rows), False
    two = daskglm.Ridge().fit(rows, of(np.stack([NUMBERS, X[:, 1]], axis=1)))
    yield "ridge", two.predict(rows), False
    rates = daskglm.PoissonRegressor(alpha=0).fit(rows, labels, exposure=ones)
    yield "means", rates.predict(rows, offset=of(np.full(200, 0.5)), exposure=2.0), False
    yield "residuals", rates.residuals(rows, labels, exposure=ones), False
    inference = rates.inference(rows, labels, exposure=ones, covariance="HC1")
    yield "leverage", inference.leverage(rows, labels, exposure=ones), False
    yield "intervals", inference.predict(rows).to_numpy(), None
    huber = daskglm.HuberRegressor().fit(rows, numbers)
    yield "outliers", huber.outliers(rows, numbers), True
    pipe = daskglm.Pipeline([("scale", MinMaxScaler()), ("model", daskglm.LinearSVC())])
    yield "pipeline", pipe.fit(rows, labels).decision_function(rows), False


def test_tensors_give_what_numpy_gives(library):
    for (name, found, _), (_, wanted, _) in zip(
        predictions(library.asarray), predictions(np.asarray), strict=True
    ):
        assert isinstance(found, (np.ndarray, float)), name
        np.testing.assert_array_equal(found, wanted, err_msg=name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_predictions_are_in_the_library_and_dtype_of_x_where_scikit_learn_dispatches(
    library, dispatched, dtype
):
    kind = type(library.asarray(X))
    for (name, found, labels), (_, wanted, _) in zip(
        predictions(library.asarray, dtype), predictions(np.asarray, dtype), strict=True
    ):
        if name == "score" or labels is None:
            assert isinstance(found, (float, np.ndarray)), name
            continue
        assert type(found) is kind, name
        if labels:
            assert str(found.dtype).endswith(str(wanted.dtype)), name
        else:
            assert found.dtype == getattr(library, dtype), name
        # the scaler of a pipeline works in float32 by another library
        np.testing.assert_allclose(
            np.asarray(found), wanted, rtol=1e-3 if dtype == "float32" else 1e-9, err_msg=name
        )


def test_a_search_over_tensors_chooses_what_one_over_numpy_does(library, dispatched):
    search = GridSearchCV(daskglm.LogisticRegression(), {"C": [1e-3, 1e-2, 1.0]}, cv=2)
    wanted = search.fit(X, y).cv_results_["mean_test_score"]
    found = search.fit(library.asarray(X), library.asarray(y))
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], wanted)
    assert isinstance(found.predict(library.asarray(X)), type(library.asarray(X)))


def test_labels_keep_the_dtype_of_y_and_text_stays_numpy(library, dispatched):
    single = library.asarray(X.astype(np.float32))
    shares = np.where(y, 0.1, 0.7)  # which float32 does not hold
    found = daskglm.LinearSVC().fit(single, library.asarray(shares)).predict(single)
    assert found.dtype == library.float64
    assert set(np.asarray(found).tolist()) == {0.1, 0.7}
    text = daskglm.LinearSVC().fit(single, np.where(y, "late", "punctual")).predict(single)
    assert isinstance(text, np.ndarray)
    assert set(text.tolist()) == {"late", "punctual"}


def test_x_alone_says_where_predictions_go(library, dispatched):
    model = daskglm.LogisticRegression().fit(library.asarray(X), library.asarray(y))
    assert isinstance(model.predict(X), np.ndarray)
    assert isinstance(model.coef_, np.ndarray)
    assert isinstance(model.classes_, np.ndarray)
    found = LOGISTIC.predict_proba(library.asarray(X))
    assert isinstance(found, type(library.asarray(X)))


def test_integers_and_booleans_are_numbers(library, dispatched):
    for kind in (np.int32, bool):
        found = LOGISTIC.predict_proba(library.asarray((X > 0.5).astype(kind)))
        assert found.dtype == library.float64
        np.testing.assert_allclose(
            np.asarray(found), LOGISTIC.predict_proba((X > 0.5).astype(float))
        )


def test_float16_goes_in_and_float64_comes_out(dispatched):
    torch = pytest.importorskip("torch")
    found = LOGISTIC.predict_proba(torch.asarray(X).half())
    assert found.dtype == torch.float64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.requires_grad_(), r"torch.Tensor \(torch.float64.*give its detach\(\)"),
        (lambda x: x.bfloat16(), "torch.bfloat16.*cannot be read.*give float32"),
        (lambda x: x.to("meta"), "device meta"),
        (lambda x: x.to_sparse(), "cannot be read.*to_dense"),
    ],
)
def test_tensors_that_cannot_be_read_are_refused_by_every_door(change, message):
    torch = pytest.importorskip("torch")
    bad, labels = change(torch.asarray(X.copy())), torch.asarray(y)
    for use in (
        lambda: daskglm.LogisticRegression().fit(bad, labels),
        lambda: daskglm.Ridge().fit(X, bad[:, 0]),
        lambda: LOGISTIC.predict(bad),
        lambda: LOGISTIC.score(bad, labels),
        lambda: LOGISTIC.residuals(bad, labels),
    ):
        with pytest.raises(TypeError, match=message):
            use()


def test_another_device_is_refused_by_name():
    strict = pytest.importorskip("array_api_strict")
    elsewhere = strict.asarray(X, device=strict.Device("device1"))
    with pytest.raises(TypeError, match="device1.*memory of the CPU"):
        LOGISTIC.predict(elsewhere)


class Elsewhere:
    """A tensor in the memory of a GPU, as far as its reader sees."""

    __torch_function__ = dtype = None
    device = "cuda:0"

    def __dlpack_device__(self):
        return CUDA, 0


def test_a_tensor_on_a_gpu_goes_to_cupy(monkeypatch):
    taken = types.SimpleNamespace(dtype=np.dtype(float))
    xp = types.SimpleNamespace(from_dlpack=lambda values: taken)
    monkeypatch.setattr("daskglm.data.array_api.gpu", lambda: types.SimpleNamespace(xp=xp))
    assert from_library(Elsewhere()) is taken


def test_a_tensor_on_a_gpu_without_cupy_is_refused(monkeypatch):
    def none():
        raise RuntimeError("needs CuPy")

    monkeypatch.setattr("daskglm.data.array_api.gpu", none)
    with pytest.raises(TypeError, match="device cuda:0.*needs CuPy.*memory of the CPU"):
        LOGISTIC.predict(Elsewhere())


def test_numpy_and_frames_stay_what_they_are_under_dispatch(dispatched):
    pandas = pytest.importorskip("pandas")
    found = np.zeros(3)
    for rows in (X, X.tolist(), pandas.DataFrame(X)):
        assert in_library_of(rows, found) is found
        assert isinstance(LOGISTIC.predict(rows), np.ndarray)
