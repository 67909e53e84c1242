"""Whether coded rows that come from outside may be followed."""

from __future__ import annotations

import numpy as np

from daskglm.kernels.coded_rows import Coded, Tables, told

# Rows of codes that `_largest` folds into one, so that NumPy compares long runs. Chosen.
FOLDED = 64


def checked(X: Coded, where: str) -> Coded:
    """Return rows that kernels may follow: no code leads out of the tables, no level out of V.

    They come from anywhere, as the arrays of a SciPy matrix do. Cost: one pass over the codes and
    the tables, and a copy of arrays that are not in C order.

    Parameters
    ----------
    where : str
        What comes first in errors.

    Raises
    ------
    ValueError
        For arrays of other dtypes and shapes than those of `Tables`, and for codes and
        coefficients out of range.
    """
    counts = _counts_of_levels(X.tables, sum(part.shape[1] for part in X.parts[:3]), where)
    largest = [code for part in X.parts[:3] for code in _largest(part)]
    for j, (code, levels) in enumerate(zip(largest, counts, strict=True)):
        if code >= levels:
            raise ValueError(f"{where}code column {j} has the code {code}, of {levels} levels")
    narrow, middle, wide, dense = map(np.ascontiguousarray, X.parts)
    return Coded(narrow, middle, wide, dense, X.tables)


def _largest(codes: np.ndarray) -> list[int]:
    """Return the largest code of each column; -1 where there are no rows."""
    if not codes.size:
        return [-1] * codes.shape[1]
    folds = len(codes) // FOLDED * FOLDED
    found = codes[folds:].max(axis=0, initial=0)
    if folds:
        folded = codes[:folds].reshape(-1, FOLDED * codes.shape[1]).max(axis=0, initial=0)
        found = np.maximum(found, folded.reshape(FOLDED, -1).max(axis=0))
    return [int(code) for code in found]


def _counts_of_levels(tables: Tables, columns: int, where: str) -> np.ndarray:
    """Return the levels of each code column of tables that are sound."""
    for name, part in zip(Tables._fields[:5], tables, strict=False):
        dtype = np.float64 if name == "values" else np.int64
        if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype != dtype:
            raise ValueError(
                f"{where}tables.{name} is {told(part)}, not an array of one dimension and dtype "
                f"{np.dtype(dtype).name}"
            )
    first, indptr, stored, values, ranks, width = tables
    if len(first) != columns or not np.array_equal(np.sort(ranks), np.arange(columns)):
        raise ValueError(
            f"{where}{columns} code columns have tables with first {first} and ranks {ranks}: each "
            "has a first level, and a place from 0 on of its own"
        )
    if not len(indptr) or indptr[0] or (np.diff(indptr) < 0).any():
        raise ValueError(f"{where}tables.indptr does not ascend from 0")
    if not indptr[-1] == len(stored) == len(values):
        raise ValueError(
            f"{where}tables.indptr ends at {indptr[-1]}, with {len(stored)} columns and "
            f"{len(values)} values"
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{where}tables.values are not all finite")
    if len(stored) and not (stored.min() >= 0 and stored.max() < width):
        raise ValueError(f"{where}tables.columns are not all from 0 to {width - 1}")
    levels = len(indptr) - 1
    ends = np.append(first, levels)
    if (np.diff(ends) < 0).any() or (columns and first[0]):
        raise ValueError(f"{where}tables.first {first} does not ascend from 0 to {levels} levels")
    # starts of levels are where coefficients may descend
    falls = np.zeros(len(stored) + 1, bool)
    falls[1:-1] = np.diff(stored) <= 0
    falls[indptr] = False
    if falls.any():
        raise ValueError(f"{where}tables.columns do not ascend within a level")
    at = 0
    for j in np.argsort(ranks):
        own = stored[indptr[ends[j]] : indptr[ends[j + 1]]]
        if len(own):
            if own.min() < at:
                raise ValueError(
                    f"{where}code column {j} has the coefficient {own.min()}, which one before it "
                    "has, too"
                )
            at = int(own.max()) + 1
    return np.diff(ends)
