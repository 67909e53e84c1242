"""Cross-validated classifiers: scores, means and refits."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegressionCV as TheirCV
from sklearn.model_selection import KFold, ShuffleSplit

import daskglm
from tests.conftest import make_problem, objective
from tests.covering import each_choice
from tests.fitting.grids import CS, wide


@each_choice
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    "scoring", ["accuracy", "neg_log_loss", "balanced_accuracy", "f1", "precision", "recall"]
)
@pytest.mark.parametrize(
    "cv", [None, KFold(4, shuffle=True, random_state=0), ShuffleSplit(4, random_state=0)]
)
def test_scores_are_those_of_scikit_learn(scoring, cv):
    X, y = make_problem(seed=5)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    ours = daskglm.LogisticRegressionCV(Cs=CS, cv=cv, scoring=scoring, tol=1e-10).fit(
        X, y, sample_weight=weight
    )
    theirs = TheirCV(
        Cs=CS, cv=cv, scoring=scoring, tol=1e-10, max_iter=5000, use_legacy_attributes=True
    )
    theirs.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.scores_[1.0], theirs.scores_[1.0], atol=2e-5)
    assert ours.C_ == theirs.C_
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.coefs_paths_[1.0], theirs.coefs_paths_[1.0], atol=1e-3)
    assert ours.n_iter_.shape == theirs.n_iter_.shape


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_without_refit_coefficients_are_means_as_in_scikit_learn():
    X, y = make_problem(seed=6)
    ours = daskglm.LogisticRegressionCV(Cs=CS, refit=False, tol=1e-10).fit(X, y)
    theirs = TheirCV(
        Cs=CS, refit=False, tol=1e-10, scoring="accuracy", max_iter=5000, use_legacy_attributes=True
    )
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.C_, theirs.C_)


@pytest.mark.parametrize("data", [make_problem(), wide()], ids=["dense", "wide"])
def test_rows_held_out_do_not_influence_their_fold(data):
    X, y = data
    folds = list(KFold(3).split(X))
    before = daskglm.LogisticRegressionCV(Cs=CS, cv=folds).fit(X, y)
    changed = y.copy()
    changed[folds[1][1]] *= -1.0
    after = daskglm.LogisticRegressionCV(Cs=CS, cv=folds).fit(X, changed)
    rtol = (
        1e-3 if sp.issparse(X) else 1e-2
    )  # they start from samples or common points, which all rows shape
    for C, one, other in zip(
        CS, before.coefs_paths_[1.0][1], after.coefs_paths_[1.0][1], strict=True
    ):
        train = folds[1][0]
        values = [objective(X[train], y[train], w[:-1], w[-1], C, "logistic") for w in (one, other)]
        assert values[0] == pytest.approx(values[1], rel=1e-6)
        assert np.linalg.norm(one - other) <= rtol * np.linalg.norm(one)
    assert np.abs(before.coefs_paths_[1.0][0] - after.coefs_paths_[1.0][0]).max() > 0.01
    np.testing.assert_allclose(before.scores_[1.0][1] + after.scores_[1.0][1], 1.0)
