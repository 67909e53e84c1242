"""CPU kernels on single columns of sparse rows, as triples (data, indices, indptr): see `csr`.

Columns are taken in two sweeps over the indices: one counts what stays of each row, the other
copies it. `place` (d,), int32, has the new number of each column, -1 for those that are left out.
"""

from __future__ import annotations

import numpy as np

from daskglm.system.compiled import compiled


@compiled(nogil=True)
def count(X, place, start, stop, counts):  # type: ignore[no-untyped-def]
    """Set `counts` (n,) to the stored values of the rows [start, stop) that stay."""
    _, indices, indptr = X
    for i in range(start, stop):
        places = indices[indptr[i] : indptr[i + 1]]
        kept = 0
        for p in range(len(places)):
            kept += place[np.uint64(places[p])] >= 0
        counts[i] = kept


@compiled(nogil=True)
def fill(X, place, start, stop, out):  # type: ignore[no-untyped-def]
    """Copy what stays of the rows [start, stop) to `out` (data, indices, indptr).

    Indices keep their order. An empty data means that there are no values to copy: those of a
    pattern are all equal.
    """
    data, indices, indptr = X
    values, columns, starts = out
    valued = len(values) > 0
    for i in range(start, stop):
        at = starts[i]
        for p in range(indptr[i], indptr[i + 1]):
            column = place[np.uint64(indices[p])]
            if column >= 0:
                columns[at] = column
                if valued:
                    values[at] = data[p]
                at += 1


@compiled(nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
def add_moments(X, weight, start, stop, sums, squares):  # type: ignore[no-untyped-def]
    """Do what `columns_dense.add_moments` does."""
    data, indices, indptr = X
    weighted, last = len(weight) > 0, len(data) - 1
    total = 0.0
    for i in range(start, stop):
        s = weight[i] if weighted else 1.0
        total += s
        for p in range(indptr[i], indptr[i + 1]):
            value, j = np.float64(data[min(p, last)]), np.uint64(indices[p])
            sums[j] += s * value
            squares[j] += s * (value * value)
    sums[-1] += total


@compiled(nogil=True)
def count_signs(X, kinds, start, stop, above, below):  # type: ignore[no-untyped-def]
    """Do what `columns_dense.count_signs` does."""
    data, indices, indptr = X
    last = len(data) - 1
    for i in range(start, stop):
        if kinds[i] < 0:
            continue
        k = np.uint64(kinds[i])
        for p in range(indptr[i], indptr[i + 1]):
            value, j = data[min(p, last)], np.uint64(indices[p])
            above[k, j] += value > 0
            below[k, j] += value < 0
