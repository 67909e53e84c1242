"""An engine is one class: given to a fit, all solvers run on it, and reach the same optimum."""

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.data.loading import load_here
from tests.conftest import make_problem
from tests.extending.joined_engines import JoinedEngines

X, y = make_problem(n=600)
LAZY = da.from_array(X, chunks=(150, -1)), da.from_array(y, chunks=150)


@pytest.fixture
def engines(monkeypatch):
    """The engines that fits have made, which are all ours."""
    made = []

    def make_engine(data, client, where, **options):
        made.append(JoinedEngines.of_blocks(load_here(data, 1), 2))
        return made[-1]

    monkeypatch.setattr("daskglm.fitting.setup.make_engine", make_engine)
    return made


@pytest.mark.parametrize("solver", ["auto", "newton", "tron", "lbfgs", "gd", "sdca"])
def test_every_solver_runs_on_it(solver, engines):
    model = daskglm.fit(*LAZY, solver=solver, tol=1e-8, random_state=0)
    (engine,) = engines
    assert model.report_.converged
    assert model.report_.workers == 2
    assert model.report_.rounds <= engine.rounds
    np.testing.assert_allclose(model.coef_, best(), rtol=1e-3, atol=1e-4)


def test_paths_run_on_it(engines):
    path = daskglm.fit(*LAZY, C=[0.01, 1.0], tol=1e-8)
    assert all(model.report_.converged for model in path)
    np.testing.assert_allclose(path[1].coef_, best(), rtol=1e-3, atol=1e-4)
    assert len(engines) == 1


def best():
    from daskglm.engines.local import Local

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "daskglm.fitting.setup.make_engine",
            lambda data, client, where, **options: Local(load_here(data, 1)),
        )
        return daskglm.fit(X, y, solver="newton", tol=1e-10).coef_
