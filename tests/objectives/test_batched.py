"""Bounds of many problems, and where their steps lead."""

import itertools

import numpy as np
import pytest

import daskglm
from daskglm.core.requests import LossRef, Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.batched import BatchObjective, ProblemBatch
from tests.conftest import make_problem, objective


def test_the_excess_that_is_told_is_not_less_than_the_truth():
    X, y = make_problem(seed=2)
    engine = Local(partitions(X, y, classify=True).load())
    batched = BatchObjective(
        engine,
        Problem(LossRef("logistic")),
        LOSSES["logistic"],
        (1.0,),
        (-1.0, 1.0),
        fit_intercept=True,
    )
    best = daskglm.fit(X, y, tol=1e-13).report_.objective
    one = ProblemBatch(np.zeros(1, int), np.array([-1]), np.ones(1))
    rng = np.random.default_rng(0)
    told = []
    for near, far in itertools.product((0.0, 0.01, 0.3), (0.0, 0.01, 0.3)):
        model = daskglm.fit(X, y, tol=1e-13)
        w = np.append(model.coef_, model.intercept_)[None] + near * rng.standard_normal((1, 8))
        at = w + far * rng.standard_normal((1, 8))
        factor = batched.factor(at[0], batched.evaluate(one, at, np.array([0])).hessians[0])
        found = batched.evaluate(one, w, np.empty(0, int), factors=[factor])
        error = batched.rounding.gradient(w[0], float(found.values[0]), C=1.0, weight=float(len(y)))
        excess = batched.rounding.by_hessian(
            factor, found.gradients[0], error, float(found.moved[0])
        )
        assert excess >= float(found.values[0]) - best - 1e-10
        assert found.moved[0] >= np.abs(np.c_[X, np.ones(len(X))] @ (at - w)[0]).max() - 1e-12
        told.append(excess)
    assert told[4] < 0.2  # near and nearby: informative, too
    engine.close()


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
def test_where_a_step_leads_is_told_before_rows_are_read_there(loss):
    X, y = make_problem(20_000, 5, loss=loss, seed=2)
    rows = partitions(X, y, classify=LOSSES[loss].classifies).load()
    classes, labels = ((1.0,), (-1.0, 1.0)) if LOSSES[loss].classifies else ((), ())
    batched = BatchObjective(
        Local(rows), Problem(LOSSES[loss].ref), LOSSES[loss], classes, labels, fit_intercept=True
    )
    model = daskglm.fit(X, y, loss=loss, tol=1e-12)
    one, best = ProblemBatch(np.zeros(1, int), np.array([-1]), np.ones(1)), model.report_.objective
    rng, told = np.random.default_rng(0), []
    for far in (1e-3, 1e-2, 0.1, 1.0, 10.0):
        w = np.append(model.coef_, model.intercept_) + far * rng.standard_normal(6)
        found = batched.evaluate(one, w[None], np.array([0]))
        factor = batched.factor(w, found.hessians[0])
        step, square = factor.step(found.gradients[0])
        value, error, gap = batched.ahead(one[0], factor, float(found.values[0]), step, square)
        told.append(gap)
        if loss == "squared_hinge":  # its curvature jumps
            assert gap == np.inf
            continue
        true = float(batched.evaluate(one, (w + step)[None], np.empty(0, int)).values[0])
        assert abs(true - value) <= error + 1e-12 * best
        assert gap >= true / best - 1.0 - 1e-12
    assert loss == "squared_hinge" or told[0] < 1e-9
    assert loss != "logistic" or told[-1] == np.inf
    batched.engine.close()


def test_steps_that_are_certain_cost_no_pass():
    X, y = make_problem(20_000, 5, loss="squared")
    Cs = np.logspace(-3, 3, 20)
    models = daskglm.fit(X, y, C=Cs, loss="squared")
    assert models[0].report_.passes < 4.0
    for C, model in zip(Cs, models, strict=True):
        assert model.report_.objective == pytest.approx(
            objective(X, y, model.coef_, model.intercept_, C, "squared")
        )
        np.testing.assert_allclose(
            model.coef_, daskglm.fit(X, y, C=C, loss="squared", tol=1e-12).coef_, atol=1e-7
        )
