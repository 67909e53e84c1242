"""Losses and kernels against NumPy in float64 and finite differences, for every loss, storage, dtype and weighting."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import daskglm
from benchmarks.datasets.problems import higgs_like
from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, LossRef, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from tests.conftest import make_problem, objective
from tests.losses.formulas import reference

ROOT = Path(__file__).resolve().parents[2]
KINKED = ("squared_hinge", "smoothed_hinge", "hinge")


problems = st.fixed_dictionaries(
    {
        "loss": st.sampled_from(list(LOSSES)),
        "sparse": st.booleans(),
        "dtype": st.sampled_from([np.float32, np.float64]),
        "weighted": st.booleans(),
        "intercept": st.booleans(),
        "n": st.integers(1, 400),
        "d": st.integers(1, 40),
        "seed": st.integers(0, 2**31),
    }
)


def build(case, threads=2):
    X, y = make_problem(
        case["n"],
        case["d"],
        loss=case["loss"],
        seed=case["seed"],
        sparse=case["sparse"],
        dtype=case["dtype"],
    )
    rng = np.random.default_rng(case["seed"])
    weight = rng.random(case["n"]) * (rng.random(case["n"]) > 0.2) if case["weighted"] else None
    loss = LOSSES[case["loss"]]
    block = to_block(X, y, weight, place=Place(), classify=loss.classifies)
    dense = (X.toarray() if case["sparse"] else X).astype(np.float64)
    dense = np.c_[dense, np.ones(case["n"])] if case["intercept"] else dense
    w = rng.standard_normal(dense.shape[1])
    s = np.ones(case["n"]) if weight is None else weight
    return (
        Local([block], threads),
        Problem(loss.ref, 1.0 if loss.classifies else None),
        dense,
        y,
        s,
        w,
        rng,
    )


@settings(max_examples=60, deadline=None)
@given(problems)
def test_value_gradient_diagonal_gram_and_product(case):
    engine, problem, X, y, s, w, rng = build(case)
    value, slope, curvature = reference(case["loss"], y, X @ w)
    got = engine.total(problem, Evaluate(w, 1, gram=True, diagonal=True))
    # sums of float32 products reach float64 after 128 rows; gradients are float64 throughout
    gram_error = 1e-5 if case["dtype"] == np.float32 else 1e-10
    size = np.abs(X).T @ np.abs(s * slope) + 1e-300
    np.testing.assert_allclose(got["value"], s @ value, rtol=1e-12)
    assert (np.abs(got["gradient"] - X.T @ (s * slope)) <= 1e-12 * size).all()
    hessian = X.T @ ((s * curvature)[:, None] * X)
    np.testing.assert_allclose(got["diagonal"], np.diag(hessian), rtol=1e-10, atol=1e-14)
    scale = np.sqrt(np.outer(np.diag(hessian), np.diag(hessian))) + 1e-300
    assert (np.abs(np.triu(got["gram"]) - np.triu(hessian)) <= gram_error * scale + 1e-300).all()
    v = rng.standard_normal(len(w))
    product = engine.total(problem, HessianVector(v, (1, w)))["product"]
    np.testing.assert_allclose(
        product, hessian @ v, rtol=1e-9, atol=1e-10 * np.abs(hessian).max(initial=1e-3) * len(w)
    )
    engine.close()


@settings(max_examples=25, deadline=None)
@given(problems)
def test_finite_differences(case):
    engine, problem, X, y, s, w, rng = build(case)
    direction = rng.standard_normal(len(w)) / max(np.sqrt(len(w)), 1.0)
    h = 1e-6
    ends = [
        engine.total(problem, Evaluate(w + t * direction, i)) for i, t in enumerate((-h, 0.0, h))
    ]
    slope = ends[1]["gradient"] @ direction
    numeric = (ends[2]["value"] - ends[0]["value"]) / (2 * h)
    assert abs(slope - numeric) <= 1e-5 * (1 + abs(slope) + abs(ends[1]["value"]))
    if case["loss"] not in KINKED:  # its slope has kinks
        product = engine.total(problem, HessianVector(direction, (1, w)))["product"]
        numeric = (ends[2]["gradient"] - ends[0]["gradient"]) / (2 * h)
        np.testing.assert_allclose(
            product, numeric, rtol=1e-4, atol=1e-5 * (1 + np.abs(product).max())
        )
    engine.close()


@settings(max_examples=30, deadline=None)
@given(problems)
def test_hull_agrees_with_direct_evaluation_without_a_pass(case):
    engine, problem, X, y, s, w, rng = build(case)
    other = rng.standard_normal(len(w))
    engine.total(problem, Evaluate(w, 1))
    engine.total(problem, Evaluate(other, 2))
    coefficients = np.array([[0.3, 0.7, 0.0], [-1.0, 2.0, 0.0], [1.0, 0.0, 0.25]])
    got = engine.total(problem, EvaluateAlong(((1, w), (2, other)), coefficients))
    assert got["rows"] == 0
    basis = np.stack([X @ w, X @ other, np.ones(len(y))], axis=1)
    for m, c in enumerate(coefficients):
        value, slope, curvature = reference(case["loss"], y, basis @ c)
        np.testing.assert_allclose(got["values"][m], s @ value, rtol=1e-10, atol=1e-12)
        size = np.abs(basis).T @ (s * np.abs(slope)) + 1e-9
        assert (np.abs(got["slopes"][m] - basis.T @ (s * slope)) <= 1e-9 * size).all()
        if case["loss"] not in KINKED:
            hessian = basis.T @ ((s * curvature)[:, None] * basis)
            np.testing.assert_allclose(
                got["hessians"][m], hessian, rtol=1e-8, atol=1e-9 * np.abs(hessian).max()
            )
    engine.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 8, 18, 31, 32, 33, 63, 64, 65, 130, 300])
def test_gram_for_widths_around_its_register_blocks(n_features, dtype):
    case = dict(
        loss="logistic",
        sparse=False,
        dtype=dtype,
        weighted=True,
        intercept=True,
        n=1301,
        d=n_features,
        seed=3,
    )
    engine, problem, X, y, s, w, _ = build(case)
    _, _, curvature = reference("logistic", y, X @ w)
    gram = engine.total(problem, Evaluate(w, 1, gram=True))["gram"]
    hessian = X.T @ ((s * curvature)[:, None] * X)
    rounding = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(
        np.triu(gram), np.triu(hessian), rtol=0.0, atol=rounding * np.abs(hessian).max()
    )


def test_wide_index_types_and_read_only_arrays():
    X, y = make_problem(50, 6, sparse=True)
    wide = sp.csr_matrix(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    )
    frozen, _ = make_problem(50, 6)
    frozen.setflags(write=False)
    for rows in (wide, frozen):
        engine = Local([to_block(rows, y, place=Place(), classify=True)])
        got = engine.total(Problem(LossRef("logistic"), 1.0), Evaluate(np.ones(6), 1))
        value, slope, _ = reference("logistic", y, rows @ np.ones(6))
        np.testing.assert_allclose(got["value"], value.sum())
        np.testing.assert_allclose(got["gradient"], rows.T @ slope, atol=1e-12)


@pytest.mark.parametrize(
    ("solver", "sparse"),
    [("newton", False), ("tron", False), ("tron", True), ("lbfgs", False), ("lbfgs", True)],
)
def test_float32_rows_reach_the_optimum_of_the_stored_data_to_a_billionth(solver, sparse):
    """The optimum is found here by Newton's method in NumPy, in float64 on the float32 numbers as they are stored."""
    X, y = higgs_like(20_000)
    exact = X.astype(np.float64)
    w = np.zeros(X.shape[1])
    for _ in range(12):
        _, slope, curvature = reference("logistic", y, exact @ w)
        hessian = exact.T @ (curvature[:, None] * exact) + np.eye(len(w))
        w -= np.linalg.solve(hessian, exact.T @ slope + w)
    best = objective(exact, y, w, 0.0, 1.0, "logistic")
    model = daskglm.fit(
        sp.csr_matrix(X) if sparse else X, y, solver=solver, tol=1e-10, fit_intercept=False
    )
    assert model.report_.converged
    reached = objective(exact, y, model.coef_, 0.0, 1.0, "logistic")
    assert (reached - best) / best <= 1e-9
    assert model.report_.objective == pytest.approx(reached, rel=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="compiles for an x86 processor"
)
def test_kernels_for_a_processor_with_narrow_registers(tmp_path):
    features = "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2"
    narrow = {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": features,
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    which = "value_gradient or widths or numpys or extreme"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-k",
        which,
        "tests/kernels/test_gradients.py",
        "tests/fitting/test_problem_grid.py",
    ]
    done = subprocess.run(
        command, env={**os.environ, **narrow}, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
    code = "from daskglm.kernels.simd import LANES; print(LANES)"
    lanes = subprocess.run(
        [*command[:1], "-c", code], env={**os.environ, **narrow}, capture_output=True, text=True
    )
    assert lanes.stdout.strip() == "4"
