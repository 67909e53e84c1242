"""Proximal Newton: the same optimum wherever the rows are, few passes, and what is refused."""

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.conftest import make_problem
from tests.covering import covering, each_choice
from tests.fitting.test_checkpoint import killed
from tests.objectives.with_l1 import best_of

PENALTIES = {
    "lasso": {"l1_ratio": 1.0},
    "net": {"l1_ratio": 0.4},
    "factors": {"l1_ratio": 0.6, "penalty_factor": [1.0, 0.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.0]},
    "bounds": {"l1_ratio": 0.5, "lower_bounds": -0.4, "upper_bounds": [0.5] * 4 + [0.0] * 4},
    "positive": {"positive": True},
    "groups": {"l1_ratio": 0.9, "groups": [0, 0, 1, 1, 1, 2, 3, 3]},
    "P2": {"l1_ratio": 0.3, "P2": 2.0 * np.eye(8) - np.eye(8, k=1) - np.eye(8, k=-1)},
    "standardize": {"l1_ratio": 0.7, "standardize": True},
}
LOSSES = ("logistic", "squared", "poisson", "squared_hinge")


def problem(loss="logistic", *, n=600, sparse=False, dtype=np.float64, d=8):
    return make_problem(n, d, loss=loss, sparse=sparse, dtype=dtype, seed=3)


def fit(X, y, loss="logistic", *, tol=1e-10, C=0.05, **options):
    return daskglm.fit(X, y, loss=loss, C=C, tol=tol, **options)


def lazy(X, y, chunk=170):
    if sp.issparse(X):
        blocks = da.from_array(X.toarray(), chunks=(chunk, X.shape[1]))
        return blocks.map_blocks(sp.csr_matrix, dtype=X.dtype), da.from_array(y, chunks=chunk)
    return da.from_array(X, chunks=(chunk, X.shape[1])), da.from_array(y, chunks=chunk)


def check_same(model, other, atol=1e-5):
    assert model.report_.converged
    scale = max(np.abs(other.coef_).max(), 1e-3)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=atol * scale)
    np.testing.assert_allclose(model.intercept_, other.intercept_, atol=10 * atol)
    assert model.report_.objective == pytest.approx(other.report_.objective, rel=1e-8)
    np.testing.assert_array_equal(model.coef_ == 0.0, other.coef_ == 0.0)


# ---- the optimum
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge", "poisson"])
def test_the_optimum_of_long_double(loss, l1_ratio, intercept):
    X, y = problem(loss, n=200)
    weight = np.random.default_rng(0).exponential(1.0, len(y))
    options = {"l1_ratio": l1_ratio, "fit_intercept": intercept, "sample_weight": weight}
    model = fit(X, y, loss, tol=1e-12, solver="proximal_newton", **options)
    strengths = {"C": 0.05, "strength": 1.0 - l1_ratio, "l1": l1_ratio, "weight": weight}
    best = best_of(X, y, loss, fit_intercept=intercept, **strengths)
    coef = np.ravel(model.coef_)
    np.testing.assert_allclose(coef, best[:8], atol=1e-5 * np.abs(best).max())
    np.testing.assert_array_equal(coef == 0.0, np.abs(best[:8]) < 1e-12)


@covering(1, sparse=[False, True], penalty=PENALTIES, loss=LOSSES)
def test_the_same_optimum_out_of_core(loss, penalty, sparse):
    X, y = problem(loss, sparse=sparse)
    here = fit(X, y, loss, **PENALTIES[penalty])
    assert here.report_.relative_gap <= 1e-10 or loss == "squared_hinge"
    streamed = fit(*lazy(X, y), loss, out_of_core=True, **PENALTIES[penalty])
    check_same(streamed, here)


@covering(1, penalty=PENALTIES, loss=["logistic", "squared", "poisson"])
def test_the_same_optimum_on_two_workers(client, loss, penalty):
    X, y = problem(loss)
    here = fit(X, y, loss, **PENALTIES[penalty])
    there = fit(*lazy(X, y), loss, client=client, **PENALTIES[penalty])
    assert there.report_.workers == 2
    check_same(there, here)


@pytest.mark.slow
@covering(1, sparse=[False, True], penalty=PENALTIES, loss=["logistic", "squared", "poisson"])
def test_the_same_optimum_on_a_device(cupy, loss, penalty, sparse):
    X, y = problem(loss, sparse=sparse, dtype=np.float32)
    here = fit(X, y, loss, tol=1e-8, **PENALTIES[penalty])
    there = fit(X, y, loss, tol=1e-8, device="cuda", **PENALTIES[penalty])
    assert there.report_.device == "cuda"
    assert isinstance(there.coef_, np.ndarray)
    check_same(there, here, atol=1e-3)


@pytest.mark.parametrize("penalty", ["lasso", "bounds", "groups", "standardize"])
def test_a_killed_fit_is_resumed(penalty, tmp_path):
    X, y = problem("poisson")
    options = {"solver": "proximal_newton", **PENALTIES[penalty]}
    whole = fit(X, y, "poisson", **options)
    killed(tmp_path / "c", X, y, at=2, loss="poisson", C=0.05, tol=1e-10, **options)
    rest = fit(X, y, "poisson", resume=tmp_path / "c", **options)
    assert rest.report_.resumed == 2
    assert rest.report_.n_iter < whole.report_.n_iter
    check_same(rest, whole)


def test_a_checkpoint_of_another_penalty_is_refused(tmp_path):
    X, y = problem("poisson")
    options = {"loss": "poisson", "C": 0.05, "tol": 1e-10, "solver": "proximal_newton"}
    killed(tmp_path / "c", X, y, at=1, l1_ratio=1.0, **options)
    with pytest.raises(ValueError, match="penalty"):
        daskglm.fit(X, y, resume=tmp_path / "c", l1_ratio=0.9, **options)


