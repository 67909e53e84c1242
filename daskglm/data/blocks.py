"""Blocks of rows as the kernels want them, made and checked in the pass that loads the data.

`to_block` is the one door from what a partition may hold (NumPy, SciPy, pandas) to a `Block`;
whatever is wrong with the data is found here and reported with its place. Runs on workers, or in
process.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from daskglm.core.device import gpu, on_device, to_host
from daskglm.core.facts import DataSummary
from daskglm.core.summation import AT_ONCE
from daskglm.data.clusters import Clusters, clusters_of, joined
from daskglm.data.containers import plain
from daskglm.data.frames import frame_rows, numbers
from daskglm.data.row_files import Span
from daskglm.data.sparse_rows import canonical, is_sparse
from daskglm.data.values import (
    Place,
    as_float,
    refuse_masked,
    refuse_no_numbers,
    refuse_text,
)
from daskglm.kernels import Pattern, for_rows
from daskglm.losses.family import Domain

# Float32 rows with larger norms are kept as float64: their squares come near float32's range.
LARGEST_FLOAT32 = 1e15
# Largest size of a target or an offset: their squares are finite, and sums of 1e9 of them near it.
LARGEST_NUMBER = 1e154
# Values of a block from which several threads read them: about a millisecond of one. Chosen.
LEAST_SHARED = 1 << 22
# Rows of a block from which inner products are estimated: 4,950 pairs. Chosen.
SAMPLED = 100


class Block(NamedTuple):
    """Rows on one device; immutable.

    `labels` are the classes of this block and `y` indexes them (regression: y). `spans` tell which
    rows of the user's data these are: see `chunks`. A sample has those of the block that it was
    `drawn` from, and here that block and which of its rows they are. `moved` has y, weight and
    offset on the device that X was moved to. `offset` is added to the margins; None: nothing is.
    `clusters` are groups of rows whose scores are not independent; None: each row is one.
    """

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    labels: tuple[Any, ...] | None
    facts: DataSummary
    spans: tuple[Span, ...]
    drawn: tuple[Any, np.ndarray] | None = None
    moved: tuple[Any, Any, Any] | None = None
    offset: np.ndarray | None = None
    clusters: Clusters | None = None


def to_block(
    X: Any,
    y: Any,
    weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    clusters: Any = None,
    *,
    place: Place,
    classify: bool,
    domain: Domain | None = None,
    threads: int = 1,
) -> Block:
    """Convert one partition and check it, reading it once.

    Parameters
    ----------
    X : (n, d) NumPy or CuPy array, SciPy or CuPy sparse matrix, or pandas or cuDF DataFrame
        What is on a GPU stays there. float32 and float64 are kept, other numbers become floats;
        arrays become C ordered, sparse ones canonical CSR.
    y, weight : (n,) array_like
        Labels or targets; row weights (None: ones; a float: of all rows).
    offset, exposure : (n,) array_like, or a float for all rows, optional
        Added to the margins: the offset, and the logarithm of the exposure.
    clusters : (n,) array_like, optional
        Label of the cluster of each row.
    place : Place
        Named in errors.
    classify : bool
        Whether y are labels of classes.
    domain : Domain, optional
        Where targets must lie.
    threads : int, default 1
        That read the values.

    Raises
    ------
    ValueError
        For NaN, infinite or non-numeric values, negative weights, exposures that are not positive,
        targets outside of the domain, clusters without a label, or lengths that differ, with the
        place.
    """
    rows = float_rows(X, place)
    n, d = rows.shape
    y = _column(y, "y", n, place)
    weights = None if weight is None else _float_column(weight, "sample_weight", n, place).values
    if weights is not None and n and weights.min() < 0:
        raise ValueError(f"{place.row(int(np.argmin(weights)))}: sample_weight is negative")
    added = added_to_margins(offset, exposure, n, place)
    labelled = None if clusters is None else _column(clusters, "clusters", n, place)
    groups = None if labelled is None else clusters_of(labelled, place)
    norm, squares = _norms(rows, place, threads)
    if norm > LARGEST_FLOAT32 and rows.dtype == np.float32:
        rows = rows.astype(np.float64)
    products = n * _mean_product(rows)
    rows = _without_values(rows)
    labels, targets, largest, target_sum = None, y, 0.0, 0.0
    if classify:
        labels, targets = labels_of(y, place)
    else:
        targets, largest, target_sum = _float_column(y, "y", n, place, threads)
        _refuse_huge(targets, largest, "y", place)
    if domain is not None and not domain.is_everything:
        _refuse_outside(targets, domain, place)
    total = float(n) if weights is None else float(weights.sum())
    dense = not hasattr(rows, "indptr")
    facts = DataSummary(
        n_rows=n,
        n_features=d,
        weight=total,
        largest_row_norm=norm,
        squared_norms=squares,
        largest_target=largest,
        nonzeros=rows.size if dense else rows.nnz,
        nbytes=rows.nbytes if dense else sum(part.nbytes for part in _arrays(rows)),
        sparse=not dense,
        classes=_counts(labels, targets, weights) if labels is not None else (),
        gram_roundoff=float(np.finfo(rows.dtype if dense else np.float64).eps) / 2.0,
        largest_block=n,
        n_blocks=1,
        longest_row=d if dense or not n else int(to_host(rows.indptr[1:] - rows.indptr[:-1]).max()),
        target_sum=target_sum if classify or weights is None else float(targets @ weights),
        **_offset_facts(added, weights),
        n_used=n if weights is None else int((weights > 0.0).sum()),
        target_squares=0.0 if classify else _squares(targets, weights),
        row_products=products,
    )
    spans = (place.span(n),)
    return Block(rows, targets, weights, labels, facts, spans, offset=added, clusters=groups)


def _weighted(values: np.ndarray, weights: np.ndarray | None) -> float:
    return float(values.sum() if weights is None else values @ weights)


def _squares(targets: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the weighted sum of squares; infinite where it overflows."""
    with np.errstate(over="ignore"):
        return float(targets @ (targets if weights is None else targets * weights))


