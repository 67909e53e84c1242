"""Points on a device: how often the host waits."""

import numpy as np
import pytest

import daskglm
from daskglm.core.device import gpu
from daskglm.engines import local as engine
from tests.conftest import make_problem
from tests.kernels.cuda.points import prepared


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
