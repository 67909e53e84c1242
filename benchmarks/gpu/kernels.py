"""Every kernel on small rows: what compute-sanitizer watches. Run as `python -m
benchmarks.gpu.kernels`.

NumPy judges, and rows of fits are on the device from the start, so that next to no time goes into
compiling the CPU's kernels, which every tool would watch too.
"""

from __future__ import annotations

import warnings
from typing import Any

import cupy as cp
import numpy as np
import scipy.sparse as sp

import daskglm
from benchmarks.gpu import reference
from benchmarks.gpu.measure import on_device
from benchmarks.gpu.stages.right import SHAPES, coded, one
from benchmarks.suites import evaluate
from daskglm.core.device import gpu
from daskglm.losses.table import LOSSES, law_of

LOGISTIC = law_of(LOSSES["logistic"].ref, compiled=False)
ROWS = 200
FEATURES = 5  # of fits, whose kernels for wider rows were looked at before
EPOCHS = 3  # of dual ascent: its kernels, not its convergence, are looked at


def main() -> None:
    """Check sums over rows of every kind, also streamed, conjugate gradients and dual ascent."""
    for shape in SHAPES:
        found = one(shape, quick=True)
        assert found["ok"], (shape, found)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES)).astype(np.float32)
    y = np.where(X @ rng.standard_normal(FEATURES) + rng.standard_normal(ROWS) > 0, 1.0, -1.0)
    streamed(*coded(ROWS, 60, "f4", rng), y, rng)
    S = sp.csr_matrix(X * (rng.random(X.shape) < 0.5))
    for rows, raw in ((X, X), (S, (S.data, S.indices, S.indptr))):
        streamed(rows, raw, y, rng)
        best = evaluate.reference(rows, y, loss="logistic", C=1.0, fit_intercept=False).objective
        for solver in ("newton", "tron"):
            found = _objective(rows, y, solver=solver, tol=1e-5)
            assert found <= best * (1 + 1e-4), (solver, found, best)
        with warnings.catch_warnings(action="ignore"):  # of an ascent that ends before it converges
            found = _objective(
                rows, y, solver="sdca", max_iter=EPOCHS, solver_options={"polish": False}
            )
        assert best <= found < ROWS * np.log(2.0), found
    cp.cuda.Device().synchronize()
    print("every kernel ran")


def _objective(X: Any, y: np.ndarray, **options: Any) -> float:
    model = daskglm.fit(
        on_device(X), y, fit_intercept=False, random_state=0, progress=False, **options
    )
    return evaluate.objective(X, y, model.coef_, 0.0, loss="logistic", C=1.0)


def streamed(X: Any, raw: Any, y: np.ndarray, rng: np.random.Generator) -> None:
    """Compare sums over rows that come in chunks, a third of them resident, with NumPy's.

    `raw` are the rows X as kernels take those of the host.
    """
    backend, (n, d) = gpu(), X.shape
    upload = backend.Upload()
    rows = backend.move(raw, X.shape, 1 / 3, 1 << 10, upload)
    upload.finish()
    w = rng.standard_normal(d + 1)
    v = rng.standard_normal(d + 1)
    labels = backend.vector(y, rows, exact=False)
    z = backend.vector(None, rows)
    c = backend.vector(None, rows, exact=False)
    out = backend.zeros(d + 2)
    product = backend.zeros(d + 1)
    none = np.empty(0)
    backend.streamed.evaluate(
        LOGISTIC, (rows, labels, none, none), cp.asarray(w), 1, 0, n, (z, c, out, none, none)
    )
    backend.streamed.hessian_vector(rows, c, cp.asarray(v), 1, 0, n, product)
    wanted = reference.sums(X, y, np.ones(n), w, v)
    for found, right in ((out.get()[: d + 1], wanted.gradient), (product.get(), wanted.product)):
        assert reference.distance(found, right) < 1e-6, (found, right)


if __name__ == "__main__":
    main()