def _offset_facts(added: np.ndarray | None, weights: np.ndarray | None) -> dict[str, Any]:
    """Return what a summary says of offsets: their range, their sum and that of exponentials."""
    if added is None or not len(added):
        return {}
    # rows without weight do not count: an exponential that overflows times zero would be nan
    used, kept = (
        (added, None) if weights is None else (each[weights > 0] for each in (added, weights))
    )
    with np.errstate(over="ignore"):
        exposed = _weighted(np.exp(used), kept)
    return {
        "largest_offset": _largest(added),
        "offset_sum": _weighted(added, weights),
        "exposure_sum": exposed,
        "least_offset": float(used.min(initial=math.inf)),
        "most_offset": float(used.max(initial=-math.inf)),
    }


def numbers_beside(values: Any, name: str, n: int, place: Place) -> np.ndarray:
    """Return what is beside n rows as floats (n,); ValueError, with the place, for what is none."""
    return _float_column(values, name, n, place).values


def added_to_margins(offset: Any, exposure: Any, n: int, place: Place) -> np.ndarray | None:
    """Return the offset plus the logarithm of the exposure, (n,), or None without both.

    Raises ValueError, with the place, for values that are not finite numbers, exposures that are
    not positive, and numbers of values other than n.
    """
    added = None
    if offset is not None:
        added, largest, _ = _float_column(offset, "offset", n, place)
        _refuse_huge(added, largest, "offset", place)
    if exposure is None:
        return added
    exposed = _float_column(exposure, "exposure", n, place).values
    if n and not exposed.min() > 0.0:
        i = int(np.argmin(exposed))
        raise ValueError(f"{place.row(i)}: exposure is {exposed[i]:g}, which is not above 0")
    return np.log(exposed) if added is None else added + np.log(exposed)


