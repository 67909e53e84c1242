"""Steps between the epochs of one group of rows: they keep bounds, and the dual rises."""

from types import SimpleNamespace

import numpy as np
import pytest

from daskglm.core.requests import DualStateRef, LossRef
from daskglm.kernels import coordinate_ascent, for_rows
from daskglm.kernels.records import NO_NUMBERS, read_only
from daskglm.losses import conjugates
from daskglm.losses.table import law_of
from daskglm.worker.conjugate_steps import OwnSteps
from daskglm.worker.dual_state import DualCache
from daskglm.worker.schedule import ALL_ROWS

EVERY = -np.inf, np.inf


class Ascent:
    """Epochs of one thread over blocks, with steps after each round of two."""

    def __init__(self, loss, blocks, C, *, weighted=False, bias=0.0, offset=0.0, steps=True):
        name, *parameters = loss.split()
        self.law = law_of(LossRef(name, *map(float, parameters)))
        self.C, self.bias, self.offset = C, bias, offset
        self.caches = []
        for k, (X, y) in enumerate(blocks):
            weight = np.random.default_rng(k).choice([0.0, 0.5, 2.0], len(y))
            weight = read_only(weight) if weighted else NO_NUMBERS
            y = read_only(y.astype(np.int8) if y.dtype.kind == "i" else y)
            rows = read_only(X)
            cache = SimpleNamespace(data=(rows, y, weight), y=y, weight=weight)
            cache.kernels, cache.rows = for_rows(rows)
            cache.dual = DualCache(len(y), np.zeros)
            cache.dual.asleep = np.zeros(len(y), np.uint8)
            self.caches.append(cache)
        self.state = DualStateRef(1, None, (1.0, 0.0), None, C, bias, offset, False)
        self.u = np.zeros(blocks[0][0].shape[1] + 1)
        self.steps, self.key = OwnSteps() if steps else None, 0

    def epochs(self, many=2):
        """Sweep over all rows from alpha to work."""
        for cache in self.caches:
            cache.dual.work[:] = cache.dual.alpha
        for _ in range(many):
            for cache in self.caches:
                n, self.key = len(cache.y), self.key + 12345
                scales = self.C, self.bias, self.offset, 1.0, None
                dual = cache.dual.work, NO_NUMBERS, np.empty(0), np.empty(0, np.uint8)
                order = ALL_ROWS, 0, n, 1, self.key, 0, n
                coordinate_ascent.sweep(self.law, cache.data, self.u, scales, dual, EVERY, order)

    def round(self):
        """Two epochs and a step; returns the dual before and after the step."""
        if self.steps is not None:
            self.steps.begin(self.u.copy(), self.caches)
        self.epochs()
        before = self.value()
        if self.steps is not None:
            self.steps.take(self.law, self.state, self.caches, self.u, last=True)
        after = self.value()
        for cache in self.caches:
            cache.dual.alpha, cache.dual.work = cache.dual.work, cache.dual.alpha.copy()
            cache.dual.work[:] = cache.dual.alpha
        return before, after

    def value(self):
        """The dual of the variables `work`, whose shared vector is added up from the rows."""
        total, own = 0.0, np.zeros_like(self.u)
        for (X, y, weight), cache in ((cache.data, cache) for cache in self.caches):
            a = cache.dual.work
            total += conjugates.conjugates(self.law, y, a, weight)
            scaled = self.C * (weight if len(weight) else 1.0) * a
            own += np.append(scaled @ X, self.bias * scaled.sum())
        np.testing.assert_allclose(own, self.u, atol=1e-11 * max(np.abs(self.u).max(), 1.0))
        pull = self.offset / self.bias * own[-1] if self.bias else 0.0
        return -self.C * total - 0.5 * own @ own - pull

    def is_within_bounds(self):
        """Whether all dual variables are where the conjugate is finite."""
        free = [y * cache.dual.alpha for cache in self.caches for y in [cache.y]]
        low = min((p.min() for p in free if len(p)), default=0.0)
        high = max((p.max() for p in free if len(p)), default=0.0)
        return low >= 0.0 and (high <= 1.0 or self.law[0] != law_of(LossRef("hinge"))[0])


