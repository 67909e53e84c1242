"""Problems drawn from one distribution, so that nobody can tune a solver to them.

A `Draw` says in numbers what a problem looks like; `draw` picks one and `make` generates its rows.
Both depend on nothing but the seed and the number of the draw.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

ROWS = (300, 1_000_000)
DENSE_FEATURES, SPARSE_FEATURES = (3, 3000), (30, 300_000)
VALUES_PER_ROW = (3, 300)  # stored values of a sparse row
C_RANGE = (1e-3, 1e3)
LOSS_SHARES = {"logistic": 0.45, "squared_hinge": 0.25, "squared": 0.2, "hinge": 0.1}
SPARSE_BYTES = 4  # of the column number beside each stored value
SPECTRA = ("independent", "equicorrelated", "decaying", "few factors")
VALUES = ("ones", "normal", "skewed")
REFLECTIONS = 3  # Householder reflections that turn the principal axes of dense rows


@dataclass(frozen=True)
class Draw:
    """One problem of the distribution.

    Parameters
    ----------
    seed, number : int
        What everything random follows from.
    kind : {"dense", "sparse", "one-hot"}
    rows, features, per_row : int
        `per_row` is the number of stored values of a row before duplicates are added up.
    spectrum : str
        Of dense columns, see `SPECTRA`; `decay` is the exponent of a decaying spectrum or the
        share that is common to all columns.
    popularity : float
        Columns of sparse rows are drawn with probability proportional to rank ** -popularity.
    values : str
        Stored values of sparse rows, see `VALUES`.
    unit_rows : bool
        Whether rows are scaled to norm one.
    scale_decades : float
        Standard deviation of the decimal logarithm of the columns' scales.
    signal, flipped, positive : float
        Standard deviation of the margins that labels are drawn from, share of labels that are
        flipped afterwards, share of positive rows. A regression takes noise of 1 / signal.
    loss, C, fit_intercept, dtype
        As `daskglm.fit` takes them; the dtype is that of X.
    """

    seed: int
    number: int
    kind: str
    rows: int
    features: int
    per_row: int
    spectrum: str
    decay: float
    popularity: float
    values: str
    unit_rows: bool
    scale_decades: float
    signal: float
    flipped: float
    positive: float
    loss: str
    C: float
    fit_intercept: bool
    dtype: str

    def fields(self) -> dict[str, Any]:
        """Return the fields as in the JSON lines."""
        return asdict(self)

    @property
    def nbytes(self) -> int:
        """Bytes of X, about."""
        return self.rows * _row_bytes(self.kind, self.features, self.per_row, self.dtype)

    def __str__(self) -> str:
        shape = f"#{self.number} {self.kind} {self.rows:,} x {self.features:,} {self.dtype}"
        if self.kind != "dense":
            shape += f", {self.per_row} a row, popularity {self.popularity:.1f}"
        else:
            shape += f", {self.spectrum} {self.decay:.1f}"
        return f"{shape}; {self.loss} C={self.C:.2g}{' intercept' * self.fit_intercept}"


def draw(seed: int, number: int, most_bytes: int) -> Draw:
    """Draw the problem of this number; rows are cut to those that `most_bytes` hold."""
    rng = np.random.default_rng([seed, number])
    kind = str(rng.choice(["dense", "sparse", "one-hot"], p=[0.5, 0.35, 0.15]))
    fewest, most = DENSE_FEATURES if kind == "dense" else SPARSE_FEATURES
    features = _log_uniform(rng, fewest, most)
    per_row = min(_log_uniform(rng, *VALUES_PER_ROW), max(features // 3, 1))
    per_row = features if kind == "dense" else min(per_row, 40) if kind == "one-hot" else per_row
    dtype = str(rng.choice(["float32", "float64"]))
    fits = most_bytes // _row_bytes(kind, features, per_row, dtype)
    rows = max(min(_log_uniform(rng, *ROWS), fits), ROWS[0])
    return Draw(
        seed=seed,
        number=number,
        kind=kind,
        rows=rows,
        features=features,
        per_row=per_row,
        spectrum=str(rng.choice(SPECTRA)),
        decay=float(rng.uniform(0.1, 1.5)),
        popularity=float(rng.uniform(0.0, 1.3)),
        values=str(rng.choice(VALUES)),
        unit_rows=bool(rng.random() < 0.5),
        scale_decades=float(rng.choice([0.0, 0.0, 0.3, 1.0])),
        signal=float(rng.choice([0.5, 2.0, 5.0, 50.0])),
        flipped=float(rng.choice([0.0, 0.0, 0.05, 0.2])),
        positive=float(rng.choice([0.5, 0.5, 0.3, 0.1, 0.02])),
        loss=str(rng.choice(list(LOSS_SHARES), p=list(LOSS_SHARES.values()))),
        C=float(10 ** rng.uniform(*map(math.log10, C_RANGE))),
        fit_intercept=bool(rng.random() < 0.5),
        dtype=dtype,
    )


def make(draw: Draw) -> tuple[Any, np.ndarray]:
    """Generate rows X, C-ordered or CSR, and labels of -1/+1, or targets of a regression."""
    rng = np.random.default_rng([draw.seed, draw.number, 1])
    X = _dense(draw, rng) if draw.kind == "dense" else _sparse(draw, rng)
    return X, _targets(draw, X, rng)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> int:
    return int(math.exp(rng.uniform(math.log(low), math.log(high))))


def _row_bytes(kind: str, features: int, per_row: int, dtype: str) -> int:
    size = np.dtype(dtype).itemsize
    return features * size if kind == "dense" else per_row * (size + SPARSE_BYTES)


def _scales(draw: Draw, rng: np.random.Generator) -> np.ndarray:
    return 10.0 ** (draw.scale_decades * rng.standard_normal(draw.features))


def _dense(draw: Draw, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((draw.rows, draw.features), dtype=np.float32).astype(draw.dtype)
    if draw.spectrum == "decaying":
        X *= (np.arange(1, draw.features + 1) ** -draw.decay).astype(draw.dtype)
        for _ in range(REFLECTIONS):
            axis = rng.standard_normal(draw.features).astype(draw.dtype)
            axis /= np.linalg.norm(axis)
            X -= np.outer(2.0 * (X @ axis), axis)
    elif draw.spectrum != "independent":
        factors = 1 if draw.spectrum == "equicorrelated" else 1 + draw.features // 20
        common = rng.standard_normal((draw.rows, factors)).astype(draw.dtype)
        loadings = rng.standard_normal((factors, draw.features)) / math.sqrt(factors)
        X += draw.decay * common @ loadings.astype(draw.dtype)
    X *= _scales(draw, rng).astype(draw.dtype)
    if draw.unit_rows:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


def _sparse(draw: Draw, rng: np.random.Generator) -> sp.csr_matrix:
    shares = np.cumsum(np.arange(1, draw.features + 1, dtype=float) ** -draw.popularity)
    count = draw.rows * draw.per_row
    if draw.kind == "one-hot":  # one category of each field
        edges = np.linspace(0, draw.features, draw.per_row + 1).astype(int)
        columns = np.empty((draw.rows, draw.per_row), np.int32)
        for k, (low, high) in enumerate(pairwise(edges)):
            law = shares[: high - low]
            columns[:, k] = low + np.searchsorted(law, rng.random(draw.rows) * law[-1])
        columns = columns.ravel()
    else:
        ranks = np.searchsorted(shares, rng.random(count) * shares[-1])
        columns = rng.permutation(draw.features).astype(np.int32)[ranks]
    values = np.ones(count, draw.dtype)
    if draw.kind == "sparse" and draw.values == "normal":
        values = rng.standard_normal(count).astype(draw.dtype)
    elif draw.kind == "sparse" and draw.values == "skewed":
        values = rng.lognormal(0.0, 1.0, count).astype(draw.dtype)
    starts = np.arange(0, count + 1, draw.per_row)
    X = sp.csr_matrix((values, columns, starts), shape=(draw.rows, draw.features))
    X.sum_duplicates()
    if draw.kind == "sparse":
        X.data *= _scales(draw, rng).astype(draw.dtype)[X.indices]
    if draw.unit_rows:
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
        X.data /= np.repeat(np.where(norms > 0.0, norms, 1.0), np.diff(X.indptr)).astype(X.dtype)
    return X


def _targets(draw: Draw, X: Any, rng: np.random.Generator) -> np.ndarray:
    """Labels of a noisy linear model in which every column has about the same say."""
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel() if sp.issparse(X) else (X * X).sum(0)
    typical = np.sqrt(np.maximum(squares / draw.rows, np.finfo(np.float32).tiny))
    weights = np.where(squares > 0.0, rng.standard_normal(draw.features) / typical, 0.0)
    if draw.kind != "dense":  # rare columns would else have all the say
        weights *= typical / np.sqrt(typical * typical.max())
    z = np.asarray(X @ weights.astype(X.dtype), dtype=np.float64)
    z = (z - z.mean()) / max(float(z.std()), np.finfo(np.float32).tiny)
    if draw.loss == "squared":
        return z + rng.standard_normal(draw.rows) / draw.signal
    noisy = draw.signal * z + rng.logistic(size=draw.rows)
    y = np.where(noisy > np.quantile(noisy, 1.0 - draw.positive), 1.0, -1.0)
    y[rng.random(draw.rows) < draw.flipped] *= -1.0
    if abs(y.sum()) == draw.rows:  # one class is no problem
        y[0] = -y[0]
    return y
