"""Dual ascent for the elastic net: the optimum in long double, wherever the rows are."""

from itertools import groupby

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from benchmarks.datasets.topics import topics_like
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.fitting.driver import StoppingRule, solve
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers.hybrid import sdca_then_newton
from daskglm.solvers.proximal_newton import passes_left
from daskglm.solvers.workload import Workload
from tests.conftest import make_problem
from tests.covering import covering
from tests.extending.joined_engines import JoinedEngines
from tests.objectives.with_l1 import SLOPES, best_of, elastic_net, l1_and_ridge, value
from tests.solvers.ascents import rows


def solved(objective, tol=1e-9, max_iter=3000, start=None, *, polish=False, **options):
    """Solve by the ascent alone, unless another solver may take over."""
    w = objective.origin if start is None else start
    iterates = sdca_then_newton(objective, w, tol=tol, random_state=0, polish=polish, **options)
    return solve(objective, iterates, StoppingRule(tol, max_iter))


def problem(loss, storage, C=0.2, dtype=np.float64):
    """Rows of which two features count, weights, and a fifth of the least strength that leaves none."""
    X, _ = make_problem(500, 6, sparse=storage != "dense", seed=5, dtype=dtype)
    if storage == "pattern":
        X.data[:] = 1.0
    rng = np.random.default_rng(0)
    z = X @ np.array([0.8, -0.7, 0.0, 0.0, 0.0, 0.0]) + 0.2
    y = np.sign(z + rng.logistic(scale=0.5, size=len(z)))
    if loss in ("squared", "poisson"):
        y = z + rng.standard_normal(len(z)) if loss == "squared" else 1.0 * rng.poisson(np.exp(z))
    weight = rng.exponential(size=len(y)) * (np.arange(len(y)) % 7 > 0)
    slopes = C * weight * SLOPES[loss](y, np.zeros(len(y)))
    return X, y, weight, 0.2 * np.abs(X.T @ slopes).max()


@covering(
    aggregation=["auto", "adaptive"],
    intercept=[False, True],
    storage=["dense", "csr", "pattern"],
    loss=["logistic", "squared", "squared_hinge", "poisson"],
)
def test_same_optimum_as_in_long_double(loss, storage, intercept, aggregation):
    X, y, weight, l1 = problem(loss, storage)
    strengths = {"weight": weight, "C": 0.2, "strength": 0.6, "l1": l1}
    objective = elastic_net(X, y, loss, fit_intercept=intercept, **strengths)
    # rounding ends the proof of the Poisson fit at about 1e-10, and its last digits come slowly
    tol = 1e-7 if loss == "poisson" else 1e-9
    found = solved(objective, tol=tol, aggregation=aggregation, partitions=3)
    best = best_of(X, y, loss, fit_intercept=intercept, **strengths)
    assert found.reason.converged
    w, optimum = found.point.w, value(X, y, best, loss, **strengths)
    assert found.point.value == pytest.approx(value(X, y, w, loss, **strengths), rel=1e-12)
    assert -1e-12 <= (found.point.value - optimum) / optimum <= found.relative_gap <= tol
    np.testing.assert_allclose(w, best, atol=1e-3 * np.abs(best).max())
    assert {record["solver"] for record in found.history} == {"sdca"}
    assert 0 < np.sum(best[:6] == 0.0) < 6
    np.testing.assert_array_equal(w[:6] == 0.0, best[:6] == 0.0)


