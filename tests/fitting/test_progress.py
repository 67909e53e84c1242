"""Progress bars: silent unless asked, or in a terminal."""

import sys

import numpy as np

import daskglm
from daskglm.fitting import progress
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


def test_in_a_terminal_short_fits_draw_nothing_and_long_ones_clear_their_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_interactive", lambda: True)
    daskglm.fit(X, y, tol=1e-10, warm_start=FAR)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "DELAY_SECONDS", 1e-9)
    monkeypatch.setattr(sys.modules["tqdm"].tqdm, "__init__", often(sys.modules["tqdm"].tqdm))
    daskglm.fit(X, y, tol=1e-10, warm_start=FAR)
    drawn = capsys.readouterr().err
    assert "gap=" in drawn
    assert drawn.rpartition("gap=")[2].rpartition("\r")[0].endswith(" ")  # blanks over it


def often(tqdm):
    """What makes bars that are drawn at each step, however fast these are."""
    made = tqdm.__init__
    return lambda self, *args, **given: made(self, *args, **given, mininterval=0)
