"""Blocks of rows as the kernels want them, made and checked in the pass that loads the data.

`to_block` is the one door from what a partition may hold (NumPy, SciPy, pandas) to a `Block`;
whatever is wrong with the data is found here and reported with its place. Runs on workers, or in
process.
"""

from __future__ import annotations

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
from daskglm.core.matrices import in_c_order
from daskglm.core.summation import AT_ONCE
from daskglm.data.beside import (
    added_to_margins,
    column_of,
    float_column,
    offset_facts,
    refuse_another_order,
    refuse_huge,
    squares_of,
)
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
)
from daskglm.kernels import coded_checks, for_rows, storages
from daskglm.kernels.coded_rows import Coded
from daskglm.kernels.pattern import without_values
from daskglm.kernels.size import UNIT, Size
from daskglm.losses.family import Domain

# Float32 rows with larger norms are kept as float64: their squares come near float32's range.
LARGEST_FLOAT32 = 1e15
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
    X : (n, d) NumPy or CuPy array, SciPy or CuPy sparse matrix, pandas or cuDF DataFrame, or Coded
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
    y = column_of(y, "y", n, place)
    weights = None if weight is None else float_column(weight, "sample_weight", n, place).values
    if weights is not None and n and weights.min() < 0:
        raise ValueError(f"{place.row(int(np.argmin(weights)))}: sample_weight is negative")
    added = added_to_margins(offset, exposure, n, place)
    labelled = None if clusters is None else column_of(clusters, "clusters", n, place)
    groups = None if labelled is None else clusters_of(labelled, place)
    norm, squares = _norms(rows, place, threads)
    if norm > LARGEST_FLOAT32 and rows.dtype == np.float32:
        rows = rows.astype(np.float64)
    products = n * _mean_product(rows)
    rows = without_values(rows)
    labels, targets, largest, target_sum = None, y, 0.0, 0.0
    if classify:
        labels, targets = labels_of(y, place)
        refuse_another_order(offset, labels, place)
    else:
        targets, largest, target_sum = float_column(y, "y", n, place, threads)
        refuse_huge(targets, largest, "y", place)
    if domain is not None and not domain.is_everything:
        _refuse_outside(targets, domain, place)
    total = float(n) if weights is None else float(weights.sum())
    size = _size_of(rows)
    facts = DataSummary(
        n_rows=n,
        n_features=d,
        weight=total,
        largest_row_norm=norm,
        squared_norms=squares,
        largest_target=largest,
        nonzeros=size.nonzeros,
        nbytes=size.nbytes,
        sparse=size.sparse,
        classes=_counts(labels, targets, weights) if labels is not None else (),
        gram_roundoff=size.gram_roundoff,
        largest_block=n,
        n_blocks=1,
        longest_row=size.longest_row if n else d,
        target_sum=target_sum if classify or weights is None else float(targets @ weights),
        **offset_facts(added, weights),
        n_used=n if weights is None else int((weights > 0.0).sum()),
        target_squares=0.0 if classify else squares_of(targets, weights),
        row_products=products,
        factors=size.factors,
    )
    spans = (place.span(n),)
    return Block(rows, targets, weights, labels, facts, spans, offset=added, clusters=groups)


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
    raw = storages.arrays_of(rows)
    of_rows = raw if isinstance(raw, tuple) else (raw,)
    checksum = block.spans[0][0] % 2**32
    for part in (*of_rows, block.y, block.weight, block.offset):
        if part is not None:
            checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
    return block._replace(facts=replace(block.facts, order=checksum))


def _size_of(rows: Any) -> Size:
    """Return how rows lie in memory, which may be a device's."""
    if not on_device(rows):
        return storages.size_of(storages.arrays_of(rows))
    if not hasattr(rows, "indptr"):
        roundoff = float(np.finfo(rows.dtype).eps) / 2.0
        return Size(rows.size, rows.nbytes, rows.shape[1], False, roundoff)
    lengths = to_host(rows.indptr[1:] - rows.indptr[:-1])
    nbytes = rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes
    return Size(rows.nnz, nbytes, int(lengths.max(initial=0)), True, UNIT)


def merge(blocks: Sequence[Block]) -> Block:
    """Join blocks of one storage, dtype and set of labels into one; copies their rows."""
    facts = blocks[0].facts
    for block in blocks[1:]:
        facts = facts.merge(block.facts)
    X = storages.joined([block.X for block in blocks])
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
    """Return rows as what NumPy multiplies: a `Pattern` gets its values back."""
    return X if on_device(X) else storages.with_values(X)


