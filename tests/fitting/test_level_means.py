"""Solves of a large factor without a penalty start at the means of its levels."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.fitting.level_means import at_level_means
from daskglm.objectives import elimination

LEVELS, N = 300, 6000
FREE = {"tol": 1e-9, "solver": "newton"}
FITS = {
    "poisson": lambda: daskglm.PoissonRegressor(alpha=0.0, **FREE),
    "gamma": lambda: daskglm.GammaRegressor(alpha=0.0, **FREE),
    "logistic": lambda: daskglm.LogisticRegression(C=np.inf, **FREE),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(elimination, "MOST_WHOLE", 20)


def table(kind, seed=0, spread=1.0):
    """Levels of unlike means, and numbers; no level has all of its targets at an end."""
    rng = np.random.default_rng(seed)
    codes = np.concatenate(
        [np.repeat(np.arange(LEVELS), 2), rng.integers(0, LEVELS, N - 2 * LEVELS)]
    )
    X = rng.normal(size=(N, 3))
    mean = np.exp(0.3 * X.sum(axis=1) + spread * rng.normal(size=LEVELS)[codes])
    y = {
        "poisson": rng.poisson(mean) + (np.arange(N) < 2 * LEVELS),
        "gamma": mean * rng.gamma(3.0, size=N),
        "logistic": (rng.random(N) < mean / (1 + mean)).astype(int),
    }[kind]
    if kind == "logistic":
        y[: 2 * LEVELS] = np.arange(2 * LEVELS) % 2
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["level"] = pd.Categorical.from_codes(codes, [f"v{k:03d}" for k in range(LEVELS)])
    frame["y"] = y
    return frame


@pytest.mark.parametrize("spread", [0.5, 2.0])
@pytest.mark.parametrize("kind", FITS)
def test_few_steps_and_a_proved_gap(kind, spread):
    model = FITS[kind]().fit(table(kind, spread=spread), "y")
    assert model.report_.converged
    if kind != "logistic":  # which has no bound without a penalty
        assert model.report_.relative_gap <= 1e-9
    # those at the origin and at the start, and the levels' sums, are 3 of them
    assert model.report_.passes <= 10


@pytest.fixture
def starts(monkeypatch):
    """Origins of fits, and the coefficients that they start from."""
    found = []

    def spied(objective, origin):
        w = at_level_means(objective, origin)
        found.append((origin, w))
        return w

    monkeypatch.setattr("daskglm.fitting.runner.at_level_means", spied)
    return found


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", FITS)
def test_levels_have_the_means_of_their_targets(kind, fit_intercept, starts):
    frame, weight = table(kind), np.random.default_rng(5).random(N) + 0.1
    model = FITS[kind]().set_params(fit_intercept=fit_intercept)
    model.fit(frame, "y", sample_weight=weight)
    ((_, w),) = starts
    names = model.feature_names_out_.tolist()
    of = {name: w[j] for j, name in enumerate(names)}
    assert not any(of[name] for name in "abc")
    z = np.array([of.get(f"level[{level}]", 0.0) for level in frame["level"].cat.categories])
    z += w[-1] if fit_intercept else 0.0
    sums = [np.bincount(frame["level"].cat.codes, v) for v in (weight * frame["y"], weight)]
    wanted = np.divide(*sums)
    found = 1.0 / (1.0 + np.exp(-z)) if kind == "logistic" else np.exp(z)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_with_an_exposure_it_is_the_rate(starts):
    frame = table("poisson")
    exposure = np.random.default_rng(6).random(N) + 0.5
    model = FITS["poisson"]().fit(frame, "y", exposure=exposure)
    ((_, w),) = starts
    sums = [np.bincount(frame["level"].cat.codes, v) for v in (frame["y"], exposure)]
    rates = np.divide(*sums)
    place = [model.feature_names_out_.tolist().index(f"level[v{k:03d}]") for k in range(1, LEVELS)]
    np.testing.assert_allclose(np.exp(w[place] + w[-1]), rates[1:], rtol=1e-10)
    assert np.exp(w[-1]) == pytest.approx(rates[0], rel=1e-10)


@pytest.mark.parametrize(("kind", "value"), [("poisson", 0), ("logistic", 0), ("logistic", 1)])
def test_levels_at_an_end_are_named_and_take_no_more_steps(kind, value):
    frame = table(kind)
    frame.loc[frame["level"].isin(["v007", "v100"]), "y"] = value
    with pytest.warns(ConvergenceWarning, match=r"level\[v007\]', column 'level\[v100\]'"):
        model = FITS[kind]().fit(frame, "y")
    assert not model.report_.converged
    assert model.report_.passes <= 10
    at = model.feature_names_out_.tolist().index("level[v007]")
    assert abs(np.ravel(model.coef_)[at]) > 15.0


def test_penalised_levels_and_least_squares_start_at_the_origin(starts):
    frame = table("gamma")
    daskglm.GammaRegressor(alpha=1e-3, tol=1e-6).fit(frame, "y")
    daskglm.Ridge(alpha=1e-3).fit(frame, "y")
    assert len(starts) == 2
    for origin, w in starts:
        np.testing.assert_array_equal(w, origin)
