"""A view from outside of the package is asked as the package's own are."""

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers import get_solver
from tests.conftest import make_problem
from tests.extending.every_third import EveryThird
from tests.extending.joined_engines import JoinedEngines

LOGISTIC = LOSSES["logistic"]


@pytest.mark.parametrize("start", [0, 2])
def test_solves_on_every_third_row_are_those_of_these_rows_alone(start):
    X, y = make_problem(900, 6)
    rows = da.from_array(X, chunks=(225, -1)), da.from_array(y, chunks=225)
    blocks = partitions(*rows, classify=True).load()
    engine = JoinedEngines.of_blocks(blocks, 2)
    whole = Objective(engine, Problem(LOGISTIC.ref, 1.0), LOGISTIC, C=1.0, fit_intercept=True)
    part = whole.on(EveryThird(start))
    point = list(zip(range(8), get_solver("newton").run(part, np.zeros(7)), strict=False))[-1][1]
    alone = daskglm.fit(X[start::3], y[start::3], C=3.0, tol=1e-13)
    np.testing.assert_allclose(point.point.w, np.append(alone.coef_, alone.intercept_), rtol=1e-6)
    assert part.at(point.point.w).value == pytest.approx(alone.report_.objective, rel=1e-13)
    assert 8 / 3 <= whole.passes < 4, "they cost a third of a pass each"
