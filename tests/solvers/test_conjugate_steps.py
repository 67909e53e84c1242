"""Steps of conjugate gradients after epochs: they keep bounds, and the dual rises."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder

import daskglm
from benchmarks.unseen.problems import raw_counts
from daskglm import LinearSVC
from daskglm.core.dual_span import KEPT_STEPS, Span
from daskglm.core.requests import DualSpan, DualTotals, Problem, SDCAConfig
from daskglm.data.blocks import Place, to_block
from daskglm.duals import along
from daskglm.duals.dual import Dual
from daskglm.engines.local import Local
from daskglm.kernels import coordinate_ascent
from daskglm.losses import conjugates
from daskglm.losses.table import find, law_of
from daskglm.objectives.primal import Objective, tokens
from daskglm.solvers import sdca
from daskglm.solvers.conjugate_steps import ConjugateSteps
from daskglm.worker.conjugate_steps import Moved, derivatives
from daskglm.worker.streaming import StreamedShard


class Ascent:
    """Epochs over blocks in process, with a step after each round of two, or without."""

    def __init__(self, loss, blocks, C, *, weighted=False, intercept=False, groups=1, steps=True):
        self.loss, self.C = find(loss), C
        placed = []
        for k, (X, y) in enumerate(blocks):
            weight = np.random.default_rng(k).choice([0.0, 0.5, 2.0], len(y)) if weighted else None
            placed.append(to_block(X, y, weight, classify=self.loss.classifies, place=Place(k)))
        self.engine = Local(placed, 1)
        problem = Problem(self.loss.ref, 1 if self.loss.classifies else None)
        objective = Objective(self.engine, problem, self.loss, C=C, fit_intercept=intercept)
        plan = SDCAConfig(epochs=2, partitions=groups, nodes=groups, threads=groups)
        d = blocks[0][0].shape[1] + intercept
        self.dual = Dual(objective, np.zeros(d), plan, 0)
        self.groups = self.dual.shape()[0]
        self.steps = ConjugateSteps() if steps else None

    @property
    def caches(self):
        """The caches of the blocks with rows, at the committed state."""
        dual = self.dual
        shared = dual.objective.ask(DualTotals(dual.ref(), dual.v, next(tokens)))["own"]
        np.testing.assert_allclose(shared, dual.v, atol=1e-11 * max(np.abs(dual.v).max(), 1.0))
        return [cache for cache in self.engine.shard.caches.values() if cache.dual is not None]

    def round(self):
        """Two epochs and a step; returns the dual before, after epochs and after the step."""
        dual, before = self.dual, self.value()
        dual.round(1.0, 1.0, DualSpan if self.steps else None)
        change = dual.change.copy()
        swept = self.value(work=True, v=dual.v + change) if self.groups == 1 else before
        if self.steps is None:
            dual.commit(1.0)
        else:
            self.steps.take(dual, float(self.groups))
        offset, dual.offset = dual.offset, self.offset
        after = self.value()
        dual.offset = offset
        return before, swept, after

    def value(self, *, work=False, v=None):
        """The dual of the variables, or of candidates with the shared vector v."""
        dual = self.dual
        self.offset = dual.offset
        if work:
            caches = [one for one in self.engine.shard.caches.values() if one.dual is not None]
        else:
            caches, v = self.caches, dual.v
        law, total = law_of(self.loss.ref), 0.0
        for cache in caches:
            a = cache.dual.work if work else cache.dual.alpha
            total += conjugates.conjugates(law, cache.y, a, cache.weight)
        pull = dual.offset / dual.bias * v[-1] if dual.bias else 0.0
        return -self.C * total - 0.5 * v @ v - pull

    def is_within_bounds(self):
        """Whether all dual variables are where the conjugate is finite."""
        law = law_of(self.loss.ref)
        for cache in self.caches:
            inside = cache.dual.alpha.copy()
            coordinate_ascent.clip(law, cache.y, inside, 0, len(inside))
            if (inside != cache.dual.alpha).any():
                return False
        return True


def blocks(sizes, d, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    found = []
    for n in sizes:
        X = rng.standard_normal((n, d)) * np.geomspace(1, 0.05, d)
        y = np.where(X @ w + rng.standard_normal(n) > 0, 1, -1)
        found.append((np.ascontiguousarray(X), y))
    return found


NUMBERS = ["quantile(0.3)", "epsilon_insensitive(0.1)", "squared_epsilon_insensitive(0.1)", "huber"]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smoothed_hinge", *NUMBERS])
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0, 1e4])
@pytest.mark.parametrize(
    ("weighted", "intercept", "groups"), [(False, False, 1), (True, True, 1), (True, False, 2)]
)
def test_bounds_are_kept_and_the_dual_rises(loss, C, weighted, intercept, groups):
    """Conjugates may have a corner inside of their domain, too, which no quadratic has."""
    rows = blocks([60, 1, 40], 30)
    if loss in NUMBERS:
        rows = [(X, y + 0.3 * X[:, 0]) for X, y in rows]
    ascent = Ascent(loss, rows, C, weighted=weighted, intercept=intercept, groups=groups)
    for _ in range(25):
        before, swept, after = ascent.round()
        slack = 1e-12 * max(abs(before), abs(after), 1e-300)
        assert after >= max(before, swept) - slack
        assert ascent.is_within_bounds()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_optimum_is_the_same_and_nearer(loss, groups):
    rows = blocks([150], 80, seed=3)
    with_steps = Ascent(loss, rows, 3.0, groups=groups)
    without = Ascent(loss, rows, 3.0, steps=False)
    for _ in range(30):
        near, far = with_steps.round()[-1], without.round()[-1]
    for _ in range(3000 // 4):
        without.dual.round(1.0, 1.0)
        without.dual.commit(1.0)
    best = without.value()
    assert near <= best + 1e-9 * abs(best)
    assert best - near < 0.1 * (best - far)


def test_one_row():
    ascent = Ascent("hinge", [(X[:1], y[:1]) for X, y in blocks([5], 3)], 0.5)
    for _ in range(4):
        before, _, after = ascent.round()
    assert after == pytest.approx(before)
    assert np.isfinite(ascent.dual.v).all()


def test_no_row_is_free():
    """All rows are at their upper bound at once; then nothing moves."""
    ascent = Ascent("hinge", blocks([50], 10), 1e-6)
    for _ in range(3):
        ascent.round()
    (cache,) = ascent.caches
    np.testing.assert_array_equal(cache.dual.alpha * cache.y, 1.0)


@pytest.fixture
def brought_back(monkeypatch):
    """The number of rows that each projection brings back."""
    found, known = [], coordinate_ascent.project

    def project(*args):
        found.append(known(*args))
        return found[-1]

    monkeypatch.setattr(coordinate_ascent, "project", project)
    return found


def test_rows_that_are_brought_back_are_at_their_bound_and_the_others_follow(brought_back):
    """Directions lead out of the bounds at once: rows are projected, not the step shortened."""
    ascent = Ascent("hinge", blocks([200], 20, seed=5), 1.0)
    start = ascent.dual.objective.passes
    for _ in range(6):
        ascent.round()
    assert sum(brought_back) > 0
    # a round is two epochs, and this test adds the sums up twice; rows outside are read one way
    passes = ascent.dual.objective.passes - start - 6 * 4
    assert passes == pytest.approx(0.5 * sum(brought_back) / 200)


def test_rows_that_a_step_moves_are_met_again():
    ascent = Ascent("hinge", blocks([200], 20, seed=5), 1.0)
    ascent.round()
    dual = ascent.dual
    (cache,) = ascent.caches
    dual.round(1.0, 1.0)
    cache.dual.asleep = np.ones(200, np.uint8)
    swept = cache.dual.work.copy()
    assert along.span(dual) is not None
    along.move(dual, 1.0, np.array([1.5, 0.1]))
    moved = cache.dual.work != swept
    assert moved.any()
    np.testing.assert_array_equal(cache.dual.asleep == 0, moved)
    # another point is taken from where the round ended, not from the last one
    along.move(dual, 1.0, np.array([1.0, 0.0]))
    np.testing.assert_allclose(cache.dual.work, swept, rtol=1e-14)


@pytest.mark.parametrize("place", [0, 1])
def test_steps_of_blocks_that_were_lost_are_forgotten(place):
    # smaller blocks are joined
    ascent = Ascent("hinge", blocks([1500, 1400], 20), 1.0)
    for _ in range(4):
        ascent.round()
    dual = ascent.dual
    assert len(dual.steps) == KEPT_STEPS
    dual.round(1.0, 1.0)
    # after the epochs: what they changed is lost, too
    [*ascent.engine.shard.caches.values()][place].dual = None
    assert along.span(dual) is None
    ascent.steps.take(dual, 1.0)
    assert not dual.steps
    assert dual.has_lost()
    dual.round(1.0, 1.0)  # which adds the shared vector up
    dual.commit(1.0)
    for _ in range(3):
        before, swept, after = ascent.round()
        assert after >= max(before, swept) - 1e-12 * abs(before)
    assert len(dual.steps) == KEPT_STEPS


def test_rounds_that_are_lost_before_the_move_change_nothing():
    ascent = Ascent("hinge", blocks([60, 40], 20), 1.0)
    ascent.round()
    dual = ascent.dual
    dual.round(1.0, 1.0)
    assert along.span(dual) is not None
    for cache in ascent.engine.shard.caches.values():
        cache.dual = None
    along.move(dual, 1.0, np.array([1.5, 0.2]))
    assert dual.lost
    assert not dual.change.any()


def test_rows_of_a_table_take_them_too(monkeypatch):
    rng = np.random.default_rng(0)
    n, levels = 6000, 2600
    first, second, x = rng.integers(0, levels, n), rng.integers(0, 40, n), rng.normal(size=n)
    margin = rng.normal(size=levels)[first] + rng.normal(size=40)[second] + x
    y = np.where(margin + 0.5 * rng.normal(size=n) > 0.0, 1, -1)
    table = pd.DataFrame({"first": first, "second": second, "x": x})
    schema = {"categories": ["first", "second"], "min_count": 1}
    brought_back = []

    def project(law, rows, *others):
        assert isinstance(rows[0], tuple), "codes, not a matrix"
        brought_back.append(found := original(law, rows, *others))
        return found

    original = coordinate_ascent.project
    monkeypatch.setattr(coordinate_ascent, "project", project)
    by_codes = LinearSVC(loss="hinge", C=3.0, tol=1e-6, schema=schema).fit(table, y)
    assert sum(brought_back) > 0
    monkeypatch.undo()

    X = OneHotEncoder().fit_transform(table[["first", "second"]])
    X = sp.hstack([X, x[:, None]]).tocsr()
    assert X.shape[1] == by_codes.report_.n_features > 2000
    by_matrix = LinearSVC(loss="hinge", C=3.0, tol=1e-6).fit(X, y)
    assert by_codes.report_.converged
    assert by_codes.report_.objective == pytest.approx(by_matrix.report_.objective, rel=2e-6)


def test_parts_that_are_read_at_once_take_their_own_steps(monkeypatch):
    """A step of all rows would read them again."""
    X, y = raw_counts(3000, 0)
    chunks = [da.from_array(X[k : k + 500], chunks=-1, asarray=False) for k in range(0, 3000, 500)]
    lazy = da.concatenate(chunks), da.from_array(y, chunks=500)
    how = {"loss": "hinge", "C": 30.0, "fit_intercept": False, "random_state": 0}
    reads, known = [], StreamedShard._attached
    monkeypatch.setattr(StreamedShard, "_attached", lambda *args: reads.append(1) or known(*args))
    read = daskglm.fit(*lazy, out_of_core=True, **how).report_
    here = daskglm.fit(X, y, **how).report_
    assert read.converged
    assert read.objective == pytest.approx(here.objective, rel=2e-6)
    assert read.passes < 1.5 * here.passes
    assert len(reads) < 0.4 * read.passes


@pytest.mark.parametrize(("steps", "tol"), [(False, 1e-7), (True, 1e-9)])
@pytest.mark.parametrize(("rows", "features"), [(150, 120), (300, 200)])
def test_rounding_of_slopes_does_not_bring_an_ascent_to_rest(
    rows, features, steps, tol, monkeypatch
):
    """Multiples of changes by slopes that were rounding left gaps of 2e-6 to 2e-5."""
    monkeypatch.setattr(sdca, "takes_steps", lambda dual: steps)
    rng = np.random.default_rng(2)
    X = rng.standard_normal((rows, features))
    y = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    fit = {"loss": "hinge", "C": 10.0, "fit_intercept": False, "tol": tol, "max_iter": 2000}
    options = {"polish": False, "threads": 1}
    report = daskglm.fit(X, y, solver="sdca", solver_options=options, random_state=0, **fit).report_
    assert report.converged
    assert report.passes < (500 if steps else 1200)


@pytest.mark.parametrize("loss", ["hinge", "quantile(0.3)", "epsilon_insensitive(0.1)"])
def test_slopes_by_margins_are_those_by_the_shared_vector(loss):
    ascent = Ascent(loss, blocks((40, 30), 6), 0.3, weighted=True, intercept=True, steps=False)
    dual = ascent.dual
    dual.offset = 0.7
    dual.round(1.0, 1.0)
    caches = [cache for cache in ascent.engine.shard.caches.values() if cache.dual is not None]
    law, state = law_of(find(loss).ref), dual.ref()
    moved = [Moved.of(cache, cache.dual.alpha, [], 0) for cache in caches]
    totals = derivatives(law, moved, 1)
    by_vector = Span.of(state, dual.v, [dual.change], totals)
    for one in moved:
        totals["slopes"] += one.products(state, dual.v + dual.change, one.directions)
    by_margins = Span.of(state, dual.v, [dual.change], totals, by_margins=True)
    assert by_margins.slopes == pytest.approx(by_vector.slopes, rel=1e-9)
    assert by_margins.hessian == pytest.approx(by_vector.hessian, rel=1e-12)


@pytest.mark.parametrize(("rows", "second"), [(240, "interior"), (600, "newton")])
def test_few_rows_are_no_proximal_points(rows, second):
    """Proximal points by Newton's method came to rest, unproved, or took seconds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 120))
    y = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    report = daskglm.fit(X, y, loss="hinge", C=10.0, fit_intercept=False, random_state=0).report_
    assert report.converged
    assert report.solver == f"sdca+{second}"
