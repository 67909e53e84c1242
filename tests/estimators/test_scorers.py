"""Cross-validation as scikit-learn does it: any scorer, groups, folds that lack a class, attributes, hostile arguments."""

import contextlib
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.datasets import load_iris
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegressionCV as TheirCV
from sklearn.metrics import accuracy_score, get_scorer, get_scorer_names, log_loss, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)

import daskglm
from daskglm.estimators.scorers import _balanced
from tests.conftest import make_problem
from tests.covering import covering, each_choice
from tests.fitting.test_problem_grid import CS, lazy, three_classes

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

CLASSIFY = [  # scikit-learn's scorers of classifiers
    name
    for name in get_scorer_names()
    if not any(
        word in name
        for word in ("error", "deviance", "variance", "r2", "d2_absolute", "likelihood", "samples")
    )
]
WITHOUT_WEIGHTS = {name for name in CLASSIFY if not get_scorer(name)._accept_sample_weight()}


def theirs(y, **given):
    """scikit-learn's, for two classes: there both solve the same problems."""
    return TheirCV(tol=1e-10, max_iter=5000, use_legacy_attributes=True, **given)


def expected(model, X, y, folds, scorer, weight=None):
    """Scores by scikit-learn's scorer of fitted estimators, one by one."""
    scores = np.empty((len(folds), len(model.Cs_)))
    for v, (_, test) in enumerate(folds):
        for c in range(len(model.Cs_)):
            alone = daskglm.LogisticRegression(multi_class=model.multi_class)
            W = np.array([path[v, c] for path in model.coefs_paths_.values()])
            alone.classes_, alone.n_features_in_ = model.classes_, X.shape[1]
            alone.coef_, alone.intercept_ = W[:, :-1], W[:, -1]
            more = {} if weight is None else {"sample_weight": weight[test]}
            scores[v, c] = scorer(alone, X[test], y[test], **more)
    return scores


@each_choice
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("scoring", CLASSIFY)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_scorer_of_classifiers_is_taken(scoring, weighted):
    X, y = make_problem(n=150, seed=5)
    weight = np.random.default_rng(1).random(len(y)) + 0.1 if weighted else None
    folds = list(StratifiedKFold(3).split(X, y))
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=folds, scoring=scoring)
    if weighted and scoring in WITHOUT_WEIGHTS:
        with pytest.raises(ValueError, match="takes no sample_weight"):
            model.fit(X, y, sample_weight=weight)
        return
    model.fit(X, y, sample_weight=weight)
    scores = expected(model, X, y, folds, get_scorer(scoring), weight)
    np.testing.assert_allclose(model.scores_[1.0], scores, atol=1e-12)
    np.testing.assert_array_equal(model.C_, [CS[scores.sum(axis=0).argmax()]])


@pytest.mark.parametrize(
    "scoring", ["roc_auc", "average_precision", "neg_brier_score", "matthews_corrcoef"]
)
def test_scores_and_choice_are_those_of_scikit_learn(scoring):
    X, y = make_problem(n=150, seed=5)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    ours = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring=scoring, tol=1e-10).fit(
        X, y, sample_weight=weight
    )
    other = theirs(y, Cs=CS, cv=3, scoring=scoring).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.scores_[1.0], other.scores_[1.0], atol=2e-5)
    np.testing.assert_array_equal(ours.C_, other.C_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize(
    "scoring", [name for name in CLASSIFY if name not in ("average_precision", "top_k_accuracy")]
)
def test_classes_are_scored_together(scoring):
    X, y = three_classes(n=150)
    folds = list(StratifiedKFold(3).split(X, y))
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=folds, scoring=scoring)
    if scoring in ("f1", "precision", "recall", "jaccard", "roc_auc"):
        with pytest.raises(ValueError, match=f"scoring='{scoring}' cannot score labels"):
            model.fit(X, y)
        return
    model.fit(X, y)
    scores = expected(model, X, y, folds, get_scorer(scoring))
    for label in model.classes_:
        np.testing.assert_allclose(model.scores_[label], scores, atol=1e-12)
    np.testing.assert_array_equal(model.C_, np.full(3, CS[scores.sum(axis=0).argmax()]))


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "roc_auc_ovr"])
def test_one_against_the_rest_is_scored_together(scoring):
    X, y = three_classes(n=150)
    folds = list(StratifiedKFold(3).split(X, y))
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=folds, scoring=scoring, multi_class="ovr")
    model.fit(X, y)
    scores = expected(model, X, y, folds, get_scorer(scoring))
    np.testing.assert_allclose(model.scores_["top"], scores, atol=1e-12)


