"""Leverages of rows, and sums of scores that are divided by powers of 1 - h, h the leverage.

The leverage h = s f x' P x of a row, P the inverse of the Hessian, is a diagonal element of the hat
matrix: how much the fit follows this row's target. Only rows in host memory are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskglm.core.inference_requests import LeverageMeat
from daskglm.core.requests import Totals
from daskglm.kernels import cpu as host
from daskglm.kernels import gram_side
from daskglm.kernels.coded_rows import Coded
from daskglm.kernels.records import NO_NUMBERS, NOTHING, read_only
from daskglm.kernels.storages import arrays_of, matrix_of, rows_between
from daskglm.losses.table import law_of
from daskglm.worker.asked import Asked
from daskglm.worker.pieces import Piece

# Value of 1 - h below which the fit follows a row whatever its target: rounding of h, which grows
# with the condition of the Hessian. Chosen.
FULL = 1e-8
# Bytes of the products of a run of rows with a matrix. Chosen for a second-level cache of 1 MiB.
RUN_BYTES = 1 << 19
# Rows of a run, at least.
FEWEST = 64


def quadratic_forms(X: Any, inverse: np.ndarray) -> np.ndarray:
    """Return x' P x of rows, (n,), where P has a row more than x has features for the intercept.

    X is an array, a CSR matrix, or Coded, of which a run at a time becomes CSR.
    """
    n, d = X.shape
    found = np.empty(n)
    step = max(int(RUN_BYTES // (8 * max(d, 1))), FEWEST)
    for lo in range(0, n, step):
        part: Any = X[lo : lo + step]
        if isinstance(part, Coded):
            part = matrix_of(arrays_of(part), d)
        part = part if sp.issparse(part) else np.asarray(part, np.float64)
        products = part @ inverse[:d, :d]
        if len(inverse) > d:
            products += 2.0 * inverse[d, :d]
        if sp.issparse(part):
            found[lo : lo + step] = np.asarray(part.multiply(products).sum(axis=1)).ravel()
        else:
            found[lo : lo + step] = np.einsum("ij,ij->i", part, products)
    return found + inverse[d, d] if len(inverse) > d else found


def leverage_meat(asked: Asked[LeverageMeat], steps: Sequence[int]) -> Totals:
    """Answer a request with sums over the rows of all blocks.

    `steps` are the rows of a run of each block.
    """
    problem, request, caches, d = asked.problem, asked.request, asked.caches, asked.n_features
    bread = law_of(problem.loss, curvature=request.curvature)
    kind = "squared_slope_of_each" if request.frequency else "squared_slope"
    meat_law = law_of(problem.loss, curvature=kind)
    w, b = host.coefficients(request.w, d)
    side, size = gram_side(d), len(request.w)
    # the sum squares the weight of a score, unless it counts rows
    power = request.power * (2.0 if request.frequency else 1.0)

    def work(pieces: list[Piece]) -> Totals:
        meat, full = np.zeros((side, side)), 0
        for i, lo, hi in pieces:
            cache = caches[i]
            for first in range(lo, hi, steps[i]):
                run = slice(first, min(first + steps[i], hi))
                n = run.stop - run.start
                rows, others = rows_between(cache.rows, run.start, run.stop), beside(cache, run)
                y, weight, offset = others
                z, curvature = np.empty((2, n))
                cache.kernels.margins(rows, w, b, 0, n, z)
                # of one of equal rows, or of the row with its weight
                of = NO_NUMBERS if request.frequency else weight
                host.margins.curvatures(bread, y, of, offset, z, 0, n, curvature)
                left = 1.0 - curvature * quadratic_forms(matrix_of(rows, d), request.inverse)
                s, follows = weight if len(weight) else np.ones(n), left < FULL
                full += int(np.count_nonzero(follows & (s > 0.0)))
                less = read_only(s * np.where(follows, 0.0, np.maximum(left, FULL) ** -power))
                out = z, curvature, np.zeros(d + 2), NOTHING, meat
                cache.kernels.evaluate_exactly(meat_law, (rows, y, less, offset), w, b, 0, n, out)
        return {"meat": meat, "full": full}

    totals = asked.add_up(work, 8 * side * side)
    meat = totals["meat"][:size, :size].copy()
    return {"meat": meat, "full": totals["full"], "rows": asked.facts.n_rows}


# ---- one run of rows
def beside(cache: Any, run: slice) -> tuple[Any, Any, Any]:
    """Return targets, weights and offsets of a run, as kernels take them."""
    y, weight, offset = (v[run] if len(v) else v for v in (cache.y, cache.weight, cache.offset))
    return y, weight, offset
