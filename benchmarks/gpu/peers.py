"""Rivals on the same device: PyTorch's L-BFGS and cuML, where they are installed; judged like
us.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.gpu.measure import judged, on_device, wall
from benchmarks.gpu.rows import data


def peers(quick: bool) -> Iterator[dict[str, Any]]:
    """Time each rival at a few of its own tolerances, with proved suboptimality.

    Shapes are HIGGS's and RCV1's.
    """
    for name in ("higgs", "rcv1"):
        X, y = data(name, quick)
        for rival, fit in (("torch L-BFGS", _torch), ("cuML LogisticRegression", _cuml)):
            package = rival.split()[0].lower()
            if importlib.util.find_spec(package) is None:
                yield {"set": name, "rival": rival, "not run": f"{package} is not installed"}
                continue
            for tol in (1e-3, 1e-6):
                try:
                    coef, seconds = fit(X, y, tol)
                except Exception as error:  # a rival that fails is a line of the report
                    yield {"set": name, "rival": rival, "tol": tol, "not run": repr(error)[:200]}
                    continue
                value, bound = judged(X, y, coef)
                yield {
                    "set": name,
                    "rival": rival,
                    "tol": tol,
                    "seconds": seconds,
                    "objective": value,
                    "proved suboptimality": bound,
                }


def _torch(X: Any, y: np.ndarray, tol: float) -> tuple[np.ndarray, float]:
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no GPU")
    if isinstance(X, np.ndarray):
        rows = torch.as_tensor(X, device="cuda")
    else:
        parts = [torch.as_tensor(part) for part in (X.indptr, X.indices, X.data)]
        rows = torch.sparse_csr_tensor(*parts, size=X.shape).to("cuda")
    labels = torch.as_tensor(y, dtype=torch.float32, device="cuda")

    def solve() -> Any:
        w = torch.zeros(X.shape[1], device="cuda", requires_grad=True)
        method = torch.optim.LBFGS(
            [w],
            lr=1.0,
            max_iter=500,
            tolerance_grad=tol,
            tolerance_change=tol * 1e-3,
            line_search_fn="strong_wolfe",
        )

        def closure() -> Any:
            method.zero_grad()
            value = 0.5 * w @ w + torch.nn.functional.softplus(-labels * (rows @ w)).sum()
            value.backward()
            return value

        method.step(closure)
        torch.cuda.synchronize()
        return w

    solve()
    w, seconds = wall(solve)
    return w.detach().cpu().numpy(), seconds


def _cuml(X: Any, y: np.ndarray, tol: float) -> tuple[np.ndarray, float]:
    from cuml.linear_model import LogisticRegression

    rows = on_device(X)
    labels = cp.asarray((y > 0).astype(np.float32))

    def solve() -> Any:
        return LogisticRegression(C=1.0, fit_intercept=False, tol=tol, max_iter=1000).fit(
            rows, labels
        )

    solve()
    model, seconds = wall(solve)
    coef = model.coef_
    return np.asarray(coef.get() if hasattr(coef, "get") else coef), seconds
