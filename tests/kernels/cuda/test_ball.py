"""Trust-region steps that a device solves by itself."""

import numpy as np
import pytest

from daskglm.core.device import to_host
from daskglm.engines import local as engine
from daskglm.solvers.linear_systems import DenseMetric, Diagonal
from daskglm.solvers.trust_region import solve_in_region, steihaug_cg
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.kernels.cuda.points import prepared


@each_choice
@pytest.mark.parametrize("capture_after", [0, 1000], ids=["graph", "launches"])
@pytest.mark.parametrize("few", [0, 256], ids=["vectors-there", "vectors-here"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("radius", "share"), [(1e9, 0.1), (1e9, 1e-4), (0.1, 0.1)])
def test_balls_on_a_device_are_those_of_the_host(
    cupy, monkeypatch, radius, share, full, few, capture_after
):
    from daskglm.kernels.cuda import ball

    monkeypatch.setattr(engine, "HOST_FEATURES", few)
    monkeypatch.setattr(ball, "CAPTURE_AFTER", capture_after)
    X, y = make_problem(500, 30)
    X[:, :5] *= 30.0  # so that a diagonal metric needs several products
    here, host = prepared(X, y, "cpu")
    there, device = prepared(X, y, "cuda")
    metric = DenseMetric(host.hessian * 1.3) if full else Diagonal(0.5 + 0.5 * host.diagonal)
    wanted = steihaug_cg(host.hessian_vector, host.gradient, metric, radius, share)
    for _ in range(3):  # the second one finds the workspace of the first
        other = DenseMetric(device.hessian * 1.3) if full else Diagonal(0.5 + 0.5 * device.diagonal)
        found = solve_in_region(device, other, radius, share)
        assert found.on_border == wanted.on_border == (radius < 1.0)
        np.testing.assert_allclose(to_host(found.step), wanted.step, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(to_host(found.residual), wanted.residual, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found[3:], wanted[3:], rtol=1e-7, atol=1e-10)
    assert (there.engine.shard.ball.graph is None) == (capture_after > 0)
    assert here.passes < there.passes <= here.passes + 2 * (here.passes - 1) + 1e-9


def test_lengths_and_slopes_of_a_ball_are_what_they_say():
    X, y = make_problem(300, 12)
    _, point = prepared(X, y, "cpu")
    for metric in (DenseMetric(point.hessian), Diagonal(point.diagonal)):
        for radius in (1e9, 0.5, 1e-3):
            ball = steihaug_cg(point.hessian_vector, point.gradient, metric, radius)
            assert ball.length == pytest.approx(
                np.sqrt(ball.step @ metric.times(ball.step)), rel=1e-10
            )
            assert ball.slope == pytest.approx(point.gradient @ ball.step, rel=1e-12)
            assert ball.left == pytest.approx(ball.step @ ball.residual, rel=1e-9, abs=1e-12)
            residual = -point.gradient - point.hessian_vector(ball.step)
            np.testing.assert_allclose(ball.residual, residual, rtol=1e-8, atol=1e-10)
