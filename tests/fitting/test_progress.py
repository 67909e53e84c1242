"""Progress bars: silent unless asked, or in a terminal."""

import numpy as np

import daskglm
from tests.conftest import make_problem

X, y = make_problem(900, 6)
CS = [0.01, 1.0, 30.0]
FAR = (np.array([3.0, -2.0, 4.0, 1.0, -3.0, 2.0]), 2.0)  # several steps away


def test_a_progress_bar_is_drawn(capfd):
    daskglm.fit(X, y, C=CS, tol=1e-10, warm_start=FAR, progress=True)
    assert "problems together" in capfd.readouterr().err


def test_progress_is_silent_unless_asked(capsys):
    daskglm.fit(X, y)
    assert capsys.readouterr() == ("", "")
    daskglm.fit(X, y, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "newton" in err
