"""CPU kernels on sparse rows: every function that touches a SciPy CSR matrix is here, under the
names of `dense`.

X is the triple (data, indices, indptr); see `dense` for what the functions do and return. Where
`data` has one element all stored values are equal to it, and only the pattern is read. A tile of
rows is still in the cache when the backward product scatters it.

Rows are cut out as slices, whose places numba knows not to be negative: a test of each would double
the time. Sums over places are not reassociated: LLVM would make vector gathers of them, which wait
for the slowest of eight misses.
"""

from __future__ import annotations

import numpy as np

from daskglm.kernels.margins import is_zero
from daskglm.losses.dispatch import tile_at
from daskglm.system.compiled import compiled

TILE_ROWS = 128
# Relative error of each entry in a distance that is computed from entries.
CANCELS = 4.0 * 2.0**-53
# Entries up to which the vectors of gather and scatter share a second-level cache.
NEAR = 1 << 16


@compiled(nogil=True)
def _tile_rows(d, count):  # type: ignore[no-untyped-def]
    """Return the number of rows between a gather and a scatter.

    A few rows stay in the first-level cache; where vectors are long the answer is all rows. Two
    vectors larger than the cache evict each other at every turn, which costs more than to read the
    indices twice: 138 ms against 82 for 1,000,000 one-hot rows and columns (2 cores, 2026-11).
    """
    return TILE_ROWS if d <= NEAR else max(count, 1)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _forward(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    for i in range(start, stop):
        places = indices[indptr[i] : indptr[i + 1]]
        total = 0.0
        if len(data) == 1:
            for p in range(len(places)):
                total += w[np.uint64(places[p])]
            total *= data[0]
        else:
            values = data[indptr[i] : indptr[i + 1]]
            for p in range(len(places)):
                total += values[p] * w[np.uint64(places[p])]
        z[i - start] = total + b


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _backward(X, slope, start, count, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    for t in range(count):
        s = slope[t]
        if s == 0.0:
            continue
        places = indices[indptr[start + t] : indptr[start + t + 1]]
        if len(data) == 1:
            s *= data[0]
            for p in range(len(places)):
                out[np.uint64(places[p])] += s
        else:
            values = data[indptr[start + t] : indptr[start + t + 1]]
            for p in range(len(places)):
                out[np.uint64(places[p])] += s * values[p]


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    data, indices, indptr = X
    for t in range(count):
        c = curvature[t]
        places = indices[indptr[start + t] : indptr[start + t + 1]]
        if len(data) == 1:
            c *= np.float64(data[0]) * np.float64(data[0])
            for p in range(len(places)):
                out[np.uint64(places[p])] += c
        else:
            values = data[indptr[start + t] : indptr[start + t + 1]]
            for p in range(len(places)):
                out[np.uint64(places[p])] += c * (np.float64(values[p]) * np.float64(values[p]))


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def _rank_update(X, curvature, start, count, d, gram):  # type: ignore[no-untyped-def]
    """Add [X 1]' D [X 1] over one tile to the upper triangle of `gram`.

    Column indices must ascend within each row.
    """
    data, indices, indptr = X
    pattern = len(data) == 1
    for t in range(count):
        c = curvature[t]
        if c == 0.0:
            continue
        places = indices[indptr[start + t] : indptr[start + t + 1]]
        values = data if pattern else data[indptr[start + t] : indptr[start + t + 1]]
        for p in range(len(places)):
            row = gram[np.uint64(places[p])]
            a = c * (values[0] if pattern else values[p])
            later = places[p:]
            if pattern:
                for q in range(len(later)):
                    row[np.uint64(later[q])] += a * values[0]
            else:
                others = values[p:]
                for q in range(len(later)):
                    row[np.uint64(later[q])] += a * others[q]
            row[d] += a
        gram[d, d] += c


@compiled(nogil=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Z = X w + b for the rows [start, stop)."""
    _forward(X, w, b, start, stop, z[start:stop])


@compiled(nogil=True, error_model="numpy")
def evaluate(law, rows, w, b, start, stop, out):  # type: ignore[no-untyped-def]
    """Add up the loss over [start, stop), with its gradient and, if asked, Hessian or its diagonal.

    See `dense.evaluate`.
    """
    X, y, weight, offset = rows
    z, curvature, sums, diagonal, gram = out
    d = len(sums) - 2
    many = _tile_rows(d, stop - start)
    kept, curved = len(z) > 0, len(curvature) > 0
    slope = np.empty(many)
    here = np.empty(0 if kept else many)
    there = np.empty(0 if curved else many)
    total = 0.0
    at_zero = is_zero(w)  # where most fits begin
    for lo in range(start, stop, many):
        hi = min(lo + many, stop)
        n = hi - lo
        m = z[lo:hi] if kept else here[:n]
        c = curvature[lo:hi] if curved else there[:n]
        if at_zero:
            m[:] = b
        else:
            _forward(X, w, b, lo, hi, m)
        total += tile_at(law, y[lo:hi], m, weight[lo:hi], offset[lo:hi], slope[:n], c)
        _backward(X, slope, lo, n, sums)
        sums[d] += slope[:n].sum()
        if len(diagonal) > 0:
            _squares(X, c, lo, n, diagonal)
            diagonal[d] += c.sum()
        if gram.shape[0] > 0:
            _rank_update(X, c, lo, n, d, gram)
    sums[d + 1] += total


evaluate_exactly = evaluate  # whose Gram is summed in float64


@compiled(nogil=True, error_model="numpy")
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) of [start, stop) to `out` (d + 1,) in one pass; return v' of it."""
    rows = _tile_rows(len(v), stop - start)
    u = np.empty(rows)
    total = 0.0
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        n = hi - lo
        _forward(X, v, vb, lo, hi, u)
        for t in range(n):
            cu = curvature[lo + t] * u[t]
            total += cu * u[t]
            u[t] = cu
        _backward(X, u, lo, n, out)
        out[-1] += u[:n].sum()
    return total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_by_code(X, values, codes, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1] times `values` of the rows [start, stop) to the rows of `out` that `codes` name.

    `out` is (codes, d + 1).
    """
    data, indices, indptr = X
    last = len(data) - 1
    for i in range(start, stop):
        to, s = out[codes[i]], values[i]
        for p in range(indptr[i], indptr[i + 1]):
            to[np.uint64(indices[p])] += s * data[min(p, last)]
        to[-1] += s


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def squared_norms(X, start, stop):  # type: ignore[no-untyped-def]
    """Return the largest squared row norm over [start, stop), and the sum of all.

    The sum is not finite if a value or its square is not.
    """
    data, _, indptr = X
    largest, total = 0.0, 0.0
    for i in range(start, stop):
        norm = 0.0
        if len(data) == 1:
            norm = np.float64(data[0]) * np.float64(data[0]) * (indptr[i + 1] - indptr[i])
        else:
            values = data[indptr[i] : indptr[i + 1]]
            for p in range(len(values)):
                norm += np.float64(values[p]) * np.float64(values[p])
        total += norm
        largest = max(largest, norm)
    return largest, total


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def spread(X, centre, scale, start, stop, sums):  # type: ignore[no-untyped-def]
    """Add what `requests.Spread` asks for over [start, stop) to `sums` (2 d + 1,)."""
    data, indices, indptr = X
    d, last, whole, rest = len(centre), len(data) - 1, 0.0, 0.0
    for c in centre:  # Kahan's sum: small entries count, however many there are
        term = (c / scale) ** 2 - rest
        before, whole = whole, whole + term
        rest = (whole - before) - term
    for i in range(start, stop):
        square = whole
        for p in range(indptr[i], indptr[i + 1]):
            j = np.uint64(indices[p])
            x, c = data[min(p, last)], centre[j]
            sums[j] += x
            sums[np.uint64(d) + j] += ((x / scale) ** 2) ** 16
            square += ((x - c) / scale) ** 2 - (c / scale) ** 2
        square = max(square, 0.0) + CANCELS * (whole + 1.0) * (indptr[i + 1] - indptr[i] + 2)
        sums[-1] += square**16
