"""OWL-QN: the optimum of proximal Newton, wherever the rows are, and what it costs."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.data.partitions import partitions
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import objective_of
from daskglm.fitting.setup import loaded
from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from daskglm.solvers import costs, get_solver
from daskglm.solvers.limited_memory import LimitedMemory
from daskglm.solvers.owlqn import _end_of_step, owlqn
from daskglm.solvers.selection import choose
from daskglm.solvers.workload import Workload
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.solvers.problems import Recording

D = 12
PENALTIES = {
    "lasso": {"l1_ratio": 1.0},
    "elastic net": {"l1_ratio": 0.5},
    "bounds": {"lower_bounds": -0.2, "upper_bounds": np.linspace(0.0, 0.6, D)},
    "positive lasso": {"l1_ratio": 1.0, "positive": True},
    "zero factors": {"l1_ratio": 1.0, "penalty_factor": (np.arange(D) % 4 > 0) * 1.5},
    "elastic net, zero factors": {"l1_ratio": 0.3, "penalty_factor": (np.arange(D) % 4 > 0) * 1.0},
    "standardised": {"l1_ratio": 0.8, "standardize": True},
}

CASES = [
    (loss, penalty) for loss in ("logistic", "poisson", "squared_hinge") for penalty in PENALTIES
]


def rows(loss="logistic", n=400, sparse=False, seed=3):
    return make_problem(n, D, loss=loss, seed=seed, sparse=sparse)


def strength(loss):
    """A C with which some coefficients of a lasso are zero."""
    return {"poisson": 0.02, "squared_hinge": 0.03}.get(loss, 0.1)


@each_choice
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(("loss", "penalty"), CASES)
def test_the_optimum_of_proximal_newton(loss, penalty, sparse):
    X, y = rows(loss, sparse=sparse)
    how = {"loss": loss, "C": strength(loss), **PENALTIES[penalty]}
    best = daskglm.fit(X, y, solver="proximal_newton", tol=1e-10, **how)
    model = daskglm.fit(X, y, solver="owlqn", tol=1e-8, **how)
    report, least = model.report_, best.report_.objective
    assert report.solver == "owlqn"
    assert report.relative_gap <= 1e-8
    assert -1e-10 <= (report.objective - least) / least <= report.relative_gap + 1e-12
    np.testing.assert_allclose(model.coef_, best.coef_, atol=3e-4 * (1 + np.abs(best.coef_).max()))


def test_there_are_zeros_and_bounds_that_hold():
    X, y = rows()
    lasso = daskglm.fit(X, y, solver="owlqn", C=0.1, l1_ratio=1.0)
    assert 0 < np.count_nonzero(lasso.coef_ == 0.0) < D
    positive = daskglm.fit(X, y, solver="owlqn", C=0.1, l1_ratio=1.0, positive=True)
    assert (positive.coef_ >= 0.0).all()
    assert 0 < np.count_nonzero(positive.coef_ == 0.0) < D
    bounded = daskglm.fit(X, y, solver="owlqn", **PENALTIES["bounds"])
    assert (bounded.coef_ >= -0.2).all()
    assert (bounded.coef_ <= np.linspace(0.0, 0.6, D)).all()
    assert (bounded.coef_ == -0.2).any()


def test_a_plain_penalty():
    X, y = rows()
    model = daskglm.fit(X, y, solver="owlqn", tol=1e-9)
    wanted = daskglm.fit(X, y, solver="newton", tol=1e-11)
    assert model.report_.converged
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-4)


def test_a_loss_that_only_a_hessian_proves():
    X, y = rows("gamma")
    how = {"loss": "gamma", "C": 0.1, "l1_ratio": 1.0}
    best = daskglm.fit(X, y, solver="proximal_newton", tol=1e-9, **how)
    model = daskglm.fit(X, y, solver="owlqn", tol=1e-6, **how)
    least = best.report_.objective
    assert model.report_.converged
    assert (model.report_.objective - least) / least <= model.report_.relative_gap <= 1e-6


# ---- wherever the rows are
def lazily(X, y):
    return da.from_array(X, chunks=(len(y) // 5, X.shape[1])), da.from_array(y, chunks=len(y) // 5)


def test_on_two_workers(client):
    X, y = rows()
    how = {"solver": "owlqn", "C": 0.1, "l1_ratio": 0.7, "tol": 1e-9}
    model = daskglm.fit(*lazily(X, y), **how)
    assert model.report_.workers == 2
    assert model.report_.converged
    np.testing.assert_allclose(model.coef_, daskglm.fit(X, y, **how).coef_, atol=1e-5)


def test_out_of_core():
    X, y = rows()
    how = {"solver": "owlqn", "C": 0.1, "l1_ratio": 0.7, "tol": 1e-9}
    model = daskglm.fit(*lazily(X, y), out_of_core=True, **how)
    assert model.report_.converged
    np.testing.assert_allclose(model.coef_, daskglm.fit(X, y, **how).coef_, atol=1e-5)


class Killed(BaseException):
    pass


def kill_at(number):
    def kill(record):
        if record["iteration"] == number:
            raise Killed

    return kill


def resumed(path, at, **how):
    """The history of a fit that was killed after some iterations, from there on, and of a whole one."""
    X, y = rows()
    whole = daskglm.fit(X, y, **how).report_
    with pytest.raises(Killed):
        daskglm.fit(X, y, checkpoint=path, checkpoint_every=1, callback=kill_at(at), **how)
    rest = daskglm.fit(X, y, resume=path, **how).report_
    assert rest.converged
    assert rest.resumed == at
    return [[r["objective"] for r in report.history] for report in (whole, rest)]


def test_the_path_goes_on_from_a_checkpoint(tmp_path):
    how = {"solver": "owlqn", "C": 0.1, "l1_ratio": 0.7, "tol": 1e-9}
    whole, rest = resumed(tmp_path / "c", 6, **how)
    assert len(rest) > 3
    np.testing.assert_allclose(rest[:4], whole[6:10], rtol=1e-12)


# ---- how it ends
def test_too_few_iterations_are_told():
    X, y = rows()
    with pytest.warns(ConvergenceWarning, match="owlqn stopped before tol"):
        model = daskglm.fit(X, y, solver="owlqn", C=0.1, l1_ratio=1.0, max_iter=2)
    assert not model.report_.converged
    assert model.report_.n_iter == 2


def test_a_start_that_is_not_finite():
    X, y = rows()
    start = (np.full((1, D), np.nan), np.zeros(1))
    with pytest.raises(ValueError, match="warm_start has coefficients that are not finite"):
        daskglm.fit(X, y, solver="owlqn", C=0.1, l1_ratio=1.0, warm_start=start)


@pytest.mark.slow
def test_a_start_whose_value_squared_overflows():
    X, y = rows()
    start = (np.full((1, D), 1e300), np.zeros(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = daskglm.fit(X, y, solver="owlqn", C=0.1, l1_ratio=1.0, warm_start=start)
    wanted = daskglm.fit(X, y, solver="owlqn", C=0.1, l1_ratio=1.0)
    assert model.report_.objective == pytest.approx(wanted.report_.objective, rel=2e-6)


def test_a_start_beyond_the_bounds():
    X, y = rows()
    start = (np.full((1, D), 5.0), np.zeros(1))
    model = daskglm.fit(X, y, solver="owlqn", warm_start=start, **PENALTIES["bounds"])
    wanted = daskglm.fit(X, y, solver="owlqn", **PENALTIES["bounds"])
    assert model.report_.converged
    assert model.report_.objective == pytest.approx(wanted.report_.objective, rel=2e-6)


# ---- what it costs
def composite(X, y, record=False, loss="logistic", C=0.1, **penalty):
    """The objective of a fit in this process, whose requests may be recorded; once."""
    settings = FitConfig(loss, C=C, solver="owlqn", penalty=PenaltyConfig(**penalty))
    with loaded(partitions(X, y, None, classify=find(loss).classifies), settings, None) as data:
        engine = Recording(data.engine) if record else data.engine
        yield objective_of(engine, *data.problems[0], find(loss), settings)


def test_a_pass_for_an_accepted_step_and_none_for_a_search():
    data = rows("poisson")
    for objective in composite(*data, record=True, loss="poisson", C=1.0, l1_ratio=1.0):
        steps = owlqn(objective, objective.origin, tol=0.0)
        points = [next(steps) for _ in range(12)]
        asked = objective.engine.requests
        searches = sum(
            name == "EvaluateAlong" and asked[k - 1] == "Evaluate" for k, name in enumerate(asked)
        )
        assert set(asked) == {"Evaluate", "EvaluateAlong"}
        assert searches > 0
        assert objective.passes == len(points) + searches
        values = [iterate.point.value for iterate in points]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_no_hessian_of_many_features_is_formed_where_rounding_ends_the_search(loss, monkeypatch):
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", D - 1)
    penalty = PENALTIES["zero factors"]
    for objective in composite(*rows(loss), record=True, loss=loss, C=1.0, **penalty):
        # until no step goes downhill, which takes as many points as there are
        for _ in zip(range(400), owlqn(objective, objective.origin, tol=0.0), strict=False):
            pass
        assert "Evaluate+gram" not in objective.engine.requests


@pytest.mark.parametrize("penalty", ["lasso", "bounds", "positive lasso", "zero factors"])
def test_a_step_ends_in_its_orthant_and_lowers_the_tangent(penalty):
    given = dict(PENALTIES[penalty])
    if given.pop("positive", False):
        given["lower_bounds"] = 0.0
    rng = np.random.default_rng(0)
    for objective in composite(*rows(), **given):
        terms = objective.penalty.kinks
        kinked = terms.strengths > 0.0
        point = objective.at(0.1 * rng.standard_normal(objective.size), diagonal=True)
        model = LimitedMemory(objective, point)
        for _ in range(30):
            w = point.w + 0.3 * rng.standard_normal(objective.size)
            w[rng.random(len(w)) < 0.3] = 0.0
            after = objective.at(w, diagonal=model.is_due)
            model.update(point, after)
            end = _end_of_step(objective, after, model)
            assert after.residual @ (end - after.w) < 0.0
            assert not (kinked & (end * after.w < 0.0)).any()
            fell = kinked & (after.w == 0.0)
            assert (end * after.residual <= 0.0)[fell].all()
            np.testing.assert_array_equal(terms.clip(end), end)
            point = after


# ---- when it is chosen
def test_groups_are_not_for_it():
    X, y = rows()
    with pytest.raises(
        ValueError, match="solver='owlqn' takes no groups of coefficients; use 'auto'"
    ):
        daskglm.fit(X, y, solver="owlqn", l1_ratio=1.0, groups=np.arange(D) // 3)
    for objective in composite(X, y, l1_ratio=1.0, groups=np.arange(D) // 3):
        workload = Workload.of(objective)
        assert workload.grouped
        assert not get_solver("owlqn").applies(workload)
        assert get_solver("proximal_newton").applies(workload)
        assert choose(objective)[0] == "proximal_newton"


def test_the_curvature_ratio_is_over_what_an_elastic_net_leaves_of_the_ridge():
    ratios = []
    for l1_ratio in (0.0, 0.5, 0.9):
        for objective in composite(*rows(), l1_ratio=l1_ratio):
            ratios.append(Workload.of(objective).curvature_ratio)
    assert ratios[1:] == pytest.approx([2.0 * ratios[0], 10.0 * ratios[0]])


def test_auto_takes_proximal_newton_instead():
    rng = np.random.default_rng(0)
    chosen = {}
    for d in (50, 1500, 2500):
        X = (
            sp.random(3000, d, 0.01, "csr", random_state=0)
            if d == 2500
            else rng.standard_normal((3000, d))
        )
        y = np.where(X @ rng.standard_normal(d) > 0, 1.0, -1.0)
        for objective in composite(X, y, l1_ratio=1.0):
            chosen[d] = choose(objective)[0]
    assert set(chosen.values()) == {"proximal_newton"}
