import json
import math
import os

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold

import daskglm
from daskglm import (
    ElasticNetCV,
    LassoCV,
    LinearSVC,
    LogisticRegression,
    OrdinalRegression,
    Ridge,
)
from daskglm.estimators import model_file, persistence
from daskglm.estimators.families import FamilyRegressor
from daskglm.estimators.model_file import digest_of
from daskglm.estimators.persistence import load, save
from daskglm.losses.table import LOSSES
from tests.conftest import make_problem

matplotlib.use("Agg")


@pytest.fixture
def model():
    return LogisticRegression(C=0.3).fit(*make_problem(80, 4))


def edit(path, **changes):
    content = json.loads(path.read_text())
    content.update(changes)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("cls", [LogisticRegression, LinearSVC, Ridge])
@pytest.mark.parametrize("d", [4, 12_000])
def test_round_trip_is_exact(cls, d, tmp_path):
    X, y = make_problem(30, d, loss="squared" if cls is Ridge else "logistic")
    model = cls(C=0.1, tol=1e-3).fit(X, y)
    save(model, tmp_path / "m.json")
    again = load(str(tmp_path / "m.json"))
    assert type(again) is cls
    assert again.get_params() == model.get_params()
    for name in ("coef_", "intercept_", "n_iter_", "n_features_in_"):
        ours, theirs = getattr(again, name), getattr(model, name)
        np.testing.assert_array_equal(ours, theirs)
        assert type(ours) is type(theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again.report_) == repr(model.report_)
    assert again.report_.history == []
    wanted = {"m.json", "m.json.npz"} if d > 10_000 else {"m.json"}
    assert set(os.listdir(tmp_path)) == wanted


ESTIMATORS = [
    name
    for name in daskglm.__all__
    if hasattr(getattr(daskglm, name), "fit") and name != "Pipeline"
]
# their paths are not saved
CHOOSING = ["LogisticRegressionCV", "GeneralizedLinearRegressorCV"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_saved_or_refused_by_name(name, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=80), "of": rng.choice(list("uvw"), 80)})
    z, model = table["x"] + rng.normal(size=80), getattr(daskglm, name)()
    if is_classifier(model):
        z = np.digitize(z, [0.0] if "Ordinal" not in name else [-1.0, 1.0])
    elif "Gamma" in name or "Tweedie" in name or "Poisson" in name:
        z = np.exp(z)
    model.fit(table, z)
    if name in CHOOSING:
        with pytest.raises(ValueError, match=f"cannot save a {name}.* Fit a {name[:-2]} with"):
            save(model, tmp_path / "m.json")
        return
    save(model, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


@pytest.mark.parametrize("loss", ["smoothed_hinge", "log_cosh"])
def test_models_of_any_loss_are_saved_by_its_name(loss, tmp_path, monkeypatch, request):
    X, y = make_problem(60, 3)
    if loss == "log_cosh":
        request.getfixturevalue("log_cosh")
        model = daskglm.LinearRegressor(loss).fit(X, y.astype(float))
    else:
        model = daskglm.LinearClassifier(loss=loss).fit(X, y)
    save(model, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with monkeypatch.context() as patch:
        patch.delitem(LOSSES, loss)
        with pytest.raises(ValueError, match=f"unknown loss '{loss}'|loss='{loss}'"):
            load(tmp_path / "m.json")


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1], dtype=np.int8),
        np.array([2**63, 2**63 + 1024], dtype=np.uint64),
        np.array([0.1, 0.3]),
        np.array([0.1, 0.3], dtype=np.float32),
        np.array(["a", "ccc", "é"]),
        np.array([3, 5, 9]),
    ],
    ids=lambda labels: f"{labels.dtype}-{len(labels)}",
)
def test_labels_keep_value_and_dtype(labels, tmp_path):
    X, _ = make_problem(60, 3)
    model = LogisticRegression().fit(X, labels[np.arange(60) % len(labels)])
    model.classes_ = labels
    save(model, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.classes_, labels)
    assert again.classes_.dtype == labels.dtype
    assert list(map(type, again.classes_.tolist())) == list(map(type, labels.tolist()))


