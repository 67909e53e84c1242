"""ElasticNetCV and LassoCV: scikit-learn's attributes, from one pass for all folds."""

import pickle

import dask.array as da
import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, TimeSeriesSplit

import daskglm
from daskglm.fitting.held_out import selected
from tests.covering import each_choice

matplotlib.use("Agg")

X, y = load_diabetes(return_X_y=True)
X = X * 20.0  # columns with a standard deviation of about 1
RNG = np.random.default_rng(0)
WEIGHT = RNG.integers(0, 4, len(y)).astype(float)
OFFSET = RNG.normal(0.0, 5.0, len(y))
GROUPS = np.arange(len(y)) % 7
THEIRS = {"tol": 1e-12, "max_iter": 10**6}


# ---- what scikit-learn has
@each_choice
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"l1_ratio": 0.8, "fit_intercept": False},
        {"l1_ratio": [0.2, 0.9, 1.0], "cv": 3},
        {"alphas": 7, "eps": 0.05, "positive": True},
        {"alphas": [0.1, 10.0, 1.0]},
        {"l1_ratio": [0.2, 0.9], "alphas": [0.1, 10.0, 1.0]},
    ],
    ids=str,
)
def test_elastic_net_cv_is_scikit_learns(how, weight):
    theirs = linear_model.ElasticNetCV(**how, **THEIRS).fit(X, y, weight)
    model = daskglm.ElasticNetCV(**how, tol=1e-12).fit(X, y, weight)
    assert model.alphas_.shape == theirs.alphas_.shape
    assert model.mse_path_.shape == theirs.mse_path_.shape
    np.testing.assert_allclose(model.alphas_, theirs.alphas_, rtol=1e-6)
    np.testing.assert_allclose(model.mse_path_, theirs.mse_path_, rtol=1e-6)
    assert model.alpha_ == pytest.approx(theirs.alpha_, rel=1e-6)
    assert model.l1_ratio_ == pytest.approx(theirs.l1_ratio_, rel=1e-6)
    assert model.record_.penalty.l1_ratio == model.l1_ratio_
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
    assert model.intercept_ == pytest.approx(theirs.intercept_, rel=1e-8)
    assert model.dual_gap_ >= 0.0
    assert model.report_.passes == 1.0


def test_lasso_cv_is_scikit_learns():
    theirs = linear_model.LassoCV(**THEIRS).fit(X, y)
    model = daskglm.LassoCV(tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.alphas_, theirs.alphas_, rtol=1e-6)
    np.testing.assert_allclose(model.mse_path_, theirs.mse_path_, rtol=1e-6)
    assert model.alpha_ == pytest.approx(theirs.alpha_, rel=1e-6)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-5)
    assert model.report_.passes == 1.0
    assert model.score(X, y) == pytest.approx(theirs.score(X, y), rel=1e-8)
    assert model.mse_standard_error_.shape == (100,)
    assert "l1_ratio" not in model.get_params()


def test_the_older_name_of_a_number_of_alphas():
    few = daskglm.LassoCV(n_alphas=5).fit(X, y)
    assert few.alphas_.shape == (5,)
    np.testing.assert_array_equal(few.alphas_, daskglm.LassoCV(alphas=5).fit(X, y).alphas_)


def test_orders_of_coordinates_mean_the_least_mean():
    least = daskglm.LassoCV(alphas=20).fit(X, y).alpha_
    for order in ("cyclic", "random"):
        assert daskglm.LassoCV(alphas=20, selection=order).fit(X, y).alpha_ == least


