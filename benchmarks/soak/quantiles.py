"""Jobs of quantile regression, beside a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np

import daskglm
from benchmarks.soak.cases import NAN, Answer, Asked, Block, Case, Kind, truth
from benchmarks.soak.checks import ROUNDING, SAME_OBJECTIVE

# Rows at most: the linear program has an equation for each, and takes a second for these.
MOST_ROWS = 2_500


def draw(rng: np.random.Generator, columns: int) -> dict[str, Any]:
    """Draw quantile, tolerance, and the strength of the L1 penalty of the mean loss, some 0."""
    return {
        "quantile": float(rng.choice([0.1, 0.5, 0.75])),
        "alpha": float(rng.choice([0.0, 0.003, 0.03])),
        "tol": float(10 ** rng.uniform(-7, -4)),
    }


def targets(case: Case, X: np.ndarray, rng: np.random.Generator, k: int) -> Block:
    """Numbers with noise of heavy tails."""
    return {"y": X @ truth(case) + rng.standard_t(3, len(X))}


def fit(case: Case, data: Block, asked: Asked) -> Answer:
    """Fit the estimator, or by `daskglm.fit` where a client is to be named."""
    quantile, alpha, tol = (case.options[name] for name in ("quantile", "alpha", "tol"))
    asked.begin()
    if asked.where:
        C = np.inf if alpha == 0.0 else 1.0 / (alpha * data["X"].shape[0])
        loss = f"quantile({quantile!r})"
        l1 = 0.0 if alpha == 0.0 else 1.0
        model = daskglm.fit(**data, loss=loss, C=C, l1_ratio=l1, tol=tol, **asked.where)
    else:
        model = daskglm.QuantileRegressor(quantile=quantile, alpha=alpha, tol=tol).fit(**data)
    return Answer(model, model.report_.repairs)


def check(case: Case, data: Block, model: Any) -> None:
    """The model's mean loss is that of the linear program."""
    X, y, q, alpha = data["X"], data["y"], case.options["quantile"], case.options["alpha"]
    report = model.report_
    assert report.converged, f"not converged: {report.reason}"
    coef, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    short = y - X @ coef - intercept
    value = np.mean(np.maximum(q * short, (q - 1.0) * short)) + alpha * np.abs(coef).sum()
    best = least(X, y, q, alpha)
    gap = (value - best) / best
    bound = 1.01 * max(case.options["tol"], 0.0) + ROUNDING
    if case.dtype == "float32":
        bound += SAME_OBJECTIVE[True]
    assert gap <= bound, f"the gap is {gap:.2e}, more than {bound:.2e}"


def least(X: np.ndarray, y: np.ndarray, q: float, alpha: float) -> float:
    """Return the least mean loss plus alpha |w|_1, by a linear program.

    Variables: coefficients, their sizes, the intercept, and what targets are above and below.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    n, d = X.shape
    costs = np.concatenate(
        [np.full(2 * d, alpha), np.zeros(1), np.full(n, q / n), np.full(n, (1.0 - q) / n)]
    )
    one = sparse.identity(n, format="csr")
    rows = sparse.hstack([X, -X, np.ones((n, 1)), one, -one], format="csr")
    limits = [(0.0, None)] * (2 * d) + [(None, None)] + [(0.0, None)] * (2 * n)
    found = linprog(costs, A_eq=rows, b_eq=y, bounds=limits, method="highs")
    assert found.status == 0, found.message
    return float(found.fun)


KINDS = {"quantile": Kind(draw, targets, fit, check, spoils=NAN, most_rows=MOST_ROWS)}
