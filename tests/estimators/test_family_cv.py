"""Paths over alpha, and alpha chosen by the deviance of rows held out."""

import dask.array as da
import matplotlib
import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

import daskglm
from tests.covering import each_choice
from tests.glm import CASES, containers, sample

matplotlib.use("Agg")

ALPHAS = [1.0, 0.1, 0.001]
X, y, WEIGHT, OFFSET = sample()
EXPOSURE = np.random.default_rng(5).uniform(0.5, 3.0, len(y))
BESIDE = {"sample_weight": WEIGHT, "offset": OFFSET, "exposure": EXPOSURE}


# ---- paths
@pytest.mark.parametrize("family", ["poisson", "gamma", "gaussian", "tweedie(1.5)"])
def test_a_path_has_the_separate_fits(family):
    rows, target, weight, offset = sample(family)
    how = {"family": family, "sample_weight": weight, "offset": offset, "tol": 1e-12}
    path = daskglm.fit(rows, target, alpha=[0.001, 1.0, 0.0], **how)
    for alpha, model in zip([0.001, 1.0, 0.0], path, strict=True):
        alone = daskglm.fit(rows, target, alpha=alpha, **how)
        assert model.alpha == alpha
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-6)
        assert model.intercept_ == pytest.approx(alone.intercept_, abs=1e-6)
        assert model.deviance_ == pytest.approx(alone.deviance_, rel=1e-6)
        assert model.report_.converged
        assert model.score(rows, target, weight, offset) == pytest.approx(
            alone.score(rows, target, weight, offset), abs=1e-6
        )


def test_a_path_costs_less_than_its_fits():
    how = {"family": "poisson", "solver": "lbfgs", "tol": 1e-8, **BESIDE}
    alphas = np.geomspace(1, 1e-4, 8).tolist()
    path = daskglm.fit(X, y, alpha=alphas, **how)
    passes = {model.report_.passes for model in path}
    assert len(passes) == 1, "reports count the passes of all"
    assert passes.pop() < sum(
        daskglm.fit(X, y, alpha=alpha, **how).report_.passes for alpha in alphas
    )


def test_paths_of_C_take_offsets_too():
    path = daskglm.fit(X, y > 1, C=[0.1, 1.0], offset=OFFSET, tol=1e-12)
    alone = daskglm.fit(X, y > 1, C=1.0, offset=OFFSET, tol=1e-12)
    np.testing.assert_allclose(path[1].coef_, alone.coef_, atol=1e-6)


def test_paths_that_make_no_sense_are_refused():
    for alpha, message in (
        ([1.0, -1.0], "alpha=.* numbers not below 0; -1 is none"),
        ([], "alpha=.* must be a sequence of numbers"),
        (["a"], "'a' is none"),
        ([np.inf], "inf is none"),
    ):
        with pytest.raises(ValueError, match=message):
            daskglm.fit(X, y, family="poisson", alpha=alpha)
    with pytest.raises(ValueError, match="estimated for one alpha at a time"):
        daskglm.fit(X, y, family="tweedie(estimate)", alpha=[1.0, 0.1])
    with pytest.raises(ValueError, match="without a family"):
        daskglm.fit(X, y, alpha=[1.0, 0.1])


# ---- cross-validation
def by_hand(model, rows, target, splits, weight=None, offset=None):
    """Mean deviance and D^2 of fits to each fold, (values, folds)."""
    weight = np.ones(len(target)) if weight is None else weight
    found = np.empty((2, len(ALPHAS), len(splits)))
    for k, (train, test) in enumerate(splits):
        of = [None if offset is None else offset[part] for part in (train, test)]
        for a, alpha in enumerate(ALPHAS):
            one = daskglm.GeneralizedLinearRegressor(
                model.family, link=model.link, alpha=alpha, tol=1e-13
            ).fit(rows[train], target[train], weight[train], of[0])
            score = one.score(rows[test], target[test], weight[test], of[1])
            # the deviance of the mean target follows from a model of nothing but an intercept
            null = daskglm.GeneralizedLinearRegressor(model.family, alpha=1.0, tol=1e-13)
            null.fit(np.zeros((len(test), 1)), target[test], weight[test])
            mean = null.deviance_ / weight[test].sum()
            found[:, a, k] = mean * (1 - score), score
    return found


