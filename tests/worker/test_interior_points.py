"""Interior points of the dual of losses with corners: within bounds, to the optimum, whatever C is."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core.requests import DualInterior, DualStateRef, LossRef
from daskglm.kernels import coordinate_ascent, for_rows
from daskglm.kernels.records import read_only
from daskglm.losses.table import find, law_of
from daskglm.worker import interior_points
from daskglm.worker.dual_state import DualCache
from daskglm.worker.interior_points import Box, InteriorPoints, OverBlocks

LOSSES = ["hinge", "quantile(0.3)", "quantile(0.5)", "epsilon_insensitive(0.1)"]


def rows(n, d, loss, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1.0, 0.05, d)
    z = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    return X, np.where(z > 0.3, 1.0, -1.0) if loss == "hinge" else z + 0.7


def gap(loss, X, y, mass, points):
    """Primal less dual value at the points' variables, and the primal one."""
    v, losses = X.T @ points.b, find(loss)
    z = X @ v + points.intercept
    each = zip(mass, y, z, strict=True)
    value = sum(m * losses.row(t, at, losses.p1, losses.p2)[0] for m, t, at in each)
    return value + v @ v - points.box.rises(points.b), value + 0.5 * v @ v


@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_are_those_of_the_conjugate(loss):
    y = np.array([1.0, -1.0])
    box = Box.of(find(loss), y).times(np.array([2.0, 3.0]))
    known = {
        "hinge": ([0.0, -3.0], [2.0, 0.0], y, y),
        "quantile(0.3)": ([-1.4, -2.1], [0.6, 0.9], y, y),
        "quantile(0.5)": ([-1.0, -1.5], [1.0, 1.5], y, y),
        "epsilon_insensitive(0.1)": ([-2.0, -3.0], [2.0, 3.0], y + 0.1, y - 0.1),
    }
    for found, expected in zip(box, known[loss], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(60, 200), (150, 40)])
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("by_features", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_the_gap_ends_by_rounding(monkeypatch, loss, shape, balanced, by_features, C):
    if by_features:
        monkeypatch.setattr(interior_points, "MOST_ROWS", 0)
    X, y = rows(*shape, loss)
    mass = C * np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    points = InteriorPoints(X, Box.of(find(loss), y).times(mass), balanced=balanced)
    least = np.inf
    for _ in range(40):
        if not points.step():
            break
        assert (points.b >= points.box.low).all()
        assert (points.b <= points.box.high).all()
        between, value = gap(loss, X, y, mass, points)
        if abs(points.b.sum()) <= 1e-9 * np.abs(points.b).sum() or not balanced:
            assert between >= -1e-9 * value
            least = min(least, between / value)
        if points.left <= 1e-12 * value:
            break
    assert least <= 1e-7
    v = X.T @ points.best
    assert points.highest == pytest.approx(points.box.rises(points.best) - 0.5 * v @ v, rel=1e-9)


def test_weights_over_six_decades_end_by_rounding():
    """Differences of forces and residuals lose what small forces have: gaps of 1e-2 were left."""
    X, y = rows(300, 250, "quantile", seed=3)
    mass = 10.0 ** np.random.default_rng(1).uniform(-3, 3, len(y))
    points = InteriorPoints(X, Box.of(find("quantile"), y).times(mass), balanced=True)
    gaps = []
    for _ in range(40):
        points.step()
        between, value = gap("quantile", X, y, mass, points)
        gaps.append(between / value)
        if points.left <= 1e-11 * value:
            break
    assert min(gaps) <= 1e-9


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_blocks_have_the_variables_and_their_sum_over_the_rows(kind):
    X, y = rows(90, 40, "hinge")
    caches = []
    for part in (slice(0, 50), slice(50, 50), slice(50, 90)):
        block = read_only(np.ascontiguousarray(X[part]))
        block = sp.csr_matrix(block) if kind == "sparse" else block
        weight = read_only(np.arange(part.start, part.stop) % 3 / 2.0)
        cache = SimpleNamespace(y=read_only(y[part].astype(np.int8)), weight=weight)
        cache.kernels, cache.rows = for_rows(block)
        cache.dual = DualCache(len(cache.y), np.zeros)
        caches.append(cache)
    C, bias = 2.0, 0.5
    state = DualStateRef(1, None, (1.0, 0.0), None, C, bias, 0.0, False)
    asked = DualInterior(state, LossRef("hinge"), "begin")
    method = OverBlocks(asked, caches, X.shape[1])
    for _ in range(30):
        found = method.answer(asked, caches)
        if found["left"] < 1e-9:
            break
    best = method.answer(DualInterior(state, LossRef("hinge"), "best"), caches)
    assert best["moved"]
    for cache in caches:
        inside = cache.dual.work.copy()
        coordinate_ascent.clip(law_of(LossRef("hinge")), cache.y, inside, 0, len(inside))
        np.testing.assert_array_equal(inside, cache.dual.work)
    alpha = np.concatenate([cache.dual.work for cache in caches])
    b = C * (np.arange(90) % 3 / 2.0) * alpha
    np.testing.assert_allclose(best["own"], np.append(X.T @ b, bias * b.sum()), atol=1e-12)
    assert abs(b.sum()) <= 1e-9 * np.abs(b).sum()
    assert not alpha[::3].any()  # rows without a weight


def test_rows_without_any_gain_stay_where_they_are():
    """Zero targets of a quantile have zero for the best margin: no dual value is above zero."""
    X = np.eye(5)
    points = InteriorPoints(X, Box.of(find("quantile"), np.zeros(5)), balanced=False)
    for _ in range(10):
        points.step()
    assert points.go_back() == (points.highest > 0.0)
    assert abs(points.highest) < 1e-12
