"""Dual variables with an L1 penalty besides: what holds after every round, and lines along changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskglm.core.requests import DualTotals, LossRef, SDCAConfig
from daskglm.core.soft_threshold import soft_threshold
from daskglm.duals import along
from daskglm.duals.dual import Dual
from daskglm.duals.penalty import DualPenalty, Sums
from daskglm.objectives.primal import Objective, tokens
from daskglm.penalties.penalty import Penalty
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.objectives.with_l1 import VALUES, elastic_net, value

LOSSES = list(VALUES)
MODES = [
    SDCAConfig(partitions=1),
    SDCAConfig(partitions=5, bucket=8),
    SDCAConfig(partitioning="static", partitions=3),
    SDCAConfig(nodes=2, partitions=4),
    SDCAConfig(partitions=2, epochs=3),
]


def dual_of(objective, plan, seed=0):
    return Dual(objective, np.zeros(objective.size), plan, seed)


def rounds(dual, count):
    """Certificates after each of some rounds, with a sigma' that is safe."""
    groups, parts = map(float, dual.shape())
    for _ in range(count):
        totals = dual.round(groups, parts)
        assert np.isfinite(totals["gap"])
        dual.commit(1.0)
        yield dual.certificate()


def test_entries_move_towards_zero_and_the_last_stays():
    v = np.array([[3.0, -3.0, 0.5, -0.0, 0.5], [1.0, -1.0, 0.0, 9.0, -7.0]])
    wanted = [[2.0, -2.0, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 8.0, -7.0]]
    np.testing.assert_array_equal(soft_threshold(v, 1.0), wanted)
    np.testing.assert_array_equal(soft_threshold(v[0], 1.0), wanted[0])
    assert soft_threshold(v, 0.0) is v


@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_value_and_conjugate_touch_at_the_coefficients_of_v(threshold):
    """Fenchel and Young: value(w) / strength + conjugate(v) = w.v there, and more at other w."""
    rng = np.random.default_rng(0)
    penalty = DualPenalty(3.0, threshold)
    v = np.append(rng.standard_normal(6), 0.0)
    w = penalty.coefficients(v)

    def excess(u):
        return penalty.value(u[:-1]) / 3.0 + penalty.conjugate(v) - float(u @ v)

    assert excess(w) == pytest.approx(0.0, abs=1e-14)
    assert min(excess(w + 0.1 * np.append(rng.standard_normal(6), 0.0)) for _ in range(50)) > 1e-4


@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_balanced_variables_sum_to_zero(sign):
    rng = np.random.default_rng(0)
    X, bias = rng.standard_normal((20, 3)), 0.7
    a = np.abs(rng.standard_normal(20)) * np.where(np.arange(20) % 2, 1.0, -1.0)
    a[1::2] *= (1.0 + 0.5 * sign) * -a[::2].sum() / a[1::2].sum()
    rows, above = np.c_[X, np.ones(20)], np.maximum(a, 0.0)
    sums = Sums(a @ rows * [1.0, 1.0, 1.0, bias], above @ rows, bias, lambda **changed: changed)
    u, changed = sums.balanced()
    factors = {"positive": 1.0, "negative": 1.0} | changed
    scaled = np.where(a > 0.0, factors["positive"], factors["negative"]) * a
    assert max(factors.values()) == 1.0
    assert scaled.sum() == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(u[:3], scaled @ X, atol=1e-12)


@each_choice
@pytest.mark.parametrize("plan", MODES, ids=str)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_gap_is_a_bound_after_every_round(loss, intercept, plan):
    """v is what the rows say, the primal value that of NumPy at w = soft(v), and the gap holds the optimum."""
    X, y = make_problem(300, 6, loss=loss, sparse=True, seed=3)
    strengths = {"C": 0.3, "strength": 0.7, "l1": 2.0}
    objective = elastic_net(X, y, loss, fit_intercept=intercept, **strengths)
    dual = dual_of(objective, plan)
    dual.start_point()
    lowest, highest = np.inf, -np.inf
    for found in rounds(dual, 8):
        v = dual.v.copy()
        own = objective.ask(DualTotals(dual.ref(), v, next(tokens)))["own"]
        np.testing.assert_allclose(v, own, rtol=1e-10, atol=1e-10 * np.abs(v).max())
        np.testing.assert_array_equal(found.w[:6], soft_threshold(v, 2.0 / 0.7)[:6])
        assert found.primal == pytest.approx(value(X, y, found.w, loss, **strengths), rel=1e-12)
        lowest, highest = min(lowest, found.primal), max(highest, found.dual)
    assert highest > 0.0
    assert lowest >= highest * (1 - 1e-12)


