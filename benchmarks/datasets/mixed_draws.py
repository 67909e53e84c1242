"""Problems drawn from a second distribution, which has nothing in common with `random_draws`.

Rows are texts of several topics, tables of factors beside heavy-tailed numbers, dense rows of few
latent variables on unequal scales, spectra that decay along hidden axes, and raw counts; losses
are those of classes, of least squares, Huber's, and of two families; penalties are L2, L1 and both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.datasets import drawing

FEATURES = {
    "topics": (2_000, 120_000),
    "table": (40, 60_000),
    "latent": (8, 1_500),
    "spectrum": (8, 1_500),
    "counts": (300, 30_000),
}
KINDS = tuple(FEATURES)
DENSE = ("latent", "spectrum")
FIELDS = (4, 30)  # columns of a table
WORDS = {"topics": (15, 200), "counts": (10, 150)}  # of a row
TOPICS = 12  # orders of the words, of which the first is common to all rows
ROWS = (500, 400_000)
LOSS_SHARES = {
    "logistic": 0.35,
    "squared_hinge": 0.15,
    "squared": 0.15,
    "hinge": 0.05,
    "huber": 0.05,
    "poisson": 0.15,
    "gamma": 0.10,
}
CLASSES = ("logistic", "squared_hinge", "hinge")
L1_SHARE = 0.25  # of the problems whose loss takes a penalty with kinks
L1_LOSSES = ("logistic", "squared", "poisson")
STRENGTHS = (2e-3, 0.3)  # of an L1 part, as shares of the least strength without coefficients
C_RANGE = (1e-3, 1e2)
LONGEST_MARGIN = 8.0  # of counts, or means would overflow a table


@dataclass(frozen=True)
class MixedDraw:
    """One problem: `kind` of rows, their number, features, stored values a row, and how it is fit.

    `strength` is the share of the least L1 strength that leaves no coefficients, and takes the
    place of `C`; it is 0 for L2 alone.
    """

    seed: int
    number: int
    kind: str
    rows: int
    features: int
    per_row: int
    shape: float
    signal: float
    loss: str
    C: float
    l1_ratio: float
    strength: float
    fit_intercept: bool
    dtype: str

    def __str__(self) -> str:
        text = f"#{self.number} {self.kind} {self.rows:,} x {self.features:,} {self.dtype}"
        text += f", {self.per_row} a row, shape {self.shape:.1f}; {self.loss}"
        penalty = f"C={self.C:.2g}"
        if self.l1_ratio:
            penalty = f"l1_ratio={self.l1_ratio:g} at {self.strength:.2g} of the most"
        return f"{text} {penalty}{' intercept' * self.fit_intercept}"


def draw(seed: int, number: int, most_bytes: int) -> MixedDraw:
    """Draw the problem of this number; rows are cut to those that `most_bytes` hold."""
    rng = np.random.default_rng([seed, number, 2])
    kind = str(rng.choice(KINDS))
    features = drawing.log_uniform(rng, *FEATURES[kind])
    if kind in DENSE:
        per_row = features
    elif kind == "table":
        per_row = int(rng.integers(*FIELDS))
    else:
        per_row = drawing.log_uniform(rng, *WORDS[kind])
    dtype = str(rng.choice(["float32", "float64"]))
    fits = drawing.rows_within(most_bytes, per_row, dtype, dense=kind in DENSE)
    loss = drawing.one_of(rng, LOSS_SHARES)
    kinked = loss in L1_LOSSES and rng.random() < L1_SHARE
    return MixedDraw(
        seed=seed,
        number=number,
        kind=kind,
        rows=max(min(drawing.log_uniform(rng, *ROWS), fits), ROWS[0]),
        features=features,
        per_row=per_row,
        shape=float(rng.uniform(0.3, 1.6)),
        signal=float(10 ** rng.uniform(-0.5, 1.0)),
        loss=loss,
        C=drawing.power_of_ten(rng, *C_RANGE),
        l1_ratio=float(rng.choice([1.0, 0.5])) if kinked else 0.0,
        strength=drawing.power_of_ten(rng, *STRENGTHS) if kinked else 0.0,
        fit_intercept=bool(rng.random() < 0.7),
        dtype=dtype,
    )


def make(drawn: MixedDraw) -> tuple[Any, np.ndarray]:
    """Generate rows X, C-ordered or CSR, and labels of -1/+1, or targets."""
    rng = np.random.default_rng([drawn.seed, drawn.number, 3])
    X = {
        "topics": _topics,
        "table": _table,
        "latent": _latent,
        "spectrum": _spectrum,
        "counts": _counts,
    }[drawn.kind](drawn, rng)
    return X, _targets(drawn, X, rng)


def arguments(drawn: MixedDraw, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Return the arguments of `daskglm.fit`, besides the rows."""
    found = {"loss": drawn.loss, "C": drawn.C, "fit_intercept": drawn.fit_intercept}
    if drawn.l1_ratio:
        centred = y - y.mean() if drawn.fit_intercept else y - (drawn.loss == "poisson")
        slope = 0.5 * centred if drawn.loss == "logistic" else centred
        most = float(np.abs(X.T @ slope).max())
        found |= {"l1_ratio": drawn.l1_ratio, "C": drawn.l1_ratio / (drawn.strength * most)}
    return found


