"""The races of penalised fits: the judge, the tables, and that races can be drawn and stored."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.penalties import judge, problems
from benchmarks.penalties.__main__ import _records
from benchmarks.penalties.races import CONTESTANTS, RACES
from benchmarks.penalties.report import best_values, excess, reached, table
from tests.penalised_reference import solve

SMALL = {"net-path-folds": 400, "poisson-l1": 2000, "gamma-path": 2000, "lasso-susy": 1000}


@pytest.mark.parametrize("name", RACES)
def test_alphas_begin_where_coefficients_do(name):
    race = RACES[name]
    assert {"daskglm", *race.peers} <= set(CONTESTANTS)
    if race.draw in ("news20", "criteo"):
        return  # too many columns for a test of a second
    problem = race.make(500, seed=3)
    assert len(problem.alphas) == race.values
    assert np.all(np.diff(problem.alphas) < 0)
    if race.alpha is None:
        assert problem.alphas[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_judge_prefers_the_optimum(name):
    problem = RACES[name].make(SMALL[name], seed=0)
    alpha = float(problem.alphas[len(problem.alphas) // 2])
    problem = dataclasses.replace(problem, alphas=np.array([alpha]))
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    X, y = X.astype(float), problem.y.astype(float)
    found = solve(X, y, problem.family, alpha=alpha, l1_ratio=problem.l1_ratio)
    least = judge.objectives(problem, [found.coef], [found.intercept])[0]
    assert least == pytest.approx(found.objective, rel=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = found.coef + rng.normal(size=len(found.coef)) * 1e-3
        assert judge.objectives(problem, [w], [found.intercept])[0] > least
    if problem.family == "gaussian":
        assert judge.gaussian_gap(problem, alpha, found.coef, found.intercept) < 1e-9
        worse = judge.objectives(problem, [w], [found.intercept])[0]
        gap = judge.gaussian_gap(problem, alpha, w, found.intercept)
        assert gap >= (worse - least) / worse * 0.999


def test_the_largest_alpha_leaves_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) + 1.0
    for family, y in (
        ("gaussian", X[:, 0] + rng.normal(size=200)),
        ("poisson", rng.poisson(np.exp(0.3 * X[:, 0])).astype(float)),
        ("gamma", rng.gamma(2.0, np.exp(0.3 * X[:, 0]))),
        ("binomial", np.where(rng.random(200) < 0.3, 1.0, -1.0)),
    ):
        for intercept in (True, False):
            largest = problems.largest_alpha(X, y, family, 0.5, intercept)
            targets = (y + 1) / 2 if family == "binomial" else y
            given = {"l1_ratio": 0.5, "fit_intercept": intercept}
            assert not solve(X, targets, family, alpha=1.0001 * largest, **given).coef.any()
            assert solve(X, targets, family, alpha=0.99 * largest, **given).coef.any()


@pytest.mark.parametrize("name", ["lasso-higgs", "rcv1-l1-10"])
def test_a_stored_problem_is_the_same(name, tmp_path):
    problem = RACES[name].make(50, seed=1)
    problems.store(problem, tmp_path / "problem")
    again = problems.read(tmp_path / "problem")
    assert abs(again.X - problem.X).max() == 0
    for field in dataclasses.fields(problem):
        if field.name != "X":
            assert np.all(getattr(again, field.name) == getattr(problem, field.name))


@pytest.mark.slow
def test_scikit_learn_takes_part(tmp_path):
    """In a process of its own; the others do so in environments of theirs."""
    problem = RACES["lasso-higgs"].make(500, seed=1)
    problems.store(problem, tmp_path / "problem")
    request = {"contestant": "sklearn cd", "folder": str(tmp_path / "problem"), "threads": 1}
    request |= {"tols": [1e-2, 1e-10], "best": None}
    ready, loose, tight = _records(request, sys.executable, 60.0)
    assert "scikit-learn" in ready["versions"]
    assert loose["values"][0] >= tight["values"][0]
    found = solve(problem.X, problem.y.astype(float), "gaussian", alpha=problem.alpha)
    # its coefficients are in float32
    assert tight["values"][0] == pytest.approx(found.objective, rel=1e-6)


def test_who_does_not_take_part_says_why(tmp_path):
    problem = RACES["poisson-l1"].make(500, seed=1)
    problems.store(problem, tmp_path / "problem")
    request = {"contestant": "sklearn", "folder": str(tmp_path / "problem"), "threads": 1}
    (record,) = _records(request | {"tols": [1e-2], "best": None}, sys.executable, 60.0)
    assert "L1" in record["refused"]


def test_tables_have_the_fastest_that_all_runs_reached():
    def line(tol, seconds, value):
        found = {"tol": tol, "seconds": seconds, "values": [value, 2.0], "said": f"{tol:g}"}
        return found | {"beyond_mb": 10.0}

    rounds = [[line(1e-2, 1.0, 1.5), line(1e-4, 3.0, 1.0)], [line(1e-4, 5.0, 1.0)]]
    runs = {"daskglm": rounds, "late": [[]]}
    best = best_values(runs)
    assert best == [1.0, 2.0]
    assert excess(rounds[0][0], best) == 0.5
    assert reached(rounds, best, 1e-3)["seconds"] == 4.0
    assert reached([[]], best, 1e-3) is None
    shown = table("a race", 100.0, runs, {"late": "a fit took more than 60 s"})
    assert "| daskglm | 4.000 | 4.000 | 1.0 |" in shown
    assert "10 MB (10%)" in shown
    assert "| late | - | - | | | | a fit took more than 60 s |" in shown
    assert json.loads(json.dumps(best)) == best
