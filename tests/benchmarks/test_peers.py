"""Each peer's objective is ours: what it returns on small sets is judged by the benchmarks' own judge."""

import json
import os
import subprocess
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from benchmarks.contestants import CONTESTANTS, select
from benchmarks.penalties import races as penalties
from benchmarks.suites import environments, evaluate
from tests.benchmarks.peer_check import C, small

ROOT = Path(__file__).resolve().parents[2]
MODULES = {  # what an environment must be able to import
    "scikit_learn": "sklearn",
    "liblinear": "liblinear",
    "snap_ml": "snapml",
    "glum_regressor": "glum",
    "skglm_lbfgs": "skglm",
    "dask_algorithms": "dask_glm",
    "h2o_server": "h2o",
    "spark_mllib": "pyspark",
    "torch_optim": "torch",
    "cuml_logistic": "cuml",
}
REACHED = {  # suboptimality that a peer's own stopping rule or its float32 coefficients allow; others: 1e-6
    "dask-glm-proximal_grad": 1e-2,  # takes steps that lower the loss, whatever the penalty
    "dask-glm-admm": 1e-5,
    "snapml-dual": 1e-5,
    "snapml-primal": 1e-5,
    "torch-gd": 1e-5,
}
UNPENALISED = (
    "dask-glm-newton",
    "dask-glm-gradient_descent",
    "dask-ml-newton",
    "dask-ml-newton-cluster",
)


def key(name):
    contestant = CONTESTANTS[name]
    return contestant.module, contestant.environment or ""


GROUPS = {
    group: list(names)
    for group, names in groupby(
        sorted((n for n, c in CONTESTANTS.items() if not c.ours), key=key), key=key
    )
}


def run_there(environment, *arguments, seconds=250):
    path = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = [environments.interpreter(environment or None), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | path, timeout=seconds
    )


@pytest.mark.parametrize(
    "group",
    [  # glum imports what takes a minute
        pytest.param(
            group,
            id=group[1] or group[0],
            marks=pytest.mark.nightly if group[1] == "glum" else (),
        )
        for group in GROUPS
    ],
)
@pytest.mark.slow
def test_peers_solve_our_problem(group):
    module, environment = group
    found = run_there(environment, "-c", f"import {MODULES[module]}")
    if found.returncode:
        pytest.skip(
            f"{MODULES[module]} is missing; to install it: {environments.how_to_install(environment)}"
        )
    done = run_there(environment, "-m", "tests.benchmarks.peer_check", *GROUPS[group])
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert {answer["name"] for answer in answers} == set(GROUPS[group])
    solved = {
        answer["name"] for answer in answers if "coef" in answer and not answer["fit_intercept"]
    }
    assert solved == set(GROUPS[group])  # each takes problems without intercept
    for answer in answers:
        if "not applicable" in answer:
            continue
        X, y = small(answer["sparse"])
        loss = answer["loss"]
        best = evaluate.reference(X, y, loss=loss, C=C, fit_intercept=answer["fit_intercept"])
        coef, intercept = np.array(answer["coef"]), answer["intercept"]
        if answer["name"] in UNPENALISED:
            z = X @ coef
            gradient = X.T @ (y / (1 + np.exp(y * z)))  # of the loss alone: their optimum, C or not
            assert np.linalg.norm(gradient) < 1e-2 * np.linalg.norm(X.T @ y), answer
            continue
        value = evaluate.objective(X, y, coef, intercept, loss=loss, C=C)
        assert evaluate.suboptimality(value, best.objective) < REACHED.get(answer["name"], 1e-6), (
            answer
        )


def test_a_missing_peer_says_how_to_install_it(monkeypatch):
    from benchmarks.suites import single_run as one
    from benchmarks.suites.definitions import Problem

    absent = CONTESTANTS["cuml-qn"]._replace(module="no_such_file")
    monkeypatch.setattr(
        one.memory, "limit", lambda processes: None
    )  # it would last for the tests that follow
    problem = Problem("breast_cancer", None, 0, None, "logistic", 1.0, False)
    record = one.run(problem, absent, 1e-3, 1, None)
    assert record["status"] == "missing"
    assert record["reason"].endswith("to install it: benchmarks/peers.sh cuml")


def test_environments_are_those_that_were_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    (tmp_path / "glum" / "bin").mkdir(parents=True)
    here = environments.interpreter(None)
    assert environments.interpreter("glum") == here  # half installed
    (tmp_path / "glum" / ".done").touch()
    assert environments.interpreter("glum") == str(tmp_path / "glum" / "bin" / "python")
    pins = ROOT / "benchmarks" / "peers"
    known = [*CONTESTANTS.values(), *penalties.CONTESTANTS.values()]
    assert {c.environment for c in known if c.environment} == {
        path.stem for path in pins.glob("*.txt")
    }
    for path in pins.glob("*.txt"):
        assert all("==" in line for line in path.read_text().split()), path


def test_select_knows_names_packages_and_first_parts():
    offered = ("sklearn-lbfgs", "sklearn-sag", "glum-irls", "daskglm-auto")
    assert select(["sklearn"], offered) == ("sklearn-lbfgs", "sklearn-sag")
    assert select(["scikit-learn", "glum-irls"], offered) == (
        "sklearn-lbfgs",
        "sklearn-sag",
        "glum-irls",
    )
    assert select(["glum-lbfgs", "glum"], offered) == ("glum-lbfgs", "glum-irls")
    assert select(["snapml"], offered) == (
        "snapml-dual",
        "snapml-primal",
    )  # none is offered: all there are
    assert set(select(["all"], offered)) == set(CONTESTANTS)
    with pytest.raises(ValueError, match="lightgbm"):
        select(["lightgbm"], offered)
