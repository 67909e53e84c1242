"""The fits that the papers' tables time: `python -m benchmarks.papers.table_fits JOB FOLDER`, one
in a fresh process.

A fit of few rows warms up, one of all is timed, coefficients go to a file for the parent to judge.
Needs NumPy, SciPy and the job's library: PyTorch has an environment of its own.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import pickle
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

WARM_ROWS = 2_000
Job = dict[str, Any]


def main(job: Job, folder: Path) -> None:
    """Fit the data of a folder; write coef.npy into it, print seconds and iterations."""
    X, y = pickle.loads((folder / "data.pickle").read_bytes())
    fit = {"daskglm": _daskglm, "sklearn": _sklearn, "torch": _torch}[job["by"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(job | {"max_iter": min(job.get("max_iter", 100), 100)}, X[:WARM_ROWS], y[:WARM_ROWS])
        start = time.perf_counter()
        coef, iterations = fit(job, X, y)
        seconds = time.perf_counter() - start
    np.save(folder / "coef.npy", np.ravel(coef).astype(float))
    library = {"sklearn": "scikit-learn"}.get(job["by"], job["by"])
    library += f" {importlib.metadata.version(library)}"
    print(json.dumps({"seconds": seconds, "iterations": iterations, "library": library}))


def _daskglm(job: Job, X: Any, y: np.ndarray) -> tuple[np.ndarray, int]:
    import daskglm

    options = {name: job[name] for name in ("step", "epsilon") if name in job}
    model = daskglm.fit(
        X,
        y,
        C=math.inf if job["C"] is None else job["C"],
        solver=job["solver"],
        tol=job["tol"],
        fit_intercept=False,
        max_iter=job.get("max_iter", 100_000),
        device=job["device"],
        solver_options=options,
        progress=False,
    )
    return model.coef_, model.report_.n_iter


def _sklearn(job: Job, X: Any, y: np.ndarray) -> tuple[np.ndarray, int]:
    from sklearn.linear_model import LogisticRegression

    C = np.inf if job["C"] is None else job["C"]
    model = LogisticRegression(
        C=C,
        tol=job["tol"],
        max_iter=job.get("max_iter", 1000),
        fit_intercept=False,
        solver=job.get("solver", "lbfgs"),
    ).fit(X, y)
    return model.coef_, int(model.n_iter_[0])


def _torch(job: Job, X: Any, y: np.ndarray) -> tuple[np.ndarray, int]:
    import torch

    device = job["device"]
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch sees no GPU")
    parts = [torch.as_tensor(part) for part in (X.indptr, X.indices, X.data)]
    rows = torch.sparse_csr_tensor(*parts, size=X.shape, dtype=torch.float32).to(device)
    labels = torch.as_tensor(y, dtype=torch.float32, device=device)
    w = torch.zeros(X.shape[1], device=device, requires_grad=True)

    def value() -> Any:
        return 0.5 * w @ w + job["C"] * torch.nn.functional.softplus(-labels * (rows @ w)).sum()

    if job["solver"] == "gd":
        method = torch.optim.SGD([w], lr=job["step"])
        for _ in range(job["max_iter"]):
            method.zero_grad()
            value().backward()
            method.step()
        return w.detach().cpu().numpy(), job["max_iter"]
    method = torch.optim.LBFGS(
        [w], max_iter=job["max_iter"], tolerance_grad=job["tol"], line_search_fn="strong_wolfe"
    )

    def closure() -> Any:
        method.zero_grad()
        f = value()
        f.backward()
        return f

    method.step(closure)
    return w.detach().cpu().numpy(), method.state[w]["n_iter"]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
