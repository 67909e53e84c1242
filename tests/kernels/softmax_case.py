"""Rows with a class and a weight each, and sums of their softmax losses by NumPy."""

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp


def draw(n=321, d=7, K=4, *, kind="dense", dtype=np.float64, seed=0):
    """Rows, codes, weights, and W (K, d + 1) and V like it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if kind != "dense":
        X = X * (rng.random((n, d)) < 0.2)
    if kind == "pattern":
        X = (X != 0.0).astype(float)
    X = X.astype(dtype)
    codes = rng.integers(0, K, n).astype(np.int32)
    codes[:K] = np.arange(K)
    weight = rng.random(n) + 0.5
    W, V = rng.normal(size=(2, K, d + 1))
    return X if kind == "dense" else sp.csr_matrix(X), codes, weight, W, V


def sums(X, codes, weight, W, V):
    """Value, gradient (K, d + 1), Grams of all pairs, product of the Hessian with V."""
    X = X.toarray() if sp.issparse(X) else X
    ones = np.concatenate([X.astype(float), np.ones((len(X), 1))], axis=1)
    z = ones @ W.T
    total = logsumexp(z, axis=1)
    p = np.exp(z - total[:, None])
    own = np.arange(len(codes)), codes
    slopes = p.copy()
    slopes[own] -= 1.0
    u = ones @ V.T
    curved = p * (u - (p * u).sum(axis=1, keepdims=True))
    pairs = [(j, k) for j in range(len(W)) for k in range(j + 1, len(W))]
    return {
        "value": weight @ (total - z[own]),
        "gradient": (weight[:, None] * slopes).T @ ones,
        "grams": np.array(
            [(ones * (weight * p[:, j] * p[:, k])[:, None]).T @ ones for j, k in pairs]
        ),
        "product": (weight[:, None] * curved).T @ ones,
        "margins": z.T,
    }


def hessian(grams, K):
    """The whole Hessian (K, size, K, size) of the Grams of all pairs."""
    size = grams.shape[-1]
    out = np.zeros((K, size, K, size))
    pairs = [(j, k) for j in range(K) for k in range(j + 1, K)]
    for (j, k), gram in zip(pairs, grams, strict=True):
        out[j, :, k] -= gram
        out[k, :, j] -= gram
        out[j, :, j] += gram
        out[k, :, k] += gram
    return out
