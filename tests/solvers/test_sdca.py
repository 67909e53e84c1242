"""Dual coordinate ascent: what holds in every mode, the same optimum as other solvers, and that nothing is wrong silently."""

import importlib

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from benchmarks.unseen.problems import raw_counts
from daskglm.core.requests import SDCAConfig
from daskglm.duals.dual import Dual
from daskglm.solvers import costs
from tests.conftest import make_problem
from tests.covering import each_choice
from tests.solvers.ascents import rows
from tests.solvers.problems import make_objective

# ---- properties of every mode


@each_choice
@pytest.mark.parametrize(
    "options", [{}, {"aggregation": "safe"}, {"aggregation": "search"}, {"partitioning": "static"}]
)
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_reproducible_for_a_random_state(options, partitions):
    X, y = make_problem(2000, 9, sparse=True, dtype=np.float32)
    options = {**options, "partitions": partitions, "bucket_size": 4}

    def coef(seed):
        model = daskglm.fit(
            X, y, solver="sdca", random_state=seed, tol=1e-4, solver_options=options
        )
        return model.coef_, len(model.report_.history)

    (a, rounds), (b, _) = coef(3), coef(3)
    np.testing.assert_array_equal(a, b)
    assert rounds > 2
    assert (a != coef(4)[0]).any()


# ---- the optimum
@each_choice
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "smoothed_hinge", "squared"])
def test_same_optimum_as_newton(loss, sparse, intercept):
    X, y = make_problem(1000, 6, loss=loss, sparse=sparse, seed=5)
    weight = np.random.default_rng(0).exponential(size=len(y)) * (np.arange(len(y)) % 7 > 0)
    params = {"loss": loss, "fit_intercept": intercept, "sample_weight": weight, "C": 0.3}
    ours = daskglm.fit(
        X, y, solver="sdca", tol=1e-9, random_state=0, solver_options={"polish": False}, **params
    )
    theirs = daskglm.fit(X, y, solver="newton", tol=1e-13, **params)
    excess = (ours.report_.objective - theirs.report_.objective) / theirs.report_.objective
    assert -1e-12 <= excess <= ours.report_.relative_gap <= 1e-9
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3 * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


def test_hinge_is_liblinears():
    from sklearn.svm import LinearSVC

    X, y = make_problem(800, 5)
    ours = daskglm.LinearSVC(
        loss="hinge", fit_intercept=False, tol=1e-5, C=0.1, random_state=0, max_iter=5000
    ).fit(X, y)
    theirs = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-9, C=0.1, max_iter=10**6).fit(X, y)
    assert ours.report_.solver.startswith("sdca")

    def value(w):
        return 0.5 * w @ w + 0.1 * np.maximum(0, 1 - y * (X @ w)).sum()

    assert value(ours.coef_[0]) == pytest.approx(ours.report_.objective, rel=1e-12)
    assert (value(ours.coef_[0]) - value(theirs.coef_[0])) / value(theirs.coef_[0]) <= 1e-5


