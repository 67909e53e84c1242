"""Which solver `auto` takes: by costs that depend on nothing but the data summary, and a trial."""

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.solvers.selection import choose, trial
from daskglm.solvers.workload import Workload
from tests.solvers.problems import decaying, problem

# ---- costs


# ---- the trial
@pytest.mark.parametrize(("decay", "C"), [(0.3, 0.1), (0.7, 1.0)])
def test_a_trial_foresees_the_iterations_of_lbfgs(decay, C):
    X, y = decaying(40_000, 60, decay)
    asked = problem(X, y, C=C)
    foreseen = trial(asked, Workload.of(asked))
    taken = daskglm.fit(X, y, C=C, fit_intercept=False, solver="lbfgs", tol=1e-6).report_.n_iter
    assert taken / 1.6 <= foreseen <= 1.6 * taken


def test_equal_fits_choose_equally():
    X, y = decaying(3000, 400)
    assert len({choose(problem(X, y)) for _ in range(3)}) == 1


def test_wide_rows_of_few_values_have_no_trial():
    X = sp.random(200, 5000, 0.01, format="csr", random_state=0)
    asked = problem(X, np.arange(200) % 2)
    assert Workload.of(asked).trial_share == 0.0
    assert "trial" not in choose(asked)[1]


def test_no_trial_where_a_sample_is_a_large_part_of_the_rows():
    """It costs as much as L-BFGS on all rows, which tells more."""
    asked = problem(*decaying(3000, 400))
    assert Workload.of(asked).trial_share == 0.0


def test_l_bfgs_is_not_untried_where_newton_is_done_in_a_few_passes():
    """The curvature ratio foresaw 3 iterations where 13 were taken, and Newton's method is sure."""
    X, y = decaying(20_000, 20, 0.9)
    assert choose(problem(X, y, C=1e-3))[0] == "newton"
