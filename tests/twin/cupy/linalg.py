"""cupy.linalg of the stand-in."""

import numpy as np

from cupy._array import unwrap, wrap


def norm(x, ord=None, axis=None, keepdims=False):
    return wrap(np.linalg.norm(unwrap(x)))


def cholesky(a):
    """Where it fails: an error if `cupyx.errstate(linalg="raise")` asks for one, else something that is no factor."""
    import cupyx

    try:
        return wrap(np.linalg.cholesky(unwrap(a)))
    except np.linalg.LinAlgError:
        if cupyx.config["linalg"] == "raise":
            raise
        return wrap(np.tril(np.abs(unwrap(a))) + np.eye(len(a)))


def eigh(a, UPLO="L"):
    return wrap(tuple(np.linalg.eigh(unwrap(a))))


def solve(a, b):
    return wrap(np.linalg.solve(unwrap(a), unwrap(b)))
