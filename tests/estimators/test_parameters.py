"""scikit-learn's and dask-ml's names: what they ask for, what they refuse, and that they fit what scikit-learn fits."""

import inspect
import math

import numpy as np
import pytest
import sklearn.linear_model
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import StandardScaler

import daskglm
from daskglm.estimators.parameters import SOLVER_NAMES, settings_of, threads_of
from daskglm.solvers import get_solver, solver_names
from tests.conftest import make_problem

PAIRS = [
    (daskglm.LogisticRegression, sklearn.linear_model.LogisticRegression),
    (daskglm.LinearSVC, sklearn.svm.LinearSVC),
    (daskglm.Ridge, sklearn.linear_model.Ridge),
    (daskglm.Lasso, sklearn.linear_model.Lasso),
    (daskglm.ElasticNet, sklearn.linear_model.ElasticNet),
]
ours = pytest.mark.parametrize("estimator", [pair[0] for pair in PAIRS])


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_every_parameter_of_scikit_learn_is_there_and_positional_ones_are_in_its_order(
    ours, theirs
):
    def parameters(cls):
        return dict(list(inspect.signature(cls.__init__).parameters.items())[1:])

    assert set(parameters(theirs)) <= set(parameters(ours))
    positional = [
        name for name, each in parameters(theirs).items() if each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    found = [
        name for name, each in parameters(ours).items() if each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    assert found == positional


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_parameters_of_scikit_learns_estimator_fit_as_they_are(ours, theirs):
    X, y = make_problem(n=120, d=3)
    ours(**theirs().get_params()).fit(X, y)


@ours
def test_parameters_are_kept_as_given_and_cloned(estimator):
    model = estimator(n_jobs=2, verbose=0, solver="newton", max_iter=7)
    assert clone(model).get_params() == model.get_params()
    assert estimator().set_params(n_jobs=1).n_jobs == 1


@pytest.mark.parametrize("name", sorted(SOLVER_NAMES))
def test_other_packages_solvers_run_and_the_report_says_what_ran(name):
    X, y = make_problem(n=150, d=3)
    if get_solver(SOLVER_NAMES[name][1]).rounds_corners:
        model = daskglm.QuantileRegressor(solver=name).fit(X, y)
        assert model.report_.solver == "proximal"
        assert f"solver={name!r}" in model.report_.why
        return
    model = daskglm.LogisticRegression(solver=name).fit(X, y)
    whose, solver = SOLVER_NAMES[name]
    assert solver in solver_names()
    assert model.report_.solver.startswith(solver)
    assert model.report_.why == f"solver={name!r} of {whose}: {solver}"
    assert model.solver == name
    reference = daskglm.fit(X, y, tol=1e-10)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=2e-2)
    assert daskglm.fit(X, y, solver=name).report_.why == model.report_.why


def test_solvers_of_the_dual_without_a_penalty_and_for_the_hinge():
    X, y = make_problem(n=150, d=3)
    assert daskglm.LogisticRegression(C=math.inf, solver="saga").fit(X, y).report_.solver == "lbfgs"
    assert (
        daskglm.LogisticRegression(penalty=None, solver="sag").fit(X, y).report_.solver == "lbfgs"
    )
    assert settings_of({"solver": "liblinear"}, "hinge").solver == "sdca"
    assert daskglm.LinearSVC(dual=True).fit(X, y).report_.solver.startswith("sdca")
    assert (
        daskglm.LogisticRegression(dual=True, solver="liblinear").fit(X, y).report_.why
        == "dual=True"
    )


def test_ridge_takes_alpha_or_C():
    X, y = load_diabetes(return_X_y=True)
    for alpha in (0.25, 3.0):
        theirs = sklearn.linear_model.Ridge(alpha).fit(X, y)
        for model in (daskglm.Ridge(alpha, tol=1e-12), daskglm.Ridge(C=1 / alpha, tol=1e-12)):
            np.testing.assert_allclose(model.fit(X, y).coef_, theirs.coef_, rtol=1e-8)
    np.testing.assert_allclose(
        daskglm.Ridge(tol=1e-12).fit(X, y).coef_,
        sklearn.linear_model.Ridge().fit(X, y).coef_,
        rtol=1e-8,
    )
    least_squares = sklearn.linear_model.LinearRegression().fit(X, y)
    np.testing.assert_allclose(
        daskglm.Ridge(alpha=0, tol=1e-12).fit(X, y).coef_, least_squares.coef_, rtol=1e-6
    )
    assert daskglm.Ridge(solver="svd").fit(X, y).solver_ == "newton"


def test_no_penalty_by_name():
    X, y = make_problem(n=300, d=3)
    named = daskglm.LogisticRegression(penalty=None, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(
        named.coef_, daskglm.LogisticRegression(C=math.inf, tol=1e-10).fit(X, y).coef_
    )
    with pytest.warns(UserWarning, match="penalty=None: C=3.0 has no effect"):
        daskglm.LogisticRegression(penalty=None, C=3.0).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            daskglm.LogisticRegression(10.0),
            "penalty=10.0 must be one of 'l2', .* or None; C, alpha and loss are arguments",
        ),
        (daskglm.LinearSVC("hinge"), "penalty='hinge' must be"),
        (daskglm.LogisticRegression(intercept_scaling=0), "intercept_scaling=0 must be a number"),
        (daskglm.LinearSVC(intercept_scaling=-1.0), "intercept_scaling=-1.0 must be a number ab"),
        (daskglm.LogisticRegression(intercept_scaling=math.inf), "intercept_scaling=inf must be"),
        (
            daskglm.LinearSVC(multi_class="crammer_singer"),
            "multi_class='crammer_singer' is not implemented",
        ),
        (
            daskglm.LinearSVC(loss="hinge", dual=False),
            "dual=False: loss='hinge' has a dual solver only",
        ),
        (
            daskglm.LogisticRegression(dual=True, solver="lbfgs"),
            "dual=True wants a solver of the dual problem",
        ),
        (daskglm.LogisticRegression(dual="yes"), "dual='yes' must be"),
        (daskglm.LogisticRegression(n_jobs=0), "n_jobs=0 must be"),
        (daskglm.LogisticRegression(n_jobs=1.5), "n_jobs=1.5 must be"),
        (daskglm.LogisticRegression(verbose=-1), "verbose=-1 must be"),
        (daskglm.LogisticRegression(solver="simplex"), "solver='simplex' is not one of"),
        (daskglm.Ridge(1.0, C=1.0), "alpha=1.0 and C=1.0 both set the penalty"),
        (daskglm.Ridge(alpha=-1.0), "alpha=-1.0 must be a number not below 0"),
        (daskglm.Ridge(alpha="a"), "alpha='a' must be"),
        (daskglm.Ridge(alpha=math.nan), "alpha=nan must be"),
        (daskglm.Ridge(copy_X="no"), "copy_X='no' must be"),
        (daskglm.Ridge(max_iter=-1), "max_iter=-1 must be"),
    ],
)
def test_what_is_not_there_is_refused_by_name_at_fit(model, message):
    X, y = make_problem(n=30, d=2)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_any_scale_of_an_intercept_without_a_penalty_is_without_effect():
    X, y = make_problem(n=60, d=3)
    for cls in (daskglm.LogisticRegression, daskglm.LinearSVC, daskglm.LinearSVR):
        plain = cls(tol=1e-8).fit(X, y)
        for scale in (1e-3, 10, np.float64(1e6)):
            scaled = cls(tol=1e-8, intercept_scaling=scale).fit(X, y)
            np.testing.assert_array_equal(scaled.coef_, plain.coef_)
            np.testing.assert_array_equal(scaled.intercept_, plain.intercept_)
    chosen = daskglm.LogisticRegressionCV(Cs=2, cv=3, intercept_scaling=100.0).fit(X, y)
    assert chosen.report_.converged


