"""`regularization_path`: separate fits for falling strengths, from the largest that selects none."""

import dataclasses

import dask.array as da
import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path

import daskglm

matplotlib.use("Agg")

X, y = load_diabetes(return_X_y=True)
X = X * 20.0  # columns with a standard deviation of about 1
LABELS = y > 140.0
COUNTS = np.round(y / 40.0)
RNG = np.random.default_rng(0)
WEIGHT = RNG.integers(0, 3, len(y)).astype(float)
OFFSET = RNG.normal(0.0, 0.2, len(y))


def path(rows=X, target=y, **how):
    return daskglm.regularization_path(
        rows, target, **{"family": "gaussian", "n_alphas": 8, "eps": 0.01, **how}
    )


def test_columns_of_unlike_scales_are_proved_and_surveyed_once():
    rows, labels = load_breast_cancer(return_X_y=True)
    found = daskglm.regularization_path(rows, labels, standardize=True, n_alphas=60)
    assert (found.gaps <= 1e-6).all()
    # a survey takes 3
    assert found.report_.passes <= 4.5 * 60


# ---- what is on it
def test_it_is_shown_in_a_line():
    shown = repr(path())
    assert shown.startswith("RegularizationPath of 8 strengths, alpha from ")
    assert ": 0 to 8 of 10 coefficients, relative gaps <= " in shown
    assert "\n" not in shown
    unproved = dataclasses.replace(path(), gaps=np.full(8, np.nan))
    assert "gaps not all proved" in repr(unproved)


@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
def test_least_squares_are_scikit_learns_path_in_one_pass(l1_ratio):
    found = path(l1_ratio=l1_ratio, n_alphas=30, eps=1e-3)
    alphas, coefs, _ = enet_path(
        X, y - y.mean(), l1_ratio=l1_ratio, alphas=30, eps=1e-3, tol=1e-12, max_iter=10**6
    )
    np.testing.assert_allclose(found.alphas[0], np.abs(X.T @ (y - y.mean())).max() / 442 / l1_ratio)
    np.testing.assert_allclose(found.alphas, alphas, rtol=1e-6)
    np.testing.assert_allclose(found.coefs, coefs.T, atol=1e-5)
    assert found.report_.passes == 1.0
    assert found.gaps.max() <= 1e-6
    assert found.report_.converged


CASES = {
    "poisson": {"family": "poisson"},
    "gamma": {"family": "gamma"},
    "binomial": {"family": "binomial"},
    "weights": {"family": "poisson", "sample_weight": WEIGHT},
    "offset": {"family": "poisson", "offset": OFFSET},
    "ratio": {"family": "poisson", "l1_ratio": 0.4},
    "factors": {"family": "poisson", "penalty_factor": [0.0, 2.0, *[1.0] * 8]},
    "bounds": {"family": "poisson", "positive": True},
    "standardize": {"family": "poisson", "standardize": True},
    "groups": {"family": "poisson", "groups": [[0, 1, 2], [4, 5]]},
    "no intercept": {"family": "poisson", "fit_intercept": False},
    "gaussian": {"family": "gaussian", "sample_weight": WEIGHT, "offset": OFFSET},
}


@pytest.mark.parametrize("case", CASES)
def test_fits_are_those_alone(case):
    how = CASES[case]
    target = {"binomial": LABELS.astype(float), "gamma": y, "gaussian": y}.get(
        how["family"], COUNTS
    )
    found = path(X, target, **{**how, "tol": 1e-11})
    assert (np.diff(found.alphas) < 0.0).all()
    for k in (0, 3, 7):
        alone = daskglm.fit(X, target, **{"l1_ratio": 1.0, **how}, alpha=found.alphas[k], tol=1e-12)
        np.testing.assert_allclose(found.coefs[k], alone.coef_, atol=1e-5)
        assert found.intercepts[k] == pytest.approx(alone.intercept_, abs=1e-5)
        weight = how.get("sample_weight", np.ones(len(y))).sum()
        assert found.deviances[k] == pytest.approx(alone.deviance_ / weight, rel=1e-6)
        assert found.df[k] == np.count_nonzero(found.coefs[k])
    assert found.gaps.max() <= 1e-11


