"""Which solver `auto` takes: by costs that depend on nothing but the data summary, and a trial."""

import ast
import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs, get_solver, solver_names
from daskglm.solvers.selection import choose, trial
from daskglm.solvers.workload import Workload

SOLVERS = Path(costs.__file__).parent


def workload(n=100_000, d=100, per_row=None, **changes):
    per_row = d if per_row is None else per_row
    summary = DataSummary(n, d, nonzeros=n * per_row, sparse=per_row < d)
    known = {"curvature_ratio": 1.0, **changes}
    return Workload(summary, d, **known)


def passes(name, *args, **kwargs):
    return get_solver(name).cost(workload(*args, **kwargs))


def problem(X, y, loss="logistic", C=1.0, engine=Local):
    rows = engine(partitions(X, y, None, classify=LOSSES[loss].classifies).load())
    positive = 1.0 if LOSSES[loss].classifies else None
    return Objective(
        rows, Problem(LOSSES[loss].ref, positive), LOSSES[loss], C=C, fit_intercept=False
    )


def decaying(n, d, decay=1.0, seed=0):
    """Dense rows whose covariance has eigenvalues k ** (-2 decay), and noisy labels."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    X = (rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -decay) @ rotation
    X /= X.std()
    return X, np.sign(X @ rng.standard_normal(d) + rng.standard_normal(n))


# ---- costs
def test_costs_depend_on_the_workload_alone():
    for name, d in itertools.product(solver_names(), (10, 500, 5000)):
        spec = get_solver(name)
        if spec.cost is not None:
            assert spec.cost(workload(d=d)) == spec.cost(workload(d=d)) > 0.0


def test_no_module_of_the_solvers_reads_a_clock():
    for path in SOLVERS.glob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        assert not names & {"time", "perf_counter", "monotonic", "timeit"}, path.name


def test_newton_costs_more_for_longer_rows_and_nothing_finite_beyond_the_largest_hessian():
    assert passes("newton", d=50) < passes("newton", d=500) < passes("newton", d=2000)
    assert passes("newton", d=costs.LARGEST_HESSIAN + 1) == math.inf
    assert passes("newton", n=300, d=20) == costs.NEWTON_STEPS, "small Hessians are free"
    assert passes("newton", n=2000, d=500, quadratic=True) < passes("newton", n=2000, d=500)


def test_dual_ascent_costs_more_for_heavy_rows_short_rows_and_tight_tolerances():
    easy = passes("sdca", d=10_000, per_row=100, curvature_ratio=0.1)
    assert easy < passes("sdca", d=10_000, per_row=100, curvature_ratio=2.0)
    assert easy < passes("sdca", d=10_000, per_row=5, curvature_ratio=0.1)
    assert easy < passes("sdca", d=10_000, per_row=100, curvature_ratio=0.1, tol=1e-9)
    assert passes("sdca", curvature_ratio=costs.EASY_RATIO * 1.01) == math.inf


def test_rounds_cost_passes_only_where_requests_leave_the_process():
    near, far = workload(), workload(remote=True)
    assert near.rounds(5) == 0.0 < far.rounds(1) < replace(far, workers=8).rounds(1)
    assert far.rounds(1) < replace(far, threads=64).rounds(1), "passes are shorter there"
    for name in ("newton", "tron", "lbfgs", "sdca"):
        assert passes(name, d=3000, per_row=30) <= passes(name, d=3000, per_row=30, remote=True)


def test_lbfgs_costs_what_a_trial_foresees_up_to_the_methods_that_take_over():
    tried = workload(d=500, trials={"lbfgs": 12.0})
    assert get_solver("lbfgs").cost(tried) == pytest.approx(12.0, rel=0.2)
    hopeless = replace(tried, trials={"lbfgs": math.inf})
    assert get_solver("lbfgs").cost(hopeless) > get_solver("newton").cost(hopeless)
    assert get_solver("lbfgs").cost(hopeless) < math.inf


# ---- the trial
@pytest.mark.parametrize(("decay", "C"), [(0.3, 0.1), (0.7, 1.0)])
def test_a_trial_foresees_the_iterations_of_lbfgs(decay, C):
    X, y = decaying(8000, 60, decay)
    asked = problem(X, y, C=C)
    foreseen = trial(asked, Workload.of(asked))
    taken = daskglm.fit(X, y, C=C, fit_intercept=False, solver="lbfgs", tol=1e-6).report_.n_iter
    assert taken / 1.6 <= foreseen <= 1.6 * taken


def test_equal_fits_choose_equally():
    X, y = decaying(3000, 400)
    assert len({choose(problem(X, y)) for _ in range(3)}) == 1


def test_lbfgs_hands_over_to_newton_once_that_would_have_cost_as_much(monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(costs, "LBFGS_PASSES", 4.0)
    asked = problem(X, y, "squared_hinge", C=1e3)
    certain = get_solver("newton").cost(Workload.of(asked))
    points = get_solver("lbfgs").run(asked, np.zeros(asked.size), automatic=True)
    seen = []
    for point in itertools.islice(points, 60):
        seen.append((point.by, asked.passes))
        if point.by == "newton" and point.resume():
            assert point.resume() == {"by_newton": True}
    stages = [by for by, _ in itertools.groupby(by for by, _ in seen)]
    assert stages == ["", "tron", "newton"]
    began = next(spent for by, spent in seen if by == "newton")
    assert certain <= began <= 2.0 * certain + 60.0


def test_lbfgs_goes_on_where_its_end_is_nearer_than_that_of_the_next_method(monkeypatch):
    X, y = decaying(3000, 40, 0.1)
    alone = daskglm.fit(X, y, solver="lbfgs", fit_intercept=False).report_.passes
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(costs, "LBFGS_PASSES", alone - 2.0)
    monkeypatch.setattr("daskglm.fitting.runner.choose", lambda *_: ("lbfgs", "for the test"))
    assert daskglm.fit(X, y, fit_intercept=False).report_.solver == "lbfgs"
    monkeypatch.setattr(costs, "WORTH_ENDING", 0.0)
    assert daskglm.fit(X, y, fit_intercept=False).report_.solver != "lbfgs"


def test_a_solve_handed_over_resumes_with_newton(tmp_path, monkeypatch):
    X, y = decaying(1500, 60, 1.5)
    monkeypatch.setattr(costs, "SMALL_SECONDS", 0.0)
    monkeypatch.setattr(costs, "LBFGS_PASSES", 4.0)
    monkeypatch.setattr("daskglm.fitting.runner.choose", lambda *_: ("lbfgs", "for the test"))
    fit = {"loss": "squared_hinge", "C": 1e3, "fit_intercept": False, "tol": 1e-9}
    whole = daskglm.fit(X, y, **fit)
    assert whole.report_.solver == "lbfgs+tron+newton"
    first = next(
        k for k, record in enumerate(whole.report_.history) if record["solver"] == "newton"
    )
    with pytest.warns(ConvergenceWarning):
        daskglm.fit(X, y, max_iter=first + 1, checkpoint=tmp_path, checkpoint_every=1, **fit)
    resumed = daskglm.fit(X, y, resume=tmp_path, **fit)
    assert resumed.report_.converged
    assert resumed.report_.solver == "newton"
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-4, atol=1e-8)


def test_wide_rows_of_few_values_have_no_trial():
    X = sp.random(200, 5000, 0.01, format="csr", random_state=0)
    asked = problem(X, np.arange(200) % 2)
    assert Workload.of(asked).trial_share == 0.0
    assert choose(asked)[0] == "tron"
