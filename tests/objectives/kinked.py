"""Random problems with kinks and bounds."""

import math

import numpy as np
import scipy.sparse as sp

from daskglm.fitting.config import FitConfig
from daskglm.losses.table import find
from daskglm.penalties.config import PenaltyConfig
from tests.losses.formulas import BOUNDED, POSITIVE
from tests.objectives.families import LOSS_NAMES, rows, targets
from tests.oracle.problem import Reference

OTHERS = ("squared", "logistic", "squared_hinge", "huber(1.35)")
KINKED_NAMES = LOSS_NAMES + OTHERS * 2


def kinked_targets(rng, loss, X):
    """Targets of families, and numbers or labels of other losses."""
    if find(loss).family is not None and loss != "squared":
        return targets(rng, loss, X)
    columns = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    spread = np.maximum(columns.std(axis=0), 1e-300)
    z = (columns - columns.mean(axis=0)) / spread @ rng.standard_normal(columns.shape[1])
    if find(loss).classifies:
        y = np.where(rng.random(len(z)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return y
    y = z + rng.choice([0.01, 1.0, 3.0]) * rng.standard_normal(len(z))
    return y * 10 ** rng.uniform(-3, 3) + rng.choice([0.0, 0.0, 1e3])


def random_penalty(rng, d, size):
    """A penalty of any kind; `size` (d,) are sizes of coefficients that change margins by one."""
    given = {"l1_ratio": float(rng.choice([1.0, 1.0, rng.random(), 0.0]))}
    kind = rng.choice(["plain", "plain", "factors", "P2", "groups", "bounds", "bounds"])
    if kind == "groups":
        given["groups"] = rng.integers(0, max(d // 2, 1), d)
        given["l1_ratio"] = max(given["l1_ratio"], 0.3)
    if kind == "factors" or (kind == "bounds" and rng.random() < 0.3):
        factors = rng.exponential(1.0, d) * (rng.random(d) < 0.7)
        given["penalty_factor"] = factors if factors.any() else np.ones(d)
    if kind == "P2":
        root = rng.standard_normal((d, int(rng.integers(1, d + 1))))
        given["P2"] = root @ root.T
        given["P2"] = (given["P2"] + given["P2"].T) / 2
        given["l1_ratio"] = min(given["l1_ratio"], 0.9)
    if kind == "bounds":
        lower = np.where(rng.random(d) < 0.6, -rng.exponential(0.2, d) * size, -np.inf)
        upper = np.where(rng.random(d) < 0.6, rng.exponential(0.2, d) * size, np.inf)
        lower[rng.random(d) < 0.3] = 0.0
        if rng.random() < 0.2:  # zero is outside
            lower[0], upper[0] = 0.1 * size[0], 0.3 * size[0]
        given |= {"lower_bounds": lower, "upper_bounds": upper}
    if kind != "groups" and rng.random() < 0.2:
        given["standardize"] = True
    return given


def draw(seed, loss=None):
    """One random problem, and how to solve it: the configuration of a fit."""
    rng = np.random.default_rng(seed)
    loss = loss or str(rng.choice(KINKED_NAMES))
    X = rows(rng)
    y = kinked_targets(rng, loss, X)
    n, d = X.shape
    weight = rng.exponential(1.0, n) * (rng.random(n) < 0.9) if rng.random() < 0.3 else None
    offset = rng.standard_normal(n) * rng.choice([0.3, 3.0]) if rng.random() < 0.3 else None
    if offset is not None and loss in POSITIVE:
        offset *= 0.1 * float(find(loss).link.of_mean(y.mean() or 1.0))
    elif offset is not None and loss in BOUNDED:
        # beyond this no intercept may be inside for all rows, which is refused
        offset = np.clip(0.05 * offset, -0.45, 0.45)
    if weight is not None and find(loss).classifies:
        weight[:2] += 0.1
    intercept = bool(rng.integers(2)) or loss in BOUNDED
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    size = 1.0 / np.maximum(dense.std(axis=0), 1e-6 * np.abs(dense).max() + 1e-300)
    given = random_penalty(rng, d, size)
    # of a strength at which some feature that is drawn is near leaving zero
    probe = Reference(loss, X, y, 1.0, intercept, weight, offset)
    constant = probe.constant() if intercept else 1e-3
    slope = probe.losses(np.full(n, constant))[1]
    pull = np.abs((dense - dense.mean(axis=0) * intercept).T @ np.asarray(probe.s * slope, float))
    C = float(10 ** rng.uniform(-0.5, 3) / (pull[rng.integers(d)] or 1.0))
    bounded = "lower_bounds" in given
    if bounded and rng.random() < 0.3:
        C = math.inf
        given = {name: given[name] for name in ("lower_bounds", "upper_bounds")}
    penalty = PenaltyConfig(**given)
    problem = Reference(loss, X, y, C, intercept, weight, offset, penalty)
    max_iter = rng.choice([*[None] * 4, 0, 1, 2, 3, 5])
    tol = float(10 ** rng.uniform(-12, -1))
    config = FitConfig(
        loss,
        C=C,
        fit_intercept=intercept,
        solver=str(rng.choice(["auto", "proximal_newton"])),
        tol=tol,
        max_iter=max_iter,
        penalty=penalty,
    )
    return problem, config