@pytest.mark.parametrize("case", [name for name in CASES if name != "no intercept"])
def test_the_first_has_only_what_is_not_penalised_and_a_little_less_has_more(case):
    how = CASES[case]
    target = {"binomial": LABELS.astype(float), "gamma": y, "gaussian": y}.get(
        how["family"], COUNTS
    )
    free = np.asarray(how.get("penalty_factor", np.ones(10))) == 0.0
    found = path(X, target, **how, n_alphas=2, eps=0.98)
    assert not found.coefs[0, ~free].any()
    assert found.coefs[0, free].all()
    assert found.coefs[1, ~free].any()


def test_two_classes_have_their_labels():
    labels = np.where(LABELS, "high", "low")
    found = daskglm.regularization_path(X, labels, n_alphas=4, eps=0.1, tol=1e-10)
    assert found.classes.tolist() == ["high", "low"]
    alone = daskglm.LogisticRegression(l1_ratio=1, C=1 / (442 * found.alphas[2]), tol=1e-12)
    np.testing.assert_allclose(found.coefs[2], alone.fit(X, labels).coef_[0], atol=1e-5)


def test_strengths_that_are_given_fall_and_may_end_without_a_penalty():
    found = path(alphas=[0.0, 5.0, 1.0])
    assert found.alphas.tolist() == [5.0, 1.0, 0.0]
    np.testing.assert_allclose(found.coefs[2], daskglm.Ridge(alpha=0).fit(X, y).coef_, rtol=1e-6)


def test_by_default_there_are_100_and_eps_depends_on_the_shape():
    found = daskglm.regularization_path(X, y, family="gaussian")
    assert found.alphas[-1] / found.alphas[0] == pytest.approx(1e-4)
    assert found.alphas.shape == found.gaps.shape == found.deviances.shape == (100,)
    assert found.coefs.shape == (100, 10)
    assert found.intercepts.shape == (100,)
    few = daskglm.regularization_path(X[:9], y[:9], family="gaussian")
    assert few.alphas[-1] / few.alphas[0] == pytest.approx(1e-2)


# ---- data
def test_more_features_than_rows():
    wide = RNG.standard_normal((40, 90))
    found = path(wide, y[:40])
    assert found.report_.passes == 1.0
    assert found.gaps.max() <= 1e-6
    alone = daskglm.Lasso(alpha=found.alphas[4], tol=1e-11).fit(wide, y[:40])
    np.testing.assert_allclose(found.coefs[4], alone.coef_, atol=1e-3)


def test_where_rounding_hides_the_bound_more_passes_are_taken():
    wide = RNG.standard_normal((40, 90))
    found = path(wide, y[:40], tol=1e-9)
    assert found.report_.passes > 1.0
    assert found.gaps.max() <= 1e-9


def test_all_containers_and_a_cluster_have_the_same_path(request):
    lazy = da.from_array(X, chunks=(150, 10)), da.from_array(y, chunks=150)
    kept = np.where(np.abs(X) > 0.5, X, 0.0)
    here = path(), path(target=COUNTS, family="poisson"), path(kept)
    frame = pd.DataFrame(X, columns=list("abcdefghij"))
    named = path(frame, penalty_factor={"c": 0.0})
    assert named.feature_names == tuple("abcdefghij")
    assert np.flatnonzero(named.coefs[0]).tolist() == [2]
    np.testing.assert_allclose(path(sp.csr_matrix(kept)).coefs, here[2].coefs, atol=1e-6)
    np.testing.assert_allclose(path(*lazy).coefs, here[0].coefs, atol=1e-6)
    client = request.getfixturevalue("client")
    there = path(*lazy, client=client)
    np.testing.assert_allclose(there.coefs, here[0].coefs, atol=1e-6)
    assert there.report_.passes == 1.0
    assert there.report_.workers == 2
    counts = path(lazy[0], da.from_array(COUNTS, chunks=150), family="poisson", client=client)
    np.testing.assert_allclose(counts.coefs, here[1].coefs, atol=1e-3)


