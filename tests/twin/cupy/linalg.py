"""cupy.linalg of the stand-in."""

import numpy as np

from cupy._array import unwrap, wrap


def norm(x, ord=None, axis=None, keepdims=False):
    return wrap(np.linalg.norm(unwrap(x)))


def cholesky(a):
    """Like the real one, gives NaN where NumPy would raise."""
    try:
        return wrap(np.linalg.cholesky(unwrap(a)))
    except np.linalg.LinAlgError:
        return wrap(np.full(a.shape, np.nan))


def eigh(a, UPLO="L"):
    return wrap(tuple(np.linalg.eigh(unwrap(a))))


def solve(a, b):
    return wrap(np.linalg.solve(unwrap(a), unwrap(b)))
