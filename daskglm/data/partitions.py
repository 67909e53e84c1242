"""What users hold, as partitions of rows: NumPy, SciPy, pandas, dask arrays and dataframes, lists
of delayed blocks.

`partitions` checks everything that can be known without touching data and returns either the data
themselves or one lazy `to_block` per partition. Nothing is computed here, except a y that is lazy
while X is in memory, and lengths of collections that are cut differently at rows that are not
known.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from daskglm.core.arguments import shown
from daskglm.core.device import to_host
from daskglm.data.alignment import bundles, checked_bundles, is_delayed, is_frame, same_length
from daskglm.data.block_makers import BESIDE, block_of_run, cut_alike, lazy_blocks
from daskglm.data.blocks import Block, to_block, with_order
from daskglm.data.containers import Named, is_future, plain
from daskglm.data.frames import refuse_category
from daskglm.data.sparse_rows import check_csr, checked_chunk, is_sparse, to_csr
from daskglm.data.values import (
    CONSTANTS,
    READ_FIRST,
    Place,
    constant,
    refuse_masked,
    refuse_names,
    refuse_no_numbers,
)
from daskglm.losses.family import Domain

logger = logging.getLogger("daskglm")


@dataclass(frozen=True)
class Partitions:
    """Rows ready to load: `arrays` in memory, or `lazy` delayed blocks, which `make` makes.

    `arrays` are X and the `BESIDE` it. `columns` names features if they have names. `nbytes` is
    what lazy rows will take, if their shape is known. `domain` is where targets must lie. `frames`
    are the delayed bundles that blocks of a dask dataframe are made of, whose "X" has an index.
    `held` are futures of what blocks are made of, to be released when they have been. `sources` are
    X and what is beside it as collections that are cut alike, of whose partitions `block_of_parts`
    makes the blocks, each with its settings in `makers`; empty where it takes more than that.
    """

    arrays: tuple[Any, ...] | None
    make: Callable[[], list[Any]]
    columns: tuple[str, ...] | None
    collections: tuple[Any, ...] = ()
    classify: bool = True
    nbytes: int | None = None
    domain: Domain | None = None
    frames: tuple[Any, ...] = ()
    held: tuple[Any, ...] = ()
    sources: Mapping[str, Any] = field(default_factory=dict)
    makers: tuple[Mapping[str, Any], ...] = ()

    @cached_property
    def lazy(self) -> list[Any]:
        """The delayed blocks; made once, where they are wanted."""
        return self.make()

    @property
    def width(self) -> int | None:
        """Number of features, where it is known before anything is loaded."""
        if self.columns is not None:
            return len(self.columns)
        if self.arrays is None and self.collections:
            X = self.collections[0]
        else:
            X = (self.arrays or (None,))[0]
        if X is not None and not is_delayed(X) and len(X.shape) == 2:
            return int(X.shape[1])
        return None

    def load(self, threads: int = 1) -> list[Block]:
        """Load in this process: blocks in order.

        Dask's local scheduler computes dask collections; so many threads read rows in memory.
        """
        if self.arrays is not None:
            place = Place(None, self.columns)
            checked = to_block(
                *self.arrays,
                place=place,
                classify=self.classify,
                domain=self.domain,
                threads=threads,
            )
            return [checked]
        import dask

        blocks = list(dask.compute(*self.lazy))
        check_widths([(block.facts.n_rows, block.facts.n_features) for block in blocks])
        return blocks

    def split(self, pieces: int) -> list[Any]:
        """Cut rows in memory into runs of about equal length, each with its first row's number."""
        assert self.arrays is not None
        X = self.arrays[0]
        if is_sparse(X):
            check_csr(X, Place())  # before SciPy follows its indices
        cuts = np.linspace(0, X.shape[0], pieces + 1).astype(int)
        runs = [slice(int(lo), int(hi)) for lo, hi in itertools.pairwise(cuts)]
        return [(run.start, *(_rows(values, run) for values in self.arrays)) for run in runs]

    def from_futures(self, futures: list[Any]) -> list[Any]:
        """Lazy blocks of runs that `split` made and a client has scattered."""
        import dask

        make = dask.delayed(block_of_run)
        return [make(future, self.columns, self.classify, self.domain) for future in futures]


