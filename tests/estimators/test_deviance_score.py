"""D^2 of regressions of families: against scikit-learn's score and its definition."""

import dask.array as da
import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import d2_tweedie_score, r2_score

import daskglm
from tests.glm import CASES, sample


def by_definition(family, y, mu, weight):
    """1 - deviance / deviance of the mean, by unit deviances that are not the package's."""
    from scipy.special import xlogy

    name, _, rest = family.partition("(")
    p = float(rest[:-1] or 0)

    def deviance(m):
        with np.errstate(all="ignore"):
            return (
                weight
                @ {
                    "gaussian": lambda: (y - m) ** 2,
                    "binomial": lambda: 2 * (xlogy(y, y / m) + xlogy(1 - y, (1 - y) / (1 - m))),
                    "poisson": lambda: 2 * (xlogy(y, y / m) - y + m),
                    "gamma": lambda: 2 * (np.log(m / y) + y / m - 1),
                    "inverse_gaussian": lambda: (y - m) ** 2 / (m * m * y),
                    "tweedie": lambda: (
                        2
                        * (
                            y ** (2 - p) / ((1 - p) * (2 - p))
                            - y * m ** (1 - p) / (1 - p)
                            + m ** (2 - p) / (2 - p)
                        )
                    ),
                    "negative_binomial": lambda: (
                        2 * (xlogy(y, y / m) - (y + 1 / p) * np.log((1 + p * y) / (1 + p * m)))
                    ),
                }[name]()
            )

    return 1 - deviance(mu) / deviance(np.full(len(y), weight @ y / weight.sum()))


@pytest.mark.parametrize(("family", "link", "centre"), CASES)
def test_scores_are_the_share_of_the_deviance_that_is_explained(family, link, centre):
    X, y, weight, offset = sample(family, link, centre)
    model = daskglm.GeneralizedLinearRegressor(family, link=link, alpha=0.01)
    model.fit(X, y, weight, offset)
    wanted = by_definition(family, y, model.predict(X, offset), weight)
    assert model.score(X, y, weight, offset) == pytest.approx(wanted, abs=1e-10)
    wanted = by_definition(family, y, model.predict(X), np.ones(len(y)))
    assert model.score(X, y, offset=0.0) == pytest.approx(wanted, abs=1e-10)
    order = np.argsort(y)  # so that the first partition may have targets of zero only
    chunks = da.from_array(X[order], chunks=(70, 3)), da.from_array(y[order], chunks=70)
    assert model.score(*chunks, offset=0.0) == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("power", [0, 1, 1.5, 2, 3])
def test_scikit_learns_function_agrees(power):
    X, y, weight, _ = sample("gamma")
    model = daskglm.TweedieRegressor(power=power, alpha=0.01).fit(X, y)
    wanted = d2_tweedie_score(y, model.predict(X), sample_weight=weight, power=power)
    assert model.score(X, y, weight) == pytest.approx(wanted, abs=1e-10)


def test_a_gaussian_score_is_r_squared_with_targets_far_from_zero():
    X, y, weight, _ = sample("gaussian")
    model = daskglm.TweedieRegressor(alpha=0.01).fit(X, y + 1e4)
    wanted = r2_score(y + 1e4, model.predict(X), sample_weight=weight)
    assert model.score(X, y + 1e4, weight) == pytest.approx(wanted, abs=1e-8)

    lazy = da.from_array(X, chunks=(70, 3)), da.from_array(y + 1e4, chunks=70)
    wanted = r2_score(y + 1e4, model.predict(X))
    assert model.score(*lazy) == pytest.approx(wanted, abs=1e-8)


def test_losses_that_are_of_no_family_score_by_r_squared(log_cosh):
    X, y, weight, offset = sample("gaussian")
    model = daskglm.GeneralizedLinearRegressor("log_cosh", alpha=0.01).fit(X, y, weight, offset)
    wanted = r2_score(y, model.predict(X, offset), sample_weight=weight)
    assert model.score(X, y, weight, offset) == pytest.approx(wanted, abs=1e-10)


def test_scores_that_are_not_defined():
    X, y, _, _ = sample("gamma")
    model = daskglm.GammaRegressor().fit(X, y)
    with pytest.warns(UndefinedMetricWarning, match="less than two rows"):
        assert np.isnan(model.score(X[:1], y[:1]))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        model.score(X, y, np.zeros(len(y)))
    lazy = [da.from_array(each, chunks=(50, 3)[: each.ndim]) for each in (X, y, np.zeros(len(y)))]
    with pytest.raises(ValueError, match="no rows with weight"):
        model.score(*lazy)
    with pytest.raises(ValueError, match="no rows with weight"):
        model.score(X[:0], y[:0])
    with pytest.raises(ValueError, match="X has 2 features"):
        model.score(X[:, :2], y)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.score(X, np.where(y > 2, np.nan, y))
    with pytest.raises(ValueError, match="not fitted"):
        daskglm.GammaRegressor().score(X, y)
    # all targets equal: nothing to explain
    flat = daskglm.GammaRegressor().fit(X, np.full(len(y), 2.0))
    assert flat.score(X, np.full(len(y), 2.0)) in (0.0, 1.0)
