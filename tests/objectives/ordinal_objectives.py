"""Ordinal objectives on random rows, some hard in floating point."""

import numpy as np
import scipy.sparse as sp

from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.losses.ordinal import LOSS
from tests.objectives.several import ordered_objective
from tests.oracle.ordinal import Reference


def rows(seed, n=200, d=4, K=4, *, hard="", dtype=np.float64, sparse=False, rare=False):
    """Rows and classes of a noisy model; `hard` names what makes them so."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X @ rng.standard_normal(d) * 1.5 + rng.logistic(size=n)
    if hard == "copies":
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-6, -1) * X[:, -1]
    if hard == "offsets":
        X += 10.0 ** rng.uniform(1, 5, d)
    if hard == "scales":
        X *= 10.0 ** rng.uniform(-3, 3, d)
    shares = np.linspace(1, 6, K) if not rare else np.append(np.ones(K - 1), 0.02)
    edges = np.quantile(z, np.cumsum(shares)[:-1] / shares.sum())
    y = np.searchsorted(edges, z)
    y[:K] = np.arange(K)
    if sparse:
        X *= rng.random((n, d)) < 0.4
        X = sp.csr_matrix(X)
    return X.astype(dtype), y


def engine_of(X, y, weight=None, offset=None, threads=1):
    """Rows in memory."""
    return Local([to_block(X, y, weight, offset, place=Place(), classify=True)], threads)


def noise_of(made, point):
    """What rounding in long double does to the reference: to margins, and to sums."""
    return 2.0**-64 * (32.0 + made.rounding.size(point.w)) * point.value


def objective(X, y, C=1.0, weight=None, offset=None, threads=1):
    """The objective of rows in memory, and the same in long double."""
    engine = engine_of(X, y, weight, offset, threads)
    labels = np.unique(y)
    shares = [float((np.ones(len(y)) if weight is None else weight)[y == k].sum()) for k in labels]
    made = ordered_objective(
        engine, Problem(LOSS.ref), LOSS, classes=tuple(labels.tolist()), weights=shares, C=C
    )
    return made, Reference(X, y, C, weight, offset)
