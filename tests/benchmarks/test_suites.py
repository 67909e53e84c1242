"""The benchmarks' own parts: generator, judge, rivals, runner, report. No times are compared here."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from scipy.optimize import check_grad

from benchmarks.__main__ import main
from benchmarks.contestants import CONTESTANTS, LOSSES
from benchmarks.datasets import problems
from benchmarks.reports import goals, outcomes
from benchmarks.reports import page as report
from benchmarks.suites import evaluate, memory, runner
from benchmarks.suites.definitions import GOALS, SUITES, Case, Problem, Suite


def small(sparse: bool = False):
    random = np.random.default_rng(5)
    X = random.standard_normal((60, 4))
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + random.standard_normal(60) > 0.3, 1.0, -1.0)
    return (sp.csr_matrix(np.where(abs(X) < 0.5, 0, X)) if sparse else X), y


# ---- data
@pytest.mark.parametrize("block_rows", [999, 10_000, 25_001])
def test_generated_rows_do_not_depend_on_blocks(block_rows):
    X, y = problems.higgs_like(25_001, seed=3)
    blocks = list(problems.higgs_like_blocks(25_001, block_rows, seed=3))
    np.testing.assert_array_equal(np.concatenate([Xb for Xb, _ in blocks]), X)
    np.testing.assert_array_equal(np.concatenate([yb for _, yb in blocks]), y)
    np.testing.assert_array_equal(problems.higgs_like(1_000, seed=3)[0], X[:1_000])
    assert not np.array_equal(problems.higgs_like(1_000, seed=4)[0], X[:1_000])


def test_generated_rows_look_like_higgs():
    X, y = problems.higgs_like(50_000)
    assert X.shape == (50_000, 28)
    assert X.dtype == np.float32
    assert X.flags.c_contiguous
    assert set(np.unique(y)) == {-1.0, 1.0}
    assert 0.51 < (y > 0).mean() < 0.55
    for j in problems.TAGS:
        assert len(np.unique(X[:, j])) == 3
    assert (X[:, problems.MOMENTA] > 0).all()
    found = evaluate.reference(X[:40_000], y[:40_000], loss="logistic", C=1.0, fit_intercept=True)
    right = (X[40_000:] @ found.coef + found.intercept > 0) == (y[40_000:] > 0)
    assert 0.62 < right.mean() < 0.66


def test_the_dask_versions_hold_the_same_rows():
    X, y = problems.higgs_like(2_500)
    frame = problems.higgs_like_dask(2_500, 3)
    assert frame.npartitions == 3
    assert (frame.dtypes.iloc[:-1] == np.float32).all()
    local = frame.compute(scheduler="sync")
    np.testing.assert_array_equal(local.iloc[:, :-1].to_numpy(), X)
    np.testing.assert_array_equal(2.0 * local["label"] - 1, y)
    Xd, yd = problems.higgs_like_dask(2_500, 3, as_frame=False)
    np.testing.assert_array_equal(Xd.compute(scheduler="sync"), X)
    np.testing.assert_array_equal(yd.compute(scheduler="sync"), y)


def test_cache_gives_back_what_it_got(tmp_path, monkeypatch):
    X, y = small(sparse=True)
    monkeypatch.setattr(problems, "_real", lambda name: (X, y))
    for _ in range(2):
        again, labels = problems.load("a9a", cache=tmp_path)
        assert isinstance(again, sp.csr_matrix)
        assert (again != X).nnz == 0
        np.testing.assert_array_equal(labels, y)


def test_absent_sets_are_unavailable_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("DASKGLM_DATA", str(tmp_path))
    problems._loader.cache_clear()
    with pytest.raises(problems.Unavailable, match="DASKGLM_DATA"):
        problems.load("a9a")
    problems._loader.cache_clear()


# ---- the judge
FORMULAS = {
    "logistic": lambda y, z: np.log(1 + np.exp(-y * z)),
    "squared_hinge": lambda y, z: np.clip(1 - y * z, 0, None) ** 2,
    "squared": lambda y, z: (z - y) ** 2 / 2,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sparse", [False, True])
def test_objective_is_the_formula(loss, sparse, monkeypatch):
    X, y = small(sparse)
    w, b = np.array([0.3, -0.1, 2.0, 0.7]), -0.4
    direct = 0.5 * w @ w + 3.0 * FORMULAS[loss](y, X @ w + b).sum()
    monkeypatch.setattr(evaluate, "BLOCK_NUMBERS", 28)  # several blocks
    assert evaluate.objective(X, y, w, b, loss=loss, C=3.0) == pytest.approx(direct, rel=1e-14)


def test_objective_survives_large_margins():
    X, y = np.array([[1e3], [1e3]]), np.array([1.0, -1.0])
    assert evaluate.objective(X, y, np.ones(1), 0.0, loss="logistic", C=1.0) == pytest.approx(
        1000.5, rel=1e-15
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_reference_is_a_stationary_point(loss, fit_intercept):
    X, y = small()
    exact, iterative = (
        evaluate.reference(X, y, loss=loss, C=2.0, fit_intercept=fit_intercept, dense=dense)
        for dense in (1_000, 0)
    )
    assert exact.objective == pytest.approx(iterative.objective, rel=1e-13)
    assert exact.decrement <= 1e-13
    f = {"loss": loss, "C": 2.0}
    for j in range(5 if fit_intercept else 4):
        for step in (-1e-3, 1e-3):
            w = np.append(exact.coef, exact.intercept)
            w[j] += step
            assert evaluate.objective(X, y, w[:4], w[4], **f) > exact.objective


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_of_the_judge(loss):
    X, y = small()
    arguments = (loss, 2.0, True)
    error = check_grad(
        lambda w: evaluate._evaluate(X, y, w, *arguments)[0],
        lambda w: evaluate._evaluate(X, y, w, *arguments)[1],
        np.array([0.1, -0.3, 0.2, 0.5, -0.1]),
    )
    assert error < 1e-4


# ---- the runner
@pytest.mark.nightly
def test_runs_in_fresh_processes_are_recorded(tmp_path):
    out = tmp_path / "runs.jsonl"
    arguments = [
        "run",
        "--quick",
        "--data",
        "breast_cancer",
        "--tol",
        "1e-3",
        "--repeats",
        "2",
        "--out",
        str(out),
    ]
    arguments += [
        "--peers",
        "sklearn-lbfgs,sklearn-ridge-auto",
        "--peers",
        "daskglm-newton,daskglm-auto-cluster",
    ]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["status"] for record in records] == [
        "ok",
        *["ok", "not applicable", "ok", "ok"],
        *["ok", "skipped", "ok", "ok"],
    ]
    assert [record["repeat"] for record in records[1:]] == [0] * 4 + [1] * 4
    run = records[3]
    assert run["contestant"] == "daskglm-newton"
    assert run["seconds"] > 0
    assert run["passes"] >= 1
    assert run["n"] == 569
    assert run["objective"] == pytest.approx(records[0]["objective"], rel=1e-3)
    written = report.write([out], tmp_path / "report")
    assert "not applicable: does not know logistic" in written.read_text()


def test_timeouts_and_crashes_are_answers():
    problem = Problem("higgs-like", 1_000, 0, None, "logistic", 1.0, False)
    request = {
        "what": "run",
        "problem": problem.fields(),
        "contestant": "sklearn-lbfgs",
        "tol": 1e-3,
    }
    assert runner.child(request, runner.Conditions(1, 0.05, ""))["status"] == "timeout"
    crash = runner.child({"what": "run", "problem": {}}, runner.Conditions(1, 60, ""))
    assert crash["status"] == "failed"
    assert "exit status 1" in crash["reason"]


def answered(monkeypatch, answer):
    """Let `answer(contestant, tol)` stand for the processes of the runner; the list of what it was asked."""
    asked = []

    def child(request, conditions, patience=1):
        if request["what"] == "reference":
            return {"status": "ok", "objective": 1.0}
        asked.append((request["tol"], request["contestant"]))
        return answer(request["contestant"], request["tol"])

    monkeypatch.setattr(runner, "child", child)
    return asked


def run_records(suite, tmp_path):
    out = tmp_path / "runs.jsonl"
    runner.run_suite(
        "x", suite, suite.problems(), out, runner.Conditions(1, 60, ""), say=lambda text: None
    )
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_runner_interleaves_and_gives_up(tmp_path, monkeypatch):
    lbfgs, sag = "sklearn-lbfgs", "sklearn-sag"

    def answer(contestant, tol):
        if contestant == sag and tol < 1e-2:
            return {"status": "timeout", "reason": "60 s"}
        return {"status": "ok", "seconds": 1.0, "objective": 1.0}

    asked = answered(monkeypatch, answer)
    suite = Suite((Case("breast_cancer"),), (lbfgs, sag), tols=(1e-2, 1e-4, 1e-6), repeats=2)
    statuses = [record["status"] for record in run_records(suite, tmp_path)]
    first = [(1e-2, lbfgs), (1e-2, sag), (1e-4, lbfgs), (1e-4, sag), (1e-6, lbfgs)]
    assert asked == [*first, (1e-2, lbfgs), (1e-2, sag), (1e-4, lbfgs), (1e-6, lbfgs)]
    assert len(statuses) == 1 + 12
    assert statuses.count("skipped") == 3


def test_runner_leaves_out_what_is_needless_and_says_so(tmp_path, monkeypatch):
    quick, slow = "daskglm-auto", "liblinear-s0"
    found = {
        quick: {0.1: 1.1, 1e-2: 1.0, 1e-3: 1.0},
        slow: {0.1: 1.1, 1e-2: 1.01, 1e-3: 1.001, 1e-4: 1.0001},
    }
    seconds = {quick: 1.0, slow: 30.0}
    asked = answered(
        monkeypatch,
        lambda who, tol: {"status": "ok", "seconds": seconds[who], "objective": found[who][tol]},
    )
    rules = {"once_above": 20.0, "last_above": 40.0, "enough": 1e-7}
    suite = Suite((Case("breast_cancer"),), (quick, slow), tols=None, repeats=2, **rules)
    monkeypatch.setitem(CONTESTANTS, slow, CONTESTANTS[slow]._replace(tols=(0.1, 1e-2, 1e-3)))
    records = run_records(suite, tmp_path)
    assert asked == [
        (0.1, quick),
        (0.1, slow),
        (1e-2, quick),
        (1e-2, slow),
        (1e-3, slow),
        (0.1, quick),
        (1e-2, quick),
    ]
    reasons = {
        (r["contestant"], r["repeat"], r["tol"]): r["reason"]
        for r in records
        if r["status"] == "skipped"
    }
    assert reasons[quick, 0, 1e-3] == "a looser tolerance gave a suboptimality below 1e-07"
    assert reasons[slow, 1, 1e-3] == "one run only, it took more than 20 s"
    asked.clear()
    seconds[slow] = 50.0
    records = run_records(replace(suite, repeats=1), tmp_path / "slower")
    assert [tol for tol, who in asked if who == slow] == [0.1]
    reasons = {
        (r["contestant"], r["tol"]): r["reason"] for r in records if r["status"] == "skipped"
    }
    assert reasons[slow, 1e-2] == "a looser tolerance took more than 40 s"


def test_memory_counts_descendants_and_forgets_peaks_that_were_reset():
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("no /proc: memory is not measured here")
    before = memory.resident_mb()
    code = "held = bytearray(b'x') * 80_000_000; print(1, flush=True); del held; print(2, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout.readline() == "1\n"
        assert child.stdout.readline() == "2\n"
        peak, resident = memory.peak_mb(), memory.resident_mb()
        assert peak > before + 76  # the child's, although it has let go
        assert resident < peak - 50
        assert memory.reset_peaks()
        assert memory.peak_mb() < peak - 50
        child.communicate("\n")


def test_only_one_process_holds_the_lock(tmp_path):
    with runner.locked(tmp_path / "lock"):
        code = (
            "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "lock")]
        assert "BlockingIOError" in subprocess.run(command, capture_output=True, text=True).stderr
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_suites_name_what_exists():
    for suite in SUITES.values():
        for problem, contestants in suite.problems().items():
            assert contestants
            assert set(contestants) <= set(CONTESTANTS)
            assert problem.data in problems.NAMES
            assert problem.loss in LOSSES
    goals = {(goal.data, goal.C) for goal in GOALS}
    assert goals <= {(problem.data, problem.C) for problem in SUITES["peers"].problems()}


# ---- report
def record(contestant, tol, seconds, objective, **more):
    problem = Problem("higgs-like", 1_000, 0, None, "logistic", 1.0, False)
    base = {
        "kind": "run",
        "status": "ok",
        **problem.fields(),
        "ours": contestant.startswith("daskglm"),
        "threads": 2,
    }
    base |= {
        "n": 1_000,
        "d": 28,
        "nnz": 28_000,
        "sparse": False,
        "stored_dtype": "float32",
        "commit": "abc",
        "load": 0.5,
    }
    base |= {
        "machine": {"cpu": "a cpu", "cores": 2, "memory_gb": 4},
        "versions": {"numpy": "2"},
        "date": "2026-01-02T03",
    }
    return base | {
        "contestant": contestant,
        "tol": tol,
        "seconds": seconds,
        "objective": objective,
        **more,
    }


def test_report_takes_the_fastest_setting_that_reaches_the_target(tmp_path):
    lines = [
        record("rival", 1e-2, 1.0, 100.05),
        record("rival", 1e-2, 3.0, 100.05),
        record("rival", 1e-2, 2.0, 100.05),
        record("rival", 1e-4, 4.0, 100.0),
        record("daskglm-newton", 1e-2, 1.0, 100.00001, passes=5.0, rounds=5, relative_gap=1e-5),
        record("slow", 1e-2, 0, 0) | {"status": "timeout", "reason": "no answer after 60 s"},
    ]
    runs = lines[:-1]
    found = outcomes.settings(runs, outcomes.best_known(runs))
    assert {name: setting.median for name, setting in outcomes.time_to(found, 1e-3).items()} == {
        "rival": 2.0,
        "daskglm-newton": 1.0,
    }
    assert outcomes.time_to(found, 1e-6)["rival"].tol == 1e-4
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    text = report.write([file], tmp_path / "out").read_text()
    assert "| daskglm-newton | 1 | 0.50 | 1 | 0.25 |" in text
    assert "| rival | 2 (1 - 3) | 1.00 | 4 | 1.00 |" in text
    assert "timeout: no answer after 60 s" in text
    assert len(list((tmp_path / "out").glob("*.png"))) == 1


def test_only_what_ran_at_several_commits_is_told_apart_by_them():
    runs = [
        record("daskglm-auto", 1e-2, 1.0, 100.0),
        record("daskglm-tron", 1e-2, 1.0, 100.0),
        record("daskglm-tron", 1e-2, 1.0, 100.0) | {"commit": "def"},
        record("rival", 1e-2, 1.0, 100.0) | {"commit": "def"},
    ]
    names = {setting.contestant for setting in outcomes.settings(runs, 100.0)}
    assert names == {"daskglm-auto", "daskglm-tron @abc", "daskglm-tron @def", "rival"}


def test_goals_take_the_fastest_peer_and_the_best_of_our_solvers():
    whole = {
        "data": "HIGGS",
        "rows": None,
        "rss_loaded_mb": 500.0,
        "peak_is_of_fit": True,
        "data_mb": 100.0,
    }

    def line(contestant, tol, seconds, objective, peak):
        return record(contestant, tol, seconds, objective) | whole | {"peak_rss_mb": peak}

    lines = [
        line("daskglm-auto", 1e-2, 1.0, 100.0, 510.0),
        line("daskglm-auto", 1e-2, 1.2, 100.0, 512.0),
        line("daskglm-newton", 1e-2, 0.8, 100.0, 510.0),
        line("glum-irls", 1e-2, 2.2, 100.05, 510.0),
        line("glum-irls", 1e-4, 7.7, 100.0, 510.0),
        line("sklearn-lbfgs", 1e-4, 9.0, 100.0, 510.0),
    ]
    parts = goals.page(
        [*lines, lines[0] | {"rows": 2_000, "objective": 1.0}]
    )  # a quick run is of another problem
    rows = parts[2].splitlines()
    assert (
        "| HIGGS, C = 1 | 1.1 | glum-irls 2.2 | 2.00 | 1 | 1.1 | glum-irls 7.7 | 7.00 | 6 | 1.38 | 12% |"
        in rows[2]
    )
    assert rows[2].endswith("| not auto |")
    assert rows[3].endswith("| not run |")
    assert "| glum-irls | 2.2 / 7.7 |" in parts[3]
    assert len(rows) == 2 + len(GOALS)
    assert goals.page([lines[0] | {"rows": 2_000}]) == []


def test_report_refuses_different_data_of_one_name(tmp_path):
    file = tmp_path / "runs.jsonl"
    lines = [record("rival", 1e-2, 1.0, 100.0), record("rival", 1e-2, 1.0, 50.0, n=999)]
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ValueError, match="different data"):
        report.write([file], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "figure", ["wild", "partitions", "threads", "scaling", "dealing", "buckets", "nodes", "pattern"]
)
def test_sdca_figures_write_a_table_and_a_picture(figure, tmp_path, monkeypatch):
    from benchmarks.papers.snap_ml import figures
    from benchmarks.papers.snap_ml.__main__ import main

    pytest.importorskip("matplotlib")
    monkeypatch.setattr(figures, "PARTITIONS", (1, 4))
    result = CliRunner().invoke(
        main, [figure, "--rows", "800", "--repeats", "1", "--threads", "2", "--out", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    (table,), (picture,) = tmp_path.glob("*.md"), tmp_path.glob("*.png")
    text = table.read_text()
    assert text.count("\n| ") >= 3
    assert "nan" not in text
    assert picture.stat().st_size > 5000


@pytest.mark.slow
def test_loss_on_rows_held_out_is_of_coefficients_from_the_others(tmp_path):
    """Figure 6's processes: train on the first four fifths, judge on the last."""
    problem = Problem("higgs-like", 2_000, 0, None, "logistic", 1.0, False)
    request = {
        "what": "run",
        "problem": problem.fields(),
        "contestant": "daskglm-newton",
        "tol": 1e-9,
        "held_out": 0.2,
    }
    found = runner.child(request, runner.Conditions(2, 60, str(tmp_path)))
    X, y = problems.load("higgs-like", rows=2_000)
    best = evaluate.reference(X[:1_600], y[:1_600], loss="logistic", C=1.0, fit_intercept=False)
    assert found["objective"] == pytest.approx(best.objective, rel=1e-8)
    expected = np.logaddexp(0, -y[1_600:] * (X[1_600:] @ best.coef)).mean()
    assert found["test_loss"] == pytest.approx(expected, rel=1e-4)
