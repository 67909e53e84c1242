"""CPU kernel of dual coordinate ascent for many logistic problems at once on sparse rows.

A visit to a row reads the coefficients of all problems for each stored value, finds the best dual variable of the row
in every problem, and changes the coefficients while they are in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from daskglm.kernels.dual import LINE_VALUES, fetch
from daskglm.losses import exp

NEWTON_STEPS = 4  # towards the best dual variable of one row, from the margin as it is
FAST = {"contract", "reassoc", "nsz"}


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def _margins(X, i, V, z):  # type: ignore[no-untyped-def]
    """Add x V to z; return |x|^2."""
    data, indices, indptr = X
    last = len(data) - 1
    norm = 0.0
    for at in range(indptr[i], indptr[i + 1]):
        value, v = data[min(at, last)], V[np.uint64(indices[at])]
        norm += value * value
        for p in range(len(z)):
            z[p] += value * v[p]
    return norm


@njit(nogil=True, cache=True, error_model="numpy", fastmath=FAST)
def _add(X, i, step, V):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    last = len(data) - 1
    for at in range(indptr[i], indptr[i + 1]):
        value, v = data[min(at, last)], V[np.uint64(indices[at])]
        for p in range(len(step)):
            v[p] += value * step[p]


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz"})
def _ascend(y, z, a, q):  # type: ignore[no-untyped-def]
    """Best dual variables times labels in place of `a`: sigma(-m) where m - q sigma(-m) = y z - q a, by Newton."""
    for p in range(len(z)):
        c = y[p] * z[p] - q[p] * a[p]
        low, high = c, c + q[p]
        m, best = y[p] * z[p], 0.0
        for _ in range(NEWTON_STEPS):
            e = exp(-abs(m))
            r = 1.0 / (1.0 + e)
            best = e * r if m > 0.0 else r
            excess = m - q[p] * best - c
            high = m if excess > 0.0 else high
            low = low if excess > 0.0 else m
            slope = e * r * r
            move = -excess / (1.0 + q[p] * slope)
            inside = low <= m + move and m + move <= high
            best = best - slope * move if inside else best
            m = m + move if inside else 0.5 * (low + high)
        a[p] = min(max(best, 0.0), 1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def epoch(  # type: ignore[no-untyped-def]
    X, labels, groups, weight, signs, order, C, base, bias, of, roles, ids, sigma, V, alpha, squares
):
    """Visit rows once, in the given order, and change their dual variables and the replica V.

    Parameters
    ----------
    X : triple (data, indices, indptr)
    labels, groups : (n,) arrays
        Index into `signs` (classes, labels), and into the columns of `roles` (P, groups): 0 where trained on.
    weight : (n,) array or empty
        Weights of the rows.
    order : (m,) array of int
        Rows to visit.
    C, base : (P,) arrays
        Weight of the losses; offset of the margins.
    bias : float
        Value of the constant feature, whose coefficients are the last row of V.
    of, ids : (P,) arrays
        Class of each problem, and its column of `alpha`.
    sigma : float
        How much stronger changes count here than they will when those of all threads are added.
    V : (d + 1, P) float32 array
        Coefficients, changed by sigma times what the dual variables change.
    alpha : (n, all problems) float32 array
        Dual variables times labels, within [0, 1].

    Adds to `squares` (P,) the weighted squares of the changes.
    """
    P = len(of)
    z, y, a, q, step = np.empty(P, np.float32), np.empty(P), np.empty(P), np.empty(P), np.empty(P, np.float32)
    last = V.shape[0] - 1
    _, indices, indptr = X
    flat = V.reshape(V.size)
    for k in range(len(order)):
        i = order[k]
        if k + 1 < len(order):  # ask for what the next row will want: 2.5 times as fast with 50 problems
            j = order[k + 1]
            for at in range(indptr[j], indptr[j + 1]):
                start = np.int64(indices[at]) * P
                for line in range(0, P, LINE_VALUES):
                    fetch(flat, start + line)
        label, group = labels[i], groups[i]
        s = weight[i] if len(weight) > 0 else 1.0
        for p in range(P):
            z[p] = base[p] + bias * V[last, p]
        norm = _margins(X, i, V, z) + bias * bias
        of_row = alpha[i]
        for p in range(P):
            y[p] = signs[of[p], label]
            a[p] = of_row[ids[p]]
            q[p] = sigma * C[p] * s * norm
        _ascend(y, z, a, q)
        for p in range(P):
            change = a[p] - of_row[ids[p]] if roles[p, group] == 0 else 0.0
            of_row[ids[p]] += change
            squares[p] += s * change * change
            step[p] = sigma * C[p] * s * y[p] * change
            V[last, p] += bias * step[p]
        _add(X, i, step, V)


@njit(nogil=True, cache=True, error_model="numpy")
def totals(X, labels, weight, signs, lo, hi, C, bias, of, ids, alpha, out):  # type: ignore[no-untyped-def]
    """Add C [X bias]' alpha over the rows [lo, hi) to `out` (d + 1, P); arguments as of `epoch`."""
    step = np.empty(len(of))
    last = out.shape[0] - 1
    for i in range(lo, hi):
        s = weight[i] if len(weight) > 0 else 1.0
        for p in range(len(of)):
            step[p] = C[p] * s * signs[of[p], labels[i]] * alpha[i, ids[p]]
            out[last, p] += bias * step[p]
        _add(X, i, step, out)