@pytest.mark.parametrize("intercept", [False, True])
def test_hinge(intercept):
    """Against a quadratic program of the same problem in w = p - m and slacks."""
    from scipy.optimize import minimize

    X, y = make_problem(40, 3, seed=2)
    strengths = {"C": 0.3, "strength": 0.5, "l1": 0.8}
    objective = elastic_net(X, y, "hinge", fit_intercept=intercept, **strengths)
    found = solved(objective, tol=1e-6, max_iter=20_000)
    assert found.reason.converged

    def whole(u):
        return 0.25 * (u[:3] - u[3:6]) @ (u[:3] - u[3:6]) + 0.8 * u[:6].sum() + 0.3 * u[7:].sum()

    def slope(u):
        pull = 0.5 * (u[:3] - u[3:6])
        return np.concatenate([0.8 + pull, 0.8 - pull, [0.0], np.full(40, 0.3)])

    hold = y[:, None] * np.c_[X, -X, np.full(40, float(intercept)), np.diag(y)]
    best = minimize(
        whole,
        np.append(np.zeros(7), np.ones(40)),
        jac=slope,
        method="SLSQP",
        bounds=[(0, None)] * 6 + [(None, None)] + [(0, None)] * 40,
        constraints={"type": "ineq", "fun": lambda u: hold @ u - 1.0, "jac": lambda u: hold},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert best.success
    assert found.point.value == pytest.approx(
        value(X, y, found.point.w, "hinge", **strengths), rel=1e-12
    )
    assert -1e-8 <= found.point.value / best.fun - 1.0 <= 1e-6


@pytest.mark.parametrize(
    "options",
    [
        {"aggregation": "safe"},
        {"aggregation": "search", "local_epochs": 2},
        {"partitioning": "static"},
        {"partitioning": "wild", "threads": 1},
        {"bucket_size": 4, "nodes": 2},
        {"shrinking": True},
    ],
    ids=str,
)
def test_other_modes(options):
    X, y, weight, l1 = problem("squared_hinge", "csr")
    strengths = {"weight": weight, "C": 0.2, "l1": l1}
    objective = elastic_net(X, y, "squared_hinge", fit_intercept=True, **strengths)
    found = solved(objective, tol=1e-6, **options)
    best = best_of(X, y, "squared_hinge", fit_intercept=True, **strengths)
    optimum = value(X, y, best, "squared_hinge", **strengths)
    assert found.reason.converged
    assert -1e-12 <= found.point.value / optimum - 1.0 <= found.relative_gap <= 1e-6


def test_all_coefficients_zero():
    """Beyond the strength at which any coefficient moves, w = 0 is proved to be the optimum."""
    X, y = make_problem(300, 5)
    slope = np.abs(X.T @ (y / 2 - y.mean() / 2)).max()
    found = solved(elastic_net(X, y, "logistic", l1=1.01 * slope, fit_intercept=True))
    assert found.reason.converged
    assert not found.point.w[:5].any()


def test_a_warm_start():
    X, y, _, _ = problem("logistic", "dense")
    objective = elastic_net(X, y, "logistic", l1=3.0, fit_intercept=True)
    cold = solved(objective)
    warm = solved(objective, start=cold.point.w)
    assert warm.reason.converged
    assert warm.point.value == pytest.approx(cold.point.value, rel=2e-9)
    assert len(warm.history) < len(cold.history)


def test_proximal_newton_takes_over():
    """Where that costs less than the epochs left, as of columns that vary little about their means."""
    X, y = make_problem(400, 8, seed=1)
    X[:, :3] += 1e3
    objective = elastic_net(X, y, "logistic", C=1e3, l1=50.0, fit_intercept=True)
    alone = solved(objective, tol=1e-7, max_iter=100)
    assert not alone.reason.converged
    found = solved(objective, tol=1e-7, polish=None)
    assert found.reason.converged
    assert [by for by, _ in groupby(r["solver"] for r in found.history)] == [
        "sdca",
        "proximal_newton",
    ]
    assert found.cost.passes < 30
    best = best_of(X, y, "logistic", C=1e3, l1=50.0, fit_intercept=True)
    optimum = value(X, y, best, "logistic", C=1e3, l1=50.0)
    assert -1e-12 <= found.point.value / optimum - 1.0 <= 1e-7


def test_many_coefficients_that_little_holds_are_left_to_the_ascent():
    """Models of these take hundreds of products, in which few steps of the ascent end."""
    data = make_problem(400, 8, seed=1)
    weak, strong = (Workload.of(elastic_net(*data, "logistic", C=C)) for C in (100.0, 0.1))
    assert passes_left(strong, 8) < 20
    assert passes_left(weak, 8) > 2 * passes_left(strong, 8)
    assert passes_left(strong, 800) > 2 * passes_left(strong, 8)


@pytest.mark.slow
@pytest.mark.parametrize(("l1_ratio", "share"), [(0.7, 3e-4), (0.9, 1e-2)])
def test_text_with_most_words_is_left_to_the_ascent(l1_ratio, share):
    """60,000 rows were handed over, and took 105 and 443 passes for 23 and 32."""
    X, y = topics_like(20_000, 3)
    C = 1.0 / (share * np.abs(X.T @ (0.5 * np.sign(y))).max())
    how = {"solver": "sdca", "l1_ratio": l1_ratio, "C": C, "random_state": 0, "n_jobs": 1}
    report = daskglm.fit(X, y, fit_intercept=False, tol=1e-6, **how).report_
    assert report.converged
    assert report.passes <= 40


# ---- wherever the rows are
FIT = {"solver": "sdca", "random_state": 0, "C": 0.02, "l1_ratio": 0.6}
ALONE = {"polish": False}
STRENGTHS = {"C": 0.02, "strength": 0.4, "l1": 0.6}
AT_MEANS = {"C": 0.1, "strength": 0.4, "l1": 0.6}


def assert_optimal(X, y, model, loss="logistic", *, tol, **strengths):
    """A fit's coefficients are within its gap of the optimum, and some but not all of them are zero."""
    w = np.append(model.coef_, model.intercept_)
    assert 0 < np.sum(w == 0.0) < len(w) - 1
    best = best_of(X, y, loss, fit_intercept=True, **strengths)
    found, optimum = (value(X, y, u, loss, **strengths) for u in (w, best))
    assert found == pytest.approx(model.report_.objective, rel=1e-9 if tol > 1e-7 else 1e-12)
    assert -1e-9 <= found / optimum - 1.0 <= model.report_.relative_gap <= tol


@pytest.mark.parametrize("aggregation", ["auto", "adaptive", "safe", "search"])
def test_two_workers(aggregation, client):
    X, y = make_problem(1500, 10, seed=1)
    options = {"aggregation": aggregation, **ALONE}
    model = daskglm.fit(*rows(X, y), tol=1e-7, solver_options=options, **FIT)
    assert model.report_.workers == 2
    assert model.report_.converged
    assert_optimal(X, y, model, tol=1e-7, **STRENGTHS)


def test_rows_of_workers_come_here_before_proximal_newton_takes_over(tmp_path, client):
    class Killed(BaseException):
        pass

    def kill(record):
        if record["solver"] == "proximal_newton":
            raise Killed

    X, y = make_problem(1500, 10, seed=1)
    X[:, :3] += 1e3
    how = {"solver": "sdca", "random_state": 0, "C": 0.1, "l1_ratio": 0.6, "tol": 1e-7}
    model = daskglm.fit(*rows(X, y), **how)
    assert model.report_.converged
    assert model.report_.solver == "sdca+proximal_newton"
    assert model.report_.rounds <= 20  # one for each epoch until the rows come, none after
    assert_optimal(X, y, model, tol=1e-7, **AT_MEANS)
    checkpoint = {"checkpoint": tmp_path / "c", "checkpoint_every": 1}
    with pytest.raises(Killed):
        daskglm.fit(*rows(X, y), callback=kill, **checkpoint, **how)
    rest = daskglm.fit(*rows(X, y), resume=tmp_path / "c", **how)
    assert rest.report_.solver == "proximal_newton"
    assert_optimal(X, y, rest, tol=1e-7, **AT_MEANS)


def test_lost_dual_variables_are_rebuilt(monkeypatch):
    from daskglm.worker.dual_state import DualWorker

    X, y = make_problem(1500, 10, seed=1)
    answer, calls = DualWorker.answer, []

    def forgetful(self, law, request, caches):
        calls.append(type(request).__name__)
        if calls.count("DualRound") in (4, 8) and calls[-1] == "DualRound":
            for cache in caches[::2]:
                cache.dual = None
        return answer(self, law, request, caches)

    monkeypatch.setattr(DualWorker, "answer", forgetful)
    model = daskglm.fit(*rows(X, y), tol=1e-8, solver_options=ALONE, **FIT)
    assert calls.count("DualRound") >= 8
    assert_optimal(X, y, model, tol=1e-8, **STRENGTHS)


def test_out_of_core(monkeypatch):
    X, y = make_problem(1500, 10, seed=1)
    monkeypatch.setattr("daskglm.engines.factory.memory_left", lambda: 3 * 2 * 30_000)
    lazy = da.from_array(X, chunks=(250, 10)), da.from_array(y, chunks=250)
    model = daskglm.fit(*lazy, tol=1e-7, out_of_core=True, solver_options=ALONE, **FIT)
    assert model.report_.converged
    assert_optimal(X, y, model, tol=1e-7, **STRENGTHS)


def test_a_killed_fit_resumes(tmp_path):
    class Killed(BaseException):
        pass

    def kill(record):
        if record["iteration"] == 4:
            raise Killed

    X, y = make_problem(1500, 10, seed=1)
    how = {"tol": 1e-9, "solver_options": ALONE, **FIT}
    whole = daskglm.fit(X, y, **how)
    with pytest.raises(Killed):
        daskglm.fit(X, y, checkpoint=tmp_path / "c", checkpoint_every=1, callback=kill, **how)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **how)
    assert rest.report_.converged
    assert rest.report_.resumed == 4
    assert rest.report_.passes < whole.report_.passes
    assert_optimal(X, y, rest, tol=1e-9, **STRENGTHS)
    # the first point is the saved one, certified: its gap lies where estimates had it
    gap = whole.report_.history[4]["relative_gap"]
    assert rest.report_.history[0]["relative_gap"] < 20 * gap


