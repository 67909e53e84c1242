"""Fits of exponential families, with offsets, on a device: those of the host."""

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp

import daskglm
from daskglm.core.device import to_host
from daskglm.data.partitions import partitions
from daskglm.engines import local as engine
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import WarmStart, objective_of, solve_one, start_of
from daskglm.fitting.setup import loaded
from daskglm.solvers import costs
from tests.covering import covering, each_choice, first_by_default

FAMILIES = ("poisson", "gamma", "tweedie(1.5)", "negative_binomial(0.5)", "binomial")
OTHERS = (
    *("poisson_identity", "poisson_sqrt", "gamma_inverse", "gamma_identity", "gaussian_log"),
    *("inverse_gaussian", "inverse_gaussian_squared", "tweedie(2.6)"),
    *("binomial_probit", "binomial_cloglog"),
)


@contextlib.contextmanager
def prepared(X, y, settings, weight=None, offset=None):
    """The objective over rows with an offset."""
    loss = settings.check()
    data = partitions(X, y, weight, classify=loss.classifies, offset=offset)
    with loaded(data, settings, None) as on:
        yield objective_of(on.engine, *on.problems[0], loss, settings)


def fitted(X, y, loss, weight=None, offset=None, **options):
    """Fit rows with an offset; returns the coefficients and the report."""
    settings = FitConfig(loss, progress=False, **options)
    with prepared(X, y, settings, weight, offset) as asked:
        begin = WarmStart(start_of(None, 0, 1, asked))
        solution, report = solve_one(asked, begin, settings, 0.0, 0, None)
        return to_host(solution.point.w), report


def rows_of(loss, n=400, d=6, *, sparse=False, dtype=np.float64):
    """Rows, targets of a family, weights and offsets; margins stay where all links have a mean."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(dtype)
    if sparse:
        X *= rng.random((n, d)) < 0.4
    offset = 0.3 * rng.standard_normal(n)
    z = 0.2 * X.astype(np.float64) @ rng.standard_normal(d) + 0.5 + offset
    if loss == "logistic":
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    elif "binomial" in loss and "negative" not in loss:
        y = rng.binomial(4, 1 / (1 + np.exp(-z))) / 4
    elif loss.startswith(("poisson", "negative", "tweedie(1")):
        y = rng.poisson(np.exp(z)).astype(float)
    else:
        y = rng.gamma(3.0, np.exp(z) / 3.0)
    return (sp.csr_matrix(X) if sparse else X), y, rng.random(n) + 0.5, offset


def agree(host, there):
    """Compare coefficients and each step of two fits."""
    (w, report), (found, reported) = host, there
    assert report.converged
    assert reported.converged
    assert reported.device == "cuda"
    assert reported.n_iter == report.n_iter
    values = [[step["objective"] for step in each.history] for each in (report, reported)]
    np.testing.assert_allclose(*values, rtol=1e-10)
    np.testing.assert_allclose(found, w, rtol=1e-7, atol=1e-9)


@covering(0, sparse=[False, True], solver=["newton", "tron", "lbfgs"], loss=FAMILIES)
def test_the_very_steps_of_the_host(cupy, loss, solver, sparse):
    X, y, weight, offset = rows_of(loss, sparse=sparse)
    options = {"weight": weight, "offset": offset, "solver": solver, "tol": 1e-9}
    agree(*(fitted(X, y, loss, device=device, **options) for device in ("cpu", "cuda")))


@pytest.mark.parametrize("loss", first_by_default(OTHERS, 3))
def test_other_links(cupy, loss):
    X, y, weight, _ = rows_of(loss)
    if loss == "poisson_identity":
        y = y + 2.0  # with zeros the optimum is at the border, where the mean is zero
    options = {"weight": weight, "solver": "newton", "tol": 1e-7}
    agree(*(fitted(X, y, loss, device=device, **options) for device in ("cpu", "cuda")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "solver", "features"),
    [
        ("poisson_sqrt", "newton", None),
        ("poisson_identity", "newton", 0),
        *(  # thousands of passes
            pytest.param(loss, "lbfgs", features, marks=pytest.mark.nightly)
            for loss in ("poisson_sqrt", "poisson_identity")
            for features in (None, 0)
        ),
    ],
)
def test_optima_at_an_end_of_margins(cupy, monkeypatch, loss, solver, features):
    if features is not None:
        monkeypatch.setattr(engine, "HOST_FEATURES", features)
    rng = np.random.default_rng(7)
    group = rng.integers(0, 6, 240)
    y = rng.poisson(2, 240).astype(float)
    y[group == 3] = 0.0
    X = np.eye(6)[group][:, 1:]
    for dtype in (np.float64, np.float32):
        options = {"device": "cuda", "solver": solver, "C": np.inf}
        _, report = fitted(X.astype(dtype), y, loss, **options)
        assert report.device == "cuda"
        assert report.converged
        assert report.relative_gap <= 1e-6
        assert report.deviance == pytest.approx(190.526358, rel=1e-6)


@pytest.mark.parametrize("solver", ["newton", "tron", "lbfgs"])
def test_vectors_on_the_device(cupy, monkeypatch, solver):
    monkeypatch.setattr(engine, "HOST_FEATURES", 0)
    monkeypatch.setattr(costs, "MOST_PAIRS", 0)  # devices keep none
    X, y, _, offset = rows_of("poisson")
    options = {"offset": offset, "solver": solver, "tol": 1e-9}
    agree(*(fitted(X, y, "poisson", device=device, **options) for device in ("cpu", "cuda")))


@pytest.mark.slow
def test_rows_in_registers(cupy):
    X, y, _, offset = rows_of("poisson", n=60, d=70)
    options = {"offset": offset, "solver": "lbfgs", "tol": 1e-6}
    agree(*(fitted(X / 8, y, "poisson", device=device, **options) for device in ("cpu", "cuda")))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_offsets_of_other_losses(cupy, loss):
    X, y, weight, offset = rows_of(loss)
    options = {"weight": weight, "offset": offset, "solver": "newton", "tol": 1e-9}
    host, there = (fitted(X, y, loss, device=device, **options) for device in ("cpu", "cuda"))
    agree(host, there)
    without, _ = fitted(X, y, loss, weight=weight, solver="newton", tol=1e-9, device="cuda")
    assert np.abs(without - there[0]).max() > 1e-3


def test_offsets_beside_float32_rows_are_exact(cupy):
    """They count as much as products with the rows, which are float64."""
    X, y, _, offset = rows_of("logistic", dtype=np.float32)
    values = []
    for device in ("cpu", "cuda"):
        with prepared(X, y, FitConfig("logistic", device=device), offset=30.0 * offset) as asked:
            point = asked.at(asked.xp.ones(asked.size))
            values.append([point.value, *to_host(point.gradient)])
    np.testing.assert_allclose(*values, rtol=1e-13)


def test_a_start_inside_is_found_on_a_device(cupy):
    """By targets of another loss, and offsets that are wider than the domain of the link."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((120, 3))
    part = np.where(rng.random(120) < 0.9, 0.02, 1.0) * rng.random(120)
    margin = 0.05 + 0.9 * part
    y = (rng.random(120) < margin) * 1.0
    options = {"offset": margin - 0.3 - X @ rng.standard_normal(3), "solver": "newton", "tol": 1e-6}
    (_, host), (_, there) = (
        fitted(X, y, "binomial_identity", device=device, **options) for device in ("cpu", "cuda")
    )
    assert host.converged
    assert there.converged
    assert there.device == "cuda"
    np.testing.assert_allclose(there.objective, host.objective, rtol=1e-6)


