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
from daskglm.penalties.kinks import Kinks
from daskglm.penalties.penalty import Penalty
from daskglm.penalties.ridge import Ridge
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


def l1_and_ridge(n_features, size, *, strength, l1):
    """The penalty strength / 2 |w|^2 + l1 |w|_1 of features; constants after them have none."""
    strengths = np.where(np.arange(size) < n_features, l1, 0.0)
    return Penalty(Ridge(n_features, strength), replace(Kinks.nothing(size), strengths=strengths))


def elastic_net(
    X, y, loss, *, weight=None, C=1.0, strength=1.0, l1=0.1, fit_intercept=False, where=None
):
    """C sum_i s_i loss + strength / 2 |w|^2 + l1 |w|_1 of rows in this process."""
    kind = LOSSES[loss]
    given = {} if where is None else {"where": where}
    rows = partitions(X, y, weight, classify=kind.classifies).load()
    engine = Local(rows, threads=2, **given)
    problem = Problem(kind.ref, 1.0 if kind.classifies else None)
    d = engine.facts.n_features
    penalty = l1_and_ridge(d, d + fit_intercept, strength=strength, l1=l1)
    return Objective(
        engine, problem, kind, C=C, fit_intercept=fit_intercept, penalty=penalty,
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
