"""Problems that nothing was tuned to: every loss of theirs is warmed up, fitted and evaluated."""

import subprocess
import sys

import pytest

from benchmarks.contestants import CONTESTANTS
from benchmarks.suites import evaluate
from benchmarks.unseen.__main__ import Side
from benchmarks.unseen.problems import PROBLEMS, raw_counts


@pytest.mark.parametrize("loss", sorted({problem.loss for problem in PROBLEMS}))
def test_a_side_of_daskglm_takes_the_loss(loss):
    X, y = raw_counts(300, 0)
    contestant = CONTESTANTS["daskglm-auto"]
    ours = contestant.load()
    given = {"fit_intercept": False, "threads": 1, **contestant.options, "loss": loss, "C": 0.1}
    ours.warm_up(X, y, **given, tol=1e-4)
    coef, intercept, info = ours.fit(X, y, **given, tol=1e-6)
    assert info["relative_gap"] <= 1e-6
    value = evaluate.objective(X, y, coef, intercept, loss=loss, C=0.1)
    assert 0.0 < value < evaluate.objective(X, y, 0.9 * coef, intercept, loss=loss, C=0.1)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_rivals_take_the_loss(problem):
    for name in problem.peers:
        assert problem.loss in CONTESTANTS[name].losses


@pytest.mark.parametrize(
    ("does", "limit", "said"),
    [
        ("time.sleep(100)", 0.3, {"refused": "> 0.3 s"}),
        ("pass", 100.0, {"refused": "its process ended"}),
        ("print('{\"seconds\": 1.0}')", 100.0, {"seconds": 1.0}),
    ],
)
def test_a_process_that_does_not_answer_in_time_is_ended(does, limit, said):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", f"import time; input(); {does}"]
    with subprocess.Popen(command, **pipes) as process:
        assert Side("rival", process, limit).fit(1e-6) == said
