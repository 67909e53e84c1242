"""Several fits on rows that are loaded once."""

import numpy as np
import pytest

from daskglm.fitting.config import FitConfig
from daskglm.fitting.same_rows import same_rows

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3))
Y = X @ [1.0, -1.0, 2.0] + RNG.standard_normal(80)


def rows(settings, start=None):
    return same_rows(X, Y, settings, sample_weight=np.full(80, 2.0), start=start, client=None)


def test_fits_share_the_loading_pass_and_go_on_from_each_other():
    settings = FitConfig("squared", C=2.0, tol=1e-12)
    with rows(settings) as on:
        assert on.weight == 160.0
        assert on.largest_target == np.abs(Y).max()
        first = on.fit(settings)
        second = on.fit(FitConfig("huber(100.0)", C=2.0, tol=1e-10), (first.coef, first.intercept))
    assert first.report.seconds_loading > 0.0
    assert second.report.seconds_loading == 0.0
    # the parabola of a Huber loss whose delta no residual reaches
    np.testing.assert_allclose(second.coef, first.coef, rtol=1e-5)
    assert second.intercept == pytest.approx(first.intercept, abs=1e-6)
    assert second.report.n_iter <= 1
    centred = X - X.mean(axis=0)
    ridge = np.linalg.solve(centred.T @ centred + np.eye(3) / 4.0, centred.T @ (Y - Y.mean()))
    np.testing.assert_allclose(first.coef, ridge, rtol=1e-8)


def test_c_may_be_that_of_the_mean_loss():
    settings = FitConfig("squared", C=160.0, tol=1e-10, average=True)
    with rows(settings) as on:
        assert on.objective(settings).C == 1.0


def test_settings_and_starts_are_checked():
    with pytest.raises(ValueError, match="must be in"), rows(FitConfig("quantile(2)")):
        pass
    settings = FitConfig("squared")
    with pytest.raises(ValueError, match="of 2 feature"), rows(settings, (np.ones(2), 0.0)):
        pass
