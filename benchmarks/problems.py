"""Data by name: real sets where the user has them, one shipped with scikit-learn, and a seeded HIGGS-shaped generator.

Labels in memory are -1.0/+1.0. Nothing here knows of contestants.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.sdca.data import DATA

N_FEATURES = 28
GRAIN = 10_000  # rows generated from one seed: whatever blocks are asked for, they are cut out of grains
REAL = (
    *("a9a", "w8a", "mushrooms", "rcv1_binary", "amazon_reviews", "news20_text", "insteval", "higgs", "covtype15k"),
    *("skin", "kddcup99", "nycflights", "criteo", "diabetes130"),
)
NAMES = ("higgs-like", *DATA, "breast_cancer", "breast_cancer_raw", *REAL)


class Unavailable(Exception):
    """Data that this machine does not have, with the reason."""


# ---------------------------------------------------------------------------- data by name
def load(
    name: str, *, rows: int | None = None, seed: int = 0, dtype: str | None = None, cache: Path | None = None
) -> Any:
    """Give X, a C-ordered array or csr_matrix, and y of -1/+1.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    rows : int, optional
        Rows to generate (default 1,000,000), or at most to keep of a set that is not generated.
    seed : int
        Of the generator.
    dtype : {"float32", "float64"}, optional
        Default: float32 for generated data, float64 for others.
    cache : Path, optional
        Folder that keeps what was loaded, so that the next process reads it in no time.

    Raises
    ------
    Unavailable
        Where the set is not on this machine.
    """
    if cache is None:
        return _load(name, rows, seed, dtype)
    folder = cache / f"{name}-{rows}-{seed}-{dtype}"
    if not folder.exists():
        data = _load(name, rows, seed, dtype)
        scratch = cache / f"{folder.name}.{os.getpid()}.tmp"
        _write(scratch, *data)
        scratch.rename(folder)
        return data
    return _read(folder)


def _load(name: str, rows: int | None, seed: int, dtype: str | None) -> tuple[Any, np.ndarray]:
    if name == "higgs-like":
        X, y = higgs_like(1_000_000 if rows is None else rows, seed)
    elif name in DATA:
        X, y = DATA[name](**({} if rows is None else {"rows": rows}), seed=seed)
    elif name in ("breast_cancer", "breast_cancer_raw"):
        X, y = _breast_cancer(standardised=name == "breast_cancer")
    elif name in NAMES:
        X, y = _real(name)
    else:
        raise ValueError(f"no data set is called {name!r}; there are {', '.join(NAMES)}")
    X, y = X[:rows], y[:rows]
    return (X if dtype is None else X.astype(dtype, copy=False)), np.ascontiguousarray(y, dtype=np.float64)


def _breast_cancer(*, standardised: bool) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0) if standardised else X, 2.0 * y - 1.0


def data_folder() -> Path:
    """Where the real sets and their loader are: $DASKGLM_DATA, or shared/data beside the repository."""
    return Path(os.environ.get("DASKGLM_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


@cache
def _loader() -> Any:
    path = data_folder() / "load_real.py"
    if not path.exists():
        raise Unavailable(f"no load_real.py in {data_folder()} (set DASKGLM_DATA to the folder of the real sets)")
    spec = importlib.util.spec_from_file_location("load_real", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _real(name: str) -> tuple[Any, np.ndarray]:
    try:
        X, y = _loader().load(name)[:2]
    except FileNotFoundError as error:
        raise Unavailable(f"{name}: {error}") from error
    return (sp.csr_matrix(X) if sp.issparse(X) else np.ascontiguousarray(X)), y


def _write(folder: Path, X: Any, y: np.ndarray) -> None:
    folder.mkdir(parents=True)
    np.save(folder / "y.npy", y)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape} if sp.issparse(X) else {"X": X}
    for part, values in parts.items():
        np.save(folder / f"{part}.npy", np.asarray(values))


def _read(folder: Path) -> tuple[Any, np.ndarray]:
    parts = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    if "X" in parts:
        return parts["X"], parts["y"]
    shape = tuple(int(size) for size in parts["shape"])
    return sp.csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=shape), parts["y"]


# ---------------------------------------------------------------------------- HIGGS-shaped rows
# Columns as in HIGGS: momenta (positive, skewed, mean 1), angles, four b-tags of three values, masses (correlated).
MOMENTA, PSEUDORAPIDITIES, AZIMUTHS = (0, 3, 5, 9, 13, 17), (1, 6, 10, 14, 18), (2, 4, 7, 11, 15, 19)
TAGS, MASSES = (8, 12, 16, 20), (21, 22, 23, 24, 25, 26, 27)
TAG_LEVEL, TAG_SHARES = (1.0865, 1.1074, 1.274, 1.551), ((0.32, 0.56), (0.36, 0.56), (0.50, 0.70), (0.60, 0.73))


def higgs_like_rows(start: int, stop: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows start to stop of the endless table that `seed` names: X (m, 28) float32 and y (m,) of -1/+1."""
    X, y = np.empty((stop - start, N_FEATURES), np.float32), np.empty(stop - start)
    for number in range(start // GRAIN, -(-stop // GRAIN)):
        Xg, yg = _grain(seed, number)
        lo, hi = max(start, number * GRAIN), min(stop, (number + 1) * GRAIN)
        cut = slice(lo - number * GRAIN, hi - number * GRAIN)
        X[lo - start : hi - start], y[lo - start : hi - start] = Xg[cut], yg[cut]
    return X, y


def higgs_like(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The first n rows at once."""
    return higgs_like_rows(0, n, seed)


def higgs_like_blocks(n: int, block_rows: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The first n rows in blocks: the same rows whatever the length of the blocks."""
    for start in range(0, n, block_rows):
        yield higgs_like_rows(start, min(start + block_rows, n), seed)


def _grain(seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """GRAIN rows from the child `number` of the seed."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,))))
    X = np.empty((GRAIN, N_FEATURES), np.float32)
    hard, lead, third = random.standard_normal((3, GRAIN), np.float32)  # what an event has in common
    noise = random.standard_normal((GRAIN, N_FEATURES), np.float32)
    share = {0: (0.2, 0.1), 3: (0.3, 0.0), 5: (0.7, 0.4), 9: (0.6, 0.4), 13: (0.4, 0.3), 17: (0.2, 0.2)}
    for j in MOMENTA:
        a, b = share[j]
        X[:, j] = np.exp(0.48 * (a * hard + b * lead + np.sqrt(1 - a * a - b * b) * noise[:, j]) - 0.115)
    for j in PSEUDORAPIDITIES:
        X[:, j] = np.clip(noise[:, j], -2.95, 2.95)
    X[:, AZIMUTHS] = random.uniform(-1.743, 1.743, (GRAIN, len(AZIMUTHS)))
    for j, level, shares in zip(TAGS, TAG_LEVEL, TAG_SHARES, strict=True):
        u = random.random(GRAIN, np.float32) + 0.1 * np.tanh(noise[:, j - 3])
        X[:, j] = np.float32(level) * ((u > shares[0]).astype(np.float32) + (u > shares[1]))
    resonance = random.random(GRAIN, np.float32) < 0.53  # a mixture: half of the events have narrower masses
    width = np.where(resonance, np.float32(0.22), np.float32(0.42))
    X[:, 21] = np.exp(0.5 * (0.5 * hard + 0.4 * third + 0.77 * noise[:, 21]) - 0.1)
    X[:, 22] = 0.3 * X[:, 21] + 0.7 * np.exp(0.25 * (0.6 * hard + 0.3 * third + 0.74 * noise[:, 22]))
    X[:, 23] = 1.05 + 0.06 * noise[:, 23] + 0.1 * np.exp(0.7 * noise[:, 24]) * (noise[:, 24] > 0.6)
    X[:, 24] = np.exp(0.33 * (0.5 * lead + 0.87 * noise[:, 24]) - 0.05)
    X[:, 25] = np.exp(width * (0.6 * hard + 0.3 * lead + 0.74 * noise[:, 25]) - 0.06)
    X[:, 26] = np.exp(0.9 * width * (0.8 * hard + 0.4 * lead + 0.45 * noise[:, 26]) - 0.02)
    X[:, 27] = 0.75 * X[:, 26] + 0.25 * np.exp(width * (0.5 * hard + 0.8 * noise[:, 27])) - 0.06
    odds = _log_odds(X) + 0.55 * (resonance - np.float32(0.53))
    y = np.where(random.random(GRAIN, np.float32) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)
    return X, y


def _log_odds(X: np.ndarray) -> np.ndarray:
    """A part that linear models see, a part that they do not."""
    linear = -0.15 * X[:, 0] - 0.3 * X[:, 3] + 0.5 * X[:, 5] + 0.25 * X[:, 9] + 0.2 * X[:, 17]
    linear += 0.12 * X[:, 12] - 0.05 * X[:, 16] + 0.3 * X[:, 22] - 0.85 * X[:, 25] + 0.9 * X[:, 26] - 1.9 * X[:, 27]
    curved = 1.1 * np.exp(-(((X[:, 25] - 0.95) / 0.22) ** 2)) + 0.25 * np.cos(X[:, 2] - X[:, 7])
    curved -= 0.2 * np.abs(X[:, 1] - X[:, 6]) + 0.3 * (X[:, 8] > 2) * (X[:, 24] - 1)
    return np.float32(1.75) * linear + np.float32(1.6) * curved + np.float32(0.98)


# ---------------------------------------------------------------------------- the same on dask
def higgs_like_dask(n: int, partitions: int, seed: int = 0, *, as_frame: bool = True) -> Any:
    """The first n rows on dask, generated where the partitions are computed.

    Parameters
    ----------
    n, partitions, seed : int
        Rows, number of partitions of about equal length, seed.
    as_frame : bool
        True: one dataframe with columns f0 ... f27 of float32 and `label` of 0/1 (int8), as in HIGGS.
        False: dask arrays X (n, 28) float32 and y (n,) of -1/+1.
    """
    cuts = [int(cut) for cut in np.linspace(0, n, partitions + 1).round()]
    spans = list(pairwise(cuts))
    if as_frame:
        import dask.dataframe as dd

        return dd.from_map(_frame, spans, seed=seed, meta=_frame((0, 0), seed=seed), divisions=(*cuts[:-1], n - 1))
    import dask
    import dask.array as da

    pairs = [dask.delayed(higgs_like_rows, nout=2)(start, stop, seed) for start, stop in spans]
    X = [da.from_delayed(p[0], (hi - lo, N_FEATURES), np.float32) for p, (lo, hi) in zip(pairs, spans, strict=True)]
    y = [da.from_delayed(p[1], (hi - lo,), np.float64) for p, (lo, hi) in zip(pairs, spans, strict=True)]
    return da.concatenate(X), da.concatenate(y)


def _frame(span: tuple[int, int], *, seed: int) -> Any:
    import pandas as pd

    X, y = higgs_like_rows(*span, seed)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(N_FEATURES)], index=pd.RangeIndex(*span))
    return frame.assign(label=(y > 0).astype(np.int8))
