"""Steps of solvers on a device: conjugate gradients with both kinds of metric, and how often the host waits."""

import importlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.device import gpu, to_host
from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines import local as engine
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.linear_systems import DenseMetric, Diagonal
from daskglm.solvers.trust_region import solve_in_region, steihaug_cg
from daskglm.worker.device_placement import DeviceConfig
from tests.conftest import make_problem, objective

tron = importlib.import_module("daskglm.solvers.tron")  # the name is also that of the solver


def prepared(X, y, device, C=1.0):
    """An objective over rows, and its point at zero."""
    loss = LOSSES["logistic"]
    where = DeviceConfig("cuda") if device == "cuda" else DeviceConfig()
    local = Local([to_block(X, y, place=Place(), classify=True)], where=where)
    asked = Objective(local, Problem(loss.ref, 1.0), loss, C=C, fit_intercept=True)
    return asked, asked.at(local.xp.zeros(asked.size), diagonal=True, curved=True, gram=True)


@pytest.mark.parametrize("capture_after", [0, 1000], ids=["graph", "launches"])
@pytest.mark.parametrize("few", [0, 256], ids=["vectors-there", "vectors-here"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("radius", [1e9, 0.1])
def test_balls_on_a_device_are_those_of_the_host(
    cupy, monkeypatch, radius, full, few, capture_after
):
    from daskglm.kernels.cuda import ball

    monkeypatch.setattr(engine, "HOST_FEATURES", few)
    monkeypatch.setattr(ball, "CAPTURE_AFTER", capture_after)
    X, y = make_problem(500, 30)
    X[:, :5] *= 30.0  # so that a diagonal metric needs several products
    here, host = prepared(X, y, "cpu")
    there, device = prepared(X, y, "cuda")
    metric = DenseMetric(host.gram * 1.3) if full else Diagonal(0.5 + 0.5 * host.diagonal)
    wanted = steihaug_cg(host.hessian_vector, host.gradient, metric, radius)
    for _ in range(3):  # the second one finds the workspace of the first
        other = DenseMetric(device.gram * 1.3) if full else Diagonal(0.5 + 0.5 * device.diagonal)
        found = solve_in_region(device, other, radius)
        assert found.on_border == wanted.on_border == (radius < 1.0)
        np.testing.assert_allclose(to_host(found.step), wanted.step, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(to_host(found.residual), wanted.residual, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found[3:], wanted[3:], rtol=1e-7, atol=1e-10)
    assert (there.engine.shard.ball.graph is None) == (capture_after > 0)
    assert here.passes < there.passes <= here.passes + 2 * (here.passes - 1) + 1e-9


def test_lengths_and_slopes_of_a_ball_are_what_they_say():
    X, y = make_problem(300, 12)
    _, point = prepared(X, y, "cpu")
    for metric in (DenseMetric(point.gram), Diagonal(point.diagonal)):
        for radius in (1e9, 0.5, 1e-3):
            ball = steihaug_cg(point.hessian_vector, point.gradient, metric, radius)
            assert ball.length == pytest.approx(
                np.sqrt(ball.step @ metric.times(ball.step)), rel=1e-10
            )
            assert ball.slope == pytest.approx(point.gradient @ ball.step, rel=1e-12)
            assert ball.left == pytest.approx(ball.step @ ball.residual, rel=1e-9, abs=1e-12)
            residual = -point.gradient - point.hessian_vector(ball.step)
            np.testing.assert_allclose(ball.residual, residual, rtol=1e-8, atol=1e-10)


# ---- the preconditioner
def correlated(n, d):
    rng = np.random.default_rng(3)
    X = (
        rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
        + 0.1 * rng.standard_normal((n, d))
    ).astype("f4")
    return X, np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("few", [0, 256], ids=["vectors-there", "vectors-here"])
@pytest.mark.parametrize("storage", ["dense", "sparse", "pattern"])
def test_tron_is_preconditioned_by_a_sample_on_a_device(cupy, monkeypatch, storage, few):
    """Before: no part of the rows could be asked on a device, and TRON kept a mixture that nobody had examined."""
    monkeypatch.setattr(engine, "HOST_FEATURES", few)
    X, y = correlated(5000, 30)
    if storage != "dense":
        X = sp.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0))
    if storage == "pattern":
        X.data[:] = 0.5
    options = {"solver": "tron", "tol": 1e-7, "device": "cuda"}
    plain = daskglm.fit(X, y, **options)
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 1000)
    model = daskglm.fit(X, y, **options)
    best = daskglm.fit(X, y, solver="newton", tol=1e-10)
    values = [objective(X, y, m.coef_, m.intercept_, 1.0, "logistic") for m in (best, model)]
    assert values[1] <= values[0] * (1 + 1.1e-7)
    assert model.report_.passes < 0.7 * plain.report_.passes


