"""Parts of y and of weights that belong to the partitions of a lazy X: cut at the same rows, and
from one graph.

Collections that are computed apart may be cut differently (dask fuses pieces of Parquet files by
the columns that are read) or ordered differently (a shuffle puts rows in the order in which they
come). So each partition of X, y and weights is one task of one expression, which dask optimises as
a whole. Runs on the client; `unbundle` on workers.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from daskglm.core.device import on_device, to_host

logger = logging.getLogger("daskglm")

# Names of the tasks of shuffles that put rows in the order of their arrival.
ANY_ORDER = ("barrier-", "shuffle-barrier-")


def is_delayed(value: Any) -> bool:
    """Return whether this is a dask Delayed."""
    return hasattr(value, "__dask_graph__") and type(value).__name__ in (
        "Delayed",
        "DelayedLeaf",
        "DelayedAttr",
    )


def is_frame(values: Any) -> bool:
    """Return whether this is a dask dataframe or series."""
    return hasattr(values, "to_dask_array")


def same_length(given: int, wanted: int, name: str) -> None:
    """Raise ValueError where y or weights are not as long as X."""
    if given != wanted:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X {wanted}, {name} "
            f"{given}"
        )


def bundles(X: Any, beside: dict[str, Any]) -> list[Any]:
    """Return delayed dicts of the rows of each partition; see `checked_bundles`."""
    return checked_bundles(X, beside)()


def checked_bundles(X: Any, beside: dict[str, Any]) -> Callable[[], list[Any]]:
    """Return what makes delayed dicts of the rows of each partition: "X", those of y and weights.

    All is checked now. Of arrays that are cut alike nothing is made: that takes 60 us a partition,
    and rows that workers hold need none of it.

    Parameters
    ----------
    X : dask dataframe, or array with one chunk along columns
    beside : dict of str to dask collection
        y, weights.

    Raises
    ------
    ValueError
        If they are cut differently, or come from shuffles that would be made apart.
    """
    of_kind = {name: values for name, values in beside.items() if is_frame(values) == is_frame(X)}
    others = {name: values for name, values in beside.items() if name not in of_kind}
    if is_frame(X):
        for name, values in of_kind.items():
            same_divisions(values, X, name)
        make, of_kind = as_made(_frames(X, of_kind)), {}
    else:
        same = {
            name: values for name, values in of_kind.items() if values.npartitions == X.npartitions
        }
        of_kind = {name: values for name, values in of_kind.items() if name not in same}
        check_shuffles(
            {"X": X.dask, **{name: values.dask for name, values in beside.items() if name in same}}
        )
        make = partial(_arrays, X, same)
    if apart := {**of_kind, **others}:
        return as_made(_with_parts_apart(make(), apart))
    return make


def as_made(found: list[Any]) -> Callable[[], list[Any]]:
    """Return what returns a list that is there."""
    return lambda: found


def _frames(X: Any, beside: dict[str, Any]) -> list[Any]:
    """Make one expression of all frames: they share shuffles and columns that are read."""
    import dask.dataframe as dd

    one = dd.map_partitions(
        _bundle,
        X,
        *beside.values(),
        names=("X", *beside),
        meta=X._meta,
        enforce_metadata=False,
        transform_divisions=False,
        clear_divisions=True,
        align_dataframes=False,
    )
    return list(one.to_delayed())


def _arrays(X: Any, beside: dict[str, Any]) -> list[Any]:
    """Make one blockwise operation on all arrays, which dask fuses with what they share."""
    import dask.array as da

    indexed = [item for values in beside.values() for item in (values, "ik"[: values.ndim])]
    empty = np.empty(0, object)
    one = da.blockwise(
        _bundle_of_blocks,
        "i",
        X,
        "ij",
        *indexed,
        names=("X", *beside),
        dtype=object,
        meta=empty,
        align_arrays=False,
        concatenate=None,
    )
    return list(one.to_delayed())


def _bundle(*parts: Any, names: Sequence[str]) -> dict[str, Any]:
    return dict(zip(names, parts, strict=True))


def _bundle_of_blocks(X: Any, *others: Any, names: Sequence[str]) -> dict[str, Any]:
    # the blocks along the columns, of which there is one
    parts = (part[0] if isinstance(part, list) else part for part in (X, *others))
    return dict(zip(names, parts, strict=True))


def unbundle(parts: dict[str, Any], place: Any) -> tuple[Any, dict[str, Any]]:
    """Return X of a partition, and what is beside it by name.

    Raises ValueError if the indexes of frames differ.
    """
    X = parts["X"]
    for name, values in parts.items():
        frames = (
            hasattr(X, "iloc") and hasattr(values, "iloc") and on_device(X) == on_device(values)
        )
        if name != "X" and frames and len(values) == len(X):
            _same_index(X.index, values.index, name, place)
    return X, {name: values for name, values in parts.items() if name != "X"}


def _same_index(rows: Any, index: Any, name: str, place: Any) -> None:
    if rows is index or rows.equals(index):
        return
    at = next(i for i in range(len(rows)) if not rows[i : i + 1].equals(index[i : i + 1]))
    raise ValueError(
        f"the index of {name} is not that of X: {place.row(at)} is {rows[at]!r} in X and "
        f"{index[at]!r} in {name}. Take both from one dataframe, or bring them together (join, or "
        "set_index on both)"
    )


# ---- checks before anything is computed
def same_divisions(values: Any, X: Any, name: str) -> None:
    """Raise ValueError where frames are known to be cut at other rows."""
    if values.npartitions != X.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions but {name} has {values.npartitions}: repartition "
            "one like the other"
        )
    known = values.known_divisions and X.known_divisions
    if known and tuple(values.divisions) != tuple(X.divisions):
        raise ValueError(
            f"X and {name} have different divisions ({X.divisions} and {values.divisions})"
        )


def check_shuffles(graphs: dict[str, Any]) -> None:
    """Raise ValueError if X and y or weights are shuffled apart, so that orders differ."""
    found = {name: shuffles(graph) for name, graph in graphs.items()}
    for name, names in found.items():
        if found["X"] and names and names != found["X"]:
            raise ValueError(
                f"X and {name} come from shuffled dataframes (shuffle, set_index, merge), and each "
                "would be shuffled by itself, with rows in another order: give the dataframe and "
                f"its column (fit(frame[features], frame[{name!r}])), or persist the dataframe "
                f"before taking X and {name} from it"
            )


def shuffles(graph: Iterable[Any]) -> set[str]:
    """Return the names of a graph's tasks that put rows in the order of their arrival.

    That is another order every time.
    """
    names = (key[0] if isinstance(key, tuple) else key for key in graph)
    return {name for name in names if isinstance(name, str) and name.startswith(ANY_ORDER)}


# ---- what cannot be one expression with X
def _with_parts_apart(parts: list[Any], apart: dict[str, Any]) -> list[Any]:
    """Add to bundles the parts of collections of another kind, or cut at other rows."""
    import dask

    runs = {name: _runs(values) for name, values in apart.items()}
    check_shuffles({"X": parts[0].dask, **{name: run[0].dask for name, run in runs.items()}})
    for name in runs:
        if len(runs[name]) != len(parts):
            runs[name] = _recut(runs[name], parts, name)
    join = dask.delayed(_joined)
    return [
        join(part, dict(zip(runs, values, strict=True)))
        for part, *values in zip(parts, *runs.values(), strict=True)
    ]


def _runs(values: Any) -> list[Any]:
    return list(values.to_delayed() if is_frame(values) else values.to_delayed().ravel())


def _joined(part: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    return {**part, **others}


def _recut(runs: list[Any], parts: list[Any], name: str) -> list[Any]:
    """Cut runs where the partitions are cut. Cost: reads both once, for their lengths."""
    import dask

    logger.info(
        "X has %d partitions and %s %d: both are read for their lengths",
        len(parts),
        name,
        len(runs),
    )
    count = dask.delayed(_length)
    lengths = dask.compute(*(count(part, "X") for part in parts), *(count(run) for run in runs))
    wanted = np.cumsum([0, *lengths[: len(parts)]])
    given = np.cumsum([0, *lengths[len(parts) :]])
    same_length(int(given[-1]), int(wanted[-1]), name)
    cut = dask.delayed(_cut)
    pieces = []
    for low, high in itertools.pairwise(wanted):
        first = max(int(np.searchsorted(given, low, side="right")) - 1, 0)
        last = max(int(np.searchsorted(given, high, side="left")), first + 1)
        pieces.append(cut(runs[first:last], int(low - given[first]), int(high - given[first])))
    return pieces


def _length(part: Any, name: str | None = None) -> int:
    rows = part if name is None else part[name]
    return int(rows.shape[0])


def _cut(runs: list[Any], low: int, high: int) -> np.ndarray:
    whole = [run.to_numpy() if hasattr(run, "to_numpy") else to_host(run) for run in runs]
    return np.concatenate(whole)[low:high]
