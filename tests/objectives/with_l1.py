"""An objective with an L1 penalty besides, and its optimum in long double."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from daskglm.core.requests import Problem
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.penalties.config import PenaltyConfig
from daskglm.penalties.penalty import Penalty
from tests.oracle.problem import Reference

SLOPES = {
    "logistic": lambda y, z: -y / (1.0 + np.exp(y * z)),
    "squared": lambda y, z: z - y,
    "squared_hinge": lambda y, z: -2.0 * y * np.maximum(1.0 - y * z, 0.0),
    "poisson": lambda y, z: np.exp(z) - y,
}
VALUES = {
    "logistic": lambda y, z: np.logaddexp(0.0, -y * z),
    "squared": lambda y, z: 0.5 * (z - y) ** 2,
    "squared_hinge": lambda y, z: np.maximum(1.0 - y * z, 0.0) ** 2,
    "hinge": lambda y, z: np.maximum(1.0 - y * z, 0.0),
    "poisson": lambda y, z: np.exp(z) - y * z + np.where(y > 0, y * np.log(y + (y == 0)) - y, 0.0),
}


class ElasticNet(Objective):
    """C sum_i s_i loss + strength / 2 |w|^2 + l1 |w|_1, for dual ascent, also on a device."""

    threshold = 0.0

    def __init__(self, *args, strength, l1, **options):
        self.l1 = l1
        features = args[0].facts.n_features
        size = features + options["fit_intercept"]
        super().__init__(*args, penalty=Penalty.ridge(features, size, strength), **options)
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
        intercept_radius=100.0,
    )  # fmt: skip


def value(X, y, w, loss, *, weight=None, C=1.0, strength=1.0, l1=0.1):
    """The objective at w, whose entries beyond the features are an intercept."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    d = X.shape[1]
    s = np.ones(len(y)) if weight is None else weight
    losses = C * float(s @ VALUES[loss](y, X @ w[:d] + w[d:].sum()))
    return losses + 0.5 * strength * float(w[:d] @ w[:d]) + l1 * float(abs(w[:d]).sum())


def best_of(X, y, loss, *, weight=None, C=1.0, strength=1.0, l1=0.1, fit_intercept=False):
    """The coefficients of the least value, and the intercept if there is one, for a smooth loss."""
    penalty = PenaltyConfig(
        l1_ratio=l1 / (strength + l1), penalty_factor=np.full(X.shape[1], strength + l1)
    )
    reference = Reference(loss, X, y, C, fit_intercept, weight, penalty=penalty)
    w, b, _ = reference.optimum()
    return np.append(w, b).astype(float)[: len(w) + fit_intercept]