@each_choice
@pytest.mark.parametrize("plan", MODES, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_dual_never_falls_with_a_safe_sigma(loss, plan):
    """The whole change is taken."""
    X, y = make_problem(300, 6, loss=loss, seed=3)
    dual = dual_of(elastic_net(X, y, loss, C=1.0, l1=3.0), plan)
    groups, parts = map(float, dual.shape())
    last = 0.0
    for _ in range(8):
        totals = dual.round(groups, parts)
        assert along.share_that_rises(dual, 1.0, totals) == 1.0
        dual.commit(1.0)
        found = dual.certificate()
        assert found.dual >= last - 1e-11 * (abs(found.primal) + abs(last))
        last = found.dual


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_changes_that_would_lower_the_dual_are_halved(loss, intercept):
    """Eight groups with a sigma' of one overshoot."""
    X, y = make_problem(300, 6, loss=loss, seed=3)
    objective = elastic_net(X, y, loss, C=1.0, l1=3.0, fit_intercept=intercept)
    dual = dual_of(objective, SDCAConfig(nodes=8, partitions=8))
    dual.start_point()
    last, shares = 0.0, []
    for _ in range(8):
        totals = dual.round(1.0, 1.0)
        shares.append(along.share_that_rises(dual, 1.0, totals))
        values = along.line(dual, np.array([[0.0, 0.0], [shares[-1], 0.0], [1.0, 0.0]]))[0]
        assert values[1] <= values[0] + 1e-11 * abs(values[0])
        assert shares[-1] == 1.0 or values[1] < values[2]
        dual.commit(shares[-1])
        found = dual.certificate()
        if not intercept:  # with one the dual's value is taken where the variables are balanced
            assert found.dual >= last - 1e-11 * (abs(found.primal) + abs(last))
        last = found.dual
    assert min(shares) < 1.0


@given(
    st.integers(2, 40),
    st.integers(1, 6),
    st.sampled_from(["logistic", "hinge", "squared_hinge", "squared"]),
    st.integers(0, 10**6),
    st.floats(1e-3, 1e3),
    st.floats(0.0, 10.0),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_gap_is_a_bound_for_random_problems(n, d, loss, seed, C, l1, intercept):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.exponential(size=d) * 10.0 ** rng.integers(-2, 3)
    y = rng.standard_normal(n) if loss == "squared" else np.where(np.arange(n) % 2, 1.0, -1.0)
    objective = elastic_net(X, y, loss, C=C, l1=l1, fit_intercept=intercept)
    dual = dual_of(objective, SDCAConfig(partitions=1), seed)
    dual.start_point()
    best, highest = np.inf, 0.0
    for found in rounds(dual, 5):
        best = min(best, value(X, y, found.w, loss, C=C, l1=l1))
        highest = max(highest, found.dual)
    assert best >= highest - 1e-11 * (abs(best) + abs(highest))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_lines_along_changes(loss, intercept):
    """Values are those of the dual but for a constant, slopes their differences."""
    X, y = make_problem(300, 6, loss=loss, seed=2)
    objective = elastic_net(X, y, loss, C=0.2, strength=0.5, l1=1.0, fit_intercept=intercept)
    dual = dual_of(objective, SDCAConfig(partitions=2))
    dual.start_point()
    for _ in range(3):
        dual.round(1.0, 2.0)
        dual.commit(1.0, keep=True)
    dual.round(1.0, 2.0)
    at, h = np.array([0.6, 0.2]), 1e-5
    steps = [at, *(at + sign * h * np.eye(2)[k] for k in (0, 1) for sign in (1, -1))]
    values, slopes, hessians = along.line(dual, np.array([[0.0, 0.0], *steps]))
    for k in (0, 1):
        up, down = 2 + 2 * k, 3 + 2 * k
        assert slopes[1, k] == pytest.approx((values[up] - values[down]) / (2 * h), rel=1e-4)
        bend = (slopes[up] - slopes[down]) / (2 * h)
        np.testing.assert_allclose(hessians[1, k], bend, rtol=1e-3, atol=1e-6 * abs(bend).max())
    if not intercept:  # with one the dual's value is taken where the variables are balanced
        before = dual.certificate().dual
        dual.commit(*at, keep=True)
        found = dual.certificate().dual
        assert 0.5 * (values[0] - values[1]) == pytest.approx(found - before, rel=1e-9)


@pytest.mark.parametrize("storage", ["dense", "csr", "pattern"])
def test_a_threshold_of_zero_changes_nothing(storage):
    """Kernels with and without a threshold make the same sums; those of dense rows in any order."""
    from daskglm.kernels.coordinate_ascent import sweep
    from daskglm.kernels.records import read_only
    from daskglm.losses.table import law_of
    from daskglm.worker.schedule import ALL_ROWS

    X, y = make_problem(300, 20, sparse=storage != "dense", seed=1)
    rows, labels = X, read_only(y.astype(np.int8))
    if storage != "dense":
        rows = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    if storage == "pattern":
        rows = np.array([0.5]), *rows[1:]
    rows = read_only(rows) if storage == "dense" else tuple(map(read_only, rows))
    found = []
    for threshold in (None, 0.0, 0.1):
        alpha, v = np.zeros(300), np.zeros(21)
        none = np.empty(0)
        for key in (1, 2):
            sweep(
                law_of(LossRef("logistic")), (rows, labels, read_only(none)), v,
                (0.1, 1.0, 0.2, 1.0, threshold),
                (alpha, none, none, np.empty(0, np.uint8)), (-np.inf, np.inf),
                (ALL_ROWS, 0, 300, 4, key, 0, 75),
            )  # fmt: skip
        found.append(np.append(alpha, v))
    np.testing.assert_allclose(found[0], found[1], rtol=0.0 if storage != "dense" else 1e-12)
    assert not np.allclose(found[0], found[2], rtol=1e-3)


@pytest.mark.parametrize("strength", [0.0, np.array([1.0, 2.0])])
def test_penalties_without_one_strength_are_refused(strength):
    X, y = make_problem(30, 2)
    usual = elastic_net(X, y, "logistic")
    objective = Objective(
        usual.engine,
        usual.problem,
        usual.loss,
        C=1.0,
        fit_intercept=False,
        penalty=Penalty.ridge(2, 2, strength),
    )
    with pytest.raises(ValueError, match=r"one strength above 0 .* solver of the primal"):
        dual_of(objective, SDCAConfig())
