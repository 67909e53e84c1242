"""Cross-validation of multinomial fits: as scikit-learn's, for every container and fold."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

import daskglm
from daskglm.fitting.joint_grid import each_once
from daskglm.fitting.report import Report
from tests.covering import each_choice
from tests.fitting.test_problem_grid import lazy, three_classes

CS = [0.01, 0.1, 1.0, 10.0]


def theirs(**given):
    return LogisticRegressionCV(
        Cs=CS, tol=1e-10, max_iter=10_000, l1_ratios=None, use_legacy_attributes=True, **given
    )


@each_choice
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("scoring", [None, "neg_log_loss", "roc_auc_ovr"])
@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_choice_and_scores_are_those_of_scikit_learn(load, scoring):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = daskglm.LogisticRegressionCV(Cs=CS, scoring=scoring, tol=1e-13).fit(X, y)
    other = theirs(scoring=scoring).fit(X, y)
    np.testing.assert_array_equal(model.C_, other.C_)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=2e-5)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=2e-6)
    d = X.shape[1]
    for label in model.classes_:
        np.testing.assert_allclose(model.scores_[label], other.scores_[label], atol=1e-6)
        paths = model.coefs_paths_[label], other.coefs_paths_[label]
        assert paths[0].shape == paths[1].shape
        np.testing.assert_allclose(paths[0][..., :d], paths[1][..., :d], atol=5e-5)
    assert model.n_iter_.shape == other.n_iter_.shape
    # one report for each fold and C, and that of the fit to all rows
    assert len(model.report_.parts) == 5 * len(CS) + 1
    assert all(part.relative_gap <= 1e-13 for part in model.report_.parts)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_without_a_last_fit_the_folds_are_averaged():
    X, y = load_iris(return_X_y=True)
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, refit=False, tol=1e-12).fit(X, y)
    other = theirs(cv=3, refit=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
    np.testing.assert_allclose(model.C_, other.C_)


def test_weights_of_rows_and_of_classes():
    X, y = three_classes(n=200)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    folds = list(StratifiedKFold(3).split(X, y))
    model = daskglm.LogisticRegressionCV(
        Cs=[0.5], cv=folds, class_weight={"low": 2.0, "mid": 1.0, "top": 0.5}, tol=1e-12
    ).fit(X, y, sample_weight=weight)
    for v, (train, _) in enumerate(folds):
        alone = daskglm.LogisticRegression(
            C=0.5, class_weight={"low": 2.0, "mid": 1.0, "top": 0.5}, tol=1e-12
        ).fit(X[train], y[train], weight[train])
        for k, label in enumerate(model.classes_):
            np.testing.assert_allclose(
                model.coefs_paths_[label][v, 0, :-1], alone.coef_[k], atol=1e-5
            )


@pytest.mark.parametrize("kind", ["sparse", "float32", "dask", "cluster"])
def test_containers(kind, request):
    X, y = three_classes(n=240)
    X = X.toarray() if sp.issparse(X) else X
    folds = 3 if kind in ("dask", "cluster") else list(StratifiedKFold(3).split(X, y))
    model = daskglm.LogisticRegressionCV(Cs=[0.1, 1.0], cv=folds, random_state=0, tol=1e-10)
    if kind == "sparse":
        model.fit(sp.csr_matrix(X), y)
    elif kind == "float32":
        model.fit(X.astype(np.float32), y)
    else:
        if kind == "cluster":
            request.getfixturevalue("client")
        model.fit(*lazy(X, y))
    assert model.report_.converged
    plain = daskglm.LogisticRegression(C=model.C_[0], tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_fold_may_lack_a_class(fit_intercept):
    X, y = load_iris(return_X_y=True)  # sorted by class
    model = daskglm.LogisticRegressionCV(
        Cs=CS, cv=KFold(3), scoring="neg_log_loss", fit_intercept=fit_intercept
    ).fit(X, y)
    assert model.report_.converged
    assert np.isfinite(model.scores_[0]).all()
    if fit_intercept:
        for v in range(3):
            np.testing.assert_array_equal(model.coefs_paths_[v][v, :, :-1], 0.0)
        accuracy = daskglm.LogisticRegressionCV(Cs=CS, cv=KFold(3)).fit(X, y)
        np.testing.assert_array_equal(accuracy.scores_[0], 0.0)


def test_two_classes_are_as_they_were():
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    joint, plain = (
        daskglm.LogisticRegressionCV(Cs=CS, multi_class=each).fit(X, y) for each in ("auto", "ovr")
    )
    np.testing.assert_array_equal(joint.coef_, plain.coef_)
    np.testing.assert_array_equal(joint.scores_[2], plain.scores_[2])


def test_what_multinomial_fits_lack_is_refused():
    X, y = three_classes(n=100)
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3)
    with pytest.raises(
        ValueError,
        match=r"offset has 1 column\(s\), but a number is added to the margin of each class",
    ):
        model.fit(X, y, offset=np.ones(100))
    with pytest.raises(ValueError, match="solves the dual"):
        model.set_params(solver="sdca").fit(X, y)
    rows = np.array(X.toarray() if sp.issparse(X) else X)
    rows[7, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        daskglm.LogisticRegressionCV(Cs=CS).fit(da.from_array(rows, chunks=(50, rows.shape[1])), y)


def test_each_report_is_kept_once():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, y = load_iris(return_X_y=True)
        report = daskglm.LogisticRegression().fit(X, y).report_
    assert isinstance(report, Report)
    assert each_once([report, report]) == [report]
