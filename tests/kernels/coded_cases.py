"""Random coded rows, and the same as a SciPy matrix that is made from their definition."""

import numpy as np
import scipy.sparse as sp

from daskglm.kernels.coded_rows import Coded, Tables


def tables(counts, widths, rng, ranks=None, empty=True):
    """Random tables: a code column of counts[j] levels has widths[j] coefficients.

    As many levels as coefficients, or one more, are ones and perhaps a level without entry; others
    are dense bases.
    """
    p = len(counts)
    ranks = np.arange(p) if ranks is None else np.asarray(ranks)
    starts = np.empty(p, np.int64)
    at = 0
    for j in np.argsort(ranks):
        starts[j] = at
        at += widths[j]
    indptr, columns, values = [0], [], []
    for j in range(p):
        basis = counts[j] > widths[j] + 1
        without = int(rng.integers(counts[j])) if empty else -1
        place = 0
        for level in range(counts[j]):
            if level == without or (not basis and place == widths[j]):
                pass
            elif basis:
                kept = np.flatnonzero(rng.random(widths[j]) < 0.7)
                columns += list(starts[j] + kept)
                values += list(rng.normal(size=len(kept)))
            else:
                columns.append(starts[j] + place)
                values.append(1.0)
                place += 1
            indptr.append(len(columns))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    return Tables(
        first if p else np.empty(0, np.int64),
        np.array(indptr, np.int64),
        np.array(columns, np.int64),
        np.array(values, float),
        ranks.astype(np.int64),
        int(at),
    )


def coded(n, k=0, dtype=float, seed=0, counts=((5, 4, 12), (30,), (7,)), ranks=(2, 0, 3, 1, 4)):
    """Random rows: levels of narrow, middle and wide code columns, of ones but for a basis each.

    Columns of 12 and of 30 levels have a basis of 4.
    """
    rng = np.random.default_rng(seed)
    flat = [count for part in counts for count in part]
    widths = [4 if count in (12, 30) else count - 1 for count in flat]
    parts = [
        np.stack([rng.integers(0, count, n) for count in part], axis=1).astype(kind)
        if part
        else np.empty((n, 0), kind)
        for part, kind in zip(counts, (np.uint8, np.uint16, np.uint32), strict=True)
    ]
    dense = rng.normal(size=(n, k)).astype(dtype)
    if k:
        dense[rng.random((n, k)) < 0.2] = 0.0
    return Coded(*parts, dense, tables(flat, widths, rng, ranks[: len(flat)] if ranks else None))


def sparse(X):
    """The same rows as a float64 CSR matrix, by products of indicators and tables."""
    t, n = X.tables, len(X.dense)
    levels = len(t.indptr) - 1
    T = sp.csr_matrix((t.values, t.columns, t.indptr), shape=(levels, t.width))
    codes = [part[:, j].astype(int) for part in X.parts[:3] for j in range(part.shape[1])]
    total = sp.csr_matrix((n, t.width))
    for first, code in zip(t.first, codes, strict=True):
        total = total + sp.csr_matrix((np.ones(n), (np.arange(n), first + code)), (n, levels)) @ T
    found = sp.csr_matrix(sp.hstack([total, sp.csr_matrix(X.dense.astype(float))]))
    found.sort_indices()
    return found
