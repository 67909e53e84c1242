"""Ours and scikit-learn's solve the same problem, and the fitted attributes are alike in kind."""

import logging
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn import linear_model, svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from daskglm import accel
from daskglm.accel import leave_one_out
from daskglm.accel.proxy import only_theirs
from daskglm.accel.record import gap_for

rng = np.random.default_rng(41)
X = rng.normal(size=(120, 4))
z = X @ [1.0, -0.5, 0.0, 0.3] + 0.4
labels = np.where(z + rng.logistic(size=120) > 0, "yes", "no")
three = np.digitize(z + rng.logistic(size=120), [-1, 1])
numbers = z + rng.normal(size=120)
counts = rng.poisson(np.exp(z / 2))
weights = rng.uniform(0.5, 2.0, size=120)
L, S = linear_model, svm
# scikit-learn 1.8 took `penalty` back, and 1.9 gives float32 coefficients for float32 rows.
VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
before_1_8 = pytest.mark.skipif(VERSION < (1, 8), reason="scikit-learn's parameters are others")
before_1_9 = pytest.mark.skipif(VERSION < (1, 9), reason="scikit-learn's attributes are others")
# Parameters with which scikit-learn's solvers go close to the optimum.
FINE = {"tol": 1e-9, "max_iter": 100_000}
CASES = {
    "logistic": (L.LogisticRegression(**FINE), labels),
    "multinomial": (L.LogisticRegression(C=0.3, **FINE), three),
    "l1": (L.LogisticRegression(C=0.2, l1_ratio=1.0, solver="saga", **FINE), labels),
    "mixed": (L.LogisticRegression(C=0.2, l1_ratio=0.4, solver="saga", **FINE), labels),
    "balanced": (L.LogisticRegression(class_weight="balanced", **FINE), labels),
    "no penalty": (L.LogisticRegression(C=np.inf, **FINE), labels),
    "no intercept": (L.LogisticRegression(fit_intercept=False, **FINE), labels),
    "liblinear": (
        L.LogisticRegression(solver="liblinear", intercept_scaling=2.0, C=0.1, **FINE),
        labels,
    ),
    "liblinear l1": (
        L.LogisticRegression(solver="liblinear", l1_ratio=1.0, C=0.2, **FINE),
        labels,
    ),
    "svc": (S.LinearSVC(C=0.1, intercept_scaling=3.0, **FINE), labels),
    "svc l1": (S.LinearSVC(penalty="l1", C=0.1, **FINE), labels),
    "svc hinge": (S.LinearSVC(loss="hinge", C=0.1, **FINE), labels),
    "svc of three": (S.LinearSVC(C=0.1, fit_intercept=False, **FINE), three),
    "svr": (S.LinearSVR(epsilon=0.2, C=0.1, loss="squared_epsilon_insensitive", **FINE), numbers),
    "ridge": (L.Ridge(alpha=2.0), numbers),
    "ridge of bounds": (L.Ridge(positive=True, **FINE), numbers),
    "ridge of targets": (L.Ridge(alpha=np.array([1.0, 3.0])), np.c_[numbers, z]),
    "ridge of a column": (L.Ridge(), numbers[:, None]),
    "ridge by lsqr": (L.Ridge(solver="lsqr", **FINE), numbers),
    "ridge cv": (L.RidgeCV(alphas=[0.1, 3.0, 200.0], store_cv_results=True), numbers),
    "ridge cv of one": (L.RidgeCV(alphas=2.0, fit_intercept=False), numbers),
    "ridge cv of targets": (L.RidgeCV(store_cv_results=True), np.c_[numbers, z]),
    "ridge cv for each": (
        L.RidgeCV(alphas=np.geomspace(1e-3, 1e3, 9), alpha_per_target=True),
        np.c_[numbers, z, rng.normal(size=120)],
    ),
    "ridge cv of a column": (
        L.RidgeCV(alpha_per_target=True, store_cv_results=True),
        numbers[:, None],
    ),
    "lasso": (L.Lasso(alpha=0.1, **FINE), numbers),
    "lasso of a column": (L.Lasso(alpha=0.1, **FINE), numbers[:, None]),
    "elastic net": (L.ElasticNet(alpha=0.1, l1_ratio=0.3, positive=True, **FINE), numbers),
    "elastic net of targets": (L.ElasticNet(alpha=0.1, **FINE), np.c_[numbers, z]),
    "lasso cv": (L.LassoCV(**FINE), numbers),
    "elastic net cv": (L.ElasticNetCV(l1_ratio=[0.5, 0.9], cv=3, **FINE), numbers),
    "poisson": (L.PoissonRegressor(**FINE), counts),
    "gamma": (L.GammaRegressor(alpha=0.1, **FINE), counts + 0.5),
    "tweedie": (L.TweedieRegressor(power=1.5, alpha=0.1, **FINE), counts),
    "tweedie of power 0": (L.TweedieRegressor(fit_intercept=False, **FINE), numbers),
    "huber": (L.HuberRegressor(tol=1e-8, max_iter=1000), numbers),
    "quantile": (L.QuantileRegressor(quantile=0.3, alpha=0.05), numbers),
}
VALUES = {"coef_", "intercept_", "scale_", "alpha_", "alphas_", "mse_path_", "classes_"}
VALUES |= {"best_score_", "cv_results_"}
OF_1_8 = ("l1", "mixed", "liblinear l1")
PLAIN_LOGISTIC_CV = {"l1_ratios": (0.0,), "scoring": "accuracy", "use_legacy_attributes": True}