def test_a_singular_sample_leaves_the_mixture(cupy, monkeypatch):
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 1000)
    X, y = make_problem(2000, 5)
    asked, point = prepared(X, y, "cuda")
    assert tron.Preconditioner(asked, point.w).full is not None
    monkeypatch.setattr(tron.DenseMetric, "inverse", None)
    assert tron.Preconditioner(asked, point.w).full is None


def test_a_checkpoint_goes_on_with_the_preconditioner_of_a_device(cupy, monkeypatch, tmp_path):
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 1000)
    monkeypatch.setattr(engine, "HOST_FEATURES", 0)
    X, y = correlated(3000, 8)
    options = {"solver": "tron", "tol": 1e-9, "C": 10.0, "device": "cuda"}
    whole = daskglm.fit(X, y, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        daskglm.fit(X, y, checkpoint=tmp_path, max_iter=2, **options)
    resumed = daskglm.fit(X, y, resume=tmp_path, **options)
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-6)
    assert resumed.report_.converged


# ---- waiting
@pytest.fixture
def waits(cupy, monkeypatch):
    """Counts how often the host waits for the device: copies to it, and events."""
    if not hasattr(cupy.ndarray, "allocate"):
        pytest.skip("waits are counted on the stand-in")
    count, within = [0], []

    def counted(owner, name):
        before = getattr(owner, name)

        def wrapper(self, *args, **kwargs):
            count[0] += kwargs.get("blocking", True) and not within
            within.append(name)
            try:
                return before(self, *args, **kwargs)
            finally:
                within.pop()

        monkeypatch.setattr(owner, name, wrapper)

    for name in ("get", "item", "tolist"):
        counted(cupy.ndarray, name)
    for owner in (cupy.cuda.Event, cupy.cuda.Stream):
        counted(owner, "synchronize")
    return count


@pytest.mark.parametrize(("solver", "most"), [("tron", 4.0), ("lbfgs", 4.0)])
def test_the_host_waits_a_few_times_an_iteration(waits, monkeypatch, solver, most):
    """Before: 11 and 28 times; with vectors in host memory as many as a cluster's."""
    monkeypatch.setattr(engine, "HOST_FEATURES", 0)
    X, y = make_problem(800, 40)
    seen = []
    daskglm.fit(
        X, y, solver=solver, tol=1e-9, device="cuda", callback=lambda record: seen.append(waits[0])
    )
    each = np.diff(seen[1:])
    assert len(each) >= 3
    assert np.median(each) <= most


def test_a_point_is_one_wait(waits, cupy):
    X, y = make_problem(300, 300)
    asked, point = prepared(X, y, "cuda")
    assert isinstance(point.w, cupy.ndarray)
    step = asked.xp.ones(asked.size)
    before = waits[0]
    other = asked.at(step, diagonal=True, beside=point)
    assert waits[0] - before <= 1
    assert other.distance(point) == pytest.approx(np.sqrt(asked.size))
    assert other.gradient_norm == pytest.approx(np.linalg.norm(other.gradient.get()))
    here, _ = prepared(X, y, "cpu")
    host = here.at(np.ones(here.size), diagonal=True)
    np.testing.assert_allclose(other.gradient.get(), host.gradient, rtol=1e-10)
    np.testing.assert_allclose(other.diagonal.get(), host.diagonal, rtol=1e-7)
    assert other.value == pytest.approx(host.value, rel=1e-12)
    for mine, theirs in zip(other.norms, host.vectors, strict=True):
        assert tuple(mine) == pytest.approx((np.linalg.norm(theirs[:-1]), theirs[-1]), rel=1e-10)


def test_replies_come_in_one_copy(waits, cupy):
    backend = gpu()
    totals = {
        "a": cupy.ones((2, 3)),
        "b": cupy.zeros(0),
        "c": cupy.asarray(7.0),
        "d": 5,
        "e": cupy.arange(4.0),
    }
    before = waits[0]
    found = backend.to_host(totals)
    assert waits[0] - before <= 2  # what is empty is not waited for on a device
    np.testing.assert_array_equal(found["a"], np.ones((2, 3)))
    np.testing.assert_array_equal(found["e"], np.arange(4.0))
    assert (found["c"], found["d"], found["b"].shape) == (7.0, 5, (0,))


def test_a_factorisation_that_fails_is_no_step(cupy):
    """Before: what CuPy leaves where a factorisation fails is not specified, and was taken for a factor."""
    matrix = np.eye(4)
    matrix[0, 1] = matrix[1, 0] = 2.0
    assert gpu().solve_positive(cupy.asarray(matrix), cupy.ones(4)) is None
    assert gpu().inverse(cupy.asarray(matrix)) is None
    good = matrix @ matrix + np.eye(4)
    np.testing.assert_allclose(
        gpu().inverse(cupy.asarray(good)).get(), np.linalg.inv(good), rtol=1e-12
    )