# ---- what it has not
def test_one_standard_error_takes_the_strongest_penalty_that_is_about_as_good():
    model = daskglm.LassoCV(selection="1se").fit(X, y)
    mean = model.mse_path_.mean(axis=1)
    error = model.mse_path_.std(axis=1, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(model.mse_standard_error_, error)
    best = mean.argmin()
    assert model.alpha_ == model.alphas_[mean <= mean[best] + error[best]].max()
    assert model.alpha_ > daskglm.LassoCV().fit(X, y).alpha_
    alone = daskglm.Lasso(alpha=model.alpha_, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-3)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weights"])
def test_relaxed_fits_are_those_of_the_selected_features_without_a_penalty(weight):
    chosen = daskglm.LassoCV(selection="1se").fit(X, y, weight)
    model = daskglm.LassoCV(selection="1se", relax=True).fit(X, y, weight)
    live = chosen.coef_ != 0.0
    assert 0 < live.sum() < 10
    plain = linear_model.LinearRegression().fit(X[:, live], y, weight)
    np.testing.assert_allclose(model.coef_[live], plain.coef_, rtol=1e-6)
    assert not model.coef_[~live].any()
    assert model.intercept_ == pytest.approx(plain.intercept_, rel=1e-8)
    assert model.alpha_ == chosen.alpha_


def test_relaxed_fits_stay_within_the_bounds():
    model = daskglm.LassoCV(positive=True, relax=True, alphas=20).fit(X, y)
    chosen = daskglm.LassoCV(positive=True, alphas=20).fit(X, y)
    live = chosen.coef_ != 0.0
    plain = linear_model.LinearRegression(positive=True).fit(X[:, live], y)
    np.testing.assert_allclose(model.coef_[live], plain.coef_, rtol=1e-6)


@pytest.mark.parametrize(
    "how",
    [
        {"penalty_factor": [0.0, 3.0, *[1.0] * 8]},
        {"groups": [[0, 1], [4, 5, 6]]},
        {"standardize": True},
        {"P2": np.eye(10) + 0.5, "l1_ratio": 0.5},
        {"lower_bounds": -5.0, "upper_bounds": 5.0},
    ],
    ids=str,
)
def test_every_penalty_is_cross_validated(how):
    model = daskglm.ElasticNetCV(**{"l1_ratio": 1.0, **how}, alphas=6, cv=3, tol=1e-11).fit(X, y)
    for k, (train, test) in enumerate(KFold(3).split(X)):
        for a in (1, 5):
            alone = daskglm.ElasticNet(model.alphas_[a], **{"l1_ratio": 1.0, **how}, tol=1e-12)
            alone.fit(X[train], y[train])
            error = np.mean((y[test] - alone.predict(X[test])) ** 2)
            assert model.mse_path_[a, k] == pytest.approx(error, rel=1e-6)


def test_offsets_take_no_more_passes():
    model = daskglm.LassoCV(alphas=5, cv=3, tol=1e-10).fit(X, y, offset=OFFSET)
    moved = daskglm.LassoCV(alphas=5, cv=3, tol=1e-10).fit(X, y - OFFSET)
    np.testing.assert_allclose(model.mse_path_, moved.mse_path_, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, moved.coef_, atol=1e-5)
    assert model.report_.passes == 1.0


# ---- folds
@pytest.mark.parametrize(
    ("cv", "groups"),
    [
        (KFold(4, shuffle=True, random_state=1), None),
        (TimeSeriesSplit(4), None),
        (GroupKFold(3), GROUPS),
        ([(np.arange(300), np.arange(300, 442))], None),
    ],
    ids=["shuffled", "time", "groups", "one"],
)
def test_folds_are_scikit_learns(cv, groups):
    splits = cv if isinstance(cv, list) else list(cv.split(X, y, groups))
    theirs = linear_model.LassoCV(alphas=10, cv=splits, **THEIRS).fit(X, y)
    model = daskglm.LassoCV(alphas=10, cv=cv, tol=1e-11).fit(X, y, groups=groups)
    # of one fold theirs has one dimension only
    np.testing.assert_allclose(model.mse_path_, theirs.mse_path_.reshape(10, -1), rtol=1e-6)
    assert model.report_.passes == 1.0


def test_each_row_alone():
    theirs = linear_model.LassoCV(alphas=4, cv=LeaveOneOut(), **THEIRS).fit(X[:50], y[:50])
    model = daskglm.LassoCV(alphas=4, cv=LeaveOneOut(), tol=1e-11).fit(X[:50], y[:50])
    # an error of a row is a difference of sums over all
    np.testing.assert_allclose(model.mse_path_, theirs.mse_path_, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_products_of_too_many_groups_are_not_kept(monkeypatch):
    how = {"alphas": 4, "cv": LeaveOneOut(), "tol": 1e-10}
    here = daskglm.LassoCV(**how).fit(X[:50], y[:50])
    monkeypatch.setattr("daskglm.fitting.fold_sums.MOST_PRODUCTS", 8 * 49 * 11**2)
    there = daskglm.LassoCV(**how).fit(X[:50], y[:50])
    np.testing.assert_allclose(there.mse_path_, here.mse_path_, rtol=1e-4, atol=1e-6)
    assert there.report_.passes >= 50.0 > here.report_.passes == 1.0


# ---- data
def test_sparse_rows_and_frames():
    kept = np.where(np.abs(X) > 0.5, X, 0.0)
    how = {"l1_ratio": [0.5, 1.0], "alphas": 8, "tol": 1e-10}
    here = daskglm.ElasticNetCV(**how).fit(kept, y)
    sparse = daskglm.ElasticNetCV(**how).fit(sp.csr_matrix(kept), y)
    np.testing.assert_allclose(sparse.mse_path_, here.mse_path_, rtol=1e-6)
    assert sparse.report_.passes == 1.0
    frame = pd.DataFrame(kept, columns=list("abcdefghij"))
    named = daskglm.ElasticNetCV(**how, penalty_factor={"a": 1.0}).fit(frame, y)
    np.testing.assert_allclose(named.mse_path_, here.mse_path_, rtol=1e-9)
    assert named.feature_names_in_.tolist() == list("abcdefghij")


def test_more_features_than_rows():
    wide = RNG.standard_normal((60, 150))
    target = wide[:, :4].sum(axis=1) + RNG.standard_normal(60)
    theirs = linear_model.LassoCV(alphas=15, eps=0.05, **THEIRS).fit(wide, target)
    model = daskglm.LassoCV(alphas=15, eps=0.05).fit(wide, target)
    np.testing.assert_allclose(model.mse_path_, theirs.mse_path_, rtol=1e-2)
    assert model.alpha_ == pytest.approx(theirs.alpha_, rel=1e-6)
    assert model.report_.passes == 1.0
    assert model.report_.relative_gap <= 1e-6


def test_an_eps_of_one_is_the_largest_strength_alone():
    how = {"alphas": 3, "eps": 1, "cv": 3}
    theirs = linear_model.ElasticNetCV(**how).fit(X, y)
    model = daskglm.ElasticNetCV(**how).fit(X, y)
    np.testing.assert_allclose(model.alphas_, theirs.alphas_, rtol=1e-8)


def test_sparse_rows_of_many_features_take_passes_for_each_fold():
    rows = sp.random(80, 520, density=0.3, random_state=0, format="csr")
    target = rows.toarray()[:, :5].sum(axis=1)
    how = {"alphas": 4, "eps": 0.2, "cv": 2}
    theirs = linear_model.LassoCV(**how, **THEIRS).fit(rows.toarray(), target)
    model = daskglm.LassoCV(**how, tol=1e-9).fit(rows, target)
    np.testing.assert_allclose(model.mse_path_, theirs.mse_path_, rtol=1e-3)
    assert model.report_.passes > 1.0


def test_a_cluster_draws_the_same_folds(request):
    rows, target = da.from_array(X, chunks=(150, 10)), da.from_array(y, chunks=150)
    how = {"alphas": 10, "cv": 3, "random_state": 7}
    here = daskglm.LassoCV(**how).fit(rows, target)
    other = daskglm.LassoCV(**{**how, "random_state": 8}).fit(rows, target)
    request.getfixturevalue("client")
    there = daskglm.LassoCV(**how).fit(rows, target)
    np.testing.assert_allclose(there.mse_path_, here.mse_path_, rtol=1e-9)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-6)
    assert there.report_.passes == 1.0
    assert there.report_.workers == 2
    assert not np.allclose(other.mse_path_, here.mse_path_)
    with pytest.raises(ValueError, match="take no groups"):
        daskglm.LassoCV(**how).fit(rows, target, groups=GROUPS)
    with pytest.raises(ValueError, match="cv="):
        daskglm.LassoCV(cv=GroupKFold(3)).fit(rows, target)


# ---- as estimators
def test_they_are_cloned_pickled_and_saved(tmp_path):
    model = daskglm.ElasticNetCV(l1_ratio=[0.5, 0.9], alphas=5, relax=True, selection="1se")
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again.set_params(cv=3, alphas=4).fit(X, y).mse_path_.shape == (2, 4, 3)
    model.fit(X, y)
    there = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(there.predict(X), model.predict(X))
    np.testing.assert_array_equal(there.mse_path_, model.mse_path_)
    given = daskglm.ElasticNetCV(l1_ratio=[0.5, 0.9], alphas=[0.1, 1.0]).fit(X, y)
    for each in (model, daskglm.LassoCV(alphas=3).fit(X, y), given):
        daskglm.save(each, tmp_path / "model.json")
        there = daskglm.load(tmp_path / "model.json")
        np.testing.assert_array_equal(there.mse_path_, each.mse_path_)
        np.testing.assert_array_equal(there.alphas_, each.alphas_)


def test_the_plot_of_strengths_that_are_given_for_several_mixes():
    model = daskglm.ElasticNetCV(l1_ratio=[0.5, 0.9], alphas=[0.1, 1.0, 10.0]).fit(X, y)
    curve = model.plot_cv().get_lines()[0]
    assert curve.get_xdata().tolist() == [10.0, 1.0, 0.1]
    mean = model.mse_path_[[0.5, 0.9].index(model.l1_ratio_)].mean(axis=-1)
    np.testing.assert_allclose(curve.get_ydata(), mean)
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("l1_ratio", [0.9, [0.5, 0.9]], ids=str)
def test_the_plot_shows_the_curve_its_errors_and_both_rules(l1_ratio):
    model = daskglm.ElasticNetCV(l1_ratio=l1_ratio, alphas=20, selection="1se").fit(X, y)
    axes = model.plot_cv()
    which = [0.5, 0.9].index(model.l1_ratio_) if isinstance(l1_ratio, list) else ...
    curve, least, simplest, chosen = axes.get_lines()
    np.testing.assert_array_equal(curve.get_xdata(), model.alphas_[which])
    mean = model.mse_path_[which].mean(axis=-1)
    np.testing.assert_allclose(curve.get_ydata(), mean)
    assert least.get_xdata()[0] == model.alphas_[which][mean.argmin()]
    assert simplest.get_xdata()[0] == model.alpha_ == chosen.get_xdata()[0]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx((mean + model.mse_standard_error_[which]).max())
    assert axes.get_xlim()[0] > axes.get_xlim()[1], "strong penalties are on the left"
    mine = matplotlib.pyplot.subplots()[1]
    assert model.plot_cv(mine) is mine
    matplotlib.pyplot.close("all")
    with pytest.raises(NotFittedError):
        daskglm.LassoCV().plot_cv()


# ---- what is refused
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"l1_ratio": 1.5}, "l1_ratio=1.5 must be a number from 0 to 1, or a sequence"),
        ({"l1_ratio": []}, r"l1_ratio=\[\] must be a number from 0 to 1, or a sequence"),
        ({"l1_ratio": [0.5, 2.0]}, "must be a number from 0 to 1, or a sequence"),
        ({"l1_ratio": "half"}, "l1_ratio='half' must be a number from 0 to 1"),
        ({"eps": 0}, "eps=0 must be a number above 0 and not above 1"),
        ({"eps": 1.5}, "eps=1.5 must be a number above 0 and not above 1"),
        ({"eps": None}, "eps=None must be a number above 0 and not above 1"),
        ({"alphas": 0}, "alphas=0 must be a whole number from 1 to 10,000"),
        ({"alphas": 10_001}, "alphas=10001 must be a whole number from 1 to 10,000"),
        ({"alphas": 2.5}, "alphas=2.5 must be a whole number from 1 to 10,000, or a sequence"),
        ({"alphas": None}, "alphas=None must be a whole number"),
        ({"alphas": []}, r"alphas=\[\] must be a sequence of numbers not below 0"),
        ({"alphas": [-1.0]}, "-1 is none"),
        ({"alphas": [np.inf]}, "inf is none"),
        ({"alphas": "x"}, "alphas='x' must be a sequence of numbers"),
        ({"n_alphas": 0}, "n_alphas=0 must be a whole number from 1 to 10,000"),
        ({"n_alphas": 2.5}, "n_alphas=2.5 must be a whole number from 1 to 10,000"),
        ({"cv": 1}, "cv=1: cross-validation needs at least 2 folds"),
        ({"cv": "five"}, "cv='five'"),
        ({"selection": "best"}, "selection='best' is not one of 'min', '1se'"),
        ({"relax": "yes"}, "relax='yes' must be True or False"),
        ({"relax": True, "l1_ratio": [0.0]}, r"relax=True wants an L1 penalty.*l1_ratio=\[0.0\]"),
        ({"precompute": "some"}, "precompute='some' must be"),
        ({"tol": -1}, "tol=-1 must be"),
        ({"random_state": -1}, "random_state=-1 must be"),
        ({"penalty_factor": np.ones(3)}, "penalty_factor has 3 values, but X has 10"),
        ({"groups": [[0, 1]], "standardize": True}, "groups=.* with standardize=True"),
        ({"groups": [[0, 1]], "positive": True}, "groups=.* with bounds"),
    ],
    ids=str,
)
def test_wrong_parameters_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        daskglm.ElasticNetCV(**how).fit(X, y)