def test_infinite_C_gives_strict_json(tmp_path):
    X, y = make_problem(200, 3)
    model = LogisticRegression(C=math.inf, class_weight={-1: 2.0, 1: 1.0})
    with pytest.warns(ConvergenceWarning, match="linearly dependent"):
        model.fit(np.hstack([X, X[:, :1]]), y)
    assert math.isnan(model.report_.relative_gap)
    save(model, tmp_path / "m.json")

    def refuse(constant):
        raise AssertionError(constant)

    json.loads((tmp_path / "m.json").read_text(), parse_constant=refuse)
    again = load(tmp_path / "m.json")
    assert math.inf == again.C
    assert again.class_weight == {-1: 2.0, 1: 1.0}
    assert math.isnan(again.report_.relative_gap)


def test_feature_names(tmp_path):
    X, y = make_problem(60, 3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = Ridge().fit(frame, y)
    save(model, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_what_cannot_be_saved(model, tmp_path):
    path = tmp_path / "m.json"
    with pytest.raises(NotFittedError):
        save(Ridge(), path)
    with pytest.raises(ValueError, match="cannot save a dict"):
        save({}, path)
    model.set_params(random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match="random_state"):
        save(model, path)
    model.set_params(random_state=None)
    model.classes_ = np.array(["2020", "2021"], dtype="M8[Y]")
    with pytest.raises(ValueError, match="labels of dtype"):
        save(model, path)
    assert not os.listdir(tmp_path)


def test_a_failed_write_leaves_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    save(model, path)
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save(model.set_params(C=7.0), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.json"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not a daskglm model"),
        ({"version": 3}, "version 3"),
        ({"version": True}, "version True"),
        ({"estimator": "BaseEstimator"}, "BaseEstimator"),
        ({"estimator": "Ridge"}, "damaged"),
        ({"estimator": []}, "known are"),
        ({"params": {"bogus": 1}}, "bogus"),
        ({"params": []}, "damaged"),
        ({"n_features": 5}, "shape"),
        ({"n_features": "4"}, "n_features"),
        ({"coef": [[1.0, 2.0]]}, "shape"),
        ({"coef": [[1.0, 2.0], [1.0]]}, "damaged"),
        ({"coef": [["1", "2", "3", "4"]]}, "numbers"),
        ({"coef": None}, "numbers"),
        ({"intercept": 1.0}, "shape"),
        ({"classes": None}, "without classes"),
        ({"classes": {"dtype": "<U1", "values": ["aa", "bb"]}}, "do not fit"),
        ({"classes": {"dtype": "V8", "values": [1, 2]}}, "damaged"),
        ({"classes": {"dtype": "<f8", "values": [1.0]}}, "do not fit"),
        ({"feature_names": ["a"]}, "feature names"),
        ({"n_iter": ["x"]}, "n_iter"),
        ({"report": {}}, "report"),
        ({"arrays": {"file": "../m.npz", "sha256": ""}}, "beside"),
        ({"arrays": {"file": "gone.npz", "sha256": ""}}, "gone.npz"),
    ],
)
def test_tampered_files(model, tmp_path, changes, message):
    path = tmp_path / "m.json"
    save(model, path)
    edit(path, **changes)
    with pytest.raises(ValueError, match=message):
        load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\x80\x04K\x01.", b'{"format": NaN}'])
def test_files_of_other_kinds(tmp_path, content):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(ValueError, match="not a daskglm model"):
        load(tmp_path / "m.json")


def test_missing_key_and_missing_file(model, tmp_path):
    path = tmp_path / "m.json"
    with pytest.raises(FileNotFoundError):
        load(path)
    save(model, path)
    content = json.loads(path.read_text())
    del content["coef"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="it has no 'coef'"):
        load(path)


