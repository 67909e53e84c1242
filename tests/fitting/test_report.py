"""Reports: what users ask for, and how it prints."""

import numpy as np
import pandas as pd

import daskglm
from tests.conftest import make_problem

X, y = make_problem(400, 5)
MODEL = daskglm.fit(X, y)


def test_report_has_what_users_ask_for_and_prints_as_a_table():
    report = MODEL.report_
    assert report.converged
    assert report.solver == "newton"
    assert report.relative_gap <= 1e-6
    assert report.n_iter == len(report.history) - 1
    assert report.passes >= report.n_iter
    assert report.rounds >= report.passes
    assert report.seconds > 0
    frame = pd.DataFrame(report.history)
    assert {
        "objective",
        "gradient_norm",
        "step",
        "passes",
        "rounds",
        "bytes",
        "seconds",
        "relative_gap",
    } <= {*frame}
    assert (np.diff(frame["objective"]) <= 0).all()
    assert (np.diff(frame["passes"]) > 0).all()
    text = repr(report)
    assert len(text.splitlines()) <= 12
    for word in ("newton", "converged", "relative gap", "passes", "rounds", "400 rows"):
        assert word in text


def test_a_fit_that_ends_on_the_dual_shows_no_gradient():
    report = daskglm.fit(X, y, loss="hinge", C=0.01).report_
    assert np.isnan(report.gradient_ratio)
    assert "gradient ratio" not in repr(report)
    assert "gradient ratio" in repr(MODEL.report_)