def kinds(X, y):
    frame = pd.DataFrame(X.toarray() if sp.issparse(X) else X)
    frame.columns = [f"column {j}" for j in frame]
    dense = frame.to_numpy()
    return {
        "float32": (dense.astype(np.float32), y),
        "sparse": (sp.csr_matrix(dense), y),
        "frame": (frame, pd.Series(y, name="y")),
        "column": (frame.assign(y=y), "y"),
    }


@each_choice
@pytest.mark.parametrize("kind", ["float32", "sparse", "frame", "column"])
@pytest.mark.parametrize(
    "scoring", ["accuracy", "roc_auc_ovr", "f1_macro", lambda model, X, y: model.score(X, y)]
)
def test_rows_of_all_kinds_are_scored_alike(kind, scoring):
    X, y = three_classes(n=150)
    first = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring=scoring).fit(X, y)
    other = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring=scoring).fit(*kinds(X, y)[kind])
    np.testing.assert_allclose(other.scores_["mid"], first.scores_["mid"], atol=0.03)
    assert other.scores_["mid"].shape == (3, 3)


def test_a_column_of_labels_is_taken_with_a_warning():
    X, y = make_problem(n=150)
    with pytest.warns(sklearn.exceptions.DataConversionWarning):
        model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring="roc_auc").fit(X, y[:, None])
    np.testing.assert_array_equal(
        model.scores_[1.0],
        daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring="roc_auc").fit(X, y).scores_[1.0],
    )


def test_functions_are_called_with_the_rows_of_each_fold():
    X, y = make_problem(n=120)
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    seen = []

    def scorer(model, X_test, y_test, sample_weight=None):
        seen.append((model.C, len(X_test), None if sample_weight is None else len(sample_weight)))
        np.testing.assert_array_equal(model.classes_, [-1.0, 1.0])
        assert model.predict_proba(X_test).shape == (len(y_test), 2)
        return -log_loss(y_test, model.predict_proba(X_test))

    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring=scorer).fit(
        frame, y, sample_weight=np.ones(120)
    )
    assert seen == [(C, 40, 40) for _ in range(3) for C in CS]
    other = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring="neg_log_loss").fit(X, y)
    np.testing.assert_allclose(model.scores_[1.0], other.scores_[1.0])
    with pytest.raises(ValueError, match="takes no sample_weight"):
        daskglm.LogisticRegressionCV(Cs=CS, scoring=lambda model, X, y: 1.0).fit(
            X, y, sample_weight=np.ones(120)
        )
    with pytest.raises(ValueError, match="which is not a number"):
        daskglm.LogisticRegressionCV(Cs=CS, scoring=lambda model, X, y: "good").fit(X, y)


@covering(
    0,
    scoring=["accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr", make_scorer(accuracy_score)],
    weighted=[False, True],
)
def test_dask_collections_are_scored_where_they_are(client, scoring, weighted, monkeypatch):
    X, y = three_classes(n=300)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float) if weighted else None
    lazily = None if weight is None else da.from_array(weight, chunks=100)
    X_, y_ = lazy(X, y, 100)
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring=scoring, random_state=0, tol=1e-10)
    there = model.fit(X_, y_, lazily).scores_["mid"]
    assert model.report_.workers == 2
    with monkeypatch.context() as patch:
        patch.setattr(
            "daskglm.fitting.setup.client_for", lambda data, client: contextlib.nullcontext()
        )
        here = model.fit(X_, y_, lazily).scores_["mid"]
    np.testing.assert_allclose(there, here, rtol=1e-4)
    sent = daskglm.LogisticRegressionCV(Cs=CS, cv=KFold(3), scoring=scoring)
    inside = expected(
        sent.fit(X, y, weight), X, y, list(KFold(3).split(X)), get_scorer(scoring), weight
    )
    np.testing.assert_allclose(sent.scores_["mid"], inside, atol=1e-12)