def test_hinge_with_unpenalised_intercept():
    """Against a linear program's worth of exactness: the best of a fine search over the intercept."""
    X, y = make_problem(400, 2, seed=2)
    ours = daskglm.fit(X, y, loss="hinge", C=0.05, tol=1e-6, random_state=0, max_iter=20_000)

    def best(b):
        fixed = daskglm.fit(
            np.c_[X, np.full(len(y), 1e4)],
            y,
            loss="hinge",
            C=0.05,
            fit_intercept=False,
            tol=1e-3,
            random_state=0,
        )
        return fixed

    from scipy.optimize import minimize

    def objective(u):
        return 0.5 * u[:2] @ u[:2] + 0.05 * np.maximum(0, 1 - y * (X @ u[:2] + u[2])).sum()

    start = np.append(ours.coef_[0], ours.intercept_[0])
    found = min(
        minimize(
            objective,
            start + 0.01 * np.random.default_rng(k).standard_normal(3),
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 4000, "maxfev": 8000},
        ).fun
        for k in range(3)
    )
    assert ours.report_.objective <= found * (1 + 1e-6)
    assert objective(start) == pytest.approx(ours.report_.objective, rel=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_shrinking_reaches_the_same_optimum(loss):
    X, y = make_problem(1500, 8, sparse=True, seed=4)
    values = [
        daskglm.fit(
            X,
            y,
            loss=loss,
            solver="sdca",
            C=0.2,
            tol=1e-6,
            random_state=0,
            max_iter=5000,
            solver_options={"shrinking": on, "polish": False},
        ).report_.objective
        for on in (False, True)
    ]
    assert values[1] == pytest.approx(values[0], rel=2e-6)


def test_rows_that_were_passed_over_are_met_again_once_the_others_are_at_their_best():
    """Their margins are not known meanwhile: estimates could come to rest above what is wanted."""
    obj = make_objective("hinge", C=0.1, intercept=False, n=2000, d=20)
    dual = Dual(obj, np.zeros(obj.size), SDCAConfig(shrink=True), 0)
    asleep = []
    for _ in range(60):
        dual.round(1.0, 1.0)
        (cache,) = obj.engine.shard.caches.values()
        asleep.append(int(cache.dual.asleep.sum()))
        dual.commit(1.0)
    passed_over = np.flatnonzero(asleep)
    assert len(passed_over), asleep
    assert 0 in asleep[passed_over[0] :], asleep


def test_a_slow_ascent_with_corners_takes_several_epochs_a_round_and_no_other_method():
    """Proximal points by TRON took 190 to 5,600 passes where a tenth to four tenths were left."""
    X, y = raw_counts(4_000, 0)
    report = daskglm.fit(X, y, loss="hinge", fit_intercept=False, random_state=0).report_
    assert report.converged
    assert report.solver == "sdca"
    assert report.passes > 1.5 * report.n_iter
    one = {"local_epochs": 1, "shrinking": False, "polish": False}
    plain = daskglm.fit(
        X, y, loss="hinge", fit_intercept=False, random_state=0, solver_options=one, solver="sdca"
    )
    assert report.objective == pytest.approx(plain.report_.objective, rel=2e-6)


def without_steps(monkeypatch):
    """Have slow ascents search from outside, as those of losses without bounds do.

    They may come to rest before the gap is met.
    """
    module = importlib.import_module("daskglm.solvers.sdca")
    monkeypatch.setattr(module, "takes_steps", lambda dual: False)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("loss", "C", "weighted", "intercept", "options"),
    [
        ("hinge", 1.0, False, False, {}),
        ("hinge", 30.0, True, False, {}),
        ("hinge", 1.0, True, True, {}),
        ("hinge", 1.0, False, False, {"partitions": 3}),
        ("hinge", 1.0, False, False, {"shrinking": False}),
        ("squared_hinge", 30.0, True, False, {}),
    ],
)
def test_steps_between_epochs_take_fewer_of_them(
    loss, C, weighted, intercept, options, monkeypatch
):
    X, y = raw_counts(1_500, 0)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 3.0], len(y)) if weighted else None
    given = {"loss": loss, "C": C, "fit_intercept": intercept, "random_state": 0}
    given |= {"solver": "sdca", "solver_options": {"polish": False, **options}}
    steps = daskglm.fit(X, y, sample_weight=weight, **given).report_
    without_steps(monkeypatch)
    plain = daskglm.fit(X, y, sample_weight=weight, **given).report_
    assert steps.converged
    assert steps.objective <= plain.objective * (1.0 + 1e-6)
    assert steps.passes < 0.8 * plain.passes


def test_steps_over_blocks_of_a_dask_array_and_dense_rows():
    X, y = raw_counts(300, 2)
    X = X[:, np.argsort(-X.getnnz(axis=0))[:2_100]].toarray()
    options = {"solver": "sdca", "solver_options": {"polish": False}, "max_iter": 5000}
    given = {"loss": "hinge", "C": 1.0, "fit_intercept": False, "random_state": 0, **options}
    whole = daskglm.fit(X, y, **given).report_
    parts = daskglm.fit(*rows(X.astype(np.float32), y, blocks=4), **given).report_
    assert whole.converged
    assert parts.converged
    assert parts.objective == pytest.approx(whole.objective, rel=3e-6)


def test_steps_go_on_to_a_small_gap():
    """Errors of steps that are added up from each other do not grow without end."""
    X, y = raw_counts(1_000, 1)
    options = {"polish": False}
    report = daskglm.fit(
        X, y, loss="hinge", fit_intercept=False, tol=1e-9, solver="sdca", solver_options=options
    ).report_
    assert report.converged
    assert report.relative_gap <= 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_dynamic_partitions_need_fewer_epochs_than_static():
    X, y = make_problem(3000, 20, seed=6)

    def epochs(**options):
        model = daskglm.fit(
            X,
            y,
            solver="sdca",
            fit_intercept=False,
            C=0.02,
            tol=1e-4,
            random_state=0,
            max_iter=300,
            solver_options={"polish": False, "aggregation": "safe", **options},
        )
        return model.report_.n_iter

    one, static, dynamic = (
        epochs(partitions=1),
        epochs(partitions=16, partitioning="static"),
        epochs(partitions=16),
    )
    assert one <= dynamic < static