@covering(0, storage=["dense", "csr", "pattern"], loss=["logistic", "squared"])
def test_on_a_device(loss, storage, cupy, monkeypatch):
    X, y, _, l1 = problem(loss, storage, C=0.3, dtype=np.float32)
    y = y.astype(np.float32)
    given = {"loss": loss, "tol": 1e-6, "device": "cuda", "solver": "sdca", "random_state": 0}
    given |= {"solver_options": ALONE}
    ratio = l1 / (1.0 + l1)
    strengths = {"C": 0.3 * (1.0 - ratio), "strength": 1.0 - ratio, "l1": ratio}
    model = daskglm.fit(X, y, C=strengths["C"], l1_ratio=ratio, **given)
    assert model.report_.converged
    assert_optimal(X.astype(float), y.astype(float), model, loss, tol=1e-6, **strengths)


def test_proximal_newton_takes_over_on_a_device(cupy):
    X, y = make_problem(400, 8, seed=1, dtype=np.float32)
    X[:, :3] += 100.0
    how = {**FIT, "C": 10.0, "device": "cuda", "tol": 1e-6}
    model = daskglm.fit(X, y, **how)
    assert model.report_.converged
    assert model.report_.solver == "sdca+proximal_newton"
    assert model.report_.objective == pytest.approx(
        daskglm.fit(X, y, **{**how, "device": "cpu", "solver": "auto"}).report_.objective, rel=2e-6
    )


