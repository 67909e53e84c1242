"""Problems that are solved many at a time."""

import dask.array as da
import numpy as np
import scipy.sparse as sp

CS = [0.01, 1.0, 30.0]


def three_classes(n=400, d=6, *, sparse=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5 if sparse else 1.0)
    y = np.array(["low", "mid", "top"])[np.argmax(X[:, :3] + rng.standard_normal((n, 3)), axis=1)]
    return (sp.csr_matrix(X) if sparse else X), y


def wide(n=300, d=700, seed=3):
    """Sparse rows with more features than tiles are made dense for."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.02, random_state=rng, format="csr")
    y = np.where(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y


def lazy(X, y, chunk=150):
    return da.from_array(X, chunks=(chunk, X.shape[1])), da.from_array(y, chunks=chunk)