@each_choice
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["poisson", "gamma", "gaussian", "negative_binomial(0.7)"])
def test_held_out_deviances_are_those_of_separate_fits(family, weighted):
    rows, target, weight, offset = sample(family)
    splits = list(KFold(3).split(rows))
    given = (weight, offset) if weighted else (None, None)
    model = daskglm.GeneralizedLinearRegressorCV(family, alphas=ALPHAS, cv=3, tol=1e-12)
    model.fit(rows, target, *given)
    deviance, d2 = by_hand(model, rows, target, splits, *given)
    np.testing.assert_allclose(model.deviance_path_, deviance, rtol=1e-6)
    np.testing.assert_allclose(model.d2_path_, d2, atol=1e-6)
    assert model.alpha_ == ALPHAS[deviance.mean(axis=1).argmin()]
    assert model.coef_path_.shape == (3, 3, 3)
    assert model.intercept_path_.shape == (3, 3)
    assert model.alphas_.tolist() == ALPHAS

    again = daskglm.GeneralizedLinearRegressor(family, alpha=model.alpha_, tol=1e-12)
    again.fit(rows, target, *given)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-6)
    assert model.deviance_ == pytest.approx(again.deviance_, rel=1e-8)
    assert model.score(rows, target, *given) == pytest.approx(again.score(rows, target, *given))
    assert len(model.report_.parts) == 10
    assert model.report_.relative_gap <= 1e-12


@each_choice
@pytest.mark.parametrize(("family", "link", "centre"), CASES)
def test_every_family_and_link_can_be_cross_validated(family, link, centre):
    rows, target, weight, offset = sample(family, link, centre)
    model = daskglm.GeneralizedLinearRegressorCV(family, link=link, alphas=[0.1, 0.01], cv=3)
    model.fit(rows, target, weight, offset)
    assert model.report_.converged
    assert np.isfinite(model.deviance_path_).all()
    assert (model.d2_path_ < 1).all()


ALL = containers(X, y, WEIGHT, OFFSET, EXPOSURE)


@pytest.mark.parametrize("kind", list(ALL))
def test_all_containers_are_cross_validated(kind):
    rows, *beside = ALL[kind]
    model = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=ALPHAS, cv=3, random_state=0)
    model.fit(rows, *beside)
    whole = daskglm.PoissonRegressor(alpha=model.alpha_, tol=1e-12).fit(
        X, y, WEIGHT, OFFSET, EXPOSURE
    )
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-3)
    if kind in ("numpy", "csr", "pandas", "pandas, names"):
        plain = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=ALPHAS, cv=3)
        plain.fit(X, y, WEIGHT, OFFSET, EXPOSURE)
        np.testing.assert_allclose(model.deviance_path_, plain.deviance_path_, rtol=1e-6)
    assert model.deviance_path_.shape == (3, 3)


@pytest.mark.slow
def test_a_cluster_draws_the_same_folds(request):
    rows, *beside = ALL["dask array"]
    how = {"alphas": ALPHAS, "cv": 3, "random_state": 7, "tol": 1e-10}
    here = daskglm.GeneralizedLinearRegressorCV("poisson", **how).fit(rows, *beside)
    request.getfixturevalue("client")
    there = daskglm.GeneralizedLinearRegressorCV("poisson", **how).fit(rows, *beside)
    np.testing.assert_allclose(there.deviance_path_, here.deviance_path_, rtol=1e-6)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5)


def test_folds_by_splitters_and_groups():
    groups = np.arange(len(y)) % 7
    model = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=[0.1], cv=GroupKFold(3))
    model.fit(X, y, groups=groups)
    assert model.deviance_path_.shape == (1, 3)
    one = [(np.arange(200), np.arange(200, 300))]
    model = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=ALPHAS, cv=one).fit(X, y)
    assert model.deviance_path_.shape == (3, 1)
    assert daskglm.GeneralizedLinearRegressorCV(alphas=4).fit(X, y).alphas_ == pytest.approx(
        [10, 0.1, 1e-3, 1e-5]
    )


def test_losses_of_no_family_have_no_share_of_deviance(log_cosh):
    model = daskglm.GeneralizedLinearRegressorCV("log_cosh", alphas=ALPHAS, cv=3).fit(X, y)
    assert np.isnan(model.d2_path_).all()
    assert np.isfinite(model.deviance_path_).all()


