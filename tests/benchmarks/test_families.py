"""The races of families: each judge finds this package's optimum where its gap says it is."""

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.families.__main__ import _first, main
from benchmarks.families.classes import covtype_like
from benchmarks.families.races import RACES

SMALL = {"one-hot-poisson": 3000, "dense-gamma": 3000, "covtype": 2000, "quantile-0.9": 500}


@pytest.mark.parametrize("name", SMALL)
def test_the_judge_prefers_the_optimum(name):
    race = RACES[name]
    rows = race.make(SMALL[name])
    w, b, said = race.contestants["daskglm"].fit(rows, 1e-8)
    least = race.judge(rows, w=w, b=b)
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = rng.normal(size=np.shape(w)) * 1e-3
        assert race.judge(rows, w=w + step, b=b) > least
    assert "gap" in said


@pytest.mark.parametrize("rival", ["sklearn lbfgs", "glum irls"])
def test_rivals_of_means_minimise_the_same_objective(rival):
    pytest.importorskip("glum")
    race = RACES["one-hot-poisson"]
    rows = race.make(3000)
    values = []
    for name in ("daskglm", rival):
        contestant = race.contestants[name]
        w, b, _ = contestant.fit(contestant.prepare(rows), 1e-8)
        values.append(race.judge(rows, w=w, b=b))
    assert values[1] == pytest.approx(values[0], rel=1e-6)


def test_rows_like_those_of_covtype():
    rows = covtype_like(1000)
    assert rows.X.shape == (1000, 54)
    assert np.array_equal(rows.X[:, 10:].sum(axis=1), np.full(1000, 2.0))
    assert set(np.unique(rows.y)) <= set(range(7))


def test_a_time_counts_where_all_runs_reach_the_target():
    def line(seconds, value):
        return {"seconds": seconds, "value": value, "said": f"{seconds}"}

    runs = [[line(1.0, 1.1), line(3.0, 1.0)], [line(1.0, 1.0), line(5.0, 1.0)]]
    assert _first(runs, 1.0, 1e-6) == (4.0, "3.0")
    assert _first([[], []], 1.0, 1e-6)[0] == np.inf


def test_a_process_that_takes_too_long_is_ended(tmp_path):
    out = tmp_path / "families.md"
    given = ["run", "--race", "dense-gamma", "--rows", "500", "--repeats", "1", "--limit", "0.01"]
    done = CliRunner().invoke(main, [*given, "--out", str(out)])
    assert done.exit_code == 1
    assert "no contestant ended a fit" in done.output
