"""Rows of categories by their codes: a storage from outside of the package, a module of operations.

X is the pair (codes, first): row i has a one in the columns first[j] + codes[i, j], one for each
column j of categories, and zeros elsewhere.
"""

from typing import NamedTuple

import numpy as np

from daskglm.core.summation import SUMMED_ROWS
from daskglm.kernels import csr
from daskglm.kernels.chosen import within_callers
from daskglm.kernels.records import read_only
from daskglm.kernels.size import UNIT, Size
from daskglm.kernels.soft_threshold import soft
from daskglm.system.compiled import compiled


class Codes(NamedTuple):
    """X of a block."""

    codes: np.ndarray
    first: np.ndarray
    shape: tuple
    dtype = np.dtype(np.float64)


def arrays_of(X):
    return (read_only(X.codes), read_only(X.first)) if isinstance(X, Codes) else None


def take(X, rows):
    return X._replace(codes=X.codes[rows], shape=(len(rows), X.shape[1]))


class ColumnsCopy(csr.ColumnsCopy):
    """Some levels are a pattern of sparse rows."""

    def __init__(self, X, d, columns, *, pattern):
        codes, first = X
        indptr = read_only(codes.shape[1] * np.arange(len(codes) + 1))
        one = read_only(np.ones(1)), read_only((codes + first).ravel()), indptr
        super().__init__(one, d, columns, pattern=True)


def count_rows(X):
    return len(X[0])


def rows_between(X, start, stop):
    return X[0][start:stop], X[1]


def matrix_of(X, d):
    out = np.zeros((len(X[0]), d))
    np.put_along_axis(out, X[0] + X[1], 1.0, axis=1)
    return out


def address_of(X):
    return X[0].ctypes.data


def kind(X):
    return ()


def exact_runs(X, start, stop):
    return None


def row_values(X):
    return np.dtype(float), False


def size_of(X):
    return Size(X[0].size, X[0].nbytes, X[0].shape[1], True, UNIT)


@compiled(nogil=True)
def tile_rows(X, d, count, formed):
    return 128


@compiled(nogil=True)
def run_rows(X):
    return SUMMED_ROWS


@compiled(nogil=True)
def prepared(X, w):
    return w


@compiled(nogil=True)
def gathered(X, d, sums):
    return np.zeros(d)


@compiled(nogil=True)
def flush(X, d, gradient, sums):
    for j in range(d):
        sums[j] += gradient[j]
        gradient[j] = 0.0


@compiled(nogil=True)
def forward(X, w, b, start, stop, z, ahead):
    codes, first = X
    for i in range(start, stop):
        total = b
        for j in range(len(first)):
            total += w[first[j] + codes[i, j]]
        z[i - start] = total


@compiled(nogil=True)
def backward(X, slope, start, count, out, ahead):
    codes, first = X
    for t in range(count):
        for j in range(len(first)):
            out[first[j] + codes[start + t, j]] += slope[t]


@compiled(nogil=True)
def add_squares(X, curvature, start, count, out):
    backward(X, curvature, start, count, out, 0)


@compiled(nogil=True)
def room(X, many, count, formed):
    return None


@compiled(nogil=True)
def finish_gram(X, d, work, gram):
    pass


@compiled(nogil=True)
def add_outer(X, curvature, start, count, d, work, gram):
    codes, first = X
    for t in range(count):
        for j in range(len(first)):
            one = first[j] + codes[start + t, j]
            for k in range(j, len(first)):
                gram[one, first[k] + codes[start + t, k]] += curvature[t]
            gram[one, d] += curvature[t]
        gram[d, d] += curvature[t]


@compiled(nogil=True)
def add_cross(X, codes, of, lo, n, cross):
    rows, first = X
    last = len(cross) - 1
    for i in range(n):
        k = codes[lo + i]
        for j in range(len(first)):
            column = first[j] + rows[lo + i, j]
            if k + 1 < last:
                cross[k + 1, column] -= of[1, i]
            if k > 0:
                cross[k, column] -= of[3, i]


@compiled(nogil=True)
def ask(X, first, count):
    pass


@compiled(nogil=True)
def fill_columns(X, d, rows, stop, columns):
    codes, first = X
    columns[:d] = 0.0
    columns[d, : len(rows)] = 1.0
    for t in range(len(rows)):
        for j in range(len(first)):
            columns[first[j] + codes[rows[t], j], t] = 1.0


@within_callers()
def dot(X, i, v, threshold):
    codes, first = X
    total = 0.0
    for j in range(len(first)):
        total += soft(v[first[j] + codes[i, j]], threshold)
    return total


@within_callers()
def axpy(X, i, s, v):
    codes, first = X
    for j in range(len(first)):
        v[first[j] + codes[i, j]] += s


@within_callers()
def squared_norm(X, i):
    return float(len(X[1]))


@within_callers()
def fetch_places(X, i, stop):
    pass


@within_callers()
def fetch_rows(X, i, stop):
    pass


@within_callers()
def fetch_shared(X, i, v):
    pass