def _largest(values: np.ndarray) -> float:
    """Return the largest absolute value, without a copy of all; 0 if there are none."""
    return float(max(values.max(), -values.min())) if len(values) else 0.0


def _refuse_huge(values: np.ndarray, largest: float, name: str, place: Place) -> None:
    """Raise ValueError, with the place, if the square of the largest absolute value overflows."""
    if not largest <= LARGEST_NUMBER:
        i = int(np.argmax(np.abs(values)))
        raise ValueError(
            f"{place.row(i)}: {name} is {values[i]:g}, whose square overflows float64 (above 1e154 "
            "in size); rescale before fit"
        )


def _refuse_outside(targets: np.ndarray, domain: Domain, place: Place) -> None:
    """Raise ValueError, with the place, for targets that a family does not have."""
    outside = domain.outside(targets)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"{place.row(i)}: y is {targets[i]:g}, but {domain.name} has targets {domain}"
        )


def with_order(block: Block) -> Block:
    """Return the block with a checksum of its rows in their order.

    It shows if a shuffle that is made again gives another order. Cost: reads the rows once, at 1.7
    to 3.6 GB/s of a core (2 cores of an x86 server, 2026-11).
    """
    rows = to_host(block.X) if on_device(block.X) else block.X
    of_rows = [rows] if isinstance(rows, np.ndarray) else list(_arrays(rows))
    checksum = block.spans[0][0] % 2**32
    for part in (*of_rows, block.y, block.weight, block.offset):
        if part is not None:
            checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
    return block._replace(facts=replace(block.facts, order=checksum))


def _arrays(rows: Any) -> tuple[Any, Any, Any]:
    """Return the arrays of sparse rows."""
    return rows.value if isinstance(rows, Pattern) else rows.data, rows.indices, rows.indptr


def _without_values(rows: Any) -> Any:
    """Sparse rows with equal values as a `Pattern`, others as they are."""
    if not sp.issparse(rows) or rows.nnz < 2:
        return rows
    for at in range(0, rows.nnz, AT_ONCE):  # most rows are told by the first of them
        if not (rows.data[at : at + AT_ONCE] == rows.data[0]).all():
            return rows
    return Pattern(rows.data[:1].copy(), rows.indices, rows.indptr, rows.shape)


def merge(blocks: Sequence[Block]) -> Block:
    """Join blocks of one storage, dtype and set of labels into one; copies their rows."""
    facts = blocks[0].facts
    for block in blocks[1:]:
        facts = facts.merge(block.facts)
    rows = [with_values(block.X) for block in blocks]
    X = _without_values(sp.vstack(rows, format="csr")) if facts.sparse else np.concatenate(rows)
    weight = _joined([block.weight for block in blocks])
    offset = _joined([block.offset for block in blocks])
    y = np.concatenate([block.y for block in blocks])
    spans = tuple(span for block in blocks for span in block.spans)
    clusters = joined([block.clusters for block in blocks])
    return Block(X, y, weight, blocks[0].labels, facts, spans, offset=offset, clusters=clusters)


def _joined(parts: list[np.ndarray | None]) -> np.ndarray | None:
    """Join vectors of blocks of one `kind`: all have one, or none has."""
    found = [part for part in parts if part is not None]
    return np.concatenate(found) if found else None


def with_values(X: Any) -> Any:
    """Return rows as an array or a CSR matrix; a `Pattern` gets its values back."""
    if not isinstance(X, Pattern):
        return X
    return sp.csr_matrix((np.full(X.nnz, X.value[0]), X.indices, X.indptr), shape=X.shape)


def kind(block: Block) -> tuple[Any, ...]:
    """Return the properties that blocks must share to be merged."""
    index = block.X.indices.dtype if hasattr(block.X, "indices") else None
    absent = block.weight is None, block.offset is None, block.clusters is None
    return block.facts.sparse, block.X.dtype, index, absent, block.labels


