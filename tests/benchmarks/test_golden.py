"""The record of many fits, and the guard of speed, see what they are for."""

import itertools
import json

import pytest
from click.testing import CliRunner

from benchmarks import speed_guard
from benchmarks.golden.__main__ import main
from benchmarks.golden.cases import LOSSES, PENALTIES, SHAPES, STORAGES, VIEWS, cases
from benchmarks.golden.record import differences


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)


def test_cases_are_always_the_same_and_have_every_part_and_most_pairs():
    chosen = cases()
    assert chosen == cases()
    assert len(set(chosen)) == 400
    for name, every in {
        "shape": SHAPES,
        "loss": LOSSES,
        "penalty": PENALTIES,
        "storage": STORAGES,
        "view": VIEWS,
    }.items():
        assert {getattr(case, name) for case in chosen} == set(every)
    pairs = {(case.loss, case.penalty) for case in chosen}
    assert len(pairs) > 0.8 * len(LOSSES) * len(PENALTIES)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    file = tmp_path_factory.mktemp("golden") / "golden.json"
    assert "wrote" in run("make", file, "--count", "12").output
    return file


@pytest.mark.slow
def test_the_same_code_gives_the_same_bits(made):
    done = run("compare", made)
    assert done.exit_code == 0, done.output
    assert "0 of 12 fits differ" in done.output
    fits = json.loads(made.read_text())["fits"]
    assert sum("objective" in fit for fit in fits.values()) > 6


@pytest.mark.parametrize("other_machine", [False, True])
@pytest.mark.parametrize(
    ("key", "change", "seen_elsewhere"),
    [
        ("digest", lambda value: "0" * 16, False),
        ("objective", lambda value: value * (1 + 1e-14), False),
        ("objective", lambda value: value * (1 + 1e-9), True),
        ("passes", lambda value: value + 1.0, True),
        ("rounds", lambda value: value - 1, True),
        ("bounds", lambda value: 0.5, True),
    ],
)
@pytest.mark.slow
def test_a_change_is_seen(made, tmp_path, monkeypatch, key, change, seen_elsewhere, other_machine):
    content = json.loads(made.read_text())
    now = json.loads(made.read_text())["fits"]
    monkeypatch.setattr("benchmarks.golden.__main__._records", lambda count: now)
    changed = next(fit for fit in content["fits"].values() if fit.get("bounds"))
    changed[key][0] = change(changed[key][0])
    if other_machine:
        content["machine"]["processor"] = "another"
    file = tmp_path / "golden.json"
    file.write_text(json.dumps(content))
    done = run("compare", file)
    assert ("of another machine" in done.output) == other_machine
    assert done.exit_code == (1 if seen_elsewhere or not other_machine else 0), done.output


def test_a_refusal_that_falls_is_a_difference():
    assert differences({"refused": "ValueError: no"}, {"objective": [1.0]}, bits=False)
    assert not differences({"refused": "ValueError: no"}, {"refused": "ValueError: no"}, bits=True)


class Fake:
    """A process whose fits take so long, in turn."""

    def __init__(self, seconds):
        self.seconds = itertools.cycle(seconds)

    def ask(self, what):
        """Answer as the process does."""
        return {"seconds": next(self.seconds)}


def test_the_guard_compares_by_turns():
    ratios, base = speed_guard.in_turns(Fake([1.0, 1.1]), Fake([1.05, 1.155]), "a fit", 0.0)
    assert len(ratios) == speed_guard.LEAST_TURNS
    assert ratios == pytest.approx([1.05] * len(ratios))
    assert base == pytest.approx(1.1)
