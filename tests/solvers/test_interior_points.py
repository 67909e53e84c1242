"""Interior points after an ascent, or from the start: what they end, and where they are not for."""

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.core.requests import Problem, SDCAConfig
from daskglm.data.blocks import Place, to_block
from daskglm.duals.dual import Dual
from daskglm.engines.local import Local
from daskglm.losses.table import find
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.interior_points import interior_points, takes_interior_points

LOSSES = ["hinge", "quantile(0.3)", "epsilon_insensitive(0.1)"]


def rows(n, d, loss, seed=0, decay=2.0):
    """Rows that are much alike: epochs of coordinate ascent are slow at large C."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1.0, 10.0**-decay, d)
    z = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return X, np.where(z > 0.0, 1.0, -1.0) if loss == "hinge" else z


def dual_of(X, y, loss, C=1.0, *, intercept=True, blocks=1, weight=None):
    known, parts = find(loss), np.array_split(np.arange(len(y)), blocks)
    placed = [
        to_block(
            X[part],
            y[part],
            None if weight is None else weight[part],
            classify=known.classifies,
            place=Place(k),
        )
        for k, part in enumerate(parts)
    ]
    problem = Problem(known.ref, 1 if known.classifies else None)
    objective = Objective(Local(placed, 1), problem, known, C=C, fit_intercept=intercept)
    return Dual(objective, np.zeros(X.shape[1] + intercept), SDCAConfig(partitions=1), 0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("blocks", [1, 3])
def test_every_point_is_certified_and_the_last_one_is_the_optimum(loss, intercept, blocks):
    X, y = rows(90, 60, loss)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 2.0], len(y))
    dual = dual_of(X, y, loss, 10.0, intercept=intercept, blocks=blocks, weight=weight)
    dual.start_point()
    dual.round(1.0, 1.0)
    dual.commit(1.0)
    values, lower = [], []
    for iterate in interior_points(dual):
        assert iterate.point.gap is not None
        values.append(iterate.point.value)
        lower.append(dual.lower)
        assert dual.met.primal >= dual.met.dual * (1.0 - 1e-12)
    assert (np.diff(values) <= 0.0).all()
    assert (np.diff(lower) >= 0.0).all()
    assert values[-1] - lower[-1] <= 1e-9 * values[-1]
    # the dual variables are those of the highest value, and an ascent may go on
    assert dual.met.dual == pytest.approx(dual.lower, rel=1e-12)
    dual.round(1.0, 1.0)
    dual.commit(1.0)
    assert dual.certificate().dual >= dual.lower * (1.0 - 1e-9)


@pytest.mark.filterwarnings("ignore:sdca stopped before tol")
@pytest.mark.parametrize("loss", LOSSES)
def test_an_ascent_that_is_slow_ends_by_them(loss):
    X, y = rows(300, 280, loss, decay=3.0)
    how = {"loss": loss, "C": 1e3, "solver": "sdca", "random_state": 0, "max_iter": 400}
    report = daskglm.fit(X, y, tol=1e-6, **how).report_
    assert report.converged
    assert report.solver == "sdca+interior"
    alone = daskglm.fit(X, y, tol=1e-6, solver_options={"polish": False}, **how).report_
    assert report.passes < alone.passes
    assert report.objective <= alone.objective * (1.0 + 1e-6)


@pytest.mark.parametrize("loss", LOSSES[1:])
def test_proximal_points_of_few_rows_begin_by_them(loss, monkeypatch):
    X, y = rows(400, 150, loss, decay=3.0)
    how = {"loss": loss, "C": 10.0, "solver": "proximal", "tol": 1e-8}
    inside = daskglm.fit(X, y, **how).report_
    monkeypatch.setattr(costs, "FEW_ROWS", 0.0)
    before = daskglm.fit(X, y, **how).report_
    assert inside.converged
    assert inside.passes < before.passes
    assert inside.objective <= before.objective * (1.0 + 1e-8)


def test_what_they_leave_open_is_for_others(monkeypatch):
    """Where a step cannot be made the variables are those before, or zero."""
    X, y = rows(60, 40, "hinge")
    dual = dual_of(X, y, "hinge")
    dual.start_point()
    asked = []

    def nothing(way):
        asked.append(way)
        return {"moved": False, "left": np.inf}

    monkeypatch.setattr(dual, "step_inside", nothing)
    assert not list(interior_points(dual))
    assert asked == ["begin", "best"]
    assert not dual.v.any()


def test_many_rows_or_an_l1_part_or_a_smooth_loss_do_without():
    X, y = rows(300, 100, "hinge")
    assert takes_interior_points(dual_of(X, y, "hinge"))
    assert not takes_interior_points(dual_of(X[:, :50], y, "hinge"))
    assert not takes_interior_points(dual_of(X, y, "squared_hinge"))
    sparse = daskglm.fit(X, y, loss="hinge", solver="sdca", l1_ratio=0.5, random_state=0, C=1.0)
    assert "interior" not in sparse.report_.solver


def test_rows_out_of_memory_do_without():
    X, y = rows(200, 100, "hinge")
    parts = da.from_array(X, chunks=(50, 100)), da.from_array(y, chunks=50)
    report = daskglm.fit(*parts, loss="hinge", solver="sdca", random_state=0, max_iter=50).report_
    assert "interior" not in report.solver