# ---- rows
def _words(drawn: MixedDraw, rng: np.random.Generator) -> np.ndarray:
    """Draw columns (rows, per_row): half of them by their rank in the row's topic."""
    shape = (drawn.rows, drawn.per_row)
    ranks = drawing.ranks(rng, drawn.features, drawn.shape, shape, first=2)
    orders = np.array([rng.permutation(drawn.features) for _ in range(TOPICS)])
    topic = rng.integers(1, TOPICS, drawn.rows)[:, None]
    return orders[np.where(rng.random(shape) < 0.5, topic, 0), ranks]


def _topics(drawn: MixedDraw, rng: np.random.Generator) -> sp.csr_matrix:
    """Rows of norm one, weighted by how rare their words are."""
    words = _words(drawn, rng)
    X = drawing.csr(words, np.ones(words.shape), drawn.features, drawn.dtype)
    occurs = np.bincount(X.indices, minlength=drawn.features)
    rarity = np.log((1.0 + drawn.rows) / (1.0 + occurs)) + 1.0
    X.data *= rarity[X.indices].astype(X.dtype)
    drawing.to_unit_rows(X)
    return X


def _counts(drawn: MixedDraw, rng: np.random.Generator) -> sp.csr_matrix:
    """Logarithms of 1 + counts, rows of any length."""
    values = np.log1p(rng.geometric(0.4, (drawn.rows, drawn.per_row)))
    X = drawing.csr(_words(drawn, rng), values, drawn.features, drawn.dtype)
    X.data *= 0.3
    return X


def _table(drawn: MixedDraw, rng: np.random.Generator) -> sp.csr_matrix:
    """A third of the columns of a row are numbers with heavy tails, the others levels of factors.

    Numbers come first; levels of a factor occur by a power law, in no order.
    """
    numbers = min(max(drawn.per_row // 3, 1), drawn.features // 2)
    factors = max(drawn.per_row - numbers, 1)
    sizes = rng.dirichlet(np.full(factors, 0.7)) * (drawn.features - numbers - 2 * factors)
    sizes = np.maximum(sizes.astype(int) + 2, 2)
    edges = numbers + np.concatenate([[0], np.cumsum(sizes)])
    edges = np.minimum(edges, drawn.features - 1)
    columns = np.empty((drawn.rows, numbers + factors), np.int64)
    values = np.ones(columns.shape)
    columns[:, :numbers] = np.arange(numbers)
    values[:, :numbers] = rng.standard_t(4, (drawn.rows, numbers))
    for k in range(factors):
        count = max(int(edges[k + 1] - edges[k]), 1)
        level = drawing.ranks(rng, count, drawn.shape, drawn.rows)
        columns[:, numbers + k] = edges[k] + rng.permutation(count)[level]
    return drawing.csr(columns, values, drawn.features, drawn.dtype)


def _latent(drawn: MixedDraw, rng: np.random.Generator) -> np.ndarray:
    """Few latent variables, noise, means, and scales over two decades."""
    latent = rng.standard_normal((drawn.rows, 2 + drawn.features // 10))
    loadings = rng.standard_normal((latent.shape[1], drawn.features)) / math.sqrt(latent.shape[1])
    X = latent @ loadings + drawn.shape * rng.standard_normal((drawn.rows, drawn.features))
    X = (X + rng.standard_normal(drawn.features)) * 10 ** rng.uniform(-1, 1, drawn.features)
    return X.astype(drawn.dtype)


def _spectrum(drawn: MixedDraw, rng: np.random.Generator) -> np.ndarray:
    """Standardised columns whose principal variances fall by a power."""
    scales = np.arange(1, drawn.features + 1) ** (-0.5 * drawn.shape)
    axes = np.linalg.qr(rng.standard_normal((drawn.features, drawn.features)))[0]
    X = (rng.standard_normal((drawn.rows, drawn.features)) * scales) @ axes
    return (X / X.std(axis=0)).astype(drawn.dtype)


def _targets(drawn: MixedDraw, X: Any, rng: np.random.Generator) -> np.ndarray:
    """Targets of a model in which a fifth of the columns have a say."""
    scale = np.sqrt(np.maximum(drawing.column_squares(X) / drawn.rows, 1e-12))
    w = rng.standard_normal(drawn.features) * (rng.random(drawn.features) < 0.2) / scale
    z = drawing.standardised(np.asarray(X @ np.clip(w, -10, 10).astype(X.dtype), dtype=float))
    if drawn.loss in CLASSES:
        y = np.where(drawn.signal * z + rng.logistic(size=drawn.rows) > 0.5, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        return y
    margins = np.clip(0.5 * z, -LONGEST_MARGIN, LONGEST_MARGIN)
    if drawn.loss == "poisson":
        return rng.poisson(np.exp(margins)).astype(float)
    if drawn.loss == "gamma":
        return np.maximum(rng.gamma(2.0, np.exp(margins) / 2.0), 1e-6)
    heavy = drawn.loss == "huber"
    noise = rng.standard_t(3, drawn.rows) if heavy else rng.standard_normal(drawn.rows)
    return z + noise / drawn.signal