@pytest.mark.slow
@each_choice
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["newton", "tron"])
def test_streamed_rows_with_an_offset(cupy, solver, sparse):
    n = 1200
    X, y, weight, offset = rows_of("poisson", n=n, d=10, sparse=sparse)
    nbytes = sum(part.nbytes for part in (X.data, X.indices, X.indptr)) if sparse else X.nbytes
    options = {"weight": weight, "offset": offset, "solver": solver, "tol": 1e-9}
    host = fitted(X, y, "poisson", **options)
    limit = n * (36 + 8) + nbytes // 3
    there = fitted(X, y, "poisson", device="cuda", device_memory_limit=limit, **options)
    np.testing.assert_allclose(there[0], host[0], rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_users_fit_a_family_on_a_device(cupy):
    X, y, weight, _ = rows_of("tweedie(1.5)", dtype=np.float32)
    models = [
        daskglm.fit(X, y, loss="tweedie(1.5)", sample_weight=weight, tol=1e-8, device=device)
        for device in ("cpu", "cuda")
    ]
    assert models[1].report_.device == "cuda"
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, rtol=1e-4, atol=1e-6)


def test_memory_of_an_offset_counts(cupy):
    X, y, _, offset = rows_of("poisson", n=3000, d=3)
    with pytest.raises(MemoryError, match="raise device_memory_limit"):
        fitted(X, y, "poisson", offset=offset, device="cuda", device_memory_limit=3000 * 40)


@covering(
    0,
    aggregation=["adaptive", "search"],
    loss=["poisson", "gamma", "negative_binomial(0.5)", "binomial"],
)
def test_dual_ascent_certifies_its_answer(cupy, loss, aggregation):
    X, y, weight, _ = rows_of(loss, sparse=True)
    given = {"weight": weight, "C": 0.1}
    _, host = fitted(X, y, loss, solver="newton", tol=1e-10, **given)
    ascent = {"polish": False, "partitions": 2, "aggregation": aggregation}
    given |= {"solver": "sdca", "tol": 1e-4, "solver_options": ascent, "random_state": 0}
    _, there = fitted(X, y, loss, device="cuda", **given)
    assert there.converged
    assert there.device == "cuda"
    assert 0.0 <= there.objective / host.objective - 1.0 <= there.relative_gap <= 1e-4
