"""The suites `random` and `mixed`: drawn problems, `auto` beside every solver by name."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import daskglm
from benchmarks.__main__ import DRAWN, main
from benchmarks.datasets import mixed_draws, random_draws
from benchmarks.suites import drawn
from benchmarks.suites.drawn_fits import GENERATORS, _few_rows
from daskglm.losses.table import find

SMALL = 1 << 18
RANDOM = [random_draws.draw(3, number, SMALL) for number in range(60)]
MIXED = [mixed_draws.draw(3, number, SMALL) for number in range(200)]


def first(draws, **wanted):
    return next(each for each in draws if all(getattr(each, k) == v for k, v in wanted.items()))


@pytest.mark.parametrize("number", range(0, 15, 2))
@pytest.mark.parametrize("suite", DRAWN)
def test_a_draw_follows_from_its_seed_and_number(suite, number):
    generator = GENERATORS[suite]
    one, other = (generator.draw(3, number, SMALL) for _ in range(2))
    assert one == other != generator.draw(4, number, SMALL)
    for mine, its in zip(generator.make(one), generator.make(other), strict=True):
        assert not (mine != its).sum()


def test_draws_cover_the_distributions():
    assert {each.kind for each in RANDOM} == {"dense", "sparse", "one-hot"}
    assert {each.loss for each in RANDOM} == set(random_draws.LOSS_SHARES)
    assert {each.kind for each in MIXED} == set(mixed_draws.KINDS)
    assert {each.loss for each in MIXED} == set(mixed_draws.LOSS_SHARES)
    kinked = {each.loss for each in MIXED if each.l1_ratio}
    assert kinked == set(mixed_draws.L1_LOSSES)
    assert {each.l1_ratio for each in MIXED} == {0.0, 0.5, 1.0}
    for generator, draws in ((random_draws, RANDOM), (mixed_draws, MIXED)):
        assert {each.dtype for each in draws} == {"float32", "float64"}
        assert min(each.C for each in draws) < 1e-2
        assert max(each.C for each in draws) > 10.0
        larger = [generator.draw(3, number, 1 << 28) for number in range(60)]
        assert max(each.rows for each in larger) > 100_000
        assert max(each.features for each in larger) > 50_000


@pytest.mark.parametrize("number", range(0, 60, 3))
@pytest.mark.parametrize("suite", DRAWN)
def test_rows_are_as_the_draw_says(suite, number):
    generator, drawn_ = GENERATORS[suite], (RANDOM if suite == "random" else MIXED)[number]
    X, y = generator.make(drawn_)
    assert X.shape == (drawn_.rows, drawn_.features)
    assert X.dtype == drawn_.dtype
    assert sp.issparse(X) == (drawn_.kind not in ("dense", *mixed_draws.DENSE))
    values = X.data if sp.issparse(X) else X
    assert np.isfinite(values).all()
    nbytes = values.nbytes + (X.indices.nbytes if sp.issparse(X) else 0)
    assert nbytes <= SMALL or drawn_.rows == generator.ROWS[0]
    if suite == "random" and drawn_.unit_rows:
        squares = np.asarray(X.multiply(X).sum(axis=1)) if sp.issparse(X) else (X * X).sum(axis=1)
        np.testing.assert_allclose(np.ravel(squares), 1.0, rtol=1e-4)


@pytest.mark.parametrize("loss", mixed_draws.LOSS_SHARES)
def test_targets_are_in_the_domains_of_losses(loss):
    for drawn_ in [each for each in MIXED if each.loss == loss][:4]:
        y = mixed_draws.make(drawn_)[1]
        known = find(loss)
        if known.classifies:
            assert set(np.unique(y)) == {-1.0, 1.0}
            continue
        assert len(np.unique(y)) > 2
        assert np.isfinite(y).all()
        if known.family is not None:
            assert not known.family.domain.outside(y).any()


def test_targets_of_the_first_distribution():
    for drawn_ in RANDOM[:20]:
        values = set(np.unique(random_draws.make(drawn_)[1]))
        assert len(values) > 2 if drawn_.loss == "squared" else values == {-1.0, 1.0}


@pytest.mark.parametrize("loss", mixed_draws.L1_LOSSES)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_strength_of_an_l1_penalty_is_a_share_of_the_least_that_leaves_nothing(
    loss, fit_intercept
):
    kinked = next(each for each in MIXED if each.loss == loss and each.l1_ratio)
    kinked = replace(kinked, fit_intercept=fit_intercept)
    X, y = mixed_draws.make(kinked)
    for strength, left in ((1.01, False), (0.9, True)):
        arguments = mixed_draws.arguments(replace(kinked, strength=strength), X, y)
        assert daskglm.fit(X, y, **arguments, tol=1e-8).coef_.any() == left


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_rows_to_warm_up_with_hold_both_classes_where_there_are_classes(loss):
    y = np.repeat([1.0, -1.0], 2000)
    assert set(y[_few_rows(loss, y)]) == ({1.0, -1.0} if loss == "logistic" else {1.0})


def test_solvers_that_apply():
    few = next(each for each in RANDOM if each.loss == "logistic" and each.features < 1000)
    wide = next(each for each in RANDOM if each.loss != "hinge" and each.features > 10_000)
    assert set(drawn.solvers_for(few)) == {"auto", "newton", "tron", "lbfgs", "sdca"}
    assert set(drawn.solvers_for(first(RANDOM, loss="hinge"))) == {"auto", "sdca"}
    assert set(drawn.solvers_for(wide)) == {"auto", "tron", "lbfgs", "sdca"}
    for loss in ("poisson", "gamma", "huber"):
        family = replace(few, loss=loss)
        assert set(drawn.solvers_for(family)) == {"auto", "newton", "tron", "lbfgs", "sdca"}
    lasso, net = (first(MIXED, loss="logistic", l1_ratio=ratio) for ratio in (1.0, 0.5))
    assert set(drawn.solvers_for(lasso)) == {"auto", "owlqn", "proximal_newton"}
    assert set(drawn.solvers_for(net)) == {"auto", "owlqn", "proximal_newton", "sdca"}


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
        ({"auto": 0.4, "newton": -0.8}, 1.0, "auto"),  # nobody else did
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


@pytest.mark.parametrize("cpu", [False, True])
def test_the_report_tells_quantiles_and_the_worst_draws(cpu):
    records = [
        {
            **{"seed": 1, "most_bytes": SMALL, "tol": 1e-6, "threads": 2, "repeats": 1},
            **{"suite": "mixed", "cpu": cpu, "commit": "c", "seconds": 9.0, "text": f"draw {k}"},
            "fits": fits(auto=1.0 + 0.1 * k, newton=1.0),
        }
        for k in range(20)
    ]
    page = drawn.report(records)
    assert "Suite `mixed`" in page
    assert ("CPU times" in page, "Wall times" in page) == (cpu, not cpu)
    assert "| 20 | 1.95 | 2.80 | 2.90 |" in page
    worst = page.index("draw 19")
    assert worst < page.index("draw 18") < page.index("draw 10")
    assert "draw 9 " not in page


@pytest.mark.nightly
@pytest.mark.parametrize(("suite", "clock"), [("random", []), ("mixed", ["--cpu"])])
def test_it_runs_from_the_command_line(suite, clock, tmp_path):
    out = tmp_path / "drawn.jsonl"
    arguments = ["run", "--suite", suite, "--quick", "--draws", "2", "--seed", "3", *clock]
    found = CliRunner().invoke(main, [*arguments, "--timeout", "60", "--out", str(out)])
    assert found.exit_code == 0, found.output
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["number"] for record in records] == [0, 1]
    assert {(record["suite"], record["cpu"]) for record in records} == {(suite, bool(clock))}
    for record in records:
        names = [fit["solver"] for fit in record["fits"]]
        assert names[0] == "auto"
        assert len(names) == len(set(names)) > 1
        chosen = record["fits"][0]
        assert chosen["why"]
        assert chosen["relative_gap"] <= 1e-6 or not chosen["converged"]
    assert "| draws | median |" in out.with_suffix(".md").read_text()


@pytest.mark.parametrize(("cpu", "patience"), [(False, 0.06), (True, 0.36)])
def test_a_process_that_is_silent_is_ended_and_the_others_go_on(cpu, patience, monkeypatch):
    monkeypatch.setattr(drawn, "START_SECONDS", 0.0)
    limits = drawn.Limits(SMALL, 1e-6, 1, 1, 0.04, cpu)  # no process starts in so short a time
    found = drawn._fit_all("random", first(RANDOM, loss="hinge"), limits)
    assert [fit["solver"] for fit in found] == ["auto", "sdca"]
    assert {fit["status"] for fit in found} == {f"no answer in {patience:g} s"}