def partitions(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    classify: bool,
    offset: Any = None,
    exposure: Any = None,
    clusters: Any = None,
    domain: Domain | None = None,
) -> Partitions:
    """Bring X, y, weights and offsets into partitions that belong together.

    Parameters
    ----------
    X : (n, d) array, sparse matrix, DataFrame, dask array or dataframe, or list of delayed blocks
    y : (n,) matching container, or the name of a column of a frame
    sample_weight : (n,) matching container, name of a column, number for all rows, or None
    classify : bool
        Whether y are labels.
    offset, exposure : as sample_weight, optional
        Added to the margins: the offset, which may have a column for each of several margins, and
        the logarithm of the exposure.
    clusters : as sample_weight, optional
        Labels of groups of rows, of any kind.
    domain : Domain, optional
        Where targets must lie.

    Raises
    ------
    ValueError
        Where X, y and what is beside them do not fit together, before anything is scheduled.
    """
    X = plain(X)
    named = X if isinstance(X, Named) else None
    X = X if named is None else named.rows
    beside = y, sample_weight, offset, exposure, clusters
    given = with_constants(dict(zip(BESIDE, map(plain, beside), strict=True)))
    how: dict[str, Any] = {"classify": classify, "domain": domain}
    for name, values in {"X": X, **given}.items():
        refuse_masked(values, name, Place())
        if is_delayed(values):
            raise TypeError(
                f"{name} is one delayed object, of unknown length: give lists of delayed blocks, "
                "X=[X] and y=[y]"
            )
        if is_dask(values) and not (is_frame(values) or hasattr(values, "numblocks")):
            raise TypeError(
                f"{name} is a dask {type(values).__name__}: give a dask array or dataframe"
            )
    if is_dask(X):
        if is_frame(X):
            return _from_frame(X, given, how)
        return _from_array(X, given, how, None if named is None else named.names)
    if isinstance(X, (list, tuple)) and len(X) and all(is_delayed(part) for part in X):
        return _from_delayed(X, given, how, named)
    if isinstance(X, str):
        raise TypeError(f"X is the string {X!r}{READ_FIRST}")
    if is_sparse(X):
        if getattr(X, "format", None) != "csr":
            logger.info(
                "X is %s; converted to CSR once", getattr(X, "format", type(X).__name__).upper()
            )
        X = to_csr(X, Place())
    columns = None if named is None else named.names
    if hasattr(X, "columns"):
        given, X = _take_columns(X, given)
        columns = tuple(map(str, X.columns))
    elif not hasattr(X, "shape"):
        X = np.asarray(X)
    two_dimensions(X)
    _refuse_names(given, X)
    constants = _constants(given)
    given = {
        name: np.full(X.shape[0], values)
        if name in constants
        else values.compute()
        if is_dask(values)
        else values
        for name, values in given.items()
    }
    for name, values in given.items():
        if values is not None and not np.ndim(values):
            raise ValueError(
                f"{name}={shown(values)} should be a 1d array with a value for each of the rows "
                "of X"
            )
        if values is not None and np.shape(values)[:1] != X.shape[:1]:
            refuse_names(values, name)
            same_length(len(values), X.shape[0], name)
    return Partitions((X, *given.values()), list, columns, **how)


def two_dimensions(X: Any) -> None:
    """Raise ValueError unless X has rows and columns."""
    if len(X.shape) != 2:
        raise ValueError(
            f"X has {len(X.shape)} dimension(s); expected rows and columns (reshape to 2-D)"
        )