def test_decision_values_come_in_several_requests_where_they_are_many(monkeypatch):
    X, y = three_classes(n=150)
    model = daskglm.LogisticRegressionCV(
        Cs=CS,
        cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        scoring="roc_auc_ovo",
    )
    whole = model.fit(X, y).scores_["mid"]
    rounds = model.report_.rounds
    monkeypatch.setattr("daskglm.estimators.validation.GATHERED_BYTES", 1)
    monkeypatch.setattr("daskglm.worker.held_out.VALUES_AT_ONCE", 100)
    np.testing.assert_allclose(model.fit(X, y).scores_["mid"], whole, rtol=1e-12)
    assert model.report_.rounds == rounds + len(CS) - 1


# ---- folds


def test_routing_inside_a_search():
    X, y = make_problem(n=200, seed=3)
    groups = np.random.default_rng(0).integers(0, 6, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        inner = daskglm.LogisticRegressionCV(Cs=2, cv=GroupKFold(3), scoring="neg_log_loss")
        search = GridSearchCV(inner, {"fit_intercept": [True, False]}, cv=GroupKFold(2)).fit(
            X, y, groups=groups
        )
    assert search.best_score_ < 0.0


ROWS = np.arange(100)


BAD = [
    ({"Cs": 0}, "Cs=0: a number of values of C must be from 1 to 10,000"),
    ({"Cs": -1}, "Cs=-1"),
    ({"Cs": 10**9}, "Cs=1000000000: a number of values of C must be from 1 to 10,000"),
    ({"Cs": True}, "Cs=True must be a positive integer or a sequence"),
    ({"Cs": 2.5}, "Cs=2.5 must be a positive integer or a sequence"),
    ({"Cs": "10"}, "Cs='10' must be a sequence of positive numbers"),
    ({"Cs": None}, "Cs=None must be"),
    ({"Cs": []}, r"Cs=\[\] must be a sequence"),
    ({"Cs": [1.0, 0.0]}, r"Cs=\[1.0, 0.0\] must be a sequence of positive numbers; 0 is none"),
    ({"Cs": [1.0, float("nan")]}, "Cs=.*; nan is none"),
    ({"Cs": ["1", "2"]}, "Cs=.*; '1' is none"),
    ({"Cs": [True, 2.0]}, "Cs=.*; True is none"),
    (
        {"Cs": np.ones((2, 2))},
        r"must be a sequence of positive numbers; array\(\[1., 1.\]\) is none",
    ),
    ({"Cs": [1 + 2j]}, "Cs=.* must be a sequence of positive numbers"),
    ({"Cs": np.ones(20_000)}, "Cs has 20,000 values, more than the 10,000"),
    ({"Cs": [10**400]}, "Cs=.*too large"),
    ({"scoring": "speed"}, "scoring='speed' is not one of 'accuracy'"),
    ({"scoring": 3}, "scoring=3 must be the name of a scorer"),
    ({"scoring": ["accuracy"]}, "scoring=.* must be the name of a scorer"),
    ({"scoring": accuracy_score}, "scoring=.*make_scorer"),
    ({"refit": "yes"}, "refit='yes' must be True or False"),
    ({"use_legacy_attributes": 1}, "use_legacy_attributes=1 must be True or False"),
    ({"l1_ratios": [1.5]}, r"l1_ratios=\[1.5\] must be a sequence of numbers from 0"),
    ({"l1_ratios": []}, r"l1_ratios=\[\] must be a sequence of numbers"),
    ({"l1_ratios": 0}, "l1_ratios=0 must be a sequence of numbers"),
    ({"penalty": None}, "penalty=None: a fit without a penalty is C = inf"),
    ({"penalty": "elasticnet"}, "penalty='elasticnet' with l1_ratios=None"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[str(given)[:40] for given, _ in BAD])
@pytest.mark.parametrize("dask", [False, True])
def test_bad_arguments_are_refused_before_work(given, message, dask, monkeypatch):
    X, y = make_problem(n=100)
    monkeypatch.setattr(
        "daskglm.fitting.open_grid.open_grid", lambda *args, **more: pytest.fail("work began")
    )
    monkeypatch.setattr(
        "daskglm.estimators.cross_validation.open_grid",
        lambda *args, **more: pytest.fail("work began"),
    )
    with pytest.raises(ValueError, match=message):
        daskglm.LogisticRegressionCV(**given).fit(*(lazy(X, y) if dask else (X, y)))


def test_functions_of_rows_are_refused_for_dask_collections():
    X, y = make_problem(n=100)
    with pytest.raises(
        ValueError,
        match="function of rows, which stay with the workers: .*get_scorer_names.*make_scorer",
    ):
        daskglm.LogisticRegressionCV(scoring=lambda model, X, y: 1.0).fit(*lazy(X, y))


# ---- classes that folds lack
@each_choice
@pytest.mark.parametrize("solver", ["auto", "lbfgs", "tron", "sdca"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_folds_may_lack_a_class(solver, fit_intercept):
    X, y = load_iris(return_X_y=True)  # sorted by class
    model = daskglm.LogisticRegressionCV(
        Cs=CS,
        cv=KFold(3),
        scoring="neg_log_loss",
        solver=solver,
        fit_intercept=fit_intercept,
        multi_class="ovr",
    ).fit(X, y)
    assert model.report_.converged
    assert np.isfinite(model.scores_[0]).all()
    assert model.score(X, y) > -1.0
    if fit_intercept:
        for v in range(3):
            np.testing.assert_array_equal(model.coefs_paths_[v][v, :, :-1], 0.0)
            np.testing.assert_allclose(model.coefs_paths_[v][v, :, -1], np.log(np.finfo(float).eps))
        accuracy = daskglm.LogisticRegressionCV(
            Cs=CS, cv=KFold(3), solver=solver, multi_class="ovr"
        ).fit(X, y)
        np.testing.assert_array_equal(accuracy.scores_[0], 0.0)


@each_choice
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "neg_brier_score"])
@pytest.mark.parametrize("refit", [True, False])
def test_two_classes_of_which_a_fold_lacks_one(scoring, refit):
    X, y = make_problem(n=100)
    order = np.argsort(y, kind="stable")
    X, y = X[order], np.where(y[order] > 0, "yes", "no")
    half = int(np.sum(y == "no"))
    cv = [(np.arange(half), np.arange(half, 100)), (np.arange(half, 100), np.arange(half))]
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=cv, scoring=scoring, refit=refit).fit(X, y)
    worst = {"accuracy": 0.0, "neg_log_loss": np.log(np.finfo(float).eps), "neg_brier_score": -1.0}
    np.testing.assert_allclose(model.scores_["yes"], worst[scoring])
    assert np.isfinite(model.coef_).all()


def test_the_probabilities_of_a_fold_that_lacks_a_class_are_those_of_the_others():
    X, y = three_classes(n=150)
    train, test = np.flatnonzero(y != "mid"), np.flatnonzero(y == "mid")
    model = daskglm.LogisticRegressionCV(
        Cs=[1.0], cv=[(train, test)], scoring="neg_brier_score", tol=1e-10, multi_class="ovr"
    ).fit(X, y)
    two = daskglm.LogisticRegression(tol=1e-10).fit(X[train], y[train])
    np.testing.assert_allclose(model.coefs_paths_["top"][0, 0, :-1], two.coef_[0], atol=1e-4)
    np.testing.assert_allclose(model.coefs_paths_["low"][0, 0, :-1], -two.coef_[0], atol=1e-4)


def test_folds_without_weight_are_refused():
    X, y = make_problem(n=90)
    weight = np.ones(90)
    weight[:60] = 0.0
    with pytest.raises(ValueError, match="cv: all rows that fold 2 trains on have weight zero"):
        daskglm.LogisticRegressionCV(Cs=CS, cv=KFold(3)).fit(X, y, sample_weight=weight)


def test_scores_that_are_not_defined_do_not_choose():
    X, y = make_problem(n=120)
    one = np.flatnonzero(y > 0)[:10]
    cv = [*StratifiedKFold(3).split(X, y), (np.setdiff1d(np.arange(120), one), one)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        with pytest.warns(
            UserWarning, match=r"scoring='roc_auc' is not defined \(nan\) in 1 of 4 folds"
        ):
            both = [
                daskglm.LogisticRegressionCV(Cs=Cs, cv=cv, scoring="roc_auc").fit(X, y)
                for Cs in (CS, CS[::-1])
            ]
        for model in both:  # in one of the orders the best is not the first
            assert model.C_[0] == model.Cs_[model.scores_[1.0][:3].sum(axis=0).argmax()]
        with pytest.raises(
            ValueError, match=r"scoring='roc_auc' is not defined \(nan\) in any fold"
        ):
            daskglm.LogisticRegressionCV(Cs=CS, cv=cv[3:], scoring="roc_auc").fit(X, y)


def test_balanced_accuracy_of_a_fold_without_a_class_is_the_recall_of_the_other():
    counts = np.array([[0.0, 0.0, 3.0, 4.0], [1.0, 2.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    np.testing.assert_allclose(_balanced(np.zeros(3), counts), [0.75, 0.5, 0.625])


# ---- attributes
@covering(
    n_classes=[2, 3], refit=[True, False], legacy=[True, False, "warn"], l1_ratios=[None, (0.0,)]
)
def test_attributes_are_laid_out_as_in_scikit_learn(n_classes, refit, legacy, l1_ratios):
    X, y = load_iris(return_X_y=True)
    X, y = (X[50:], y[50:]) if n_classes == 2 else (X, y)
    given = {
        "Cs": CS,
        "cv": 4,
        "refit": refit,
        "use_legacy_attributes": legacy,
        "l1_ratios": l1_ratios,
    }
    ours = daskglm.LogisticRegressionCV(**given).fit(X, y)
    other = TheirCV(**given, scoring="accuracy", max_iter=5000).fit(X, y)
    for name in (
        "C_",
        "Cs_",
        "l1_ratio_",
        "l1_ratios_",
        "scores_",
        "coefs_paths_",
        "n_iter_",
        "coef_",
        "intercept_",
    ):
        mine, their = getattr(ours, name), getattr(other, name)
        assert isinstance(mine, type(their)), name
        if isinstance(mine, dict):
            assert list(mine) == list(their)
            mine, their = np.array(list(mine.values())), np.array(list(their.values()))
        assert np.shape(mine) == np.shape(their), name
        assert np.asarray(mine).dtype == np.asarray(their).dtype, name
    assert (
        ours.l1_ratio_ == other.l1_ratio_
        if np.ndim(ours.l1_ratio_) == 0
        else list(ours.l1_ratio_) == list(other.l1_ratio_)
    )
    if n_classes == 2:
        np.testing.assert_allclose(ours.C_, other.C_)


def test_score_is_by_scoring():
    X, y = make_problem(n=150)
    weight = np.random.default_rng(0).random(150)
    for scoring in ("neg_log_loss", "roc_auc", lambda model, X, y, sample_weight=None: 7.0):
        model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, scoring=scoring).fit(X, y)
        assert model.score(X, y, weight) == get_scorer(scoring)(model, X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="score of dask collections gives accuracy only"):
        model.score(*lazy(X, y))
    plain = daskglm.LogisticRegressionCV(Cs=CS, cv=3).fit(X, y)
    assert plain.score(*lazy(X, y)) == plain.score(X, y) == np.mean(plain.predict(X) == y)
