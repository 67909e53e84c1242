"""Newton's method for many problems under the driver: records, callbacks, limits, starts."""

import math

import numpy as np
import pytest

import daskglm
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.batched import BatchObjective, ProblemBatch
from daskglm.solvers.batched_newton import batched_newton
from tests.conftest import make_problem, objective

X, y = make_problem(900, 6)
CS = [0.01, 1.0, 30.0]
FAR = (np.array([3.0, -2.0, 4.0, 1.0, -3.0, 2.0]), 2.0)  # several steps away


def test_a_path_calls_back_and_keeps_a_history():
    records = []
    path = daskglm.fit(X, y, C=CS, tol=1e-10, warm_start=FAR, callback=records.append)
    history = path[0].report_.history
    assert history == records
    assert len(history) > 3
    assert [record["iteration"] for record in history] == list(range(len(history)))
    assert all(model.report_.history == history for model in path)
    objectives = [record["objective"] for record in history]
    assert objectives == sorted(objectives, reverse=True)
    assert objectives[-1] == pytest.approx(sum(model.report_.objective for model in path))
    assert history[-1]["relative_gap"] == max(model.report_.relative_gap for model in path)
    assert max(model.report_.n_iter for model in path) == len(history) - 1
    assert history[0]["passes"] < history[-1]["passes"] <= path[0].report_.passes
    assert history[-1]["rounds"] <= path[0].report_.rounds


def test_a_callback_stops_all_problems():
    with pytest.warns(match="3 of 3 problems stopped .* the callback asked to stop"):
        path = daskglm.fit(X, y, C=CS, tol=1e-12, warm_start=FAR, callback=lambda record: True)
    for model in path:
        assert not model.report_.converged
        assert len(model.report_.history) == 1


def test_cross_validation_calls_back():
    records = []
    model = daskglm.LogisticRegressionCV(Cs=CS, cv=3, tol=1e-10).fit(X, y, callback=records.append)
    assert model.report_.history == records  # of the folds, then of the best C on all rows
    assert [record["iteration"] for record in records].count(0) == 2


def test_an_iteration_limit_counts_steps():
    for most in (0, 1, 2):
        with pytest.warns(match="problems stopped before tol"):
            path = daskglm.fit(X, y, C=CS, tol=1e-12, warm_start=FAR, max_iter=most)
        assert len(path[0].report_.history) == most + 1
        assert max(model.report_.n_iter for model in path) <= most


@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_a_path_starts_where_it_is_told(solver):
    options = {"C": CS, "tol": 1e-9, "solver": solver}
    path = daskglm.fit(X, y, **options)
    again = daskglm.fit(X, y, warm_start=path, **options)
    assert max(model.report_.n_iter for model in again) <= 1
    assert again[0].report_.passes <= path[0].report_.passes
    for model in daskglm.fit(X, y, warm_start=path[1], **options):
        assert model.report_.converged


def test_errors_of_coefficients_are_bounded():
    for C, model in zip(CS, daskglm.fit(X, y, C=CS, tol=1e-6, warm_start=FAR), strict=True):
        best = daskglm.fit(X, y, C=C, tol=1e-13)
        error = np.linalg.norm(model.coef_ - best.coef_) / np.linalg.norm(model.coef_)
        assert error <= model.report_.coefficient_error < math.inf
        told = objective(X, y, model.coef_, model.intercept_, C, "logistic")
        assert model.report_.objective == pytest.approx(told)


def test_steps_without_a_pass_lead_where_gap_and_value_are_known_to_the_tolerance():
    loss, tol, many = LOSSES["logistic"], 1e-11, 40
    engine = Local(partitions(X, y, classify=True).load())
    batched = BatchObjective(
        engine, Problem(loss.ref), loss, (1.0,), (-1.0, 1.0), fit_intercept=True
    )
    batch = ProblemBatch(np.zeros(many, int), np.full(many, -1), np.ones(many))
    model = daskglm.fit(X, y, tol=1e-13)
    away = np.logspace(-5, 0, many)[:, None] * np.random.default_rng(0).standard_normal(7)
    starts = np.append(model.coef_, model.intercept_) + away
    point = next(batched_newton(batched, batch, starts, tol=tol, resumed=True)).point
    taken = point.n_iter == 1
    assert 0 < taken.sum() < many
    values = [objective(X, y, w[:6], w[6], 1.0, "logistic") for w in point.w[taken]]
    np.testing.assert_allclose(point.values[taken], values, rtol=tol)
    assert (point.gaps[taken] <= tol).all()
    engine.close()
