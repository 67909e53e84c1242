"""Problems with kinks on the same rows, each from the point of the one before."""

from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest

import daskglm
from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.fitting.warm_path import WHY, WarmPath
from daskglm.losses.table import find
from daskglm.objectives.carried_point import carried
from daskglm.objectives.primal import Objective
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.penalty import Penalty
from daskglm.penalties.ridge import Ridge
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.fitting.test_grid_checkpoint import coefficients, killed

CS = np.geomspace(1e-3, 1.0, 8)


def test_the_next_start_is_a_point_that_was_evaluated():
    """Points of least squares are predicted, from one that was."""
    path, base = WarmPath(), SimpleNamespace(value=2.0, gap=None, prediction=None)
    path.add(SimpleNamespace(value=1.0, gap=None, prediction=SimpleNamespace(base=base)))
    assert path.point is base
    path.add(base)
    assert path.point is base


@each_choice
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared", "huber"])
@pytest.mark.parametrize("more", [{}, {"standardize": True}, {"lower_bounds": 0.0}])
def test_a_path_is_the_separate_fits(loss, sparse, more):
    X, y = make_problem(loss=loss, sparse=sparse)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    # what is proved of the Huber loss follows from its gradient alone
    tol = 1e-7 if loss == "huber" else 1e-12
    how = {"loss": loss, "l1_ratio": 0.7, "sample_weight": weight, "tol": tol, **more}
    path = daskglm.fit(X, y, C=CS[::-1], **how)  # in any order
    for C, model in zip(CS[::-1], path, strict=True):
        alone = daskglm.fit(X, y, C=C, **how)
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=10 * np.sqrt(tol))
        assert model.report_.objective == pytest.approx(alone.report_.objective, rel=2 * tol)
        assert model.report_.relative_gap <= tol


@pytest.mark.parametrize("family", ["poisson", "gamma", "gaussian"])
def test_a_path_of_a_family_is_the_separate_fits(family):
    X, y = make_problem(loss=family if family != "gaussian" else "squared")
    alphas = [0.3, 0.1, 0.01, 0.001]
    how = {"family": family, "l1_ratio": 0.5, "tol": 1e-12}
    for alpha, model in zip(alphas, daskglm.fit(X, y, alpha=alphas, **how), strict=True):
        alone = daskglm.fit(X, y, alpha=alpha, **how)
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-5)
        assert model.report_.relative_gap <= 1e-12


def test_the_passes_are_those_of_a_path_of_alphas():
    X, y = make_problem(n=20_000)
    Cs = np.geomspace(1e-5, 1e-1, 20)
    path = daskglm.fit(X, y, C=Cs, l1_ratio=1.0)
    other = daskglm.regularization_path(X, y, alphas=1.0 / (Cs * len(y)))
    np.testing.assert_allclose(coefficients(path)[:, 0], other.coefs, atol=1e-3)
    passes = path[0].report_.passes
    # a path of alphas begins at the best constant, which it asks for anyway
    assert passes <= other.report_.passes + 6.0
    assert passes <= 2.5 * len(Cs)
    alone = sum(daskglm.fit(X, y, C=C, l1_ratio=1.0).report_.passes for C in Cs)
    assert passes < 0.7 * alone
    assert all(model.report_.why == WHY for model in path[1:])


def test_a_path_of_least_squares_takes_one_pass():
    X, y = make_problem(n=3000, loss="squared")
    path = daskglm.fit(X, y, loss="squared", C=CS, l1_ratio=0.5)
    assert path[0].report_.passes == 1.0


def test_standardising_takes_one_pass_for_each_fold():
    X, y = make_problem(n=1000)
    model = daskglm.LogisticRegressionCV(Cs=[0.01], cv=4, l1_ratios=[1.0], standardize=True)
    asked = []
    total = Local.total

    def counted(self, problem, request, *view):
        asked.append(type(request).__name__)
        return total(self, problem, request, *view)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Local, "total", counted)
        model.set_params(Cs=[0.01, 0.1, 1.0], l1_ratios=[0.5, 1.0]).fit(X, y)
    assert asked.count("ColumnMoments") == 5  # and for the fit to all rows


def test_a_solver_asked_for_by_name_is_left_alone():
    X, y = make_problem()
    path = daskglm.fit(X, y, C=CS, l1_ratio=0.5, solver="sdca", tol=1e-5)
    assert {model.report_.solver.split("+")[0] for model in path} == {"sdca"}


def test_a_path_goes_on_from_a_checkpoint(tmp_path):
    X, y = make_problem(900, 6)
    options = {"C": [0.01, 1.0, 30.0], "l1_ratio": 0.9, "tol": 1e-10}
    whole = daskglm.fit(X, y, **options)
    at = len(whole[0].report_.history) + 2
    killed(tmp_path / "c", X, y, at=at, **options)
    rest = daskglm.fit(X, y, resume=tmp_path / "c", **options)
    assert all(model.report_.converged for model in rest)
    np.testing.assert_allclose(coefficients(rest), coefficients(whole), atol=1e-5)


def test_a_path_on_a_device_and_on_workers_is_that_in_process(cupy, client):
    X, y = make_problem(n=900, d=6)
    rows = da.from_array(X, chunks=(300, 6)), da.from_array(y, chunks=300)
    options = {"C": CS, "l1_ratio": 0.9, "tol": 1e-10}
    here = daskglm.fit(X, y, **options)
    there = daskglm.fit(X, y, device="cuda", **options)
    assert there[0].report_.device == "cuda"
    spread = daskglm.fit(*rows, client=client, **options)
    assert spread[0].report_.workers == 2
    np.testing.assert_allclose(coefficients(there), coefficients(here), atol=1e-5)
    np.testing.assert_allclose(coefficients(spread), coefficients(here), atol=1e-5)


def test_warm_starts_that_are_given_are_taken():
    X, y = make_problem()
    path = daskglm.fit(X, y, C=CS, l1_ratio=1.0, tol=1e-10)
    again = daskglm.fit(X, y, C=CS, l1_ratio=1.0, tol=1e-10, warm_start=path)
    assert all(model.report_.n_iter <= 1 for model in again if model.coef_.any())
    np.testing.assert_allclose(coefficients(again), coefficients(path), atol=1e-6)


@pytest.mark.parametrize("Cs", [(0.1, 2.0), (2.0, np.inf), (1e4, 1e-4)])
def test_points_are_carried_from_one_C_to_another(Cs):
    X, y = make_problem()
    engine = Local(partitions(X, y, None, classify=True).load(), threads=2)
    terms = Kinks(np.r_[np.full(7, 0.3), 0.0], np.full(8, -np.inf), np.full(8, np.inf))
    loss = find("logistic")
    objectives = [
        Objective(
            engine,
            Problem(loss.ref, 1.0),
            loss,
            C=C,
            fit_intercept=True,
            penalty=Penalty(Ridge(7, 0.7), terms),
            any_penalty=True,
        )
        for C in Cs
    ]
    w = np.random.default_rng(0).standard_normal(8)
    found = carried(objectives[0].at(w, gram=True), objectives[1])
    true = objectives[1].at(w, gram=True)
    assert found.value == pytest.approx(true.value, rel=1e-12)
    np.testing.assert_allclose(found.gradient, true.gradient, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.hessian, true.hessian, rtol=1e-9, atol=1e-9)