@pytest.fixture(autouse=True)
def installed():
    accel.install()
    yield
    accel.uninstall()


def both(model, X, y, weight=None):
    """Ours and theirs, fitted. Cases were made before `install`, with scikit-learn's classes."""
    module = svm if hasattr(svm, type(model).__name__) else linear_model
    made = getattr(module, type(model).__name__)
    ours, theirs = (made(**model.get_params()) for _ in range(2))
    ours.fit(X, y, sample_weight=weight)
    with only_theirs(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X, y, sample_weight=weight)
    assert f"{type(model).__name__}: 1 taken" in accel.report()
    return ours, theirs


def fitted(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def assert_alike(ours, theirs, close=2e-4):
    one, other = fitted(ours), fitted(theirs)
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.shape(value) == np.shape(other[name]), name
        kinds = np.asarray(value).dtype, np.asarray(other[name]).dtype
        assert kinds[0] == kinds[1] or {kind.kind for kind in kinds} <= {"i"}, (name, kinds)
    for name in one.keys() & VALUES:
        if np.asarray(one[name]).dtype.kind == "f":
            np.testing.assert_allclose(one[name], other[name], rtol=close, atol=close, err_msg=name)
        else:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=before_1_8 if case in OF_1_8 else ()) for case in CASES]
)
def test_ours_is_scikit_learns_optimum_with_its_attributes(case):
    model, y = CASES[case]
    assert_alike(*both(model, X, y, None if case == "quantile" else weights))


@pytest.mark.parametrize("case", ["logistic", "svc", "lasso", "poisson", "ridge", "ridge cv"])
def test_sparse_rows_are_answered(case):
    model, y = CASES[case]
    rows = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    assert_alike(*both(model, rows, y))


@before_1_9
@pytest.mark.parametrize(
    "case", ["multinomial", "ridge", "ridge cv", "lasso", "gamma", "huber", "svc"]
)
def test_coefficients_have_the_precision_of_the_rows(case):
    model, y = CASES[case]
    assert_alike(*both(model, X.astype(np.float32), y), close=2e-3)


@before_1_9
@pytest.mark.parametrize("y", [labels, three], ids=["two", "three"])
def test_a_search_for_c_has_scikit_learns_scores_and_layout(y):
    model = L.LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, **PLAIN_LOGISTIC_CV, **FINE)
    ours, theirs = both(model, X, y)
    assert_alike(ours, theirs, close=1e-3)
    assert [type(label) for label in ours.scores_] == [type(label) for label in theirs.scores_]
    for label, scores in theirs.scores_.items():
        np.testing.assert_allclose(ours.scores_[label], scores)
        paths = ours.coefs_paths_[label], theirs.coefs_paths_[label]
        np.testing.assert_allclose(*paths, rtol=1e-3, atol=1e-3)
    assert ours.score(X, y) == theirs.score(X, y)


def test_errors_of_rows_left_out_are_those_of_fits_without_them(monkeypatch):
    monkeypatch.setattr(leave_one_out, "RUN_BYTES", 1)  # runs of 64 rows
    model = L.RidgeCV(alphas=[0.5, 50.0], store_cv_results=True)
    model.fit(X, numbers, sample_weight=weights)
    for row in (0, 70, 119):
        kept = np.arange(120) != row
        for alpha, error in zip(model.alphas, model.cv_results_[row], strict=True):
            other = L.Ridge(alpha).fit(X[kept], numbers[kept], sample_weight=weights[kept])
            missed = numbers[row] - other.predict(X[[row]])[0]
            assert error == pytest.approx(weights[row] * missed**2, rel=1e-8)


