"""PyTorch on the CPU: its L-BFGS, and gradient descent by its SGD on all rows, on the mean
objective f / (n C).

The objective is written by hand, since PyTorch has no such estimator; float32 rows stay float32,
coefficients too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

MAX_ITER = 20_000
POWER_ITERATIONS = 20
SAFETY = 1.05  # power iterations give the largest eigenvalue from below


def prepare(X: Any, y: np.ndarray, *, threads: int, **_: Any) -> tuple[Any, Any]:
    """Tensors that share the memory of dense rows; sparse rows as CSR tensors."""
    torch.set_num_threads(threads)
    if isinstance(X, np.ndarray):
        rows = torch.from_numpy(X)
    else:
        parts = [torch.from_numpy(part) for part in (X.indptr, X.indices, X.data)]
        rows = torch.sparse_csr_tensor(*parts, size=X.shape)
    return rows, torch.from_numpy(y.astype(X.dtype))


def fit(
    X: Any,
    y: Any,
    *,
    loss: str,
    C: float,
    fit_intercept: bool,
    tol: float,
    threads: int,
    solver: str,
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Minimise until no entry of the mean objective's gradient exceeds `tol`."""
    n, d = X.shape
    w = torch.zeros(d, dtype=X.dtype, requires_grad=True)
    b = torch.zeros((), dtype=X.dtype, requires_grad=fit_intercept)
    unknowns = [w, b] if fit_intercept else [w]

    def value() -> Any:
        return torch.nn.functional.softplus(-y * (X @ w + b)).mean() + w.square().sum() / (
            2 * n * C
        )

    iterations = (_lbfgs if solver == "lbfgs" else _descend)(X, unknowns, value, tol, 1.0 / (n * C))
    return w.detach().numpy().astype(np.float64), float(b.detach()), {"iterations": iterations}


def _lbfgs(
    X: Any, unknowns: list[Any], value: Callable[[], Any], tol: float, penalty: float
) -> int:
    method = torch.optim.LBFGS(
        unknowns,
        max_iter=MAX_ITER,
        tolerance_grad=tol,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Any:
        method.zero_grad()
        f = value()
        f.backward()
        return f

    method.step(closure)
    return int(method.state[unknowns[0]]["n_iter"])


def _descend(
    X: Any, unknowns: list[Any], value: Callable[[], Any], tol: float, penalty: float
) -> int:
    """Steps of 1 / L, where L = largest eigenvalue of X'X / (4 n) + penalty, found on the clock."""
    n = X.shape[0]
    v = torch.ones(X.shape[1], dtype=X.dtype)
    bias = len(unknowns) > 1
    for _ in range(POWER_ITERATIONS):
        v = (v / v.norm()).requires_grad_()
        # X'Xv; CSR tensors have no product with their transpose
        (X @ v).square().sum().div(2).backward()
        largest, v = float(v.grad.norm()), v.grad
    method = torch.optim.SGD(unknowns, lr=1.0 / (SAFETY * (largest / n + bias) / 4 + penalty))
    for iteration in range(MAX_ITER):
        method.zero_grad()
        value().backward()
        if max(float(part.grad.abs().max()) for part in unknowns) <= tol:
            return iteration
        method.step()
    return MAX_ITER