# ---- modes and reports
def test_wild_tells_when_it_is_wrong(monkeypatch):
    """A wild vector that has lost updates is found out: the report is made from the dual variables."""
    from daskglm.worker import local_epochs as epochs

    X, y = make_problem(500, 5, seed=1)
    sweep = epochs.Run._sweep

    def losing(self, slices, awake, v, sigma, epoch):
        before = v.copy()
        found = sweep(self, slices, awake, v, sigma, epoch)
        v[0] = before[0]  # as if other threads had overwritten every change of this entry
        return found

    monkeypatch.setattr(epochs.Run, "_sweep", losing)
    options = {"partitioning": "wild", "stop": "model-change", "partitions": 2}
    model = daskglm.fit(
        X, y, solver="sdca", fit_intercept=False, tol=1e-3, random_state=0, solver_options=options
    )
    assert model.report_.relative_gap > 1e-3
    w = model.coef_[0]
    assert 0.5 * w @ w + np.logaddexp(0, -y * (X @ w)).sum() == pytest.approx(
        model.report_.objective, rel=1e-12
    )


def test_wild_converges_where_collisions_are_rare():
    X = sp.random(4000, 3000, density=0.003, format="csr", random_state=1)
    y = np.where(np.asarray(X.sum(axis=1)).ravel() > 4.5, 1.0, -1.0)
    options = {"partitioning": "wild", "polish": False}
    model = daskglm.fit(
        X, y, solver="sdca", fit_intercept=False, tol=1e-3, random_state=0, solver_options=options
    )
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-3


def test_model_change_rule():
    X, y = make_problem(1000, 6)
    options = {"stop": "model-change"}
    model = daskglm.fit(X, y, solver="sdca", tol=1e-3, random_state=0, solver_options=options)
    report = model.report_
    assert report.converged
    assert "from one epoch to the next" in report.reason
    assert report.relative_gap < 1e-2
    assert report.history[-1]["relative_gap"] > 0.0


def test_history_says_what_is_estimated_and_the_report_is_not():
    X, y = make_problem(1000, 6)
    options = {"polish": False}
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        model = daskglm.fit(
            X, y, solver="sdca", tol=1e-9, max_iter=3, random_state=0, solver_options=options
        )
    report = model.report_
    assert [record["estimated"] for record in report.history] == [False, True, True, True]
    best = daskglm.fit(X, y, tol=1e-12).report_.objective
    assert 0 <= report.objective - best <= report.relative_gap * report.objective


def test_hand_over_to_newton(monkeypatch):
    X, y = make_problem(3000, 6, seed=2)
    model = daskglm.fit(X, y, solver="sdca", C=10.0, tol=1e-10, random_state=0)
    assert model.report_.solver == "sdca+newton"
    assert {record["solver"] for record in model.report_.history} == {"sdca", "newton"}
    assert model.report_.converged
    monkeypatch.setattr(costs, "LARGEST_HESSIAN", 3)
    assert (
        daskglm.fit(X, y, solver="sdca", C=10.0, tol=1e-10, random_state=0).report_.solver
        == "sdca+tron"
    )
    options = {"polish": False}
    stayed = daskglm.fit(
        X, y, solver="sdca", C=0.1, tol=1e-7, random_state=0, solver_options=options
    )
    assert stayed.report_.solver == "sdca"


@pytest.mark.slow
def test_search_needs_fewer_rounds_where_partitions_meet():
    X, y = make_problem(2000, 30, seed=8)
    runs = {}
    for how in ("safe", "search"):
        runs[how] = daskglm.fit(
            X,
            y,
            solver="sdca",
            fit_intercept=False,
            C=1.0,
            tol=1e-5,
            random_state=0,
            max_iter=2000,
            solver_options={"nodes": 4, "partitions": 4, "aggregation": how, "polish": False},
        ).report_
    assert runs["search"].converged
    assert runs["safe"].converged
    assert runs["search"].n_iter < runs["safe"].n_iter


@pytest.mark.parametrize("aggregation", ["adaptive", "safe"])
def test_changes_that_overlap_more_than_foreseen_are_shortened(aggregation):
    sigma = importlib.import_module("daskglm.solvers.sdca")._Sigma(aggregation, 4, 1)
    unlike = {"change": np.ones(4), "squares": 4.0, "inner": (0.0, 0.0)}
    alike = {**unlike, "change": np.array([4.0, 0.0, 0.0, 0.0])}
    assert sigma.after(unlike) == 1.0
    foreseen = sigma.outer
    assert foreseen == (4.0 if aggregation == "safe" else pytest.approx(1.1))
    assert sigma.after(alike) == foreseen / 4.0
    assert sigma.outer == 4.0
    assert sigma.after(alike) == 1.0