# ---- with an L1 part
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["poisson", "gamma", "gaussian"])
def test_l1_ratios_are_cross_validated_as_separate_fits(family, weighted):
    rows, target, weight, offset = sample(family)
    given = {"sample_weight": weight, "offset": offset} if weighted else {}
    ratios = [1.0, 0.01]  # the first is the better one for some, for some the second
    model = daskglm.GeneralizedLinearRegressorCV(
        family, l1_ratio=ratios, alphas=6, cv=3, tol=1e-10
    ).fit(rows, target, **given)
    assert model.l1_ratio_ in ratios
    assert (np.diff(model.alphas_) < 0.0).all()
    assert model.deviance_path_.shape == model.d2_path_.shape == (6, 3)
    assert model.coef_path_.shape == (6, 3, 3)
    assert model.alpha_ == model.alphas_[model.deviance_path_.mean(axis=1).argmin()]
    alone = {"l1_ratio": model.l1_ratio_, "tol": 1e-11}
    for k, (train, test) in enumerate(KFold(3).split(rows)):
        of_train, of_test = (
            {name: each[part] for name, each in given.items()} for part in (train, test)
        )
        for a in (0, 3):
            one = daskglm.GeneralizedLinearRegressor(family, alpha=model.alphas_[a], **alone)
            one.fit(rows[train], target[train], **of_train)
            np.testing.assert_allclose(model.coef_path_[a, k], one.coef_, atol=1e-5)
            score = one.score(rows[test], target[test], **of_test)
            assert model.d2_path_[a, k] == pytest.approx(score, abs=1e-5)
    whole = daskglm.GeneralizedLinearRegressor(family, alpha=model.alpha_, **alone)
    np.testing.assert_allclose(model.coef_, whole.fit(rows, target, **given).coef_, atol=1e-5)
    assert model.report_.relative_gap <= 1e-10
    if family == "gaussian":
        assert model.report_.passes == 1.0


def test_the_least_mean_deviance_chooses_the_ratio():
    how = {"alphas": 6, "cv": 3, "tol": 1e-9}
    means = [
        daskglm.GeneralizedLinearRegressorCV("poisson", l1_ratio=ratio, **how)
        .fit(X, y)
        .deviance_path_.mean(axis=1)
        .min()
        for ratio in (0.2, 1.0)
    ]
    model = daskglm.GeneralizedLinearRegressorCV("poisson", l1_ratio=[0.2, 1.0], **how).fit(X, y)
    assert model.l1_ratio_ == (0.2, 1.0)[int(np.argmin(means))]
    assert model.deviance_path_.mean(axis=1).min() == pytest.approx(min(means), rel=1e-6)


@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_one_standard_error_takes_the_strongest_penalty_that_is_about_as_good(l1_ratio):
    how = {"l1_ratio": l1_ratio, "alphas": 12}
    model = daskglm.GeneralizedLinearRegressorCV("poisson", selection="1se", **how).fit(X, y)
    mean, folds = model.deviance_path_.mean(axis=1), model.deviance_path_.shape[1]
    error = model.deviance_path_.std(axis=1, ddof=1) / np.sqrt(folds)
    best = mean.argmin()
    assert model.alpha_ == model.alphas_[mean <= mean[best] + error[best]].max()
    assert model.alpha_ > daskglm.GeneralizedLinearRegressorCV("poisson", **how).fit(X, y).alpha_


def test_relaxed_fits_are_those_of_the_selected_features_without_a_penalty():
    rows = np.hstack([X, np.random.default_rng(0).standard_normal((len(y), 4))])
    how = {"l1_ratio": 1.0, "selection": "1se", "alphas": 20, "tol": 1e-9}
    chosen = daskglm.GeneralizedLinearRegressorCV("poisson", **how).fit(rows, y, WEIGHT)
    model = daskglm.GeneralizedLinearRegressorCV("poisson", **how, relax=True).fit(rows, y, WEIGHT)
    live = chosen.coef_ != 0.0
    assert 0 < live.sum() < 7
    plain = daskglm.PoissonRegressor(alpha=0, tol=1e-12).fit(rows[:, live], y, WEIGHT)
    np.testing.assert_allclose(model.coef_[live], plain.coef_, atol=1e-5)
    assert not model.coef_[~live].any()
    assert model.alpha_ == chosen.alpha_


