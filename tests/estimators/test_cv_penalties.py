"""`LogisticRegressionCV` with L1 penalties, bounds and factors: as scikit-learn's, and as separate fits."""

import contextlib

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV as TheirCV
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.preprocessing import StandardScaler

import daskglm
from daskglm.solvers import working_sets
from tests.covering import each_choice
from tests.fitting.grids import lazy, three_classes

CS = [0.1, 0.5, 2.0]
RATIOS = [0.0, 0.5, 1.0]


def problem(n=300, d=7, seed=0):
    """Rows of which three of the features say something, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    truth = np.r_[1.5, -1.0, 0.5, np.zeros(d - 3)]
    y = np.where(X @ truth + 0.4 + rng.logistic(size=n) > 0, "yes", "no")
    return X, y


def theirs(**given):
    given = {"solver": "saga", "tol": 1e-9, "max_iter": 100_000, "Cs": CS, **given}
    return TheirCV(use_legacy_attributes=True, **given)


def ours(**given):
    return daskglm.LogisticRegressionCV(**{"Cs": CS, "tol": 1e-13, **given})


def penalised(X, signs, w, C, ratio, weight=1.0):
    """The objective by NumPy; the intercept is last in w."""
    coef = w[:-1]
    losses = np.sum(weight * np.logaddexp(0, -signs * (X @ coef + w[-1])))
    return C * losses + ratio * np.abs(coef).sum() + 0.5 * (1 - ratio) * coef @ coef


# ---- as in scikit-learn
@each_choice
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "roc_auc"])
@pytest.mark.parametrize("refit", [True, False])
def test_scores_and_choice_are_those_of_scikit_learn(scoring, refit):
    X, y = problem()
    given = {"l1_ratios": np.array(RATIOS), "scoring": scoring, "refit": refit, "cv": 4}
    mine = ours(**given).fit(X, y)
    other = theirs(**given).fit(X, y)
    np.testing.assert_allclose(mine.scores_["yes"], other.scores_["yes"], atol=1e-6)
    np.testing.assert_allclose(mine.C_, other.C_)
    np.testing.assert_allclose(mine.l1_ratio_, other.l1_ratio_)
    np.testing.assert_allclose(mine.coefs_paths_["yes"], other.coefs_paths_["yes"], atol=1e-4)
    np.testing.assert_allclose(mine.coef_, other.coef_, atol=1e-4)
    np.testing.assert_allclose(mine.intercept_, other.intercept_, atol=1e-4)
    np.testing.assert_array_equal(mine.l1_ratios_, other.l1_ratios_)
    assert mine.n_iter_.shape == other.n_iter_.shape == (1, 4, 3, 3)
    assert max(part.relative_gap for part in mine.report_.parts) <= 1e-13


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("given", [{"penalty": "l1"}, {"l1_ratios": (1,)}])
def test_the_lasso_is_that_of_liblinear(given):
    X, y = problem()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    how = {**given, "fit_intercept": False, "class_weight": {"no": 2.0, "yes": 1.0}, "cv": 3}
    mine = ours(**how).fit(X, y, sample_weight=weight)
    other = theirs(solver="liblinear", **how).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(mine.coefs_paths_["yes"], other.coefs_paths_["yes"], atol=2e-4)
    np.testing.assert_allclose(mine.scores_["yes"], other.scores_["yes"], atol=1e-12)
    np.testing.assert_array_equal(mine.C_, other.C_)
    np.testing.assert_allclose(mine.coef_, other.coef_, atol=2e-4)
    assert (mine.coefs_paths_["yes"] == 0.0).any()
    assert list(mine.l1_ratio_) == list(other.l1_ratio_)


@each_choice
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize(
    "given",
    [
        {"l1_ratios": np.array([0.0, 0.5])},
        {"l1_ratios": np.array([1.0])},
        {"penalty": "l1", "l1_ratios": None},
    ],
    ids=["several", "one", "penalty"],
)
def test_attributes_are_laid_out_as_in_scikit_learn(legacy, refit, given):
    X, y = problem(n=120)
    how = {"Cs": CS[:2], "cv": 3, "refit": refit, "use_legacy_attributes": legacy, **given}
    mine = daskglm.LogisticRegressionCV(**how).fit(X, y)
    other = TheirCV(**how, solver="saga", max_iter=1000, tol=1e-3).fit(X, y)
    for name in ("C_", "Cs_", "l1_ratio_", "l1_ratios_", "scores_", "coefs_paths_", "n_iter_"):
        one, two = getattr(mine, name), getattr(other, name)
        assert isinstance(one, type(two)), name
        if isinstance(one, dict):
            assert list(one) == list(two)
            one, two = np.array(list(one.values())), np.array(list(two.values()))
        assert np.shape(one) == np.shape(two), name
        assert np.asarray(one).dtype == np.asarray(two).dtype, name
    if not legacy and refit:
        assert mine.l1_ratio_ == other.l1_ratio_


def test_ties_are_taken_as_in_scikit_learn():
    """Of equal scores that of the first C in the order given, then of the first l1_ratio."""
    X, y = problem(n=90)
    for Cs, ratios in (([2.0, 0.5], [1.0, 0.0]), ([0.5, 2.0], [0.0, 1.0])):
        model = ours(Cs=Cs, l1_ratios=ratios, scoring=lambda model, X, y: 1.0, cv=3).fit(X, y)
        assert (model.C_[0], model.l1_ratio_[0]) == (Cs[0], ratios[0])


# ---- as separate fits
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_every_fold_and_value_is_the_separate_fit(kind):
    X, y = three_classes(n=240, sparse=kind == "csr")
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    model = ours(
        l1_ratios=RATIOS, cv=folds, multi_class="ovr", scoring="neg_log_loss", tol=1e-10
    ).fit(X, y, sample_weight=weight)
    for label, paths in model.coefs_paths_.items():
        signs = np.where(y == label, 1.0, -1.0)
        for v, c, r in np.ndindex(paths.shape[:3]):
            train = folds[v][0]
            rows = X[train], signs[train]
            alone = daskglm.fit(
                *rows, C=CS[c], l1_ratio=RATIOS[r], tol=1e-12, sample_weight=weight[train]
            )
            best = np.append(alone.coef_, alone.intercept_)
            values = [
                penalised(*rows, w, CS[c], RATIOS[r], weight[train]) for w in (paths[v, c, r], best)
            ]
            assert values[0] <= values[1] * (1 + 1e-9)
    assert model.report_.converged
    assert len(model.report_.parts) == 3 * 3 * 9 + 3


@pytest.mark.parametrize(
    "given",
    [
        {"penalty_factor": [0, 1, 2, 1, 1, 0.5, 1], "l1_ratios": [0.0, 0.7]},
        {"positive": True, "l1_ratios": [0.0, 1.0]},
        {"lower_bounds": -0.3, "upper_bounds": 0.4},
        {"groups": [[0, 3], [1, 2, 4]], "l1_ratios": [0.5, 1.0]},
        {"standardize": True, "l1_ratios": [0.0, 1.0], "class_weight": "balanced"},
        {"P2": np.diag(np.arange(1.0, 8.0)), "l1_ratios": [0.0, 0.5]},
    ],
    ids=["factors", "positive", "bounds", "groups", "standardize", "P2"],
)
def test_all_parameters_of_the_penalty_are_taken(given):
    X, y = problem(n=250)
    X = X * np.geomspace(1.0, 5.0, 7)
    folds = list(KFold(3).split(X))
    model = ours(cv=folds, scoring="neg_log_loss", **given).fit(X, y)
    ratios = given.get("l1_ratios", [0.0])
    # class weights are of all rows
    weight = np.ones(len(y))
    if "class_weight" in given:
        for label in ("no", "yes"):
            weight[y == label] = len(y) / (2 * np.sum(y == label))
    more = {
        name: value for name, value in given.items() if name not in ("l1_ratios", "class_weight")
    }
    paths = model.coefs_paths_["yes"]
    for v, c, r in np.ndindex(3, len(CS), len(ratios)):
        train = folds[v][0]
        alone = daskglm.LogisticRegression(C=CS[c], l1_ratio=ratios[r], tol=1e-13, **more)
        alone.fit(X[train], y[train], weight[train])
        found = paths[v, c] if "l1_ratios" not in given else paths[v, c, r]
        np.testing.assert_allclose(found[:-1], alone.coef_[0], atol=1e-5)
    whole = daskglm.LogisticRegression(
        C=model.C_[0], l1_ratio=model.l1_ratio_[0] or 0.0, tol=1e-13, **more
    ).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)


@each_choice
@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
@pytest.mark.parametrize("classes", [2, 3])
def test_eps_begins_where_the_first_coefficient_leaves_zero(classes, multi_class):
    X, y = problem()
    if classes == 3:
        y = np.where(X[:, 2] > 0.7, "perhaps", y)
    given = {"l1_ratios": [1.0], "class_weight": "balanced", "multi_class": multi_class}
    model = daskglm.LogisticRegressionCV(Cs=3, eps=0.01, tol=1e-10, **given).fit(X, y)
    assert model.Cs_[-1] == pytest.approx(100.0 * model.Cs_[0])
    assert model.Cs_[1] == pytest.approx(10.0 * model.Cs_[0])
    how = {"l1_ratio": 1.0, "class_weight": "balanced", "multi_class": multi_class, "tol": 1e-12}
    none = daskglm.LogisticRegression(C=0.999 * model.Cs_[0], **how).fit(X, y)
    assert not none.coef_.any()
    assert daskglm.LogisticRegression(C=1.001 * model.Cs_[0], **how).fit(X, y).coef_.any()
    numbers = daskglm.LogisticRegressionCV(Cs=[0.1, 1.0], eps=0.01, **given).fit(X, y)
    assert numbers.Cs_.tolist() == [0.1, 1.0], "numbers are taken as they are"


def test_factors_by_name():
    X, y = problem(n=150)
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    model = ours(l1_ratios=[1.0], Cs=[0.01], cv=3, penalty_factor={"d": 0}).fit(frame, y)
    assert model.coef_[0].nonzero()[0].tolist() == [3]
    with pytest.raises(
        ValueError, match="penalty_factor has the feature 'z', which X does not have"
    ):
        ours(l1_ratios=[1.0], penalty_factor={"z": 0}).fit(frame, y)


def test_wide_rows_are_solved_with_working_sets():
    rng = np.random.default_rng(0)
    X = sp.random(400, 2500, density=0.02, random_state=rng, format="csr")
    y = (X[:, :5].sum(axis=1).A1 + 0.1 * rng.standard_normal(400) > 0.02).astype(int)
    folds = list(KFold(2, shuffle=True, random_state=0).split(X))
    model = ours(Cs=[1.0, 5.0], l1_ratios=[1.0], cv=folds, tol=1e-6).fit(X, y)
    for v, c in np.ndindex(2, 2):
        train = folds[v][0]
        alone = daskglm.LogisticRegression(C=model.Cs_[c], l1_ratio=1, tol=1e-6)
        alone.fit(X[train], y[train])
        signs = 2.0 * y[train] - 1.0
        best = np.append(alone.coef_, alone.intercept_)
        found = model.coefs_paths_[1][v, c, 0]
        values = [penalised(X[train], signs, w, model.Cs_[c], 1.0) for w in (found, best)]
        assert values[0] <= values[1] * (1 + 1e-6)
    assert model.report_.converged


# ---- folds and containers
def test_folds_of_splitters_and_iterables():
    X, y = problem(n=200)
    groups = np.arange(200) % 7
    by_group = GroupKFold(4)
    for cv, folds, given in (
        (by_group, list(by_group.split(X, y, groups)), {"groups": groups}),
        (TimeSeriesSplit(3), list(TimeSeriesSplit(3).split(X)), {}),
        (iter(KFold(3).split(X)), list(KFold(3).split(X)), {}),
    ):
        model = ours(l1_ratios=[0.5, 1.0], cv=cv, scoring="neg_log_loss").fit(X, y, **given)
        again = ours(l1_ratios=[0.5, 1.0], cv=folds, scoring="neg_log_loss").fit(X, y)
        np.testing.assert_array_equal(model.scores_["yes"], again.scores_["yes"])
        v, (train, test) = len(folds) - 1, folds[-1]
        alone = daskglm.LogisticRegression(C=CS[1], l1_ratio=0.5, tol=1e-13).fit(X[train], y[train])
        p = alone.predict_proba(X[test])[np.arange(len(test)), (y[test] == "yes").astype(int)]
        assert model.scores_["yes"][v, 1, 0] == pytest.approx(np.log(p).mean(), abs=1e-6)


def test_a_fold_that_lacks_a_class_stays_a_constant():
    X, y = problem(n=120)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    half = int(np.sum(y == "no"))
    all_rows = np.arange(120)
    cv = [(all_rows[:half], all_rows[half:]), (all_rows[::2], all_rows[1::2])]
    model = ours(l1_ratios=RATIOS, cv=cv, scoring="neg_log_loss").fit(X, y)
    np.testing.assert_array_equal(model.coefs_paths_["yes"][0, ..., :-1], 0.0)
    np.testing.assert_allclose(model.coefs_paths_["yes"][0, ..., -1], np.log(np.finfo(float).eps))
    assert model.report_.converged


@pytest.mark.slow
def test_dask_arrays_on_workers_and_in_process(client, monkeypatch):
    X, y = problem(n=600)
    y = (y == "yes").astype(float)
    model = ours(l1_ratios=RATIOS, cv=3, scoring="neg_log_loss", random_state=0)
    there = clone(model).fit(*lazy(X, y))
    assert there.report_.workers == 2
    monkeypatch.setattr(
        "daskglm.fitting.setup.client_for", lambda data, client: contextlib.nullcontext()
    )
    here = clone(model).fit(*lazy(X, y))
    np.testing.assert_allclose(there.scores_[1.0], here.scores_[1.0], atol=1e-6)
    np.testing.assert_allclose(there.coefs_paths_[1.0], here.coefs_paths_[1.0], atol=1e-5)
    assert (there.C_, there.l1_ratio_) == (here.C_, here.l1_ratio_)
    alone = daskglm.LogisticRegression(C=here.C_[0], l1_ratio=here.l1_ratio_[0], tol=1e-13).fit(
        X, y
    )
    np.testing.assert_allclose(here.coef_, alone.coef_, atol=1e-5)


# ---- one standard error
def test_one_standard_error_takes_the_strongest_penalty_within_it():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    given = {"Cs": np.geomspace(0.01, 10.0, 10), "l1_ratios": [0.5, 1.0], "scoring": "neg_log_loss"}
    best = ours(tol=1e-8, **given).fit(X, y)
    sparse = ours(tol=1e-8, selection="1se", **given).fit(X, y)
    np.testing.assert_array_equal(best.scores_[1], sparse.scores_[1])
    scores = best.scores_[1]
    mean = scores.mean(axis=0)
    c, r = np.unravel_index(mean.argmax(), mean.shape)
    error = scores[:, c, r].std(ddof=1) / np.sqrt(len(scores))
    within = given["Cs"][mean[:, r] >= mean[c, r] - error]
    assert best.C_[0] == given["Cs"][c]
    assert sparse.C_ == within.min() < best.C_
    assert sparse.l1_ratio_ == best.l1_ratio_
    assert np.count_nonzero(sparse.coef_) < np.count_nonzero(best.coef_)


def test_several_classes_have_one_standard_error_too():
    X, y = three_classes(n=150)
    Cs = np.geomspace(0.001, 10.0, 8)
    best = ours(Cs=Cs, scoring="neg_log_loss", tol=1e-8).fit(X, y)
    chosen = ours(Cs=Cs, scoring="neg_log_loss", tol=1e-8, selection="1se").fit(X, y)
    scores = best.scores_["low"]
    mean = scores.mean(axis=0)
    c = mean.argmax()
    within = mean >= mean[c] - scores[:, c].std(ddof=1) / np.sqrt(5)
    np.testing.assert_array_equal(chosen.C_, [Cs[within].min()] * 3)
    assert chosen.C_[0] < best.C_[0]


# ---- selected features fitted again
RELAXED = {"Cs": [0.02, 0.1, 0.3], "l1_ratios": [0.5, 1.0], "cv": 3, "selection": "1se"}


@pytest.mark.parametrize("several", [False, True], ids=["two classes", "one against the rest"])
def test_relaxed_fits_are_those_of_the_selected_features_without_a_penalty(several):
    X, y = three_classes(n=200, d=8) if several else problem(n=200)
    given = {**RELAXED, "tol": 1e-10, "multi_class": "ovr"}
    chosen, model = ours(**given).fit(X, y), ours(**given, relax=True).fit(X, y)
    np.testing.assert_array_equal(model.C_, chosen.C_)
    np.testing.assert_array_equal(model.coef_ != 0.0, chosen.coef_ != 0.0)
    assert 0 < np.count_nonzero(model.coef_) < model.coef_.size
    assert model.report_.converged
    assert model.report_.passes > chosen.report_.passes
    for k, coef in enumerate(model.coef_):
        live = coef != 0.0
        target = y == model.classes_[k if several else 1]
        plain = daskglm.LogisticRegression(C=np.inf, tol=1e-10).fit(X[:, live], target)
        np.testing.assert_allclose(coef[live], plain.coef_[0], atol=1e-5)
        np.testing.assert_allclose(model.intercept_[k], plain.intercept_[0], atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_relaxed_multinomial_fits_have_zeros_of_each_class(fit_intercept):
    X, y = three_classes(n=300, d=8)
    given = {**RELAXED, "tol": 1e-9, "fit_intercept": fit_intercept}
    chosen, model = ours(**given).fit(X, y), ours(**given, relax=True).fit(X, y)
    np.testing.assert_array_equal(model.coef_ != 0.0, chosen.coef_ != 0.0)
    assert 0 < np.count_nonzero(model.coef_) < model.coef_.size
    assert model.report_.converged
    assert model.report_.parts[-1].relative_gap <= 1e-9
    # where no penalty is, the slopes of what was selected are zero
    slopes = model.predict_proba(X) - (y[:, None] == model.classes_)
    assert np.abs((slopes.T @ X)[model.coef_ != 0.0]).max() < 1e-3
    assert not fit_intercept or np.abs(slopes.sum(axis=0)).max() < 1e-3


def test_relaxed_fits_keep_bounds_and_features_without_a_penalty():
    X, y = problem(n=200)
    given = {"penalty": "l1", "Cs": [0.04], "cv": 3, "tol": 1e-10}
    given |= {"upper_bounds": [0.5] + [np.inf] * 6, "penalty_factor": [1.0] * 6 + [0.0]}
    model = ours(**given, relax=True).fit(X, y)
    assert model.coef_[0, 0] == 0.5
    live = model.coef_[0] != 0.0
    assert live[-1]
    assert not live[3:6].any()
    bounds = np.array(given["upper_bounds"])[live]
    plain = daskglm.LogisticRegression(C=np.inf, tol=1e-10, upper_bounds=bounds).fit(X[:, live], y)
    np.testing.assert_allclose(model.coef_[0, live], plain.coef_[0], atol=1e-5)


def test_without_an_l1_part_that_is_best_all_features_are_fitted_again():
    X, y = three_classes(n=150)
    given = {"Cs": [1e-3], "l1_ratios": [0.0, 1.0], "scoring": "neg_log_loss"}
    model = ours(**given, cv=3, tol=1e-8, relax=True).fit(X, y)
    assert model.l1_ratio_[0] == 0.0  # the lasso selects nothing here
    plain = daskglm.LogisticRegression(C=np.inf, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-3)


@pytest.mark.parametrize("several", [False, True], ids=["two classes", "multinomial"])
def test_separable_classes_have_no_relaxed_fit_and_it_is_told(several):
    X = np.random.default_rng(0).standard_normal((100, 4))
    y = np.digitize(X[:, 0], [-0.5, 0.5] if several else [0.1])
    with pytest.warns(ConvergenceWarning, match="separable"):
        model = ours(penalty="l1", Cs=[1.0], cv=2, tol=1e-8, relax=True).fit(X, y)
    assert not model.report_.converged


def test_relaxed_fits_of_wide_rows_read_the_selected_columns_alone(monkeypatch):
    monkeypatch.setattr("daskglm.solvers.costs.LARGEST_HESSIAN", 5)
    X, y = problem(n=300, d=40)
    given = {"penalty": "l1", "Cs": [0.05], "cv": 3, "tol": 1e-9}
    sets = []
    inner = working_sets.working_set
    monkeypatch.setattr(
        working_sets, "working_set", lambda *how: sets.append(inner(*how)) or sets[-1]
    )
    chosen = ours(**given).fit(X, y)
    sets.clear()
    model = ours(**given, relax=True).fit(X, y)
    live = np.flatnonzero(chosen.coef_[0])
    assert 2 <= len(live) < 40
    np.testing.assert_array_equal(sets[-1], live)
    np.testing.assert_array_equal(np.flatnonzero(model.coef_[0]), live)
    plain = daskglm.LogisticRegression(C=np.inf, tol=1e-9).fit(X[:, live], y)
    np.testing.assert_allclose(model.coef_[0, live], plain.coef_[0], atol=1e-4)


# ---- what is refused
def test_multinomial_fits_take_ratios():
    X, y = three_classes(n=150)
    model = ours(Cs=[0.1, 1.0], l1_ratios=[0.0, 0.5], cv=3, tol=1e-9).fit(X, y)
    C, ratio = float(model.C_[0]), float(model.l1_ratio_[0])
    alone = daskglm.LogisticRegression(C=C, l1_ratio=ratio, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-4)
    assert next(iter(model.scores_.values())).shape == (3, 2, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"l1_ratios": [0.5, 1.5]}, r"l1_ratios=\[0.5, 1.5\] must be a sequence of numbers from 0"),
        ({"l1_ratios": [-0.1]}, "l1_ratios=.* must be a sequence"),
        ({"l1_ratios": ["1"]}, "l1_ratios=.* must be a sequence"),
        ({"l1_ratios": [True]}, "l1_ratios=.* must be a sequence"),
        ({"l1_ratios": [float("nan")]}, "l1_ratios=.* must be a sequence"),
        ({"l1_ratios": "all"}, "l1_ratios='all' must be a sequence"),
        ({"l1_ratios": np.array(0.5)}, "l1_ratios=.* must be a sequence"),
        ({"penalty": "elasticnet"}, "penalty='elasticnet' with l1_ratios=None: give l1_ratios"),
        ({"penalty": "l1", "l1_ratios": [0.5]}, "penalty='l1' with l1_ratios.*contradict"),
        ({"penalty": "l3"}, "penalty='l3' must be one of"),
        ({"selection": "best"}, "selection='best'"),
        ({"eps": 1.5}, "eps=1.5 must be a number above 0 and not above 1"),
        ({"eps": True}, "eps=True must be a number above 0 and not above 1"),
        ({"selection": "1se", "refit": False}, "selection='1se' takes one C for all folds"),
        ({"relax": 1, "penalty": "l1"}, "relax=1 must be True or False"),
        ({"relax": True}, "relax=True wants an L1 penalty.*penalty='l2' with l1_ratios=None has"),
        ({"relax": True, "l1_ratios": [0.0]}, r"relax=True wants an L1 .*l1_ratios=\[0.0\] has"),
        ({"relax": True, "l1_ratios": [1], "refit": False}, "relax=True fits .*refit=False makes"),
        ({"l1_ratios": [0, 1], "solver": "lbfgs"}, "takes no L1 penalty"),
        ({"l1_ratios": [0, 1], "solver": "newton-cholesky"}, "takes no L1 penalty"),
        ({"l1_ratios": [0.0, 0.5], "Cs": [1.0, np.inf]}, "C=inf leaves no penalty"),
        ({"l1_ratios": [0.0, 0.5], "groups": [[0, 1]]}, "groups=.* has no effect with l1_ratio=0"),
        ({"positive": True, "lower_bounds": 0}, "are both given"),
        ({"penalty_factor": [-1.0] * 7}, "penalty_factor"),
    ],
)
def test_bad_arguments_are_refused_before_work(given, message, monkeypatch):
    X, y = problem(n=60)
    monkeypatch.setattr(
        "daskglm.estimators.cross_validation.open_grid",
        lambda *args, **more: pytest.fail("work began"),
    )
    with pytest.raises(ValueError, match=message):
        daskglm.LogisticRegressionCV(**given).fit(X, y)


@pytest.mark.parametrize("ratios", [[1.0], [0.5, 1.0]])
def test_checkpoints_of_each_l1_ratio(ratios, tmp_path):
    X, y = problem(n=60)
    model = ours(l1_ratios=ratios, cv=3, tol=1e-9)
    whole = clone(model).fit(X, y, checkpoint=tmp_path / "state", checkpoint_every=1)
    rest = clone(model).fit(X, y, resume=tmp_path / "state")
    np.testing.assert_allclose(rest.scores_["yes"], whole.scores_["yes"], atol=1e-4)
    np.testing.assert_allclose(rest.coef_, whole.coef_, atol=1e-4)
    assert rest.report_.passes < whole.report_.passes
    others = ours(l1_ratios=[0.2, *ratios[1:]], cv=3, tol=1e-9)
    with pytest.raises(ValueError, match="is of a fit with penalty="):
        others.fit(X, y, resume=tmp_path / "state")
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        clone(model).fit(X, y, resume=tmp_path / "none")


def test_a_later_l1_ratio_that_was_not_begun_begins_anew(tmp_path):
    X, y = problem(n=60)
    model = ours(l1_ratios=[0.5, 1.0], cv=3, tol=1e-9)
    whole = clone(model).fit(X, y, checkpoint=tmp_path / "state")
    (tmp_path / "state" / "mix-1" / "state.npz").unlink()
    rest = clone(model).fit(X, y, resume=tmp_path / "state")
    np.testing.assert_allclose(rest.scores_["yes"], whole.scores_["yes"], atol=1e-4)


def test_infinite_C_goes_with_bounds_alone():
    X, y = problem(n=200)
    model = ours(Cs=[1.0, np.inf], cv=3, positive=True, tol=1e-10).fit(X, y)
    assert (model.coefs_paths_["yes"][..., :-1] >= 0.0).all()
    assert model.report_.converged


def test_scores_by_functions_of_rows_see_the_penalty():
    X, y = problem(n=90)
    seen = set()

    def score(model, X, y):
        seen.add((model.C, model.l1_ratio))
        return model.score(X, y)

    ours(Cs=[0.5, 1.0], l1_ratios=[0.0, 1.0], cv=3, scoring=score).fit(X, y)
    assert seen == {(C, ratio) for C in (0.5, 1.0) for ratio in (0.0, 1.0)}


def test_parameters_survive_a_clone():
    model = ours(l1_ratios=[0.5], selection="1se", positive=True, penalty="elasticnet")
    assert clone(model).get_params() == model.get_params()


def test_dask_arrays_in_process():
    X, y = problem(n=200)
    rows = da.from_array(X, chunks=(100, 7)), da.from_array((y == "yes") * 1.0, chunks=100)
    model = ours(penalty="l1", cv=3, random_state=1).fit(*rows)
    assert model.report_.converged
    assert model.scores_[1.0].shape == (3, 3)
