"""Several targets of one regression: a fit for each column of y, on rows that are loaded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from daskglm.core.arguments import shown
from daskglm.core.device import to_host
from daskglm.data.alignment import check_shuffles
from daskglm.data.partitions import is_lazy
from daskglm.data.targets import in_memory
from daskglm.estimators.fitted_data import Known
from daskglm.estimators.tables import as_rows
from daskglm.fitting.config import FitConfig
from daskglm.fitting.record import several
from daskglm.fitting.report import combine
from daskglm.fitting.runner import Trained, train
from daskglm.frames.schema import Schema
from daskglm.frames.take import has_levels


def count_of(y: Any) -> int:
    """Columns of y; 1 for anything but two dimensions."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, (list, tuple)) and not is_lazy(y):
        shape = np.shape(y)
    return int(shape[1]) if shape is not None and len(shape) == 2 else 1


def each_strength(alpha: Any, targets: int) -> list[Any]:
    """Return one strength of the penalty for each target.

    Raises ValueError if there are neither one nor as many.
    """
    if np.ndim(alpha) == 0:
        return [alpha] * targets
    alphas = np.ravel(alpha).tolist()
    if any(each is None for each in alphas):
        raise ValueError(
            f"alpha={shown(alpha)} must be a number not below 0 for each target (C = 1 / alpha)"
        )
    if len(alphas) not in (1, targets):
        raise ValueError(
            f"alpha has {len(alphas)} values but y has {targets} target(s): Number of targets and "
            f"number of penalties do not correspond: {len(alphas)} != {targets}"
        )
    return alphas * targets if len(alphas) == 1 else alphas


def rows_of_each(
    X: Any,
    Y: Any,
    sample_weight: Any,
    settings: Sequence[FitConfig],
    known: Known,
    schema: Schema,
    client: Any,
) -> Callable[[], tuple[Any, Any, Sequence[FitConfig], Known]]:
    """Return a function that makes rows, weights, settings and what is known as solvers want them.

    One design serves all targets: that of the one with the least penalty, whose levels have to be
    unique. Raises ValueError for dask tables.
    """
    beside = {"sample_weight": sample_weight, "clusters": schema.clusters}
    if not has_levels(X, beside, schema):
        return lambda: (X, sample_weight, settings, known)
    if is_lazy(X):
        raise ValueError(
            f"y has {Y.shape[1]} targets, which a dask table cannot have: fit one at a time"
        )
    column = Y[:, 0] if is_lazy(Y) else np.asarray(to_host(Y))[:, 0]
    free = max(settings, key=lambda each: each.C)

    def rows() -> tuple[Any, Any, Sequence[FitConfig], Known]:
        given = X, column, [free, *settings], known, {"sample_weight": sample_weight}
        found, _, each, of_fit, weights = as_rows(*given, schema, client)
        return found, weights["sample_weight"], each[1:], of_fit

    return rows


def train_each(
    X: Any,
    Y: Any,
    settings: Sequence[FitConfig],
    *,
    sample_weight: Any = None,
    start: Any = None,
    client: Any = None,
) -> Trained:
    """Fit every column of Y (n, t), column k by `settings[k]`; the rest is as `runner.train`.

    Dask arrays are persisted for as long as this takes, so that they are computed once.
    """
    X, Y, sample_weight = _held(X, Y, sample_weight, client)
    found = []
    for k, each in enumerate(settings):
        column = Y[:, k]
        data = (X, column, sample_weight) if is_lazy(X) else in_memory(X, column, sample_weight)
        found.append(
            train(*data[:2], each, sample_weight=data[2], start=_start(start, k), client=client)
        )
    report = combine([trained.report for trained in found])
    coef = np.concatenate([trained.coef for trained in found])
    intercept = np.concatenate([trained.intercept for trained in found])
    record = several([trained.record for trained in found])
    return Trained(coef, intercept, None, report, record)


def _held(X: Any, Y: Any, sample_weight: Any, client: Any) -> tuple[Any, Any, Any]:
    if not is_lazy(X):
        return X, (Y if is_lazy(Y) else np.asarray(to_host(Y))), sample_weight
    if not hasattr(X, "numblocks") or not (hasattr(Y, "numblocks") or isinstance(Y, np.ndarray)):
        raise ValueError(
            f"y has {Y.shape[1]} targets, which dask arrays and data in memory can have, but X is "
            f"a {type(X).__name__} and y a {type(Y).__name__}; call to_dask_array(lengths=True) on "
            "both"
        )
    import dask

    check_shuffles(
        {name: values.dask for name, values in (("X", X), ("y", Y)) if hasattr(values, "numblocks")}
    )
    persist = dask.persist if client is None else client.persist
    lazy = [value for value in (X, Y, sample_weight) if is_lazy(value)]
    kept = iter(persist(*lazy) if client is None else persist(lazy))
    X, Y, sample_weight = (
        next(kept) if is_lazy(value) else value for value in (X, Y, sample_weight)
    )
    return X, Y, sample_weight


def _start(start: Any, k: int) -> Any:
    """Return where target k starts: its part of coefficients (t, d) and intercepts (t,)."""
    if start is None or np.ndim(start[0]) != 2 or k >= len(start[0]):
        return start
    return start[0][k], np.broadcast_to(start[1], (len(start[0]),))[k]
