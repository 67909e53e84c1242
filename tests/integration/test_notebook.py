"""A notebook is executed: the progress bar moves, and a report is shown as a table with its picture."""

import pytest

from tests.browser import faint, headless, opened, overflow

pytestmark = pytest.mark.slow

CELLS = [
    """
import numpy as np
import daskglm

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 30))
y = X @ rng.standard_normal(30) + rng.standard_normal(20_000) > 0
""",
    "model = daskglm.fit(X, y, solver='gd', progress=True)",
    "model.report_",
    "model.report_.to_frame().tail(2)",
    "daskglm.fit(X, y, max_iter=1);",
]


@pytest.fixture(scope="module")
def outputs():
    nbformat = pytest.importorskip("nbformat", reason="notebooks are tested with nbformat")
    nbclient = pytest.importorskip("nbclient", reason="notebooks are executed by nbclient")
    pytest.importorskip("ipykernel", reason="notebooks are executed by ipykernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def _text(cell):
    return "".join(output.get("text", "") for output in cell)


def test_the_progress_bar_reaches_the_end(outputs):
    shown = _text(outputs[1])
    assert "gd: 100%" in shown
    assert "gap=" in shown
    assert "Warning" not in shown


def test_a_report_is_a_table_with_its_picture(outputs):
    shown = outputs[2][0]["data"]
    assert "<table" in shown["text/html"]
    assert "<svg" in shown["text/html"]
    assert "relative gap" in shown["text/plain"], "for those that show no HTML"


def test_the_frame_is_shown_as_one(outputs):
    assert "relative_gap" in outputs[3][0]["data"]["text/html"]


def test_a_fit_that_does_not_converge_warns_in_the_cell(outputs):
    shown = _text(outputs[4])
    assert "ConvergenceWarning" in shown
    assert "max_iter" in shown


# What JupyterLab says of tables and pictures in its outputs, in its light and its dark theme.
LAB = """
<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>
body { margin: 8px; font: 13px sans-serif; color: #212121; background: white }
body.dark { color: #f5f5f5; background: #111 }
.common table { border-collapse: collapse; margin-left: auto; margin-right: auto; border: none }
.common:not(.markdown) td { text-align: right; vertical-align: middle; padding: 0.5em }
</style>
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_report_fits_a_telephone_and_reads_from_the_left_whatever_the_page_says(
    outputs, tmp_path, theme
):
    shown = outputs[2][0]["data"]["text/html"]
    page = tmp_path / "report.html"
    page.write_text(f'{LAB}<body class="{theme}"><div class="common">{shown}</div>', "utf-8")
    with headless() as browser:
        for width in (380, 1400):
            with opened(browser, page.as_uri(), width=width, dark=theme == "dark") as found:
                assert overflow(found) == 0
                assert not faint(found, "table")
                cell = found.locator("td").first
                assert cell.evaluate("cell => getComputedStyle(cell).textAlign") == "left"
                drawn = found.locator("svg").bounding_box()
                # 10 of the 331 points of its width are the size of its words
                assert drawn["width"] * 10 / 331 > 9
