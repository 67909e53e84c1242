"""Problems drawn from one distribution, so that nobody can tune a solver to them.

A `Draw` says in numbers what a problem looks like; `draw` picks one and `make` generates its rows.
Both depend on nothing but the seed and the number of the draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from benchmarks.datasets import drawing

ROWS = (300, 1_000_000)
DENSE_FEATURES, SPARSE_FEATURES = (3, 3000), (30, 300_000)
VALUES_PER_ROW = (3, 300)  # stored values of a sparse row
C_RANGE = (1e-3, 1e3)
LOSS_SHARES = {"logistic": 0.45, "squared_hinge": 0.25, "squared": 0.2, "hinge": 0.1}
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

    l1_ratio: ClassVar[float] = 0.0  # no penalty of these has kinks

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
    features = drawing.log_uniform(rng, fewest, most)
    per_row = min(drawing.log_uniform(rng, *VALUES_PER_ROW), max(features // 3, 1))
    per_row = features if kind == "dense" else min(per_row, 40) if kind == "one-hot" else per_row
    dtype = str(rng.choice(["float32", "float64"]))
    fits = drawing.rows_within(most_bytes, per_row, dtype, dense=kind == "dense")
    return Draw(
        seed=seed,
        number=number,
        kind=kind,
        rows=max(min(drawing.log_uniform(rng, *ROWS), fits), ROWS[0]),
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
        loss=drawing.one_of(rng, LOSS_SHARES),
        C=drawing.power_of_ten(rng, *C_RANGE),
        fit_intercept=bool(rng.random() < 0.5),
        dtype=dtype,
    )


def make(draw: Draw) -> tuple[Any, np.ndarray]:
    """Generate rows X, C-ordered or CSR, and labels of -1/+1, or targets of a regression."""
    rng = np.random.default_rng([draw.seed, draw.number, 1])
    X = _dense(draw, rng) if draw.kind == "dense" else _sparse(draw, rng)
    return X, _targets(draw, X, rng)


def arguments(draw: Draw, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Return the arguments of `daskglm.fit` besides the rows."""
    return {"loss": draw.loss, "C": draw.C, "fit_intercept": draw.fit_intercept}


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
    shape = (draw.rows, draw.per_row)
    if draw.kind == "one-hot":  # one category of each field
        edges = np.linspace(0, draw.features, draw.per_row + 1).astype(int)
        columns = np.empty(shape, np.int32)
        for k, (low, high) in enumerate(pairwise(edges)):
            columns[:, k] = low + drawing.ranks(rng, high - low, draw.popularity, draw.rows)
    else:
        drawn = drawing.ranks(rng, draw.features, draw.popularity, shape)
        columns = rng.permutation(draw.features)[drawn]
    values = np.ones(shape)
    if draw.kind == "sparse" and draw.values == "normal":
        values = rng.standard_normal(shape)
    elif draw.kind == "sparse" and draw.values == "skewed":
        values = rng.lognormal(0.0, 1.0, shape)
    X = drawing.csr(columns, values, draw.features, draw.dtype)
    if draw.kind == "sparse":
        X.data *= _scales(draw, rng).astype(draw.dtype)[X.indices]
    if draw.unit_rows:
        drawing.to_unit_rows(X)
    return X


def _targets(draw: Draw, X: Any, rng: np.random.Generator) -> np.ndarray:
    """Labels of a noisy linear model in which every column has about the same say."""
    squares = drawing.column_squares(X)
    typical = np.sqrt(np.maximum(squares / draw.rows, np.finfo(np.float32).tiny))
    weights = np.where(squares > 0.0, rng.standard_normal(draw.features) / typical, 0.0)
    if draw.kind != "dense":  # rare columns would else have all the say
        weights *= typical / np.sqrt(typical * typical.max())
    z = drawing.standardised(np.asarray(X @ weights.astype(X.dtype), dtype=np.float64))
    if draw.loss == "squared":
        return z + rng.standard_normal(draw.rows) / draw.signal
    noisy = draw.signal * z + rng.logistic(size=draw.rows)
    y = np.where(noisy > np.quantile(noisy, 1.0 - draw.positive), 1.0, -1.0)
    y[rng.random(draw.rows) < draw.flipped] *= -1.0
    if abs(y.sum()) == draw.rows:  # one class is no problem
        y[0] = -y[0]
    return y
