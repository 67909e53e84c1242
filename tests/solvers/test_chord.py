"""Steps of Newton's method by the Hessian of another point."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.core.facts import DataSummary
from daskglm.solvers import costs
from daskglm.solvers.chord import Chord
from daskglm.solvers.newton import newton
from daskglm.solvers.workload import Workload
from tests.solvers.problems import decaying, make_objective, problem

CHORD = Chord(tol=1e-6, hessian=10.0, most=20.0, saves=True, keep=True)


def long_rows(n=1500, d=400, decay=0.5):
    """Rows so long that a Hessian costs dozens of passes."""
    return decaying(n, d, decay)


@pytest.fixture
def grams(monkeypatch):
    """Which points of all rows were evaluated with a Hessian."""
    from daskglm.objectives.primal import Objective

    seen, at = [], Objective.at

    def recorded(self, w, **how):
        if not self.is_sample:
            seen.append(how.get("gram", False))
        return at(self, w, **how)

    monkeypatch.setattr(Objective, "at", recorded)
    return seen


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_one_or_two_hessians_lead_to_the_optimum_that_more_do(grams, monkeypatch, loss, tol):
    X, y = long_rows()
    y = {"logistic": y, "poisson": np.exp(0.1 * y)}[loss]
    known = {"loss": loss, "C": 0.1, "tol": tol}
    model = daskglm.fit(X, y, solver="newton", **known)
    few = sum(grams)
    assert model.report_.converged
    assert 1 <= few < 0.5 * len(grams)

    grams.clear()
    monkeypatch.setattr(costs, "LEAST_CHORDS", math.inf)
    plain = daskglm.fit(X, y, solver="newton", **known)
    assert sum(grams) == len(grams) > few
    for each in (model, plain):
        assert each.report_.relative_gap <= tol
    assert model.report_.objective == pytest.approx(plain.report_.objective, rel=2.0 * tol)


def test_a_proof_that_wants_a_hessian_has_one_at_the_last_point(grams):
    """Without a penalty there is no other."""
    rng = np.random.default_rng(0)
    levels, X = rng.integers(0, 3000, 60_000), rng.standard_normal((60_000, 40))
    counts = rng.poisson(np.exp(0.2 * X[:, 0] + 0.2 * rng.standard_normal(3000)[levels] + 1.0))
    table = pd.DataFrame(X).assign(level=pd.Categorical(levels.astype(str)))
    table.columns = table.columns.astype(str)
    model = daskglm.PoissonRegressor(alpha=0, tol=1e-8, solver="newton").fit(table, counts)
    assert model.report_.converged
    assert 0.0 < model.report_.relative_gap <= 1e-8
    assert grams[-1]
    assert 2 <= sum(grams) <= 4 < len(grams)


def test_rows_on_workers_take_as_many_hessians(grams, monkeypatch, client):
    """Of rows this few a round costs as much as a Hessian, so that by themselves they keep none."""
    monkeypatch.setattr(costs, "LEAST_CHORDS", 0.0)
    monkeypatch.setattr(costs, "HESSIANS_LEFT", math.inf)
    X, y = long_rows()
    here = daskglm.fit(X, y, solver="newton", C=0.1)
    few, steps = sum(grams), len(grams)
    there = daskglm.fit(X, y, solver="newton", C=0.1, client=client)
    assert sum(grams) <= 2 * few + 1
    assert len(grams) <= 2 * steps + 4
    assert there.report_.objective == pytest.approx(here.report_.objective, rel=1e-6)


def test_a_step_that_leads_too_far_ends_at_a_point_with_its_hessian(grams):
    X, y = long_rows(n=600, d=200, decay=1.0)
    far = np.full(X.shape[1], 3.0)
    model = daskglm.fit(X, y, C=100.0, solver="newton", warm_start=(far, [0.0]), tol=1e-8)
    best = daskglm.fit(X, y, C=100.0, solver="tron", tol=1e-8)
    assert model.report_.converged
    assert model.report_.objective == pytest.approx(best.report_.objective, rel=2e-8)


# ---- when a step needs no Hessian
@pytest.fixture(scope="module")
def point():
    """The start of a fit, whose bound is far above what is wanted."""
    obj = make_objective(n=200, d=5)
    return next(newton(obj, np.zeros(obj.size))).point


def test_steps_go_on_while_they_end_sooner_than_hessians(point):
    fall = point.value
    assert CHORD.suffices(point, fall, rate=0.05)
    assert not CHORD.suffices(point, fall, rate=0.6), "more steps than they are worth"
    assert not CHORD.suffices(point, fall, rate=1.5), "they lead nowhere"
    assert not CHORD.suffices(point, fall, rate=0.0)
    assert not replace(CHORD, tol=1e9).suffices(point, fall, 0.05), "it is good enough"
    assert not replace(CHORD, most=3.0).suffices(point, fall, 0.05)


def test_the_last_step_has_a_hessian_if_the_bound_alone_is_far(point):
    near = 2e-6 * point.value
    assert not CHORD.suffices(point, near, rate=0.3), "its bound would take 14 steps, a Hessian 10"
    assert CHORD.suffices(point, near, rate=0.01), "its bound takes 4"
    assert CHORD.suffices(point, 1e3 * near, rate=0.3), "it is not the last one"


@pytest.mark.parametrize(
    "changes",
    [
        {"quadratic": True},
        {"has_ends": True},
        {"samples": False},
        {"outputs": 3},
        {"jumps": True},  # with three rows for each feature
        {"summary": DataSummary(3_000, 20, nonzeros=60_000, nbytes=480_000)},
    ],
)
def test_hessians_are_kept_only_where_old_ones_serve_and_save(changes):
    summary = DataSummary(3_000, 1_000, nonzeros=3_000_000, nbytes=24_000_000)
    known = Workload(summary, 1_000, curvature_ratio=10.0)
    assert known.keeps_hessians
    assert not replace(known, **changes).keeps_hessians
    many = replace(summary, n_rows=100_000, nonzeros=10**8, nbytes=8 * 10**8)
    assert replace(known, jumps=True, summary=many).keeps_hessians, (
        "sums over many rows hardly jump"
    )


def test_foreseen_costs_know_that_hessians_are_kept(monkeypatch):
    from daskglm.solvers.newton import cost, from_here

    X, y = sp.random(3_000, 900, 0.02, format="csr", random_state=0), np.tile([-1.0, 1.0], 1_500)
    workload = Workload.of(problem(X, y))
    kept, rest = cost(workload), from_here(workload, 0.5)
    assert rest < kept
    monkeypatch.setattr(costs, "LEAST_CHORDS", math.inf)
    assert kept < cost(workload)
