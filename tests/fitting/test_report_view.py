"""What a notebook shows of a report, and the picture and the frame that a user asks for."""

import logging
import math
import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pytest

import daskglm
from tests.conftest import make_problem

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def report():
    return daskglm.fit(*make_problem(500, 6), solver="lbfgs", tol=1e-8).report_


def test_the_frame_has_a_row_for_each_iteration(report):
    frame = report.to_frame()
    assert len(frame) == report.n_iter + 1
    assert list(frame) == list(report.history[0])
    assert frame["objective"].iloc[-1] == report.history[-1]["objective"]
    assert frame["passes"].is_monotonic_increasing


def test_the_frame_of_a_fit_without_history_has_its_columns(report):
    assert list(type(report)(**{**vars(report), "history": []}).to_frame()) == list(
        report.history[0]
    )


def test_the_plot_shows_what_was_proved_and_what_was_reached(report):
    axes = report.plot()
    for each, unit in zip(axes, ("seconds", "passes"), strict=True):
        above, gap = each.get_lines()
        np.testing.assert_array_equal(gap.get_xdata(), [r[unit] for r in report.history])
        np.testing.assert_array_equal(gap.get_ydata(), [r["relative_gap"] for r in report.history])
        assert each.get_yscale() == "log"
        proved = np.array(gap.get_ydata())
        assert (np.array(above.get_ydata()) <= proved * (1 + 1e-9) + 1e-12).all()
    assert axes[0].get_legend() is not None


def test_the_plot_takes_axes_of_the_user(report):
    figure, mine = matplotlib.pyplot.subplots(1, 2)
    assert report.plot(mine) is mine
    assert len(mine[0].get_lines()) == 2
    matplotlib.pyplot.close(figure)


def test_where_nothing_is_proved_there_is_no_gap_to_plot():
    report = daskglm.fit(*make_problem(300, 4), loss="squared_hinge", C=math.inf).report_
    assert np.isnan(report.plot()[0].get_lines()[1].get_ydata()).all()
    assert "<svg" in report._repr_html_()


def test_the_view_in_html_has_the_table_and_the_picture(report):
    shown = report._repr_html_()
    table = shown[shown.index("<table") : shown.index("</table>") + len("</table>")]
    cells = [cell.text for cell in ET.fromstring(table).iter("td")]
    for line in repr(report).splitlines():
        name, text = line.split("  ", 1)
        assert cells[cells.index(name.strip()) + 1].strip() == text.strip()
    assert shown.count("<svg") == 1
    assert "<?xml" not in shown


def test_problems_solved_one_after_another_have_lines_of_their_own():
    X, y = make_problem(300, 4)
    report = daskglm.LinearSVC().fit(X, np.digitize(X[:, 0], [-0.5, 0.5])).report_
    assert len(report.parts) == 3
    (above, gap), *others = np.reshape(report.plot()[1].get_lines(), (-1, 2))
    assert len(others) == 2
    for line in (above, gap, *np.ravel(others)):
        assert (np.diff(line.get_xdata()) >= 0).all()
    assert sum(len(line.get_xdata()) for line in (gap, *(each[1] for each in others))) == len(
        report.history
    )


def test_text_of_the_view_is_escaped(report):
    odd = type(report)(**{**vars(report), "why": "<script>alert(1)</script>"})
    assert "<script>" not in odd._repr_html_()


@pytest.mark.slow
def test_without_matplotlib_the_table_is_shown_and_the_plot_says_what_to_install():
    code = """
import sys
sys.modules["matplotlib"] = None
import numpy as np, daskglm
X = np.random.default_rng(0).standard_normal((100, 3))
report = daskglm.fit(X, X[:, 0] > 0).report_
assert "<table" in report._repr_html_() and "<svg" not in report._repr_html_()
try:
    report.plot()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install matplotlib" in done.stdout


def test_each_iteration_is_logged_at_info(caplog):
    with caplog.at_level(logging.INFO, "daskglm"):
        report = daskglm.fit(*make_problem(500, 6), solver="tron").report_
    lines = [r.message for r in caplog.records if r.message.startswith("iteration ")]
    assert len(lines) == report.n_iter + 1
    assert f"objective {report.objective:.10g}" in lines[-1]
    assert "relative gap <= " in lines[-1]
    caplog.clear()
    daskglm.fit(*make_problem(500, 6), solver="tron")
    assert not caplog.records
