"""Which solver `auto` takes: by costs that depend on nothing but the data summary."""

import numpy as np
import scipy.sparse as sp

from daskglm.solvers import costs, get_solver
from daskglm.solvers.selection import choose
from daskglm.solvers.workload import Workload
from tests.solvers.problems import decaying, problem


def test_equal_fits_choose_equally_without_a_pass():
    X, y = decaying(3000, 400)
    asked = problem(X, y)
    assert len({choose(problem(X, y)) for _ in range(3)} | {choose(asked)}) == 1
    assert asked.passes == 0.0


def test_newton_where_hessians_take_no_time_to_speak_of():
    X, y = decaying(20_000, 20, 0.9)
    assert Workload.of(problem(X, y, C=1e-3)).is_small
    assert choose(problem(X, y, C=1e-3))[0] == "newton"


def test_tron_where_no_hessian_fits_and_rows_are_alike():
    rng = np.random.default_rng(0)
    X = sp.random(6_000, 5_000, 0.004, format="csr", random_state=0)
    y = (X @ rng.standard_normal(5_000) > 0).astype(int)
    name, why = choose(problem(X, y, C=100.0))
    assert X.shape[1] > costs.LARGEST_HESSIAN
    assert name == "tron"
    assert "expected passes: tron" in why


def test_newton_where_tron_is_foreseen_to_take_hardly_less():
    """What TRON takes is uncertain, and if it is more than Newton's method takes both are paid."""
    X, y = decaying(3_000, 600, 0.5)
    seen = set()
    for C in np.geomspace(0.05, 3.0, 9):
        asked = problem(X, y, C=C)
        work = Workload.of(asked)
        by_newton, by_tron = (get_solver(name).cost(work) for name in ("newton", "tron"))
        name, why = choose(asked)
        if by_tron < by_newton:
            assert name == ("newton" if by_newton <= 1.2 * by_tron else "tron")
            assert ("certain" in why) == (name == "newton")
            seen.add(name)
    assert seen == {"newton", "tron"}


def test_dual_ascent_where_rows_are_nearly_orthogonal():
    rng = np.random.default_rng(0)
    X = sp.random(3_000, 60_000, 0.002, format="csr", random_state=0)
    y = (X @ rng.standard_normal(60_000) > 0).astype(int)
    assert choose(problem(X, y, C=1.0))[0] == "sdca"