def test_folds_of_time_and_a_cluster_with_an_l1_part(request):
    how = {"l1_ratio": [0.5, 1.0], "alphas": 4, "tol": 1e-8}
    splits = TimeSeriesSplit(3)
    model = daskglm.GeneralizedLinearRegressorCV("poisson", cv=splits, **how).fit(X, y)
    train, test = next(iter(splits.split(X)))
    one = daskglm.GeneralizedLinearRegressor(
        "poisson", alpha=model.alphas_[2], l1_ratio=model.l1_ratio_, tol=1e-10
    ).fit(X[train], y[train])
    assert model.d2_path_[2, 0] == pytest.approx(one.score(X[test], y[test]), abs=1e-5)

    rows, target = ALL["dask array"][:2]
    how |= {"cv": 3, "random_state": 7}
    here = daskglm.GeneralizedLinearRegressorCV("poisson", **how).fit(rows, target)
    request.getfixturevalue("client")
    there = daskglm.GeneralizedLinearRegressorCV("poisson", **how).fit(rows, target)
    np.testing.assert_allclose(there.deviance_path_, here.deviance_path_, rtol=1e-5)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-4)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.7])
def test_eps_is_the_least_strength_over_the_largest(l1_ratio):
    how = {"alphas": 4, "l1_ratio": l1_ratio}
    model = daskglm.GeneralizedLinearRegressorCV("poisson", eps=0.05, **how).fit(X, y)
    path = daskglm.regularization_path(
        X, y, family="poisson", l1_ratio=l1_ratio, n_alphas=4, eps=0.05
    )
    np.testing.assert_allclose(model.alphas_, path.alphas, rtol=1e-6)
    assert model.alphas_[-1] == pytest.approx(0.05 * model.alphas_[0])
    plain = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=3).fit(X, y)
    assert plain.alphas_ == pytest.approx([10.0, 1e-2, 1e-5])
    left = daskglm.GeneralizedLinearRegressorCV(
        "poisson", alphas=3, penalty_factor=np.full(3, np.inf)
    )
    assert left.fit(X[:, :3], y).alphas_ == pytest.approx([10.0, 1e-2, 1e-5])


def test_the_plot_shows_the_curve_whatever_the_order():
    alphas = [0.001, 1.0, 0.0, 0.1]
    model = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=alphas).fit(X, y)
    curve = model.plot_cv().get_lines()[0]
    assert curve.get_xdata().tolist() == [1.0, 0.1, 0.001], "a logarithm has no zero"
    np.testing.assert_allclose(curve.get_ydata(), model.deviance_path_.mean(axis=1)[[1, 3, 0]])
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alphas": 0}, "alphas=0 must be a whole number from 1"),
        ({"alphas": None}, "alphas=None must be a whole number from 1 to 10,000, or a seq"),
        ({"alphas": [1.0, -2.0]}, "-2 is none"),
        ({"cv": 1}, "cv=1"),
        ({"cv": "five"}, "cv='five'"),
        ({"family": "tweedie(estimate)"}, "takes no parameter that is estimated"),
        ({"family": "poissson"}, "family"),
        ({"l1_ratio": 1.5}, "l1_ratio=1.5 must be a number from 0 to 1, or a sequence"),
        ({"l1_ratio": []}, "must be a number from 0 to 1, or a sequence"),
        ({"l1_ratio": 0.5, "alphas": 0}, "alphas=0 must be a whole number from 1"),
        ({"l1_ratio": 0.5, "alphas": [-1.0]}, "-1 is none"),
        ({"selection": "cyclic"}, "selection='cyclic' is not one of 'min', '1se'"),
        ({"eps": 0.0}, "eps=0.0 must be a number above 0 and not above 1"),
        ({"eps": "small", "alphas": [1.0]}, "eps='small' must be a number above 0 and not above 1"),
        ({"l1_ratio": 0.5, "relax": 1}, "relax=1 must be True or False"),
        ({"relax": True}, "relax=True wants an L1 penalty.*l1_ratio=0.0 has none"),
        ({"l1_ratio": 0.5, "solver": "newton"}, "solver='newton' takes no L1 penalty"),
    ],
)
def test_what_cannot_be_cross_validated_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        daskglm.GeneralizedLinearRegressorCV(**{"family": "poisson", **params}).fit(X, y)


def test_folds_that_cannot_be_used_are_refused():
    model = daskglm.GeneralizedLinearRegressorCV("poisson", alphas=[1.0], cv=3)
    with pytest.raises(ValueError, match="fold 0 holds out have weight zero"):
        model.fit(X, y, np.arange(len(y)) >= 100)
    lazy = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    with pytest.raises(ValueError, match="take no groups"):
        model.fit(*lazy, groups=np.arange(len(y)))
    with pytest.raises(ValueError, match="cannot save"):
        daskglm.save(model.fit(X, y), "model.json")