def blocks(sizes, d, seed=0, margin=0.0):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    found = []
    for n in sizes:
        X = rng.standard_normal((n, d)) * np.geomspace(1, 0.05, d)
        noise = (1.0 - margin) * rng.standard_normal(n)
        found.append((np.ascontiguousarray(X), np.where(X @ w + noise > 0, 1, -1)))
    return found


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smoothed_hinge"])
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0, 1e5])
@pytest.mark.parametrize(("weighted", "bias", "offset"), [(False, 0.0, 0.0), (True, 0.7, 0.3)])
def test_bounds_are_kept_and_the_dual_rises(loss, C, weighted, bias, offset):
    rows = blocks([60, 0, 1, 40], 30)
    ascent = Ascent(loss, rows, C, weighted=weighted, bias=bias, offset=offset)
    last = -np.inf
    for _ in range(25):
        before, after = ascent.round()
        slack = 1e-12 * max(abs(before), 1e-300)
        assert after >= before - slack
        assert before >= last - slack
        last = after
        assert ascent.is_within_bounds()
    assert ascent.steps.drift > 0.0 or C == 1e-3 or last > 0.0


@pytest.mark.parametrize(
    "loss",
    ["quantile 0.3", "epsilon_insensitive 0.1", "squared_epsilon_insensitive 0.1", "huber 1.35"],
)
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_the_dual_of_losses_of_numbers_rises(loss, C):
    """Conjugates may have a corner inside of their domain, which no quadratic has."""
    rows = [(X, y + 0.3 * X[:, 0]) for X, y in blocks([60, 40], 30)]
    ascent = Ascent(loss, rows, C, weighted=True, bias=0.7, offset=0.3)
    values = [ascent.round() for _ in range(25)]
    for before, after in values:
        assert after >= before - 1e-12 * abs(before)
    assert np.isfinite(values).all()
    law = ascent.law
    for cache in ascent.caches:
        inside = cache.dual.alpha.copy()
        coordinate_ascent.clip(law, cache.y, inside, 0, len(inside))
        np.testing.assert_array_equal(inside, cache.dual.alpha)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_optimum_is_the_same_and_nearer(loss):
    rows = blocks([150], 80, seed=3)
    with_steps = Ascent(loss, rows, 3.0)
    without = Ascent(loss, rows, 3.0, steps=False)
    for _ in range(30):
        near, far = with_steps.round()[1], without.round()[1]
    for _ in range(3000):
        best = without.round()[1]
    assert near <= best + 1e-9 * abs(best)
    assert best - near < 0.1 * (best - far)


@pytest.mark.parametrize("n", [0, 1])
def test_no_row_and_one(n):
    X, y = blocks([5], 3)[0]
    ascent = Ascent("hinge", [(X[:n], y[:n])], 0.5)
    for _ in range(4):
        before, after = ascent.round()
    assert after == pytest.approx(before)
    assert np.isfinite(ascent.u).all()


def test_no_row_is_free():
    """All rows are at their upper bound at once; then nothing moves."""
    ascent = Ascent("hinge", blocks([50], 10), 1e-6)
    for _ in range(3):
        ascent.round()
    (cache,) = ascent.caches
    np.testing.assert_array_equal(cache.dual.alpha * cache.y, 1.0)


def test_rows_that_are_brought_back_are_at_their_bound_and_the_others_follow():
    """Directions lead out of the bounds at once: rows are projected, not the step shortened."""
    ascent = Ascent("hinge", blocks([200], 20, seed=5), 1.0)
    back = []
    for _ in range(6):
        ascent.round()
        back.append(ascent.steps.back)
    assert sum(back) > 0
    assert ascent.steps.drift > 0.0


def test_rows_that_a_step_moves_are_met_again():
    ascent = Ascent("hinge", blocks([200], 20, seed=5), 1.0)
    ascent.round()
    (cache,) = ascent.caches
    ascent.steps.begin(ascent.u.copy(), ascent.caches)
    ascent.epochs()
    cache.dual.asleep[:] = 1
    swept = cache.dual.work.copy()
    ascent.steps.take(ascent.law, ascent.state, ascent.caches, ascent.u, last=True)
    moved = cache.dual.work != swept
    assert moved.any()
    np.testing.assert_array_equal(cache.dual.asleep == 0, moved)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_steps_of_blocks_that_were_lost_are_forgotten(place):
    ascent = Ascent("hinge", blocks([60, 40, 0], 20), 1.0)
    for _ in range(4):
        ascent.round()
    assert len(ascent.steps.kept) == 2
    lost = ascent.caches[place].dual
    lost.restart(lost.alpha, 7)
    if place == 2:  # a block without rows that is made anew
        ascent.caches[place].dual = DualCache(0, np.zeros)
    ascent.steps.begin(ascent.u.copy(), ascent.caches)
    assert not ascent.steps.kept
    before, after = ascent.round()
    assert after >= before
