"""Inverse Gaussian of one row, with two links."""

import pytest
from scipy import stats

from daskglm.losses.inverse_gaussian import LOSSES
from tests.losses import checks


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_formulas(loss):
    checks.check_derivatives(loss, [0.1, 1.0, 7.0])
    checks.check_extremes(loss, [1e-9, 0.3, 1.0, 7.0, 1e9])
    checks.check_fisher(loss, [0.1, 3.0])
    checks.check_log_density(
        loss,
        # SciPy's has the mean mu and the shape one, times a scale
        lambda y, mu: stats.invgauss.logpdf(y, mu * 0.3, scale=1 / 0.3),
        [0.1, 3.0],
        phi=0.3,
    )


def test_bounds_are_local_ones():
    assert not any(loss.is_bounded for loss in LOSSES)
    checks.check_local_rate(LOSSES[1], [0.3, 7.0], checks.SIZES)
    assert LOSSES[0].local_rate is LOSSES[2].local_rate is None
    assert [loss.convex for loss in LOSSES] == [False, True, False]