def test_a_row_that_decides_its_own_fit_is_scikit_learns():
    alone = np.r_[1.0, np.zeros(119)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        L.RidgeCV().fit(X, numbers, sample_weight=alone)
    assert "1 x FloatingPointError: a row that the fit follows" in accel.report()


def test_folds_of_ridge_are_searched_by_scikit_learn_with_our_fits():
    model = L.RidgeCV(alphas=[0.5, 50.0], cv=3).fit(X, numbers)
    assert "Ridge: 7 taken" in accel.report()
    assert "RidgeCV" not in accel.report()
    with only_theirs():
        theirs = L.RidgeCV(alphas=[0.5, 50.0], cv=3).fit(X, numbers)
    assert_alike(model, theirs)


@pytest.mark.parametrize(
    ("model", "y", "why"),
    [
        (L.LogisticRegression(max_iter=5), labels, "max_iter below 100"),
        (L.LogisticRegression(warm_start=True), labels, "warm_start=True"),
        (L.Lasso(precompute=X.T @ X), numbers, "a Gram matrix is given"),
        (L.Lasso(alpha=0.0), numbers, "alpha=0: no penalty"),
        (L.RidgeCV(scoring="r2"), numbers, "scoring"),
        (L.RidgeCV(gcv_mode="svd"), numbers, "gcv_mode='svd'"),
        (S.LinearSVC(multi_class="crammer_singer", random_state=0), three, "crammer_singer"),
        (L.QuantileRegressor(solver_options={"presolve": True}), numbers, "solver_options"),
    ],
    ids=lambda value: getattr(value, "__class__", type(value)).__name__,
)
def test_what_ours_lacks_is_scikit_learns_fit_and_told_once(model, y, why, caplog):
    accel.uninstall()
    theirs = clone(model)
    accel.install()
    module = svm if hasattr(svm, type(model).__name__) else linear_model
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "daskglm.accel"):
        warnings.simplefilter("ignore")
        for _ in range(2):
            ours = getattr(module, type(model).__name__)(**model.get_params()).fit(X, y)
        theirs.fit(X, y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    (line,) = caplog.messages
    assert why in line
    assert f"2 x {line.rpartition('called: ')[2]}" in accel.report()


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (L.LogisticRegression(C=-1.0), labels),
        (L.LogisticRegression(), labels[:-1]),
        (L.LogisticRegression(), np.full(120, "one")),
        pytest.param(L.LogisticRegression(solver="lbfgs", l1_ratio=1.0), labels, marks=before_1_8),
        pytest.param(L.LogisticRegression(solver="liblinear"), three, marks=before_1_8),
        (L.PoissonRegressor(), -counts - 1.0),
        (L.RidgeCV(alphas=[1.0, 0.0]), numbers),
        (L.Ridge(solver="lbfgs"), numbers),
        (S.LinearSVC(loss="hinge", dual=False), labels),
        (S.LinearSVR(dual=False), numbers),
    ],
)
def test_errors_are_scikit_learns(model, y):
    with pytest.raises(ValueError) as theirs:
        model.fit(X, y)
    module = svm if hasattr(svm, type(model).__name__) else linear_model
    with pytest.raises(ValueError) as ours:
        getattr(module, type(model).__name__)(**model.get_params()).fit(X, y)
    assert str(ours.value) == str(theirs.value)
    assert ours.value.__context__ is None or "daskglm" not in repr(ours.value.__context__)


@before_1_9
@pytest.mark.parametrize(
    ("name", "given", "starts"),
    [
        (
            "LogisticRegression",
            {"penalty": "l1", "solver": "liblinear"},
            ("'penalty' was deprecated in version 1.8", "Inconsistent values: penalty=l1"),
        ),
        ("LogisticRegressionCV", {"Cs": [1.0], "cv": 2}, ("The default value of the parameter",)),
    ],
)
def test_deprecated_parameters_are_told(name, given, starts):
    model = getattr(linear_model, name)(**given)
    with pytest.warns((FutureWarning, UserWarning)) as said:
        model.fit(X, labels)
    texts = [str(each.message) for each in said]
    for start in starts:
        assert any(text.startswith(start) for text in texts), start
    assert "0 fallen back" in accel.report()


def test_a_gap_is_the_square_of_tol_between_limits():
    assert gap_for(1e-5) == pytest.approx(1e-10)
    assert gap_for(0.1) == gap_for(1e-4) == pytest.approx(1e-8)
    assert gap_for(0.0) == gap_for(1e-9) == pytest.approx(1e-13)
    assert gap_for(0.1, True) == gap_for(1e-4, True) == pytest.approx(1e-6)
    assert gap_for(1e-8, True) == pytest.approx(1e-10)
