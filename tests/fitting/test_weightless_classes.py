"""Classes without weight, labels that y lacks: fitted as scikit-learn does, never NaN."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import daskglm
from tests.conftest import make_problem
from tests.covering import each_choice


def three_classes(n=150):
    X, _ = make_problem(n=n, d=3)
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


def test_labels_that_y_lacks_are_ignored():
    X, y = make_problem(n=200, d=3)
    model = daskglm.LogisticRegression(class_weight={-1: 2.0, 1: 1.0, 7: 3.0}).fit(X, y)
    np.testing.assert_array_equal(
        model.coef_, daskglm.fit(X, y, class_weight={-1: 2.0, 1: 1.0}).coef_
    )
    with pytest.raises(
        ValueError, match=r"class_weight names \[7\], which y does not have, but not all labels"
    ):
        daskglm.LogisticRegression(class_weight={-1: 2.0, 7: 3.0}).fit(
            X, y
        )  # scikit-learn refuses it too
    with pytest.raises(ValueError, match="leaves no row of y with weight"):
        daskglm.LogisticRegression(class_weight={-1: 0.0, 1: 0.0}).fit(X, y)


NO_OPTIMUM = pytest.mark.filterwarnings("ignore:.*falls for ever as the intercept grows")


@each_choice
@NO_OPTIMUM
@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "sdca"])
@pytest.mark.parametrize(
    "model",
    [daskglm.LogisticRegression(), daskglm.LinearSVC(), daskglm.LinearSVC(loss="smoothed_hinge")],
)
@pytest.mark.parametrize("weightless", [-1, 1])
def test_two_classes_one_of_them_without_weight_give_a_constant(model, solver, weightless):
    X, y = make_problem(n=80, d=3)
    model = model.set_params(solver=solver, class_weight={weightless: 0.0}).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), -weightless)
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert np.isfinite(model.intercept_).all()
    assert model.report_.converged
    assert model.report_.objective <= 1e-12
    weights = np.where(y == weightless, 0.0, 1.0)
    by_weights = model.set_params(class_weight=None).fit(X, y, weights)
    np.testing.assert_array_equal(by_weights.predict(X), -weightless)
    theirs = sklearn.linear_model.LogisticRegression().fit(X, y, weights)
    np.testing.assert_array_equal(by_weights.predict(X), theirs.predict(X))


def test_log_odds_of_a_class_without_weight_are_told_to_have_no_optimum():
    X, y = make_problem(n=80, d=3)
    alone = (y == 1).astype(float)
    with pytest.warns(
        ConvergenceWarning, match="class 1.0 alone has weight: .* there is no optimum"
    ):
        model = daskglm.LogisticRegression().fit(X, y, alone)
    assert model.report_.relative_gap == math.inf
    with pytest.warns(ConvergenceWarning, match="class 1.0 has no weight: .* there is no optimum"):
        daskglm.LogisticRegression(class_weight={1: 0.0}).fit(X, y)
    rows, labels = three_classes()
    with pytest.warns(ConvergenceWarning, match="class 2 has no weight: .* there is no optimum"):
        daskglm.LogisticRegression(multi_class="ovr", class_weight={2: 0.0}).fit(rows, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # hinges are zero, which is proved
        for loss in ("hinge", "squared_hinge", "smoothed_hinge"):
            hinge = daskglm.LinearSVC(loss=loss).fit(X, y, alone)
            assert hinge.report_.relative_gap == 0.0


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "sdca"])
def test_without_an_intercept_one_side_is_a_problem_like_others(solver):
    X, y = make_problem(n=80, d=3)
    model = daskglm.LogisticRegression(
        fit_intercept=False, class_weight={-1: 0.0}, solver=solver
    ).fit(X, y)
    theirs = sklearn.linear_model.LogisticRegression(fit_intercept=False, tol=1e-10)
    theirs.fit(X, y, np.where(y == -1, 0.0, 1.0))
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=2e-3)
    assert model.report_.relative_gap <= 1e-6


def test_a_class_without_weight_among_three_and_in_a_path():
    X, y = three_classes()
    for model in (
        daskglm.LogisticRegression(class_weight={1: 0.0}).fit(X, y),
        *daskglm.fit(X, y, C=[0.1, 1.0], class_weight={1: 0.0}),
        daskglm.LinearSVC(loss="hinge", class_weight={1: 0.0}).fit(X, y),
    ):
        assert model.intercept_[1] <= -1.0
        assert not (model.predict(X) == 1).any()
        assert np.isfinite(model.decision_function(X)).all()
    proba = daskglm.LogisticRegression(class_weight={1: 0.0}).fit(X, y).predict_proba(X)
    assert proba[:, 1].max() < 1e-15
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_bagging_of_a_rare_class_and_grids_over_folds_that_lack_one():
    X, y = three_classes()
    y[y == 1] = 0
    y[0] = 1
    bagged = BaggingClassifier(daskglm.LogisticRegression(), n_estimators=6, random_state=0).fit(
        X, y
    )
    assert np.isfinite(bagged.predict_proba(X)).all()
    grid = GridSearchCV(
        daskglm.LogisticRegression(class_weight={0: 1, 1: 2, 2: 1}), {"C": [0.1, 1.0]}, cv=3
    )
    with pytest.warns(UserWarning, match="least populated class"):
        grid.fit(X, y)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()


@pytest.mark.slow
@NO_OPTIMUM
def test_a_cluster_gives_the_same_constant(client):
    import dask.array as da

    X, y = make_problem(n=80, d=3)
    model = daskglm.fit(
        da.from_array(X, chunks=(40, 3)), da.from_array(y, chunks=40), class_weight={1: 0.0}
    )
    np.testing.assert_array_equal(model.predict(X), -1)
    assert model.intercept_[0] == pytest.approx(math.log(np.finfo(float).eps))


def test_sparsify_and_densify(tmp_path):
    X, y = make_problem(n=100, d=4)
    model = daskglm.LogisticRegression(warm_start=True).fit(X, y)
    coef, values = model.coef_.copy(), model.decision_function(X)
    assert sp.issparse(model.sparsify().coef_)
    assert model.sparsify() is model
    np.testing.assert_array_equal(model.decision_function(X), values)
    np.testing.assert_allclose(model.decision_function(sp.csr_matrix(X)), values)
    daskglm.save(model, tmp_path / "model.json")
    np.testing.assert_array_equal(daskglm.load(tmp_path / "model.json").coef_, coef)
    assert daskglm.fit(X, y, warm_start=model).report_.n_iter <= 1
    np.testing.assert_array_equal(model.densify().coef_, coef)
    assert isinstance(model.fit(X, y).coef_, np.ndarray)