# ---- passes
@each_choice
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [
        daskglm.Lasso(0.1),
        daskglm.ElasticNet(0.1, l1_ratio=0.5),
        daskglm.Lasso(0.1, positive=True),
        daskglm.ElasticNet(0.1, l1_ratio=0.0),
    ],
    ids=["lasso", "net", "positive", "ridge"],
)
def test_least_squares_take_one_pass(client, model, dtype):
    X, y = problem("squared", n=3000, dtype=dtype)
    assert model.fit(X, y).report_.passes == 1.0
    coef = model.coef_
    assert model.report_.relative_gap <= 1e-6
    assert model.fit(*lazy(X, y, 700)).report_.passes == 1.0
    assert model.report_.workers == 2
    np.testing.assert_allclose(model.coef_, coef, atol=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_a_unit_step_is_one_pass(loss):
    X, y = problem(loss)
    report = fit(X, y, loss, solver="proximal_newton", l1_ratio=1.0).report_
    assert report.passes <= report.n_iter + 2  # one more with Hessians in float64, or an intercept


# ---- what ends a fit
def test_too_few_iterations_warn_with_the_gap_that_was_reached():
    X, y = problem("poisson")
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        model = fit(X, y, "poisson", l1_ratio=1.0, max_iter=1)
    report = model.report_
    assert not report.converged
    best = fit(X, y, "poisson", l1_ratio=1.0).report_.objective
    assert (report.objective - best) / best <= report.relative_gap
    assert report.objective > best


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
@pytest.mark.parametrize("more", [1.0, 1.001, 30.0])
def test_all_coefficients_are_zero_from_the_largest_strength_on(loss, more):
    X, y = problem(loss)
    mean = y.mean()
    slope = {"logistic": (mean - y) / 2, "squared": mean - y, "poisson": mean - y}[loss]
    largest = float(np.abs(X.T @ slope).max())
    model = fit(X, y, loss, C=1.0 / (largest * more * (1 + 1e-9)), l1_ratio=1.0, tol=1e-6)
    assert not model.coef_.any()
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-6
    less = fit(X, y, loss, C=1.0 / (largest * 0.99), l1_ratio=1.0, tol=1e-9)
    assert np.count_nonzero(less.coef_) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_values_are_refused(bad):
    X, y = problem("squared")
    with pytest.raises(ValueError, match="y "):
        fit(X, np.where(np.arange(len(y)) == 5, bad, y), "squared", l1_ratio=1.0)
    X = X.copy()
    X[3, 2] = bad
    with pytest.raises(ValueError, match="X "):
        fit(X, y, "squared", l1_ratio=1.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_single_class_is_refused(sparse):
    X, y = problem(sparse=sparse)
    with pytest.raises(ValueError, match="class"):
        fit(X, np.ones(len(y)), l1_ratio=1.0)


# ---- columns
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("constant", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_constant_column_changes_nothing(loss, constant, standardize):
    X, y = problem(loss)
    options = {"l1_ratio": 1.0, "standardize": standardize, "tol": 1e-9}
    without = fit(X, y, loss, **options)
    more = fit(np.column_stack([X, np.full(len(y), constant)]), y, loss, **options)
    assert more.report_.converged
    np.testing.assert_allclose(np.ravel(more.coef_)[:8], np.ravel(without.coef_), atol=1e-4)
    assert np.ravel(more.coef_)[8] == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_copies_of_columns(loss):
    X, y = problem(loss)
    once = fit(X, y, loss, l1_ratio=1.0, tol=1e-8)
    twice = fit(np.column_stack([X, X]), y, loss, l1_ratio=1.0, tol=1e-8)
    assert twice.report_.converged
    assert twice.report_.objective == pytest.approx(once.report_.objective, rel=2e-8)
    coef = np.ravel(twice.coef_)
    np.testing.assert_allclose(coef[:8] + coef[8:], np.ravel(once.coef_), atol=1e-3)
    # of an elastic net both copies have the same share
    net = np.ravel(fit(np.column_stack([X, X]), y, loss, l1_ratio=0.5, tol=1e-8).coef_)
    np.testing.assert_allclose(net[:8], net[8:], atol=1e-4)


@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_more_features_than_rows(loss, l1_ratio):
    X, _ = problem(loss, n=40, d=120)
    y = make_problem(40, 3, loss=loss, seed=3)[1]
    model = fit(X, y, loss, C=0.5, l1_ratio=l1_ratio, tol=1e-7)
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-7
    assert 0 < np.count_nonzero(model.coef_) < 40 * (3 if l1_ratio < 1 else 1)


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
@pytest.mark.parametrize("size", [1e10, 1e100, 1e150])
def test_huge_columns_are_not_silently_wrong(loss, size):
    """Either the optimum, in which such a column has no penalty to speak of, or a warning."""
    X, y = problem(loss)
    X = X.copy()
    X[:, 0] *= size
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = fit(X, y, loss, l1_ratio=1.0, tol=1e-6)
        except ValueError:
            return
    if not model.report_.converged:
        assert any(issubclass(each.category, ConvergenceWarning) for each in caught)
        return
    rest = X.copy()
    rest[:, 0] /= size
    free = fit(rest, y, loss, l1_ratio=1.0, penalty_factor=[0.0] + [1.0] * 7, tol=1e-9)
    np.testing.assert_allclose(np.ravel(model.coef_)[1:], np.ravel(free.coef_)[1:], atol=0.02)
    assert np.ravel(model.coef_)[0] * size == pytest.approx(np.ravel(free.coef_)[0], rel=0.02)