def test_the_dual_never_falls_on_a_device(cupy, monkeypatch):
    from daskglm.core.requests import SDCAConfig
    from daskglm.duals import along
    from daskglm.duals.dual import Dual
    from daskglm.worker.device_placement import DeviceConfig

    monkeypatch.setenv("TWIN_THREADS", "4")
    X, y = make_problem(300, 20, dtype=np.float32)
    objective = elastic_net(X, y, "logistic", C=10.0, l1=20.0, where=DeviceConfig("cuda"))
    start = objective.xp.zeros(20)
    dual, last = Dual(objective, start, SDCAConfig(threads=16, partitions=2), seed=3), 0.0
    for _ in range(8):
        totals = dual.round(1.0, 1.0)
        dual.commit(along.share_that_rises(dual, 1.0, totals))
        found = dual.certificate()
        assert found.dual >= last - 1e-11 * found.primal
        assert found.primal >= found.dual
        last = found.dual
    assert last > 0.0


@covering(0, groups=[2, 1, 4], l1=[1.0, 0.0])
def test_groups_agree_on_an_intercept(l1, groups):
    """Rows with little in common: with a longer step of the intercept two groups take over 200 rounds."""
    rng = np.random.default_rng(3)
    X = sp.random(1500, 10000, 0.01, random_state=3, format="csr")
    X.data[:] = 1.0
    z = X @ (rng.standard_normal(10000) * (rng.random(10000) < 0.05))
    y = z + 0.5 * z.std() * rng.logistic(size=1500) > 0.5
    kind, (positive, negative) = LOSSES["logistic"], (float(y.sum()), float((~y).sum()))
    loaded = [partitions(X[k::4], y[k::4], None, classify=True).load()[0] for k in range(4)]
    objective = Objective(
        JoinedEngines.of_blocks(loaded, groups),
        Problem(kind.ref, 1.0),
        kind,
        C=1.0,
        fit_intercept=True,
        penalty=l1_and_ridge(10_000, 10_001, strength=1.0, l1=l1),
        sides=(positive, negative),
    )
    found = solved(objective, tol=1e-6, max_iter=200)
    print(len(found.history), found.relative_gap)
    assert found.relative_gap <= 1e-6
    assert len(found.history) <= 60
