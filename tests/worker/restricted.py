"""Rows of which some columns are asked about, and what NumPy answers."""

import numpy as np
import scipy.sparse as sp

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, LossRef, Problem
from daskglm.data.blocks import Place, to_block

PROBLEM = Problem(LossRef("logistic"), 1.0)
STORAGES = ("dense", "float32", "csr", "pattern")
COLUMNS = np.array([1, 4, 5, 8, 11])


def draw(storage="dense", n=900, d=12, seed=0):
    """Rows as `to_block` takes them, with y, weights and offsets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if storage == "float32":
        X = X.astype(np.float32)
    elif storage != "dense":
        X = sp.csr_matrix(X * (rng.random((n, d)) < 0.3))
        X.data[:] = 0.5 if storage == "pattern" else X.data
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return X, y, rng.random(n) + 0.1, rng.standard_normal(n)


def blocks_of(X, y, weight=None, offset=None, cuts=(0, 300, 301, 301, 900), classify=True):
    """Blocks of these rows, one of them of one row and one of none."""
    runs = [slice(a, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    return [
        to_block(
            X[run],
            y[run],
            None if weight is None else weight[run],
            None if offset is None else offset[run],
            place=Place(i),
            classify=classify,
        )
        for i, run in enumerate(runs)
    ]


def columns_of(X, columns):
    """Some columns as a dense float64 array."""
    return np.asarray((X.toarray() if sp.issparse(X) else X)[:, columns], float)


def points(k):
    rng = np.random.default_rng(k)
    return rng.standard_normal((2, k + 1))


def requests(k):
    """One request of each kind, about k columns and an intercept."""
    w, v = points(k)
    return [
        Evaluate(w, 1, gram=True, diagonal=True),
        HessianVector(v, (1, w)),
        Evaluate(v, 2),
        EvaluateAlong(
            ((1, w), (2, v)), np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[0.1], [-0.2]])
        ),
    ]


def answers(A, y, weight=None, offset=None):
    """What NumPy answers to `requests` for dense rows A (n, k)."""
    s = np.ones(len(y)) if weight is None else weight
    base = np.zeros(len(y)) if offset is None else offset
    B = np.column_stack([A, np.ones(len(y))])
    w, v = points(A.shape[1])

    def at(z):
        z = z + base
        p = 1.0 / (1.0 + np.exp(y * z))
        return s @ np.logaddexp(0.0, -y * z), -s * y * p, s * p * (1.0 - p)

    def evaluated(w):
        value, slope, curvature = at(B @ w)
        return {"value": value, "gradient": B.T @ slope}, (B * curvature[:, None]).T @ B

    first, gram = evaluated(w)
    Z = np.column_stack([B @ w, B @ v, np.ones(len(y))])
    along = requests(A.shape[1])[3]
    found = [at(Z @ np.append(*c)) for c in zip(along.coefficients, along.constants, strict=True)]
    return [
        {**first, "gram": np.triu(gram), "diagonal": np.diag(gram)},
        {"product": gram @ v},
        evaluated(v)[0],
        {
            "values": np.array([value for value, _, _ in found]),
            "slopes": np.array([Z.T @ slope for _, slope, _ in found]),
            "hessians": np.array([(Z * c[:, None]).T @ Z for _, _, c in found]),
        },
    ]


def check(got, wanted, rtol=1e-9):
    for reply, right in zip(got, wanted, strict=True):
        for key, value in right.items():
            found = np.triu(reply[key]) if key == "gram" else reply[key]
            scale = np.abs(value).max(initial=1e-300)
            np.testing.assert_allclose(found, value, rtol=rtol, atol=rtol * scale, err_msg=key)
