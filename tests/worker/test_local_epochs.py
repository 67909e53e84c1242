"""Several epochs of dual ascent between two rounds."""

import pytest

import daskglm
from tests.conftest import make_problem
from tests.solvers.ascents import PARAMS, rows


def test_hinge_and_local_epochs(client):
    X, y = make_problem(2000, 10, seed=1, sparse=True)
    one = daskglm.fit(X, y, loss="hinge", C=0.05, tol=1e-5, random_state=0, max_iter=3000)
    options = {"local_epochs": 3}
    many = daskglm.fit(
        *rows(X.toarray(), y),
        loss="hinge",
        tol=1e-5,
        solver_options=options,
        max_iter=3000,
        **PARAMS,
    )
    assert many.report_.objective == pytest.approx(one.report_.objective, rel=1e-5)
    assert many.report_.passes > 2.9 * many.report_.n_iter
