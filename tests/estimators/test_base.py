"""scikit-learn's own suite of checks on each estimator, and the tools around estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import daskglm
from daskglm.estimators.base import LinearModel

# a few checks fit 10 or 20 random points without regard to convergence
pytestmark = pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")


CHECKED = [
    daskglm.LogisticRegression(),
    daskglm.LinearSVC(),
    daskglm.Ridge(),
    daskglm.LinearRegressor(),
    daskglm.ElasticNet(),
    daskglm.QuantileRegressor(tol=1e-10),
    daskglm.HuberRegressor(),
    daskglm.LinearSVR(tol=1e-10),
    daskglm.LogisticRegressionCV(Cs=2, cv=3),
    daskglm.GeneralizedLinearRegressorCV(alphas=2, cv=3),
    daskglm.ElasticNetCV(alphas=3, cv=3),
    daskglm.GeneralizedLinearRegressor("negative_binomial(0.5)"),
]
# which share all of their code but a loss or a default with one above
ALIKE = [
    daskglm.PoissonRegressor(),
    daskglm.LassoCV(alphas=3, cv=3),
    daskglm.Lasso(),
    daskglm.LinearClassifier(loss="smoothed_hinge"),
    daskglm.LogisticRegression(multi_class="ovr"),
    daskglm.GammaRegressor(),
    daskglm.TweedieRegressor(),
    daskglm.TweedieRegressor(power=1.5),
    *(
        daskglm.GeneralizedLinearRegressor(family)
        for family in ("gaussian", "poisson", "inverse_gaussian")
    ),
]


@parametrize_with_checks(CHECKED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(ALIKE)
def test_scikit_learn_checks_of_those_alike(estimator, check):
    check(estimator)


def test_every_estimator_is_checked():
    named = [getattr(daskglm, name) for name in daskglm.__all__]
    estimators = {
        each for each in named if isinstance(each, type) and issubclass(each, LinearModel)
    }
    # tests/estimators/test_ordinal.py checks this one, some of whose checks want fewer classes
    assert estimators == {type(model) for model in CHECKED + ALIKE} | {daskglm.OrdinalRegression}


@pytest.mark.parametrize("name", ["LogisticRegression", "LinearSVC"])
def test_fitted_attributes_have_scikit_learns_shapes(name):
    import sklearn.linear_model
    import sklearn.svm

    theirs_class = getattr(sklearn.linear_model, name, None) or getattr(sklearn.svm, name)
    for X, y in (load_iris(return_X_y=True), load_breast_cancer(return_X_y=True)):
        X = StandardScaler().fit_transform(X)
        ours, theirs = getattr(daskglm, name)().fit(X, y), theirs_class().fit(X, y)
        assert ours.coef_.shape == theirs.coef_.shape
        assert ours.intercept_.shape == theirs.intercept_.shape
        np.testing.assert_array_equal(ours.classes_, theirs.classes_)
        assert ours.decision_function(X).shape == theirs.decision_function(X).shape
        assert (ours.predict(X) == theirs.predict(X)).mean() > 0.95  # theirs is multinomial


def test_ridge_is_scikit_learns_with_alpha_one_over_c():
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge

    X, y = load_diabetes(return_X_y=True)
    ours, theirs = daskglm.Ridge(C=4.0, tol=1e-12).fit(X, y), Ridge(alpha=0.25).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-10)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-10)


def test_pipeline_grid_search_and_clone():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), daskglm.LogisticRegression())
    search = GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.95
    assert clone(daskglm.LinearSVC(C=3.0)).get_params()["C"] == 3.0