# ---- the picture
def test_the_plot_has_a_line_for_each_selected_feature():
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    found = path(frame)
    axes = found.plot(most_named=2)
    live = np.flatnonzero(found.coefs.any(axis=0))
    assert len(axes.get_lines()) == len(live)
    largest = live[np.argsort(-np.abs(found.coefs[:, live]).max(axis=0))][:2]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f"x{j}" for j in largest]
    assert axes.get_xlim()[0] > axes.get_xlim()[1], "strong penalties are on the left"
    mine = matplotlib.pyplot.subplots()[1]
    assert path().plot(mine) is mine
    assert mine.get_legend().get_texts()[0].get_text().startswith("feature ")
    matplotlib.pyplot.close("all")


# ---- what is refused
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"l1_ratio": 1.5}, r"l1_ratio=1.5 must be a number from 0"),
        ({"l1_ratio": [0.5, 1.0]}, r"l1_ratio=\[0.5, 1.0\] must be a number"),
        ({"alphas": []}, r"alphas=\[\] must be a sequence of numbers not below 0"),
        ({"alphas": [1.0, -1.0]}, "-1 is none"),
        ({"alphas": 3.0}, "alphas=3.0 is not a sequence"),
        ({"n_alphas": 0}, "n_alphas=0 must be a whole number from 1 to 10,000"),
        ({"n_alphas": 2.5}, "n_alphas=2.5 must be a whole number"),
        ({"n_alphas": True}, "n_alphas=True must be a whole number"),
        ({"eps": 0.0}, "eps=0.0 must be a number above 0 and not above 1"),
        ({"eps": 2}, "eps=2 must be a number above 0 and not above 1"),
        ({"eps": "small"}, "eps='small' must be"),
        ({"family": "tweedie(estimate)"}, "a path takes no parameter that is estimated"),
        ({"family": None, "loss": "hinge"}, "loss='hinge' is not one of 'logistic'"),
        ({"family": "quantile(0.5)"}, "has corners, and a path of an L1 penalty or bounds"),
        ({"loss": "hinge"}, "loss='hinge' and family='gaussian' are both given"),
        ({"penalty_factor": np.ones(3)}, "penalty_factor has 3 values, but X has 10"),
        ({"penalty_factor": np.zeros(10)}, "penalty_factor is 0 for all features"),
        ({"groups": [[0, 1]], "positive": True}, "groups=.* with bounds"),
        ({"tol": -1.0}, "tol=-1.0 must be"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(how, message):
    with pytest.raises(ValueError, match=message):
        path(**how)


def test_data_that_have_no_path_are_refused():
    with pytest.raises(ValueError, match="y has 3 classes; a path is of two"):
        daskglm.regularization_path(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="the largest strength of the penalty is 0: no feature"):
        path(np.zeros((20, 3)), np.arange(20.0), family="poisson")


SLOPED = 2.0 * X[:, 0] + 3.0 * X[:, 1]
TWO_FREE = {"penalty_factor": [0.0] * 2 + [1.0] * 8}


EXPLAINED = {
    "0.1": (np.full(442, 0.1), {}, "all targets are 0.1, which the intercept alone predicts"),
    "standardized": (np.full(442, 0.1), {"standardize": True}, "all targets are 0.1"),
    "weighted": (np.full(442, -1e6 / 3), {"sample_weight": WEIGHT}, "all targets are -333333.3333"),
    "tweedie": (np.full(442, 3.0), {"family": "tweedie(1.5)"}, "all targets are 3, which"),
    "zero counts": (np.zeros(442), {"family": "poisson"}, "all targets are 0, which"),
    "offset": (0.1 + OFFSET, {"offset": OFFSET}, "what is not penalised predicts the targets"),
    "gamma": (np.exp(OFFSET), {"family": "gamma", "offset": OFFSET}, "what is not penalised"),
    "free features": (SLOPED, TWO_FREE, "what is not penalised predicts the targets but for"),
    "other rows": (
        np.where(WEIGHT > 0.0, 0.1, 5.0),
        {"sample_weight": WEIGHT},
        "predicts the targ",
    ),
}


@pytest.mark.filterwarnings("ignore:.* stopped before tol")  # a relative gap of next to nothing
@pytest.mark.parametrize("name", EXPLAINED)
def test_targets_that_leave_nothing_to_features_have_no_strengths(name):
    target, how, why = EXPLAINED[name]
    with pytest.raises(ValueError, match=f"the largest strength.* is .*: .*{why}.*alphas as num"):
        path(target=target, **how)
    found = path(target=target, **how, alphas=[0.1, 0.01])
    free = sum(factor == 0.0 for factor in how.get("penalty_factor", []))
    np.testing.assert_array_equal(found.df, [free, free])


ABOVE = np.abs(np.random.default_rng(3).standard_normal((300, 4)))
RISING = ABOVE.sum(axis=1)
HELD = {
    "positive": (-RISING, {"positive": True}),
    "negative": (RISING, {"upper_bounds": 0.0}),
    "classes": (np.median(RISING) > RISING, {"family": None, "positive": True}),
    "counts": (np.round(50.0 * np.exp(-RISING)), {"family": "poisson", "positive": True}),
    "left out": (RISING, {"penalty_factor": [np.inf] * 4}),
}


@pytest.mark.parametrize("name", HELD)
def test_bounds_that_hold_all_coefficients_leave_a_path_of_zeros(name):
    target, how = HELD[name]
    found = path(ABOVE, target, **how)
    assert not found.coefs.any()
    assert (found.gaps <= 1e-6).all()
    free = path(ABOVE, target, family=how.get("family", "gaussian"))
    np.testing.assert_allclose(found.alphas, free.alphas, rtol=1e-6)
    if name == "positive":
        model = daskglm.LassoCV(positive=True, alphas=4, cv=3).fit(ABOVE, target)
        assert not model.coef_.any()


def test_constant_columns_have_no_strengths():
    with pytest.raises(ValueError, match=r"is \S+: no feature changes the loss"):
        path(np.ones((442, 2)) * [0.1, 1e3])


@pytest.mark.parametrize("mean", [1e7, 1e9])
def test_strengths_where_sums_cancel_are_those_of_the_residuals(mean):
    target = y / 77.0 + mean
    found = path(target=target, n_alphas=2, eps=0.5)
    residuals = target - target.mean()
    wanted = np.abs((X - X.mean(axis=0)).T @ residuals).max() / len(y)
    assert found.alphas[0] == pytest.approx(wanted, rel=1e-6)


def test_targets_that_differ_little_from_what_is_not_penalised_have_strengths():
    noise = 1e-8 * RNG.standard_normal(442)
    found = path(target=SLOPED + noise, **TWO_FREE)
    assert found.df[0] == 2
    assert found.df[-1] > 2


def test_what_did_not_converge_is_told():
    with pytest.warns(ConvergenceWarning, match="tol=1e-10"):
        found = path(X, COUNTS, family="poisson", max_iter=1, tol=1e-10)
    assert not found.report_.converged


def test_strengths_of_a_loose_path_are_exact():
    """They depend on the model of what is not penalised, which is solved better than the path."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    y = rng.poisson(np.exp(X[:, 0] + 0.5 * X[:, 1])) * 1.0
    how = {"family": "poisson", "penalty_factor": [0.0, 1, 1, 1, 1], "n_alphas": 3, "eps": 0.1}
    loose, tight = (daskglm.regularization_path(X, y, **how, tol=tol) for tol in (0.1, 1e-12))
    np.testing.assert_allclose(loose.alphas, tight.alphas, rtol=1e-6)
    assert loose.df[0] == 1


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_columns_that_do_not_vary_have_no_path(family):
    y = np.random.default_rng(0).poisson(1.0, 200)
    y = (y > 0).astype(int) if family == "binomial" else y
    with pytest.raises(ValueError, match="no feature changes the loss"):
        daskglm.regularization_path(np.full((200, 2), 3.0), y, family=family)