def kind(block: Block) -> tuple[Any, ...]:
    """Return the properties that blocks must share to be merged."""
    absent = block.weight is None, block.offset is None, block.clusters is None
    return *storages.kind(block.X), absent, block.labels


# ---- X
def float_rows(X: Any, place: Place) -> Any:
    """Return rows as C ordered float arrays or canonical CSR, on the device where X is."""
    X = plain(X)
    if isinstance(X, Coded):
        return coded_checks.checked(X, str(place))
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
    rows = as_float(X, f"{place}X")
    return in_c_order(rows) if xp is np else xp.ascontiguousarray(rows)


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
    first = 0
    if isinstance(rows, Coded):  # the tables have been checked
        rows, first = rows.dense, int(rows.tables.width)
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
            where = f"{place.row(lo + i)}, {place.column(first + j)}"
            raise ValueError(f"X contains {kind}: {where}. Drop or impute before fit")
    raise ValueError(
        f"{place}X has values whose squares overflow float64 (above 1e154 in size); rescale before "
        "fit"
    )


def _mean_product(rows: Any) -> float:
    """Estimate the mean inner product of two different rows, by a sample of them."""
    step = max(-(-rows.shape[0] // SAMPLED), 1)
    if on_device(rows):
        sample = to_host(rows[::step]).astype(np.float64)
    else:
        some = rows if step == 1 else storages.take(rows, np.arange(0, rows.shape[0], step))
        sample = storages.matrix_of(storages.arrays_of(some), rows.shape[1])
    count = sample.shape[0]
    if count < 2:
        return 0.0
    values = sample.data if sp.issparse(sample) else sample
    with np.errstate(over="ignore", invalid="ignore"):  # of values whose squares nearly overflow
        # all products are that of the sum of the rows with itself, and those of equal rows in it
        if sp.issparse(sample):  # not by SciPy, which makes a matrix of the transpose
            total = np.bincount(sample.indices, sample.data, sample.shape[1])
        else:
            total = sample.sum(axis=0)
        # not by BLAS, whose threads would wait busily beside what follows
        products = float(np.square(total).sum()) - float(np.square(values).sum())
        mean = products / (count * (count - 1))
    return float(mean) if mean > 0.0 else 0.0


def _sparse_place(part: Any, at: int) -> tuple[int, int]:
    return int(np.searchsorted(part.indptr, at, side="right") - 1), int(part.indices[at])


def labels_of(y: np.ndarray, place: Place) -> tuple[tuple[Any, ...], np.ndarray]:
    """Return the sorted labels of a block, and the index of each row's label among them.

    Raises ValueError for labels that are not classes, with the place of the first that is missing
    or infinite.
    """
    if y.dtype.kind in "fiub" and len(y):
        low, high = y.min(), y.max()
        # two classes, without hashing or sorting the rows
        if low == high:
            _check_label(y, low, high, place)
            return (low,), np.zeros(len(y), np.int8)
        upper = y == high
        if np.count_nonzero(upper) + np.count_nonzero(y == low) == len(y):
            _check_label(y, low, high, place)
            return (low, high), upper.view(np.int8)
    if y.dtype.kind == "c":
        refuse_no_numbers(y.dtype, f"{place}y")
    import pandas as pd

    codes, labels = pd.factorize(y)
    if (codes < 0).any():
        i = int(np.argmax(codes < 0))
        raise ValueError(f"y contains NaN or None: {place.row(i)}. Leave out such rows")
    labels = np.asarray(labels)
    if labels.dtype.kind == "f":
        _check_label(y, labels.min(initial=0.0), labels.max(initial=0.0), place)
        if (labels != np.floor(labels)).any():
            raise ValueError(
                f"Unknown label type: continuous. {place}y has {len(labels)} different values, not "
                "all whole numbers; a classifier wants labels of classes: numbers are for "
                "regressors and loss='squared'"
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
        raise ValueError(f"y contains {kind}: {place.row(i)}. Leave out such rows")


def _counts(
    labels: tuple[Any, ...], codes: np.ndarray, weights: np.ndarray | None
) -> tuple[tuple[Any, int, float], ...]:
    if weights is None and len(labels) == 2:  # a fortieth of the time
        upper = int(np.count_nonzero(codes))
        counts = len(codes) - upper, upper
        return tuple((*each, float(each[1])) for each in zip(labels, counts, strict=True))
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