def test_n_jobs_are_threads_of_this_process(monkeypatch):
    import daskglm.engines.factory

    made = []

    class Recorded(daskglm.engines.factory.Local):
        def __init__(self, blocks, threads=None, *args):
            made.append(threads)
            super().__init__(blocks, threads, *args)

    monkeypatch.setattr(daskglm.engines.factory, "Local", Recorded)
    X, y = make_problem(n=100, d=3)
    daskglm.LogisticRegression(n_jobs=1).fit(X, y)
    daskglm.LogisticRegression(n_jobs=-1).fit(X, y)
    daskglm.fit(X, y, n_jobs=3)
    assert made == [1, None, 3]
    assert threads_of(-2) == max((__import__("os").cpu_count() or 1) - 1, 1)


def test_verbose_shows_progress(capsys):
    X, y = make_problem(n=100, d=3)
    daskglm.LogisticRegression(verbose=1).fit(X, y)
    assert "newton" in capsys.readouterr().err
    daskglm.LogisticRegression(verbose=1, progress=False).fit(X, y)
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs", "gd", "sdca"])
def test_no_iteration_is_the_first_point(solver):
    X, y = make_problem(n=100, d=3)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="max_iter"):
        model = daskglm.LogisticRegression(solver=solver, max_iter=0).fit(X, y)
    assert model.n_iter_.tolist() == [0]
    np.testing.assert_array_equal(model.coef_, 0.0)


def test_coefficients_are_those_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    theirs = sklearn.linear_model.LogisticRegression(
        solver="newton-cholesky", C=0.5, tol=1e-10
    ).fit(X, y)
    model = daskglm.LogisticRegression(solver="newton-cholesky", C=0.5, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=1e-5, atol=1e-7)
    assert (
        model.coef_.dtype
        == daskglm.LogisticRegression().fit(X.astype(np.float32), y).coef_.dtype
        == np.float64
    )