def test_data_that_cannot_be_used_are_refused():
    model = daskglm.LassoCV(alphas=3, cv=3)
    with pytest.raises(ValueError, match="fold 0 holds out have weight zero"):
        model.fit(X, y, np.arange(len(y)) >= 200)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        model.fit(X, np.stack([y, y], axis=1))
    for constant in (1.0, 0.1, -1e6 / 3.0):
        found = model.fit(X, np.full(len(y), constant))
        assert not found.coef_.any()
        assert found.intercept_ == pytest.approx(constant)
    given = daskglm.LassoCV(alphas=[0.1, 0.01], cv=3).fit(X, np.full(len(y), 0.1))
    assert not given.coef_.any()
    assert given.intercept_ == pytest.approx(0.1)


def test_what_did_not_converge_is_told():
    wide = RNG.standard_normal((30, 80))
    with pytest.warns(ConvergenceWarning, match="tol=1e-14"):
        model = daskglm.LassoCV(alphas=3, cv=2, max_iter=1, tol=1e-14).fit(wide, y[:30])
    assert not model.report_.converged


def test_one_standard_error_takes_the_strongest_penalty_in_whichever_order_they_are():
    deviance = np.array([[1.0, 3.0], [0.9, 2.9], [1.1, 2.7], [5.0, 6.0]])
    alphas = np.array([1.0, 0.5, 0.2, 0.01])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        chosen = selected(deviance[order], alphas[order], "1se")
        assert alphas[order][chosen] == 1.0
        assert alphas[order][selected(deviance[order], alphas[order], "min")] in (0.5, 0.2)


@pytest.mark.parametrize("first", [True, False], ids=["rows first", "rows last"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.7])
def test_rows_that_no_fold_has_do_not_count(l1_ratio, first):
    left = np.r_[0:60] if first else np.r_[len(y) - 60 : len(y)]
    used = np.setdiff1d(np.arange(len(y)), left)
    splits = [(used[k % 3 != used % 3], used[k % 3 == used % 3]) for k in range(3)]
    wrong = y.copy()
    wrong[left] = 1e6
    how = {"l1_ratio": [l1_ratio], "alphas": [0.01, 1.0], "tol": 1e-10}
    model = daskglm.GeneralizedLinearRegressorCV("gaussian", cv=splits, **how).fit(X, wrong)
    place = {row: k for k, row in enumerate(used)}
    fewer = [tuple([place[row] for row in rows] for rows in split) for split in splits]
    other = daskglm.GeneralizedLinearRegressorCV("gaussian", cv=fewer, **how).fit(X[used], y[used])
    np.testing.assert_allclose(model.deviance_path_, other.deviance_path_, rtol=1e-6)