def test_arrays_beside(tmp_path):
    X, y = make_problem(30, 12_000)
    first, second = (Ridge(C=C, tol=1e-3).fit(X, y) for C in (0.1, 1.0))
    save(first, tmp_path / "a.json")
    save(second, tmp_path / "b.json")
    beside = tmp_path / "a.json.npz"
    beside.write_bytes((tmp_path / "b.json.npz").read_bytes())
    with pytest.raises(ValueError, match="another model"):
        load(tmp_path / "a.json")
    np.savez(beside, coef=np.array([{}], dtype=object), intercept=np.zeros(1))
    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "a.json")
    beside.write_bytes(b"PK broken")
    with pytest.raises(ValueError, match="damaged"):
        load(tmp_path / "a.json")
    beside.unlink()
    with pytest.raises(ValueError, match="move both files"):
        load(tmp_path / "a.json")


PENALTIES = [
    {"penalty_factor": np.array([1.0, 0.0, 2.0])},
    {"penalty_factor": {"a": 0.5}},
    {"P2": np.diag([1.0, 2.0, 3.0])},
    {"P2": sp.csr_matrix(np.diag([1.0, 2.0, 3.0]))},
    {"lower_bounds": np.array([-math.inf, 0.0, 1.0]), "upper_bounds": {"c": math.inf}},
    {"l1_ratio": 0.5, "groups": np.array(["x", "y", "x"])},
    {"l1_ratio": 0.5, "groups": [["a", "c"], np.array([1])]},
    {"positive": True, "standardize": True},
]


@pytest.mark.parametrize("given", PENALTIES, ids=lambda given: ",".join(given))
def test_penalties(given, tmp_path):
    X, y = make_problem(40, 3)
    model = LogisticRegression().fit(pd.DataFrame(X, columns=list("abc")), y)
    model.set_params(**given)
    save(model, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    ours, theirs = (each._settings().penalty for each in (again, model))
    ours, theirs = (each.for_features(3, list("abc")) for each in (ours, theirs))
    for name in theirs.__dataclass_fields__:
        np.testing.assert_equal(getattr(ours, name), getattr(theirs, name))
    save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "m.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("penalty_factor", [1.0, 2.0], "has 2 values, but X has 4 features"),
        ("penalty_factor", {"items": [["a", 1.0]]}, "the columns of X have no names"),
        ("penalty_factor", ["x"] * 4, "penalty_factor has the shape"),
        ("penalty_factor", [[[1.0]]], "penalty_factor has the shape"),
        ("penalty_factor", [{"float": "many"}], "is no value of a file"),
        ("P2", [[1.0], [1.0, 2.0]], "P2=.* is no array"),
        ("groups", [0, 0, 1, 1], "has no effect with l1_ratio=0"),
        ("C", [1.0], r"parameter 'C' is \[1.0\]"),
        ("l1_ratio", True, "parameter 'l1_ratio' is True"),
        ("positive", 1, "positive=1 must be True or False"),
    ],
)
def test_tampered_penalties(model, tmp_path, name, value, message):
    save(model, path := tmp_path / "m.json")
    params = json.loads(path.read_text())["params"]
    edit(path, params=params | {name: value})
    with pytest.raises(ValueError, match=message):
        load(path)


@pytest.mark.slow
def test_a_matrix_that_is_too_large_for_a_file_is_not_saved(tmp_path):
    d = 700
    model = LogisticRegression().fit(np.eye(d)[:40], np.arange(40) % 2)
    noise = np.random.default_rng(0).standard_normal((d, d))
    model.set_params(P2=noise @ noise.T)
    with pytest.raises(ValueError, match="names, labels and parameters take"):
        save(model, tmp_path / "m.json")


# ---- penalties that were tried
TRIED = ("alpha_", "l1_ratio_", "alphas_", "mse_path_", "mse_standard_error_")


