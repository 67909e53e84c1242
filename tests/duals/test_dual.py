"""Dual variables: the shared vector, primal and dual values in every mode."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskglm.core.requests import DualTotals, Problem, SDCAConfig
from daskglm.data.partitions import partitions
from daskglm.duals.dual import Dual
from daskglm.duals.intercept import value_at_zero
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective, tokens
from tests.conftest import make_problem
from tests.covering import each_choice

NAMES = ["logistic", "hinge", "squared_hinge", "smoothed_hinge", "squared", "huber", "quantile"]
NAMES += ["epsilon_insensitive", "squared_epsilon_insensitive"]


def dual_of(X, y, loss, plan, *, C=1.0, seed=0, weight=None):
    kind = LOSSES[loss]
    engine = Local(partitions(X, y, weight, classify=kind.classifies).load(), threads=2)
    problem = Problem(kind.ref, 1.0 if kind.classifies else None)
    objective = Objective(engine, problem, kind, C=C, fit_intercept=False)
    return Dual(objective, np.zeros(X.shape[1]), plan, seed)


def read_again(dual):
    """X' C alpha as the rows have it."""
    return dual.objective.ask(DualTotals(dual.ref(), dual.v, next(tokens)))["own"]


MODES = [
    SDCAConfig(partitions=1),
    SDCAConfig(partitions=2),
    SDCAConfig(partitions=5, bucket=8),
    SDCAConfig(partitioning="static", partitions=3),
    SDCAConfig(nodes=2, partitions=4),
    SDCAConfig(partitions=2, epochs=3),
    SDCAConfig(partitions=1, bucket=4),
]


@each_choice
@pytest.mark.parametrize("plan", MODES, ids=str)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", NAMES)
def test_shared_vector_primal_and_dual(loss, sparse, plan):
    """After every round v = X' C alpha to rounding, primal >= dual, and one partition never lets the dual fall."""
    X, y = make_problem(300, 6, loss=loss, sparse=sparse, seed=3)
    dual = dual_of(X, y, loss, plan)
    groups, parts = dual.shape()
    last = -np.inf
    for _ in range(6):
        totals = dual.round(float(groups), float(parts))
        dual.commit(1.0)
        assert np.isfinite(totals["gap"])
        v = dual.v.copy()
        np.testing.assert_allclose(v, read_again(dual), rtol=1e-10, atol=1e-10 * np.abs(v).max())
        found = dual.certificate()
        scale = abs(found.primal) + abs(found.dual)
        assert found.primal >= found.dual - 1e-12 * scale
        assert found.dual >= last - 1e-12 * scale  # safe sigma': in every one of these modes
        last = found.dual


@given(
    st.integers(2, 40),
    st.integers(1, 6),
    st.sampled_from(NAMES),
    st.integers(0, 10**6),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=40, deadline=None)
def test_dual_never_falls_in_sequential_mode(n, d, loss, seed, C):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.exponential(size=d) * 10.0 ** rng.integers(-2, 3)
    y = rng.standard_normal(n) if loss == "squared" else np.where(np.arange(n) % 2, 1.0, -1.0)
    dual = dual_of(X, y, loss, SDCAConfig(partitions=1), C=C, seed=seed)
    last = -np.inf
    for _ in range(5):
        dual.round(1.0, 1.0)
        dual.commit(1.0)
        found = dual.certificate()
        scale = abs(found.primal) + abs(found.dual)
        assert found.primal >= found.dual - 1e-11 * scale
        assert found.dual >= last - 1e-11 * scale
        last = found.dual


@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_rounding_is_a_part_of_the_gap(loss):
    X, y = make_problem(200, 4, loss=loss)
    dual = dual_of(X, y, loss, SDCAConfig(partitions=1))
    dual.start_point()
    for _ in range(60):
        dual.round(1.0, 1.0)
        dual.commit(1.0)
    point = dual.certified_point()
    rounding = dual._rounding()
    assert rounding > 1e-16 * point.value
    assert point.gap == pytest.approx(max(point.value - dual.lower, 0.0) + rounding, rel=1e-9)


def test_least_squares_at_zero_has_the_best_intercept():
    X, y = make_problem(50, 3, loss="squared")
    weight = np.random.default_rng(0).random(50) + 0.5
    engine = Local(partitions(X, y, weight, classify=False).load(), threads=1)
    objective = Objective(
        engine,
        Problem(LOSSES["squared"].ref),
        LOSSES["squared"],
        C=2.0,
        fit_intercept=True,
        sides=(float(weight.sum()), 0.0),
    )
    value, best = value_at_zero(objective, np.array([0.0, 0.0, 0.0, 3.0]))
    mean = weight @ y / weight.sum()
    assert best == pytest.approx(mean, rel=1e-12)
    assert value == pytest.approx(weight @ (y - mean) ** 2, rel=1e-12)