def test_an_ascent_of_one_group_goes_on_among_several_that_are_compared():
    sigma = importlib.import_module("daskglm.solvers.sdca")._Sigma("auto", 2, 1)
    sigma.restore(1.0, 1.0, False)
    changes = np.array([2.0, 0.0])
    assert sigma.after({"change": changes, "squares": 2.0, "inner": (0.0, 0.0)}) < 0.6
    assert sigma.outer == 2.0


def test_warm_start_goes_on_from_where_it_was():
    X, y = make_problem(2000, 6, seed=2)
    params = {
        "solver": "sdca",
        "random_state": 0,
        "solver_options": {"polish": False},
        "fit_intercept": True,
        "C": 0.1,
    }
    cold = daskglm.fit(X, y, tol=1e-8, **params)
    warm = daskglm.fit(X, y, tol=1e-8, warm_start=cold, **params)
    assert warm.report_.n_iter < 0.7 * cold.report_.n_iter
    assert warm.report_.objective == pytest.approx(cold.report_.objective, rel=1e-7)


# ---- storage
def test_equal_values_are_stored_as_a_pattern():
    from daskglm.data.blocks import Place, to_block
    from daskglm.kernels import Pattern

    rng = np.random.default_rng(0)
    n, fields = 3000, 5
    columns = rng.integers(0, 20, (n, fields)) + 20 * np.arange(fields)
    X = sp.csr_matrix(
        (np.full(n * fields, 0.5), columns.ravel(), np.arange(0, n * fields + 1, fields)),
        shape=(n, 100),
    )
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    block = to_block(X, y, place=Place(), classify=True)
    assert isinstance(block.X, Pattern)
    assert block.facts.nbytes < 0.5 * (X.data.nbytes + X.indices.nbytes)
    other = X.copy()
    other.data[0] = 0.5 + 1e-9  # no longer a pattern, and hardly another problem
    for solver in ("newton", "tron", "lbfgs", "sdca"):
        a = daskglm.fit(X, y, solver=solver, tol=1e-8, random_state=0)
        b = daskglm.fit(other, y, solver=solver, tol=1e-8, random_state=0)
        assert a.report_.objective == pytest.approx(b.report_.objective, rel=1e-7)
    blocks = daskglm.fit(
        da.from_array(X.toarray()).map_blocks(sp.csr_matrix), y, solver="sdca", random_state=0
    )
    assert blocks.report_.objective == pytest.approx(a.report_.objective, rel=1e-5)


@pytest.mark.parametrize("X", [np.zeros((40, 3)), np.full((40, 3), 1e12), np.eye(40, 3) * 1e-150])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_rows(X):
    y = np.where(np.arange(40) % 3, 1.0, -1.0)
    for loss in ("logistic", "hinge", "squared_hinge"):
        model = daskglm.fit(X, y, loss=loss, solver="sdca", random_state=0, max_iter=50)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.report_.objective)


# ---- wrong arguments
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"solver_options": {"partitioning": "random"}},
            "partitioning='random' is not one of 'dynamic'",
        ),
        ({"solver_options": {"aggregation": "mean"}}, "aggregation='mean'"),
        ({"solver_options": {"stop": "loss"}}, "stop='loss'"),
        ({"solver_options": {"partitions": 0}}, "partitions=0 must be a positive integer"),
        ({"solver_options": {"threads": 10**6}}, "threads=1000000 must be at most 1,024, or None"),
        ({"solver_options": {"partitions": 1025}}, "partitions=1025 must be at most 1,024"),
        ({"solver_options": {"nodes": 10**9}}, "nodes=1000000000 must be at most 1,024"),
        ({"solver_options": {"bucket_size": 2.5}}, "bucket_size=2.5"),
        ({"solver_options": {"shrinking": 3}}, "shrinking=3"),
        ({"solver_options": {"sigma": 1}}, "does not take sigma"),
        ({"C": np.inf}, "no dual problem"),
        ({"loss": "hinge", "solver": "newton"}, "needs a smooth loss"),
        ({"loss": "hinge", "solver_options": {"polish": 2}}, "polish=2 must be True or False"),
    ],
)
def test_wrong_arguments(params, message):
    X, y = make_problem(50, 3)
    with pytest.raises(ValueError, match=message):
        daskglm.fit(X, y, **{"solver": "sdca", **params})


def test_newton_refuses_a_hessian_that_cannot_fit():
    X = sp.csr_matrix((np.ones(4), ([0, 1, 2, 3], [0, 1, 2, 39_999])), shape=(4, 40_000))
    with pytest.raises(ValueError, match="40,000 x 40,000"):
        daskglm.fit(X, [0, 1, 0, 1], solver="newton")
