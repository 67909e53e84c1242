"""A path of models, one for each value of C, solved on the same rows: what `daskglm.fit` does with
a sequence.
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from daskglm.data.partitions import is_lazy
from daskglm.engines.factory import awaitable_on
from daskglm.estimators.base import LinearModel
from daskglm.fitting.config import FitConfig
from daskglm.fitting.problem_grid import open_grid, warn_unsolved
from daskglm.fitting.runner import Trained

# Most values of C: each is a problem per class and fold, with coefficients of its own.
MOST_VALUES = 10_000


def grid_of_C(given: Any, name: str) -> np.ndarray:
    """Return values of C: a sequence as it is, a number as so many from 1e-4 to 1e4.

    Raises ValueError for anything else.
    """
    if isinstance(given, numbers.Integral) and not isinstance(given, bool):
        if not 1 <= int(given) <= MOST_VALUES:
            raise ValueError(
                f"{name}={given!r}: a number of values of C must be from 1 to {MOST_VALUES:,}"
            )
        return np.logspace(-4, 4, int(given))
    if not np.iterable(given):
        raise ValueError(
            f"{name}={given!r:.200} must be a positive integer or a sequence of positive numbers"
        )
    return values_of_C(given, name)


def values_of_C(given: Any, name: str) -> np.ndarray:
    """Return a sequence of positive numbers as an array; raise ValueError for anything else."""
    try:
        items = [] if isinstance(given, (str, bytes, Mapping)) else list(given)
    except TypeError as error:
        raise ValueError(f"{name}={given!r:.200} is not a sequence of numbers") from error
    wrong = [
        item
        for item in items
        if not isinstance(item, numbers.Real) or isinstance(item, (bool, np.bool_))
    ]
    if wrong or not items:
        among = f"; {wrong[0]!r:.80} is none" if wrong else ""
        raise ValueError(f"{name}={given!r:.200} must be a sequence of positive numbers{among}")
    try:
        values = np.array([float(item) for item in items])
    except OverflowError as error:
        raise ValueError(f"{name}={given!r:.200} has a number too large for a float") from error
    if not (values > 0).all():
        first = values[~(values > 0)][0]
        raise ValueError(
            f"{name}={given!r:.200} must be a sequence of positive numbers; {first:g} is none"
        )
    if len(values) > MOST_VALUES:
        raise ValueError(
            f"{name} has {len(values):,} values, more than the {MOST_VALUES:,} that "
            "are solved at once"
        )
    return values


def fit_path(
    model: LinearModel,
    X: Any,
    y: Any,
    Cs: Any,
    *,
    sample_weight: Any = None,
    start: Sequence[Any] | None = None,
    client: Any = None,
    **more: Any,
) -> Any:
    """Fit copies of an estimator, one for each C, together where they can be.

    Parameters
    ----------
    model : LinearModel
        With any C.
    X, y, sample_weight, client
        As of `daskglm.fit`.
    Cs : sequence of float
    start : sequence of (coef, intercept), optional
        Where the problems start: one pair for all values of C, or one for each.
    more
        Further settings.

    Returns
    -------
    list of fitted estimators, in the order of `Cs`; an awaitable of it where the client is
    asynchronous.
    """
    values = values_of_C(Cs, "C")
    models = [clone(model).set_params(C=float(C)) for C in values]
    settings = models[0]._settings(**more)
    settings.check()
    if start is not None:
        if len(start) not in (1, len(values)):
            raise ValueError(
                f"warm_start has {len(start)} models for {len(values)} values of C: give one for "
                "all of them, or one for each"
            )
        start = list(start) * (len(values) // len(start))
    data = model._taken(X, y, sample_weight)
    return awaitable_on(
        client,
        is_lazy(data[0]),
        partial(_fit_now, models, data, settings, values, start, client),
    )


def _fit_now(
    models: list[LinearModel],
    data: tuple[Any, Any, Any, Any],
    settings: FitConfig,
    Cs: np.ndarray,
    start: Any,
    client: Any,
) -> list[LinearModel]:
    began, (X, y, weight, names) = time.perf_counter(), data
    with open_grid(X, y, settings, sample_weight=weight, client=client, start=start) as grid:
        begin = None if start is None else grid.starts(start)
        solutions = grid.solve(grid.batch(Cs), begin, resumable=True)
        d, fitted = grid.objective.n_features, []
        for c, model in enumerate(models):
            of_model = range(c, len(solutions.W), len(Cs))  # C is fastest
            W = solutions.W[of_model.start :: of_model.step]
            intercept = W[:, d] if settings.fit_intercept else np.zeros(len(W))
            report = grid.report([solutions.reports[p] for p in of_model], began)
            fitted.append(model._adopt(Trained(W[:, :d], intercept, grid.classes, report), names))
    warn_unsolved(solutions.reports, float(settings.tol))
    return fitted
