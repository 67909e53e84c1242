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

from daskglm.system.compiled import compiled

TILE_ROWS = 128
# Relative error of each entry in a distance that is computed from entries.
CANCELS = 4.0 * 2.0**-53
# Entries up to which the vectors of gather and scatter share a second-level cache.
NEAR = 1 << 16


@compiled(nogil=True)
def prepared(X, w):  # type: ignore[no-untyped-def]
    """Return w as it is."""
    return w


@compiled(nogil=True)
def gathered(X, d, sums):  # type: ignore[no-untyped-def]
    """Return the sums themselves, of which few are touched by a row."""
    return sums


@compiled(nogil=True)
def run_rows(X):  # type: ignore[no-untyped-def]
    """Return that each tile is a run."""
    return 0


@compiled(nogil=True)
def flush(X, d, gradient, sums):  # type: ignore[no-untyped-def]
    """Do nothing: what was gathered is in the sums."""


@compiled(nogil=True)
def room(X, many, formed):  # type: ignore[no-untyped-def]
    """Return nothing, which `add_outer` needs."""
    return None


@compiled(nogil=True)
def tile_rows(X, d, count, formed):  # type: ignore[no-untyped-def]
    """Return the number of rows between a gather and a scatter.

    A few rows stay in the first-level cache; where vectors are long the answer is all rows. Two
    vectors larger than the cache evict each other at every turn, which costs more than to read the
    indices twice: 138 ms against 82 for 1,000,000 one-hot rows and columns (2 cores, 2026-11).
    """
    return TILE_ROWS if d <= NEAR else max(count, 1)


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def forward(X, w, b, start, stop, z, ahead):  # type: ignore[no-untyped-def]
    """Compute the margins of the rows [start, stop); nothing is prefetched."""
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
def backward(X, slope, start, count, out, ahead):  # type: ignore[no-untyped-def]
    """Add X[start:start + count]' slope to `out`."""
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
def add_squares(X, curvature, start, count, out):  # type: ignore[no-untyped-def]
    """Add the squares of the rows of a tile, times curvatures, to `out` (d,) or longer."""
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
def add_outer(X, curvature, start, count, d, work, gram):  # type: ignore[no-untyped-def]
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


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_cross(X, codes, of, lo, n, cross):  # type: ignore[no-untyped-def]
    """Add second derivatives by coefficients and thresholds to `cross` (K + 1, d)."""
    data, indices, indptr = X
    last, top = len(data) - 1, len(cross) - 1
    for i in range(n):
        k = np.int64(codes[lo + i])
        upper, lower = of[1, i], of[3, i]
        for p in range(indptr[lo + i], indptr[lo + i + 1]):
            j, x = np.uint64(indices[p]), np.float64(data[min(p, last)])
            if k + 1 < top:
                cross[k + 1, j] -= upper * x
            if k > 0:
                cross[k, j] -= lower * x


@compiled(nogil=True)
def margins(X, w, b, start, stop, z):  # type: ignore[no-untyped-def]
    """Z = X w + b for the rows [start, stop)."""
    forward(X, w, b, start, stop, z[start:stop], stop)


@compiled(nogil=True, error_model="numpy")
def hessian_vector(X, curvature, v, vb, start, stop, out):  # type: ignore[no-untyped-def]
    """Add [X 1]' D (X v + vb) of [start, stop) to `out` (d + 1,) in one pass; return v' of it."""
    rows = tile_rows(X, len(v), stop - start, False)
    u = np.empty(rows)
    total = 0.0
    for lo in range(start, stop, rows):
        hi = min(lo + rows, stop)
        n = hi - lo
        forward(X, v, vb, lo, hi, u, hi)
        for t in range(n):
            cu = curvature[lo + t] * u[t]
            total += cu * u[t]
            u[t] = cu
        backward(X, u, lo, n, out, hi)
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
