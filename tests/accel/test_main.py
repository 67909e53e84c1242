"""Programs run under `python -m daskglm.accel`, and the report that they end with."""

import logging
import subprocess
import sys

import numpy as np
import pytest
from sklearn import linear_model

from daskglm import accel
from daskglm.accel.tally import Tally

PROGRAM = """
import sys
import beside
from sklearn.linear_model import Lasso, Ridge
X = [[0.0, 1.0], [1.0, 0.5], [2.0, 3.0], [3.0, 0.0]]
print(__name__, sys.argv[1:], beside.NAME)
print(Ridge().fit(X, [0.0, 1.0, 2.0, 3.0]).coef_.round(6))
Lasso(alpha=0.1, warm_start=True).fit(X, [0.0, 1.0, 2.0, 3.0])
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    return tmp_path


def run(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "daskglm.accel", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("program", [("program.py",), ("-m", "program")], ids=["script", "module"])
def test_a_program_runs_as_the_main_one_with_its_arguments(folder, program):
    code, lines, said = run(folder, "--verbose", *program, "--one", "2")
    assert code == 0, said
    assert lines[0] == "__main__ ['--one', '2'] beside"
    expected = linear_model.Ridge().fit([[0, 1], [1, 0.5], [2, 3], [3, 0]], [0, 1, 2, 3])
    assert lines[1] == str(expected.coef_.round(6))
    assert "daskglm.accel: Lasso: scikit-learn's own fit is called: warm_start=True" in said
    assert "daskglm.accel: 1 fits taken, 1 fallen back" in said
    assert "  Ridge: 1 taken (" in said
    assert "saved" not in said


def test_options_are_those_before_the_program(folder):
    code, lines, said = run(folder, "--quiet", "program.py", "--compare")
    assert (code, said) == (0, "")
    assert lines[0] == "__main__ ['--compare'] beside"
    code, _, said = run(folder, "--compare", "program.py")
    assert code == 0
    assert "; scikit-learn " in said
    assert " s, saved " in said
    code, lines, said = run(folder)
    assert code == 2
    assert "which script?" in said


def test_importing_the_package_imports_no_proxies():
    program = (
        "import daskglm, sys; daskglm.LogisticRegression; assert 'daskglm.accel' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_reasons_are_counted_and_told_once(caplog):
    tally = Tally()
    assert tally.text() == "daskglm.accel: no fit was called"
    with caplog.at_level(logging.INFO, "daskglm.accel"):
        for _ in range(3):
            tally.fall("Lasso", "a reason")
        tally.fall("Ridge", "a reason")
    assert len(caplog.messages) == 2
    tally.take("Ridge", 1.0)
    tally.take("Lasso", 1.0, theirs=3.0)
    assert tally.text().splitlines() == [
        "daskglm.accel: 2 fits taken, 4 fallen back",
        "  Lasso: 1 taken (1 s; scikit-learn 3 s, saved 2 s), 3 fallen back",
        "    3 x a reason",
        "  Ridge: 1 taken (1 s), 1 fallen back",
        "    1 x a reason",
    ]
    tally.clear()
    assert tally.text() == "daskglm.accel: no fit was called"


def test_a_comparison_fits_scikit_learns_beside_ours():
    accel.install(compare=True)
    try:
        model = linear_model.Ridge().fit(np.eye(4), np.arange(4.0))
        told = accel.report()
    finally:
        accel.uninstall()
    assert model.coef_.shape == (4,)
    assert "1 fits taken, 0 fallen back" in told
    assert "saved" in told
