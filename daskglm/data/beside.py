"""What is beside the rows: targets, weights and offsets as checked numbers, and sums of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.device import on_device, to_host
from daskglm.core.summation import AT_ONCE
from daskglm.data.containers import plain
from daskglm.data.values import Place, refuse_masked, refuse_names, refuse_no_numbers, refuse_text

# Largest size of a target or an offset: squares of 1e9 such margins have a finite sum.
LARGEST_NUMBER = 1e149


def _weighted(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the weighted sum."""
    return float(values.sum() if weights is None else values @ weights)


def squares_of(targets: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the weighted sum of squares; infinite where it overflows."""
    with np.errstate(over="ignore"):
        return float(targets @ (targets if weights is None else targets * weights))


def offset_facts(added: np.ndarray | None, weights: np.ndarray | None) -> dict[str, Any]:
    """Return what a summary says of offsets: their range, their sum and that of exponentials.

    Those of several margins are not exposures.
    """
    if added is None or not len(added):
        return {}
    if added.ndim == 2:
        sums = added.sum(axis=1)
        return {
            "largest_offset": float(np.linalg.norm(added, axis=1).max()),
            "offset_sum": _weighted(sums, weights),
            "offset_columns": added.shape[1],
        }
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
        "offset_columns": 1,
    }


def numbers_beside(values: Any, name: str, n: int, place: Place) -> np.ndarray:
    """Return what is beside n rows as floats (n,); ValueError, with the place, for what is none."""
    return float_column(values, name, n, place).values


def added_to_margins(offset: Any, exposure: Any, n: int, place: Place) -> np.ndarray | None:
    """Return the offset plus the logarithm of the exposure, (n,), or None without both.

    An offset of several columns, one for each margin, stays so: (n, K). Raises ValueError, with the
    place, for values that are not finite numbers, exposures that are not positive, and numbers of
    values other than n.
    """
    added = None
    if offset is not None:
        columns = []
        for values in _columns_of(offset):
            column, largest, _ = float_column(values, "offset", n, place)
            refuse_huge(column, largest, "offset", place)
            columns.append(column)
        added = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    if exposure is None:
        return added
    exposed = float_column(exposure, "exposure", n, place).values
    if n and not exposed.min() > 0.0:
        i = int(np.argmin(exposed))
        raise ValueError(f"{place.row(i)}: exposure is {exposed[i]:g}, which is not above 0")
    if added is None:
        return np.log(exposed)
    return added + (np.log(exposed) if added.ndim == 1 else np.log(exposed)[:, None])


def refuse_another_order(offset: Any, labels: Iterable[Any], place: Place) -> None:
    """Raise ValueError where the columns of a frame are named as the classes, in another order."""
    if getattr(offset, "ndim", 1) != 2 or not hasattr(offset, "columns"):
        return
    names = list(offset.columns)
    if set(labels) <= set(names) and names != sorted(names):
        raise ValueError(
            f"{place}the columns of offset are {names}: give them in the order of the classes, "
            f"{sorted(names)}"
        )


def _columns_of(values: Any) -> list[Any]:
    """Return the columns of a matrix or frame; anything else as it is, as the only one."""
    values = values if isinstance(values, float) else plain(values)
    if np.ndim(values) != 2 or np.shape(values)[1] < 2:
        return [values]
    if not hasattr(values, "shape"):
        values = np.asarray(values)
    many = range(values.shape[1])
    return [values.iloc[:, k] if hasattr(values, "iloc") else values[:, k] for k in many]


def _largest(values: np.ndarray) -> float:
    """Return the largest absolute value, without a copy of all; 0 if there are none."""
    return float(max(values.max(), -values.min())) if len(values) else 0.0


def refuse_huge(values: np.ndarray, largest: float, name: str, place: Place) -> None:
    """Raise ValueError, with the place, if squares of such a size may have no finite sum."""
    if not largest <= LARGEST_NUMBER:
        i = int(np.argmax(np.abs(values)))
        raise ValueError(
            f"{place.row(i)}: {name} is {values[i]:g}, and a sum of such squares overflows float64 "
            f"(above {LARGEST_NUMBER:g} in size); rescale before fit"
        )


def column_of(values: Any, name: str, n: int, place: Place) -> np.ndarray:
    """Return what is beside n rows as an array (n,), of any kind; ValueError where it is not."""
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
        refuse_names(values, name)
        raise ValueError(
            f"{place}X has {n} rows but {name} has {len(values)}: they must be cut at the same rows"
        )
    return values


class Column(NamedTuple):
    """Numbers (n,) in float64, the largest absolute value, and the sum."""

    values: np.ndarray
    largest: float
    total: float


def float_column(values: Any, name: str, n: int, place: Place, threads: int = 1) -> Column:
    """Return numbers beside n rows; ValueError, with the place, for what is none."""
    values = column_of(values, name, n, place)
    refuse_no_numbers(values.dtype, f"{place}{name}")
    try:
        column = _measured(values, threads)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}{name} has values that are not numbers ({error})") from error
    refuse_text(values, name, place)
    if not np.isfinite(column.largest):
        i = int(np.argmin(np.isfinite(column.values)))
        kind = "NaN" if np.isnan(column.values[i]) else "infinity (inf)"
        raise ValueError(f"{name} contains {kind}: {place.row(i)}. Leave out such rows")
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
