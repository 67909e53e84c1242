"""Ordinal fits between settings and solvers: weightless classes, separable ones, starts, statistics."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from daskglm.fitting.config import FitConfig
from daskglm.fitting.joint import joint_fit
from daskglm.fitting.runner import train
from daskglm.losses.table import find
from tests.objectives.ordinal_objectives import rows
from tests.oracle.ordinal import Reference


def fitted(X, y, C=1.0, solver="auto", tol=1e-10, start=None, **data):
    return train(X, y, FitConfig("ordinal", C=C, solver=solver, tol=tol), start=start, **data)


def test_the_loss_is_known_by_its_name():
    assert joint_fit(find("ordinal")) is not None
    assert joint_fit(find("logistic")) is None
    with pytest.raises(ValueError, match="takes no parameter"):
        find("ordinal(2)")


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron", "gd"])
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_every_solver_reaches_the_optimum_and_proves_it(solver, C):
    X, y = rows(0, n=300, K=4)
    found = fitted(X, y, C, solver, tol=1e-8)
    reference = Reference(X, y, C)
    best, least = reference.least(reference.vector(found.coef, found.intercept))
    assert found.report.relative_gap <= 1e-8
    value = reference.value(reference.vector(found.coef, found.intercept))
    unit = np.finfo(np.longdouble).eps  # of the reference
    assert value / least - 1 <= found.report.relative_gap + unit
    error = np.linalg.norm(found.coef - best[:4]) / np.linalg.norm(found.coef)
    assert error <= found.report.coefficient_error


def test_samples_of_many_rows_begin_a_fit_of_the_same_optimum():
    X, y = rows(1, n=100_000, d=25, K=3)
    found = fitted(X, y, solver="newton", tol=1e-9)
    # less than a pass for samples, whose result is 30 times nearer than the origin
    assert 1.0 < found.report.history[0]["passes"] < 2.0
    zero = 2 * found.report.history[0]["objective"]
    assert found.report.null_deviance > 1.5 * zero
    assert found.report.passes < 5.0
    other = fitted(X, y, solver="lbfgs", tol=1e-9)
    np.testing.assert_allclose(found.coef, other.coef, atol=2e-5)


@pytest.mark.parametrize("empty", [[1], [0], [4], [0, 1, 4], [2, 3]])
def test_a_class_without_weight_has_no_probability(empty):
    from daskglm.core.decisions import ordinal_probabilities

    X, y = rows(2, n=300, K=5)
    kept = ~np.isin(y, empty)
    found = fitted(X, y, sample_weight=kept.astype(float))
    fewer = fitted(X[kept], y[kept])
    np.testing.assert_allclose(found.coef, fewer.coef, rtol=1e-9)
    assert (np.diff(found.intercept) >= 0).all()
    p = ordinal_probabilities(found.intercept, X @ found.coef[0])
    q = ordinal_probabilities(fewer.intercept, X @ found.coef[0])
    assert p[:, empty].max() < 1e-12
    np.testing.assert_allclose(np.delete(p, empty, axis=1), q, atol=1e-9)
    # where it ended another fit can start
    again = fitted(
        X,
        y,
        solver="lbfgs",
        tol=1e-6,
        start=(found.coef, found.intercept),
        sample_weight=kept * 1.0,
    )
    assert again.report.n_iter == 0


def test_one_class_with_weight_is_refused():
    X, y = rows(3)
    with pytest.raises(ValueError, match="only the class 2 has weight"):
        fitted(X, y, sample_weight=(y == 2).astype(float))


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron"])
def test_separable_classes_are_told_without_a_penalty(solver):
    X = np.linspace(-1, 1, 60)[:, None]
    y = np.digitize(X[:, 0], [-0.3, 0.4])
    with pytest.warns(ConvergenceWarning, match="separable"):
        found = fitted(X, y, np.inf, solver)
    assert not found.report.converged
    # and fitted with one
    assert fitted(X, y, 1e4, solver, tol=1e-8).report.relative_gap <= 1e-8


def test_overlapping_classes_are_not_taken_for_separable_ones():
    X, y = rows(4)
    assert fitted(X, y, np.inf, "newton").report.converged


def test_dependent_columns_are_told_without_a_penalty():
    X, y = rows(5)
    with pytest.warns(ConvergenceWarning, match="linearly dependent"):
        fitted(np.c_[X, X[:, 0] + X[:, 1]], y, np.inf, "newton", tol=1e-6)
    # a constant column is one, for thresholds are free
    with pytest.warns(ConvergenceWarning, match="linearly dependent"):
        fitted(np.c_[X, np.ones(len(X))], y, np.inf, "newton", tol=1e-6)


def test_starts_of_other_shapes_are_refused():
    X, y = rows(6)
    with pytest.raises(ValueError, match=r"it wants \(4,\) and \(3,\)"):
        fitted(X, y, start=(np.zeros(4), np.zeros(2)))
    with pytest.raises(ValueError, match="do not increase"):
        fitted(X, y, start=(np.zeros(4), np.array([1.0, 0.0, 2.0])))


def test_statistics_follow_from_the_likelihood():
    X, y = rows(7, K=3)
    rng = np.random.default_rng(0)
    weight, offset = rng.random(len(y)), rng.standard_normal(len(y))
    found = fitted(X, y, np.inf, sample_weight=weight, offset=offset)
    reference, report = Reference(X, y, np.inf, weight, offset), found.report
    v = reference.vector(found.coef, found.intercept)
    assert report.log_likelihood == pytest.approx(-float(weight @ reference.losses(v)), rel=1e-12)
    assert report.deviance == pytest.approx(-2 * report.log_likelihood, rel=1e-14)
    assert report.aic == pytest.approx(report.deviance + 2 * 6, rel=1e-14)
    assert report.bic == pytest.approx(report.deviance + np.log(len(y)) * 6, rel=1e-14)
    null = reference.least(np.append(np.zeros(4), [-1.0, 1.0]), slice(4, None))[1]
    assert report.null_deviance == pytest.approx(2 * float(null), rel=1e-12)
    assert report.dispersion == 1.0
    penalised = fitted(X, y, 0.1, sample_weight=weight)
    assert np.isnan(penalised.report.aic)
    shares = np.bincount(y, weight)
    entropy = -2 * shares @ np.log(shares / shares.sum())
    assert penalised.report.null_deviance == pytest.approx(entropy, rel=1e-12)


def test_a_checkpoint_is_resumed(tmp_path):
    X, y = rows(8, n=400, d=10)

    def settings(**more):
        return FitConfig("ordinal", solver="lbfgs", tol=1e-9, **more)

    with pytest.warns(ConvergenceWarning):
        train(X, y, settings(max_iter=3, checkpoint=tmp_path, checkpoint_every=1))
    on = train(X, y, settings(resume=tmp_path))
    whole = train(X, y, settings())
    assert on.report.resumed == 3
    assert on.report.n_iter == whole.report.n_iter - 3
    np.testing.assert_array_equal(on.coef, whole.coef)
    np.testing.assert_array_equal(on.intercept, whole.intercept)
    with pytest.raises(ValueError, match="constants|classes"):
        train(X, np.minimum(y, 2), settings(resume=tmp_path))


def test_sdca_has_no_dual_to_solve():
    with pytest.raises(ValueError, match="has no dual"):
        fitted(*rows(9), solver="sdca")