# ---- X
def float_rows(X: Any, place: Place) -> Any:
    """Return rows as C ordered float arrays or canonical CSR, on the device where X is."""
    X = plain(X)
    if hasattr(X, "iloc"):
        return frame_rows(X, place)
    if is_sparse(X):
        return canonical(X, place)
    refuse_masked(X, "X", place)
    xp = gpu().xp if on_device(X) else np
    X = xp.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"{place}X has {X.ndim} dimension(s); expected rows and columns (reshape to 2-D)"
        )
    if X.dtype.kind in "OUST":
        return np.ascontiguousarray(numbers(X, place))
    return xp.ascontiguousarray(as_float(X, f"{place}X"))


def _norms(rows: Any, place: Place, threads: int) -> tuple[float, float]:
    """Return the largest row norm and the sum of squared ones; check that values are finite."""
    (kernels, raw), n = for_rows(rows), rows.shape[0]
    if threads == 1 or on_device(rows) or n * rows.shape[1] < LEAST_SHARED:
        largest, total = kernels.squared_norms(raw, 0, n)
    else:
        cuts = [n * k // threads for k in range(threads + 1)]
        with ThreadPoolExecutor(threads) as pool:
            found = pool.map(partial(kernels.squared_norms, raw), cuts[:-1], cuts[1:])
            largest, total = np.array(list(found)).T
        largest, total = largest.max(), total.sum()
    if np.isfinite(total):
        return float(np.sqrt(largest)), float(total)
    for lo in range(0, rows.shape[0], 4096):
        part = to_host(rows[lo : lo + 4096])
        values = part.data if sp.issparse(part) else part
        if not np.isfinite(values).all():
            at = np.argwhere(~np.isfinite(values))[0]
            if sp.issparse(part):
                i, j = _sparse_place(part, int(at[0]))
            else:
                i, j = (int(at[0]), int(at[1]))
            kind = "NaN" if np.isnan(values[tuple(at)]) else "infinity (inf)"
            where = f"{place.row(lo + i)}, {place.column(j)}"
            raise ValueError(f"X contains {kind}: {where}. Drop or impute before fit")
    raise ValueError(
        f"{place}X has values whose squares overflow float64 (above 1e154 in size); rescale before "
        "fit"
    )


def _mean_product(rows: Any) -> float:
    """Estimate the mean inner product of two different rows, by a sample of them."""
    step = max(-(-rows.shape[0] // SAMPLED), 1)
    sample = to_host(rows[::step]).astype(np.float64)
    count = sample.shape[0]
    if count < 2:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # of values whose squares nearly overflow
        products = sample @ sample.T
        mean = (products.sum() - products.diagonal().sum()) / (count * (count - 1))
    return float(mean) if mean > 0.0 else 0.0


def _sparse_place(part: Any, at: int) -> tuple[int, int]:
    return int(np.searchsorted(part.indptr, at, side="right") - 1), int(part.indices[at])


# ---- y and weights
def _column(values: Any, name: str, n: int, place: Place) -> np.ndarray:
    # a float stands for all rows: see `values.constant`
    values = np.full(n, values) if isinstance(values, float) else plain(values)
    refuse_masked(values, name, place)
    if on_device(values) or not hasattr(values, "to_numpy"):
        values = to_host(values)
    else:
        values = values.to_numpy()
    values = np.asarray(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{place}{name} should be a 1d array, got shape {values.shape}")
    if len(values) != n:
        raise ValueError(
            f"{place}X has {n} rows but {name} has {len(values)}: they must be cut at the same rows"
        )
    return values


class Column(NamedTuple):
    """Numbers (n,) in float64, the largest absolute value, and the sum."""

    values: np.ndarray
    largest: float
    total: float


def _float_column(values: Any, name: str, n: int, place: Place, threads: int = 1) -> Column:
    values = _column(values, name, n, place)
    refuse_no_numbers(values.dtype, f"{place}{name}")
    try:
        column = _measured(values, threads)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}{name} has values that are not numbers ({error})") from error
    refuse_text(values, name, place)
    if not np.isfinite(column.largest):
        i = int(np.argmin(np.isfinite(column.values)))
        kind = "NaN" if np.isnan(column.values[i]) else "infinity (inf)"
        raise ValueError(f"{name} contains {kind}: {place.row(i)}")
    return column


def _measured(values: np.ndarray, threads: int) -> Column:
    """Convert numbers to float64, and measure each run of them while it is in a core's cache."""
    ready = values.dtype == np.float64 and values.flags.c_contiguous
    column = values if ready else np.empty(len(values))

    def measure(first: int) -> tuple[float, float, float]:
        run = column[first : first + AT_ONCE]
        with np.errstate(over="ignore", invalid="ignore"):  # of numbers that are refused
            if not ready:
                run[...] = values[first : first + AT_ONCE]
            return run.max(), -run.min(), run.sum()

    firsts = range(0, len(values), AT_ONCE)
    if threads == 1 or len(firsts) < 2:
        found = list(map(measure, firsts))
    else:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(measure, firsts))
    parts = np.array(found).reshape(-1, 3)
    largest = parts[:, :2].max(initial=0.0)
    return Column(column, float(largest), float(parts[:, 2].sum()))


def labels_of(y: np.ndarray, place: Place) -> tuple[tuple[Any, ...], np.ndarray]:
    """Return the sorted labels of a block, and the index of each row's label among them.

    Raises ValueError for labels that are not classes, with the place of the first that is missing
    or infinite.
    """
    if y.dtype.kind in "fiub" and len(y):
        low, high = y.min(), y.max()
        # two classes, without hashing or sorting the rows
        if low == high or ((y == low) | (y == high)).all():
            _check_label(y, low, high, place)
            return ((low,) if low == high else (low, high)), (y == high).astype(np.int8) * np.int8(
                low != high
            )
    if y.dtype.kind == "c":
        refuse_no_numbers(y.dtype, f"{place}y")
    import pandas as pd

    codes, labels = pd.factorize(y)
    if (codes < 0).any():
        i = int(np.argmax(codes < 0))
        raise ValueError(f"y contains NaN or None: {place.row(i)}")
    labels = np.asarray(labels)
    if labels.dtype.kind == "f":
        _check_label(y, labels.min(initial=0.0), labels.max(initial=0.0), place)
        if (labels != np.floor(labels)).any():
            raise ValueError(
                f"Unknown label type: continuous. {place}y has {len(labels)} different values, not "
                "all whole numbers; a classifier wants labels of classes"
            )
    try:
        order = np.argsort(labels, kind="stable")
    except TypeError as error:
        raise ValueError(
            f"{place}y has labels of different kinds, which cannot be ordered: {error}"
        ) from error
    index = np.int8 if len(order) <= np.iinfo(np.int8).max else np.int32
    position = np.empty(len(order), index)
    position[order] = np.arange(len(order), dtype=index)
    return tuple(labels[order]), position[codes] if len(codes) else np.empty(0, index)


def _check_label(y: np.ndarray, low: Any, high: Any, place: Place) -> None:
    if not (np.isfinite(low) and np.isfinite(high)):
        i = int(np.argmin(np.isfinite(y)))
        kind = "NaN" if np.isnan(y[i]) else "infinity (inf)"
        raise ValueError(f"y contains {kind}: {place.row(i)}")


def _counts(
    labels: tuple[Any, ...], codes: np.ndarray, weights: np.ndarray | None
) -> tuple[tuple[Any, int, float], ...]:
    rows = np.zeros(len(labels), np.int64)
    weight = np.zeros(len(labels))
    for at in range(0, len(codes), AT_ONCE):  # bincount makes eight bytes of each code
        part = slice(at, at + AT_ONCE)
        rows += np.bincount(codes[part], minlength=len(labels))
        if weights is not None:
            weight += np.bincount(codes[part], weights[part], minlength=len(labels))
    if weights is None:
        weight = rows.astype(float)
    return tuple((label, int(rows[k]), float(weight[k])) for k, label in enumerate(labels))
