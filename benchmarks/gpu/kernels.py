"""Every kernel once on small rows: what compute-sanitizer watches. Run as `python -m benchmarks.gpu.kernels`."""

from __future__ import annotations

import cupy as cp
import numpy as np
import scipy.sparse as sp

import daskglm


def main() -> None:
    """Fits of each storage, width and solver; their answers must agree with those of the CPU."""
    rng = np.random.default_rng(0)
    for d, solvers in ((5, ("newton", "tron", "sdca")), (40, ("newton", "tron")), (150, ("tron",)), (2500, ("tron",))):
        X = rng.standard_normal((700, d)).astype(np.float32) / np.sqrt(d)
        y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(700) > 0, 1.0, -1.0)
        for rows in (X, sp.csr_matrix(X * (rng.random(X.shape) < 0.1))):
            best = daskglm.fit(rows, y, tol=1e-8, solver="tron").report_.objective
            for solver in solvers:
                found = daskglm.fit(rows, y, device="cuda", solver=solver, tol=1e-5, random_state=0).report_
                assert found.objective <= best * (1 + 1e-4), (d, solver, found.objective, best)
            limit = 700 * 24 + 700 * d
            daskglm.fit(rows, y, device="cuda", solver="tron", tol=1e-5, device_memory_limit=limit)
    cp.cuda.Device().synchronize()
    print("every kernel ran")


if __name__ == "__main__":
    main()
