"""The process of `benchmarks.speed_guard`: it fits what it reads, and answers with seconds.

It imports nothing of this folder, since its package may be that of another commit.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp

import daskglm

N, D = 20_000, 40


def _problem() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, D))
    z = X @ rng.standard_normal(D) * 0.3 + 0.5 * rng.standard_normal(N)
    wide = sp.random(4_000, 20_000, 0.004, format="csr", random_state=1)
    score = wide @ np.where(rng.random(20_000) < 0.01, rng.standard_normal(20_000), 0.0)
    return {
        "X": X,
        "X32": X.astype(np.float32),
        "S": sp.csr_matrix(X * (rng.random((N, D)) < 0.1)),
        "z": z,
        "two": (z > 0.0).astype(int),
        "three": np.digitize(z, [-0.7, 0.7]),
        "counts": rng.poisson(np.exp(0.3 * z)).astype(float),
        "amounts": np.exp(0.2 * z) * rng.gamma(2.0, 0.5, N),
        "W": wide,
        "few": (score + 0.1 * rng.standard_normal(4_000) > 0.0).astype(int),
        "number": score,
    }


P = _problem()
ONE: dict[str, Any] = {"n_jobs": 1}


def _blocks() -> Any:
    X = da.from_array(P["X"], chunks=(N // 4, D))
    return daskglm.fit(X, da.from_array(P["two"], chunks=N // 4), solver="newton", **ONE)


FITS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: daskglm.fit(P["X"], P["two"], tol=1e-8, **ONE),
    "logistic float32 lbfgs": lambda: daskglm.fit(P["X32"], P["two"], solver="lbfgs", **ONE),
    "logistic csr tron": lambda: daskglm.fit(P["S"], P["two"], solver="tron", **ONE),
    "logistic blocks": _blocks,
    "logistic wide csr": lambda: daskglm.fit(P["W"], P["few"], C=10.0, **ONE),
    "strengths": lambda: daskglm.fit(P["X"], P["two"], C=[0.01, 0.1, 1.0, 10.0], **ONE),
    "folds": lambda: daskglm.LogisticRegressionCV(Cs=4, cv=3, **ONE).fit(P["X"], P["two"]),
    "multinomial": lambda: daskglm.LogisticRegression(**ONE).fit(P["X"], P["three"]),
    "ordinal": lambda: daskglm.OrdinalRegression(**ONE).fit(P["X"], P["three"]),
    "hinge sdca": lambda: daskglm.fit(
        P["S"], P["two"], loss="hinge", C=1e-3, solver="sdca", random_state=0, tol=1e-3, **ONE
    ),
    "quantile": lambda: daskglm.fit(P["X"][:4_000], P["z"][:4_000], loss="quantile", **ONE),
    "least squares": lambda: [daskglm.Ridge(**ONE).fit(P["X"], P["z"]) for _ in range(4)],
    "poisson": lambda: daskglm.fit(P["X"], P["counts"], loss="poisson", tol=1e-8, **ONE),
    "gamma path": lambda: daskglm.regularization_path(
        P["X"][:8_000], P["amounts"][:8_000], family="gamma", n_alphas=8
    ),
    "lasso wide csr": lambda: daskglm.Lasso(alpha=3e-4, **ONE).fit(P["W"], P["number"]),
    "logistic l1 wide csr": lambda: daskglm.fit(P["W"], P["few"], C=30.0, l1_ratio=1.0, **ONE),
}


def answer(what: str) -> Any:
    """Return the answer to one line."""
    if what == "where":
        from pathlib import Path

        return {"package": str(Path(daskglm.__file__).parent)}
    if what == "names":
        return list(FITS)
    began = time.process_time()
    FITS[what]()
    return {"seconds": time.process_time() - began}


def main() -> None:
    """Answer every line until there is none."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(answer(line.strip())), flush=True)


if __name__ == "__main__":
    main()