def tried(**how):
    X, y = make_problem(60, 4, loss="squared")
    cls = LassoCV if "l1_ratio" not in how else ElasticNetCV
    return cls(**{"alphas": 6, "cv": 3, **how}).fit(X, y)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"l1_ratio": 0.3, "cv": None, "relax": True},
        {"l1_ratio": [0.2, 1.0]},
        {"l1_ratio": (0.2,), "alphas": np.array([0.01, 0.1, 1.0])},
        {"l1_ratio": np.array([0.5, 1.0]), "selection": "1se", "penalty_factor": [1.0, 0.0, 1, 2]},
    ],
    ids=str,
)
def test_cross_validated_penalties(how, tmp_path):
    model = tried(**how)
    save(model, tmp_path / "m.json")
    again = load(tmp_path / "m.json")
    assert type(again) is type(model)
    for name in (*TRIED, "coef_", "intercept_", "n_iter_", "n_features_in_", "dual_gap_"):
        ours, theirs = getattr(again, name), getattr(model, name)
        np.testing.assert_array_equal(ours, theirs)
        assert type(ours) is type(theirs), name
    assert repr(again.report_) == repr(model.report_)
    np.testing.assert_equal(again.get_params()["cv"], model.cv)
    X, y = make_problem(60, 4, loss="squared")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.fit(X, y).alpha_ == model.alpha_
    ours, theirs = (each.plot_cv().lines[0].get_xydata() for each in (again, model))
    np.testing.assert_array_equal(ours, theirs)


def test_a_splitter_is_not_saved(tmp_path):
    model = tried(cv=KFold(3))
    with pytest.raises(ValueError, match="parameter 'cv' is a KFold.*set_params"):
        save(model, tmp_path / "m.json")
    save(model.set_params(cv=None), tmp_path / "m.json")
    assert load(tmp_path / "m.json").mse_path_.shape == (6, 3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("alpha", -1.0, "alpha is -1.0, which is not a number of at least 0"),
        ("alpha", 123.0, "alpha is 123.0, which is none of those"),
        ("l1_ratio", 0.7, "none of "),
        ("l1_ratio", "1", "l1_ratio is '1'"),
        ("alphas", [1.0], "alphas has a list of 1"),
        ("mse_path", [[1.0, 2.0], [1.0]], "mse_path has"),
        ("mse_path", 1.0, "mse_path has the shape"),
        ("mse_path", [[["1"]] * 6] * 2, "mse_path holds '1'"),
        ("mse_standard_error", None, "mse_standard_error has None"),
    ],
)
def test_tampered_penalties_that_were_tried(name, value, message, tmp_path):
    model = tried(l1_ratio=[0.2, 1.0])
    save(model, path := tmp_path / "m.json")
    edit(path, tried=json.loads(path.read_text())["tried"] | {name: value})
    with pytest.raises(ValueError, match=f"damaged.*{message}"):
        load(path)


def test_what_was_tried_belongs_to_cross_validation(model, tmp_path):
    save(model, path := tmp_path / "m.json")
    edit(path, tried={})
    with pytest.raises(ValueError, match="with the penalties that were tried"):
        load(path)
    save(tried(), path)
    edit(path, tried={"alpha": 1.0})
    with pytest.raises(ValueError, match="of what was tried"):
        load(path)
    params = json.loads(path.read_text())["params"]
    edit(path, params=params | {"eps": 2.0})
    with pytest.raises(ValueError, match=r"eps=2.0 must be"):
        load(path)
    content = json.loads(path.read_text())
    del content["tried"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="without the penalties that were tried"):
        load(path)


def test_the_digest_is_of_coefficients_and_intercepts():
    coef, intercept = np.arange(3.0), np.array([1.0])
    known = digest_of(coef, intercept)
    assert digest_of(coef.copy(), intercept.copy()) == known
    assert digest_of(coef + 1.0, intercept) != known
    assert digest_of(coef, intercept + 1.0) != known


def test_kinds_of_models_are_told_without_their_classes():
    known = persistence._ESTIMATORS
    assert set(model_file.ESTIMATORS) == set(known)
    families = {name for name, cls in known.items() if issubclass(cls, FamilyRegressor)}
    assert set(model_file.OF_FAMILIES) == families
    assert known[model_file.ORDERED] is OrdinalRegression
