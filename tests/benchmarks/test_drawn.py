"""The suite `random`: problems drawn from one distribution, `auto` beside every solver by name."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.datasets.random_draws import LOSS_SHARES, ROWS, draw, make
from benchmarks.suites import drawn

SMALL = 1 << 18
DRAWN = [draw(3, number, SMALL) for number in range(60)]


def test_a_draw_follows_from_its_seed_and_number():
    assert draw(3, 5, SMALL) == DRAWN[5] != draw(4, 5, SMALL)
    for one, other in zip(make(DRAWN[5]), make(DRAWN[5]), strict=True):
        assert not (one != other).sum()


def test_draws_cover_the_distribution():
    assert {each.kind for each in DRAWN} == {"dense", "sparse", "one-hot"}
    assert {each.loss for each in DRAWN} == set(LOSS_SHARES)
    assert {each.dtype for each in DRAWN} == {"float32", "float64"}
    assert min(each.C for each in DRAWN) < 1e-2
    assert max(each.C for each in DRAWN) > 1e2
    larger = [draw(3, number, 1 << 28) for number in range(60)]
    assert max(each.rows for each in larger) > 100_000
    assert max(each.features for each in larger) > 50_000


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_rows_are_as_the_draw_says(number):
    drawn_ = DRAWN[number]
    X, y = make(drawn_)
    assert X.shape == (drawn_.rows, drawn_.features)
    assert X.dtype == drawn_.dtype
    assert sp.issparse(X) == (drawn_.kind != "dense")
    assert drawn_.nbytes <= SMALL or drawn_.rows == ROWS[0]
    assert np.isfinite(X.data if sp.issparse(X) else X).all()
    if drawn_.loss == "squared":
        assert len(np.unique(y)) > 2
    else:
        assert set(np.unique(y)) == {-1.0, 1.0}
    if drawn_.unit_rows:
        squares = np.asarray(X.multiply(X).sum(axis=1)) if sp.issparse(X) else (X * X).sum(axis=1)
        np.testing.assert_allclose(np.ravel(squares), 1.0, rtol=1e-4)


def test_solvers_that_apply():
    smooth = next(each for each in DRAWN if each.loss == "logistic" and each.features < 1000)
    hinge = next(each for each in DRAWN if each.loss == "hinge")
    wide = next(each for each in DRAWN if each.loss != "hinge" and each.features > 10_000)
    assert set(drawn.solvers_for(smooth)) == {"auto", "newton", "tron", "lbfgs", "sdca"}
    assert set(drawn.solvers_for(hinge)) == {"auto", "sdca"}
    assert "newton" not in drawn.solvers_for(wide)


def fits(**seconds):
    return [
        {"solver": name, "seconds": abs(time), "converged": time > 0, "chosen": name, "why": "w"}
        for name, time in seconds.items()
    ]


@pytest.mark.parametrize(
    ("seconds", "ratio", "best"),
    [
        ({"auto": 0.4, "newton": 0.2, "lbfgs": 0.3}, 2.0, "newton"),
        ({"auto": 0.004, "newton": 0.001}, 1.0, "newton"),  # short fits count as 10 ms
        ({"auto": 0.4, "newton": -0.1, "lbfgs": 0.2}, 2.0, "lbfgs"),  # newton did not converge
        ({"auto": -1.0, "lbfgs": 0.5}, 20.0, "lbfgs"),  # auto did not: it counts as the limit
    ],
)
def test_a_ratio_is_the_time_of_auto_over_the_best_that_converged(seconds, ratio, best):
    found = drawn.outcome({"fits": fits(**seconds), "seconds": 10.0})
    assert found.ratio == pytest.approx(ratio)
    assert found.best == best


def test_where_nobody_converged_there_is_no_ratio():
    record = {"fits": fits(auto=-1.0, newton=-1.0), "seconds": 10.0}
    assert math.isnan(drawn.outcome(record).ratio)
    assert "No solver converged" in drawn.report([record])


def test_the_report_tells_quantiles_and_the_worst_draws():
    records = [
        {
            **{"seed": 1, "most_bytes": SMALL, "tol": 1e-6, "threads": 2, "repeats": 1},
            **{"commit": "c", "seconds": 9.0, "text": f"draw {k}"},
            "fits": fits(auto=1.0 + 0.1 * k, newton=1.0),
        }
        for k in range(20)
    ]
    page = drawn.report(records)
    assert "| 20 | 1.95 | 2.80 | 2.90 |" in page
    worst = page.index("draw 19")
    assert worst < page.index("draw 18") < page.index("draw 10")
    assert "draw 9 " not in page


@pytest.mark.nightly
def test_it_runs_from_the_command_line(tmp_path):
    out = tmp_path / "random.jsonl"
    arguments = ["run", "--suite", "random", "--quick", "--draws", "2", "--seed", "3"]
    found = CliRunner().invoke(main, [*arguments, "--timeout", "60", "--out", str(out)])
    assert found.exit_code == 0, found.output
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["number"] for record in records] == [0, 1]
    for record in records:
        names = [fit["solver"] for fit in record["fits"]]
        assert names[0] == "auto"
        assert len(names) == len(set(names)) > 1
        chosen = record["fits"][0]
        assert chosen["why"]
        assert chosen["relative_gap"] <= 1e-6 or not chosen["converged"]
    assert "| draws | median |" in out.with_suffix(".md").read_text()


def test_a_process_that_is_silent_is_ended_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(drawn, "START_SECONDS", 0.0)
    limits = drawn.Limits(SMALL, 1e-6, 1, 1, 0.05)  # no process starts in so short a time
    hinge = next(each for each in DRAWN if each.loss == "hinge")
    found = drawn._fit_all(hinge, limits)
    assert [fit["solver"] for fit in found] == ["auto", "sdca"]
    assert all("no answer" in fit["status"] for fit in found)
