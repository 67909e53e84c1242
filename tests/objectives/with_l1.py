"""An objective with an L1 penalty besides, and its optimum by coordinate descent in NumPy."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.penalties.ridge import Ridge

SLOPES = {
    "logistic": lambda y, z: -y / (1.0 + np.exp(y * z)),
    "squared": lambda y, z: z - y,
    "squared_hinge": lambda y, z: -2.0 * y * np.maximum(1.0 - y * z, 0.0),
    "poisson": lambda y, z: np.exp(z) - y,
}
CURVATURES = {
    "logistic": lambda y, z: 1.0 / (2.0 + np.exp(z) + np.exp(-z)),
    "squared": lambda y, z: np.ones(len(z)),
    "squared_hinge": lambda y, z: 2.0 * (y * z < 1.0),
    "poisson": lambda y, z: np.exp(z),
}
VALUES = {
    "logistic": lambda y, z: np.logaddexp(0.0, -y * z),
    "squared": lambda y, z: 0.5 * (z - y) ** 2,
    "squared_hinge": lambda y, z: np.maximum(1.0 - y * z, 0.0) ** 2,
    "hinge": lambda y, z: np.maximum(1.0 - y * z, 0.0),
    "poisson": lambda y, z: np.exp(z) - y * z + np.where(y > 0, y * np.log(y + (y == 0)) - y, 0.0),
}


class ElasticNet(Objective):
    """C sum_i s_i loss + strength / 2 |w|^2 + l1 |w|_1."""

    def __init__(self, *args, strength, l1, **options):
        self.l1 = l1
        features = args[0].facts.n_features
        super().__init__(*args, penalty=Ridge(features, strength), **options)
        self.threshold = l1 / strength

    def at(self, w, **options):
        point = super().at(w, **options)
        return replace(point, value=point.value + self.l1 * float(abs(w[: self.n_features]).sum()))


def elastic_net(
    X, y, loss, *, weight=None, C=1.0, strength=1.0, l1=0.1, fit_intercept=False, where=None
):
    """An `ElasticNet` of rows in this process."""
    kind = LOSSES[loss]
    given = {} if where is None else {"where": where}
    rows = partitions(X, y, weight, classify=kind.classifies).load()
    engine = Local(rows, threads=2, **given)
    problem = Problem(kind.ref, 1.0 if kind.classifies else None)
    return ElasticNet(
        engine, problem, kind, C=C, fit_intercept=fit_intercept, strength=strength, l1=l1,
        span=100.0,
    )  # fmt: skip


def value(X, y, w, loss, *, weight=None, C=1.0, strength=1.0, l1=0.1):
    """The objective at w, whose entries beyond the features are an intercept."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    d = X.shape[1]
    s = np.ones(len(y)) if weight is None else weight
    losses = C * float(s @ VALUES[loss](y, X @ w[:d] + w[d:].sum()))
    return losses + 0.5 * strength * float(w[:d] @ w[:d]) + l1 * float(abs(w[:d]).sum())


def coordinate_descent(
    X, y, loss, *, weight=None, C=1.0, strength=1.0, l1=0.1, fit_intercept=False
):
    """The optimum for a smooth loss: Newton's method along one coordinate after another."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    n, d = X.shape
    s = C * (np.ones(n) if weight is None else weight)
    columns = np.c_[X, np.ones(n)] if fit_intercept else X
    w, z = np.zeros(columns.shape[1]), np.zeros(n)

    def along(j, t):
        """The objective's part that changes where w_j becomes t."""
        losses = s @ VALUES[loss](y, z + (t - w[j]) * columns[:, j])
        return losses + (0.5 * strength * t * t + l1 * abs(t) if j < d else 0.0)

    for _ in range(5000):
        moved = 0.0
        for j, x in enumerate(columns.T):
            mu, lam = (strength, l1) if j < d else (0.0, 0.0)
            g = float((s * SLOPES[loss](y, z)) @ x) + mu * w[j]
            h = float((s * CURVATURES[loss](y, z)) @ (x * x)) + mu + 1e-12
            u = h * w[j] - g
            new, before = np.sign(u) * max(abs(u) - lam, 0.0) / h, along(j, w[j])
            while along(j, new) > before + 1e-13 * abs(before):
                new = 0.5 * (new + w[j])
            z += (new - w[j]) * x
            moved = max(moved, abs(new - w[j]))
            w[j] = new
        if moved <= 1e-13 * max(abs(w).max(), 1e-3):
            break
    return w
