"""scikit-learn's metadata routing brings weights and offsets to our estimators inside its own pipelines and searches."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskglm

rng = np.random.default_rng(5)
X = rng.normal(size=(90, 3))
offset = rng.uniform(-1.0, 1.0, size=90)
weight = rng.uniform(0.5, 2.0, size=90)
counts = rng.poisson(np.exp(X[:, 0] / 3 + offset)).astype(float)
labels = np.where(counts > 1, "many", "few")
MODELS = {
    "poisson": (daskglm.PoissonRegressor(alpha=0.1), counts),
    "logistic": (daskglm.LogisticRegression(), labels),
    "ridge": (daskglm.Ridge(), counts),
    "huber": (daskglm.HuberRegressor(), counts),
}


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def asking(model):
    """The model, with requests for weights and offsets in fit and score."""
    model = clone(model).set_fit_request(sample_weight=True, offset=True)
    return model.set_score_request(sample_weight=True, offset=True)


@pytest.mark.parametrize("case", MODELS)
def test_a_pipeline_brings_weights_and_offsets(case):
    model, y = MODELS[case]
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipe = make_pipeline(scaler, asking(model))
    pipe.fit(X, y, sample_weight=weight, offset=offset)
    alone = clone(model).fit(StandardScaler().fit_transform(X), y, weight, offset=offset)
    np.testing.assert_array_equal(pipe[-1].coef_, alone.coef_)
    assert np.abs(alone.coef_ - clone(model).fit(pipe[0].transform(X), y).coef_).max() > 1e-3


@pytest.mark.parametrize("case", MODELS)
def test_a_search_brings_the_weights_and_offsets_of_each_fold(case):
    model, y = MODELS[case]
    name = {"logistic": "C"}.get(case, "alpha")
    search = GridSearchCV(asking(model), {name: [0.1, 1.0]}, cv=2)
    search.fit(X, y, sample_weight=weight, offset=offset)
    best = clone(model).set_params(**search.best_params_).fit(X, y, weight, offset=offset)
    np.testing.assert_array_equal(search.best_estimator_.coef_, best.coef_)
    (train, test), _ = folds(y)
    first = clone(model).set_params(**{name: 0.1})
    first.fit(X[train], y[train], weight[train], offset=offset[train])
    score = first.score(X[test], y[test], weight[test], offset=offset[test])
    assert search.cv_results_["split0_test_score"][0] == pytest.approx(score)


def folds(y):
    """The two folds that a search has by default."""
    from sklearn.model_selection import check_cv

    return check_cv(2, y, classifier=y.dtype.kind == "U").split(X, y)


def test_what_is_not_asked_for_is_an_error_of_scikit_learn():
    model = daskglm.PoissonRegressor()
    given = {"sample_weight": weight, "offset": offset}
    for asked in (model, clone(model).set_fit_request(sample_weight=True, offset=True)):
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="offset"):
            GridSearchCV(asked, {"alpha": [0.1]}, cv=2).fit(X, counts, **given)
