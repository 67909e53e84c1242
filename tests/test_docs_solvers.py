"""The table of penalties and solvers in docs/solvers.md is what fits accept."""

import re
from pathlib import Path

import numpy as np
import pytest

import daskglm

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "solvers.md").read_text()
ROWS = np.random.default_rng(0).standard_normal((120, 4))
TARGETS = ROWS[:, 0] + np.random.default_rng(1).standard_normal(120)
PENALTIES = {
    "none": [{"C": np.inf}],
    r"$\tfrac12 \lvert w \rvert^2$": [{}],
    "factors of it, a matrix `P2`": [{"penalty_factor": [0, 1, 2, 3]}, {"P2": np.diag([1.0, 2, 3, 4])}],
    "L1 and L2": [{"l1_ratio": 0.5}],
    "L1 alone": [{"l1_ratio": 1.0}],
    "bounds": [{"lower_bounds": 0.0}],
    "groups": [{"l1_ratio": 0.5, "groups": [[0, 1], [2, 3]]}],
}  # fmt: skip


def table():
    """Penalty and solver of each cell, and whether it says yes."""
    section = PAGE.split("## What a solver takes")[1].split("By loss:")[0]
    head, _, *rows = re.findall(r"^\|(.+)\|$", section, re.MULTILINE)
    columns = [re.findall(r"`(\w+)`", cell) for cell in head.split(" | ")[1:]]
    for row in rows:
        penalty, *cells = (cell.strip() for cell in row.split("|"))
        for solvers, cell in zip(columns, cells, strict=True):
            for solver in solvers:
                yield penalty, solver, cell == "yes"


def test_all_penalties_are_tried():
    assert {penalty for penalty, _, _ in table()} == PENALTIES.keys()


@pytest.mark.parametrize(("penalty", "solver", "taken"), list(table()))
def test_a_solver_takes_a_penalty(penalty, solver, taken):
    loss, y = ("quantile", TARGETS) if solver == "proximal" else ("logistic", TARGETS > 0)
    for given in PENALTIES[penalty]:
        if taken:
            report = daskglm.fit(
                ROWS, y, loss=loss, solver=solver, max_iter=1000, **{"C": 0.1, **given}
            ).report_
            assert report.converged
            assert report.solver.startswith(solver)
        else:
            with pytest.raises(ValueError, match="solver"):
                daskglm.fit(ROWS, y, loss=loss, solver=solver, **{"C": 0.1, **given})
