"""Rows of categories by their codes: a storage from outside of the package, a module of operations.

X is the pair (codes, first): row i has a one in the columns first[j] + codes[i, j], one for each
column j of categories, and zeros elsewhere.
"""

import numpy as np

from daskglm.core.summation import SUMMED_ROWS
from daskglm.system.compiled import compiled


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
def room(X, many, formed):
    return None


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
