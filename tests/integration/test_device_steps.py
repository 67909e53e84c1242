"""Steps of solvers on a device: conjugate gradients with both kinds of metric, and how often the host waits."""

import importlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.core.device import gpu
from daskglm.engines import local as engine
from daskglm.solvers import costs
from tests.conftest import make_problem, objective
from tests.covering import covering
from tests.kernels.cuda.points import prepared

tron = importlib.import_module("daskglm.solvers.tron")  # the name is also that of the solver


# ---- the preconditioner
def correlated(n, d):
    rng = np.random.default_rng(3)
    X = (
        rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
        + 0.1 * rng.standard_normal((n, d))
    ).astype("f4")
    return X, np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0, 1.0, -1.0)


@covering(0, few=[0, 256], storage=["dense", "sparse", "pattern"])
def test_tron_is_preconditioned_by_a_sample_on_a_device(cupy, monkeypatch, storage, few):
    """Before: no part of the rows could be asked on a device, and TRON kept a mixture that nobody had examined."""
    monkeypatch.setattr(engine, "HOST_FEATURES", few)
    X, y = correlated(5000, 30)
    if storage != "dense":
        X = sp.csr_matrix(np.where(np.abs(X) > 0.3, X, 0.0))
    if storage == "pattern":
        X.data[:] = 0.5
    options = {"solver": "tron", "tol": 1e-7, "device": "cuda"}
    plain = daskglm.fit(X, y, **options)
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 1000)
    model = daskglm.fit(X, y, **options)
    best = daskglm.fit(X, y, solver="newton", tol=1e-10)
    values = [objective(X, y, m.coef_, m.intercept_, 1.0, "logistic") for m in (best, model)]
    assert values[1] <= values[0] * (1 + 1.1e-7)
    assert model.report_.passes < 0.7 * plain.report_.passes


def test_a_singular_sample_leaves_the_mixture(cupy, monkeypatch):
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 1000)
    X, y = make_problem(2000, 5)
    asked, point = prepared(X, y, "cuda")
    assert tron.Preconditioner(asked, point.w).full is not None
    monkeypatch.setattr(tron.DenseMetric, "inverse", None)
    assert tron.Preconditioner(asked, point.w).full is None


@pytest.mark.slow
def test_a_checkpoint_goes_on_with_the_preconditioner_of_a_device(cupy, monkeypatch, tmp_path):
    monkeypatch.setattr(costs, "SAMPLED_VALUES", 1000)
    monkeypatch.setattr(engine, "HOST_FEATURES", 0)
    X, y = correlated(3000, 8)
    options = {"solver": "tron", "tol": 1e-9, "C": 10.0, "device": "cuda"}
    whole = daskglm.fit(X, y, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        daskglm.fit(X, y, checkpoint=tmp_path, max_iter=2, **options)
    resumed = daskglm.fit(X, y, resume=tmp_path, **options)
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-6)
    assert resumed.report_.converged


# ---- waiting


def test_a_factorisation_that_fails_is_no_step(cupy):
    """Before: what CuPy leaves where a factorisation fails is not specified, and was taken for a factor."""
    matrix = np.eye(4)
    matrix[0, 1] = matrix[1, 0] = 2.0
    assert gpu().solve_positive(cupy.asarray(matrix), cupy.ones(4)) is None
    assert gpu().inverse(cupy.asarray(matrix)) is None
    good = matrix @ matrix + np.eye(4)
    np.testing.assert_allclose(
        gpu().inverse(cupy.asarray(good)).get(), np.linalg.inv(good), rtol=1e-12
    )