def with_constants(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is beside X, with numbers that stand for all rows as floats."""
    found = {name: constant(given[name], name) for name in CONSTANTS if name in given}
    return {**given, **{name: number for name, number in found.items() if number is not None}}


def _refuse_columns(columns: list[Any]) -> None:
    """Raise for names that stand for several columns, and for strings among other names.

    scikit-learn refuses these, too.
    """
    if len(set(columns)) < len(columns):
        twice = sorted({repr(name) for name in columns if columns.count(name) > 1})
        raise ValueError(
            f"X has more than one column of the name {', '.join(twice)}: rename or drop one of each"
        )
    kinds = sorted({type(name).__qualname__ for name in columns})
    if len(kinds) > 1 and "str" in kinds:
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            f"input has {kinds} as feature name / column name types. Convert them: X.columns = "
            "X.columns.astype(str)"
        )


def _refuse_names(given: Mapping[str, Any], X: Any) -> None:
    """Raise ValueError for a name of a column where X has none."""
    for name, values in given.items():
        if isinstance(values, str):
            raise ValueError(
                f"{name}={values!r} would name a column, but X is a {type(X).__name__}, without "
                "columns"
            )


def check_widths(sizes: Sequence[tuple[int, int | None]]) -> None:
    """Raise ValueError unless all partitions with rows are equally wide.

    `sizes` has (rows, columns) of each, in order.
    """
    filled = [(i, width) for i, (rows, width) in enumerate(sizes) if rows]
    for i, width in filled:
        if width != filled[0][1]:
            raise ValueError(
                f"partition {filled[0][0]} has {filled[0][1]} columns but partition {i} has {width}"
            )


def feature_names(X: Any, *beside: Any) -> np.ndarray | None:
    """Return the names of a frame's features if all are strings, as scikit-learn keeps them."""
    if isinstance(X, Named):
        return np.asarray(X.names, dtype=object)
    if is_delayed(X) or not hasattr(X, "columns"):  # a delayed object has every attribute
        return None
    _refuse_columns(list(X.columns))
    used = {value for value in beside if isinstance(value, str)}
    names = [name for name in X.columns if name not in used]
    if names and all(isinstance(name, str) for name in names):
        return np.asarray(names, dtype=object)
    return None


# ---- frames
def _from_frame(X: Any, given: dict[str, Any], how: dict[str, Any]) -> Partitions:
    named = {name: value for name, value in given.items() if isinstance(value, str)}
    have_columns(X, named.values())
    features = [name for name in X.columns if name not in named.values()]
    for name in features:
        dtype = X.dtypes[name]
        refuse_no_numbers(dtype, f"column {name!r}")
        refuse_category(dtype, f"column {name!r}")
    columns, beside = tuple(map(str, features)), like_partitions(X, given)
    parts = bundles(X, beside)
    settings = {"features": features, "named": named, "constants": _constants(given), **how}
    makers = tuple({"place": Place(i, columns), **settings} for i in range(len(parts)))
    collections = tuple(values for values in (X, *given.values()) if is_dask(values))
    make = partial(lazy_blocks, parts, makers)
    found = Partitions(None, make, columns, collections, **how)
    return replace(found, frames=tuple(parts), sources=cut_alike(X, beside), makers=makers)


def _constants(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers for all rows among what is given; see `values.constant`."""
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, float) and name in CONSTANTS
    }


def like_partitions(X: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is beside a dask collection X as collections of one dimension, by name.

    Names of columns, numbers for all rows and None are left out. Beside an array of known lengths
    it is cut at the rows of X; see `alignment.bundles` for the rest.

    Raises ValueError for what cannot be brought to the partitions of X.
    """
    found, constants = {}, _constants(given)
    for name, values in given.items():
        if values is None or name in constants:
            continue
        if not is_frame(X):
            found[name] = _chunked_like(values, X, name)
        elif not isinstance(values, str):
            if not is_dask(values):
                raise ValueError(
                    f"X is a dask dataframe, whose partitions have unknown lengths, but {name} is "
                    f"a {type(values).__name__}: give {name} as a dask collection with the same "
                    "partitions, or as the name of a column"
                )
            found[name] = _one_column(values, name)
    return found


def have_columns(X: Any, names: Iterable[str]) -> None:
    """Raise ValueError for names that a dataframe has no column of."""
    for name in names:
        if name not in X.columns:
            raise ValueError(
                f"the dataframe has no column {name!r}; it has "
                f"{', '.join(map(repr, X.columns[:20]))}"
            )


def _take_columns(X: Any, given: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Values of the columns that are given by name, and the frame without them."""
    names = [value for value in given.values() if isinstance(value, str)]
    have_columns(X, names)
    values = {name: X[value] if isinstance(value, str) else value for name, value in given.items()}
    return values, X.drop(columns=names)


def _one_column(values: Any, name: str) -> Any:
    """Lazy y or weights, of which an array has one dimension; an offset may have two."""
    if name == "offset" and values.ndim == 2:
        return values if is_frame(values) else values.rechunk({1: -1})
    if is_frame(values):
        if values.ndim != 1 and len(values.columns) != 1:
            raise ValueError(
                f"{name} should be one column, not a dataframe of {len(values.columns)}"
            )
        return values
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.rechunk({1: -1})[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} should be a 1d array, got {values.ndim} dimensions")
    return values


# ---- arrays
def _from_array(
    X: Any, given: dict[str, Any], how: dict[str, Any], columns: tuple[str, ...] | None
) -> Partitions:
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); expected rows and columns (reshape to 2-D)")
    if np.isnan(X.shape[1]):
        raise ValueError(
            "the number of columns of X is unknown; call X.compute_chunk_sizes() first"
        )
    if X.numblocks[1] > 1:
        logger.info(
            "X is chunked along columns (%d chunks); rechunked to full rows once", X.numblocks[1]
        )
        X = whole_rows(X)
    collections = tuple(values for values in (X, *given.values()) if is_dask(values))
    beside, constants = like_partitions(X, given), _constants(given)
    parts = checked_bundles(X, beside)
    makers = tuple(
        {"place": Place(i, columns), "constants": constants, **how} for i in range(X.npartitions)
    )
    found = Partitions(None, lambda: lazy_blocks(parts(), makers), columns, collections, **how)
    return replace(found, nbytes=_bytes_of(X), sources=cut_alike(X, beside), makers=makers)


def whole_rows(X: Any) -> Any:
    """Return a dask array with chunks of whole rows.

    Sparse chunks are checked before dask or SciPy joins them.
    """
    if not isinstance(X._meta, np.ndarray):
        X = X.map_blocks(checked_chunk, dtype=X.dtype, meta=X._meta)
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _bytes_of(X: Any) -> int | None:
    """Return the bytes of the floats that a dense array becomes: `blocks.float_rows`."""
    if (
        not isinstance(getattr(X, "_meta", None), np.ndarray)
        or X.dtype.kind not in "biuf"
        or np.isnan(X.shape[0])
    ):
        return None
    small = X.dtype == np.float32 or X.dtype.itemsize <= 2
    return int(X.shape[0]) * int(X.shape[1]) * (4 if small else 8)


def _chunked_like(values: Any, X: Any, name: str) -> Any:
    """Lazy y or weights, cut like the rows of the array X where all lengths are known."""
    import dask.array as da

    lengths = X.chunks[0]
    known = not np.isnan(lengths).any()
    _refuse_names({name: values}, X)
    if not is_dask(values):
        given, values = values, np.asarray(to_host(values))
        if values.ndim == 0:
            raise ValueError(
                f"{name}={shown(given)} should be a 1d array with a value for each of the rows of X"
            )
        if not known:
            raise ValueError(
                f"X has unknown chunk lengths but {name} is a {type(values).__name__} of "
                f"{len(values)} values: call X.compute_chunk_sizes() first, or give {name} as a "
                "dask array with the same chunks"
            )
        same_length(len(values), sum(lengths), name)
        values = da.from_array(values, chunks=(lengths, *values.shape[1:]))
    elif hasattr(values, "chunks") and known and not np.isnan(values.chunks[0]).any():
        same_length(values.shape[0], X.shape[0], name)
        if values.chunks[0] != lengths:
            logger.info("%s is chunked differently from X along rows; rechunked to match", name)
            values = values.rechunk({0: lengths})
    return _one_column(values, name)


# ---- delayed blocks
def _from_delayed(
    X: Sequence[Any], given: dict[str, Any], how: dict[str, Any], named: Named | None
) -> Partitions:
    others = [
        [None] * len(X) if values is None and name != "y" else like_blocks(X, values, name)
        for name, values in given.items()
    ]
    if named is None:
        return Partitions(None, partial(_blocks, list(X), others, how), None, tuple(X), **how)
    make = partial(_blocks, list(X), others, how, named.names, ordered=bool(named.frames))
    found = Partitions(None, make, named.names, tuple(X), frames=named.frames, **how)
    return replace(found, held=named.held)


def like_blocks(X: Sequence[Any], values: Any, name: str) -> list[Any]:
    """Return what is beside each of the delayed blocks X: a delayed block, or a number for all.

    Raises ValueError where these are not as many.
    """
    if _constants({name: values}):
        return [values] * len(X)
    if not isinstance(values, (list, tuple)) or not all(is_delayed(part) for part in values):
        raise ValueError(
            f"X is a list of delayed blocks; {name} must be a list of delayed blocks too"
        )
    if len(values) != len(X):
        raise ValueError(f"X has {len(X)} delayed blocks but {name} has {len(values)}")
    return list(values)


def _blocks(
    X: list[Any],
    others: list[list[Any]],
    how: dict[str, Any],
    columns: tuple[str, ...] | None = None,
    *,
    ordered: bool = False,
) -> list[Any]:
    import dask

    make = dask.delayed(_ordered_block if ordered else to_block)
    return [
        make(*parts, place=Place(i, columns), **how)
        for i, parts in enumerate(zip(X, *others, strict=True))
    ]


def _ordered_block(*parts: Any, **how: Any) -> Block:
    return with_order(to_block(*parts, **how))


def _rows(values: Any, run: slice) -> Any:
    if values is None:
        return None
    values = values if hasattr(values, "shape") else np.asarray(values)
    return values.iloc[run] if hasattr(values, "iloc") else values[run]


def is_lazy(X: Any) -> bool:
    """Return whether X is a dask collection or a list of delayed blocks or futures."""
    X = X.rows if isinstance(X, Named) else X
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(hasattr(part, "__dask_graph__") or is_future(part) for part in X)
    wrapped = type(X).__module__.startswith("xarray.")
    return hasattr(plain(X) if wrapped else X, "__dask_graph__")


def is_dask(values: Any) -> bool:
    """Return whether this is a dask array or dataframe."""
    return hasattr(values, "__dask_graph__") and not is_delayed(values)
