"""A path of models, one for each value of C or alpha, solved on the same rows: what `daskglm.fit`
does with a sequence.
"""

from __future__ import annotations

import numbers
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from daskglm.data.array_api import parameter
from daskglm.estimators.base import LinearModel
from daskglm.estimators.fitted_data import Known
from daskglm.fitting.config import FitConfig
from daskglm.fitting.multinomial_path import train_path
from daskglm.fitting.open_grid import open_grid, warn_unsolved
from daskglm.fitting.record import record_of
from daskglm.fitting.runner import Trained
from daskglm.losses.table import find

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
    return values_of(given, name)


def values_of(given: Any, name: str, *, zero: bool = False) -> np.ndarray:
    """Return a sequence of positive numbers, or zeros, as an array.

    Raises ValueError for anything else.
    """
    kind = "numbers not below 0" if zero else "positive numbers"
    given = parameter(given)
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
        raise ValueError(f"{name}={given!r:.200} must be a sequence of {kind}{among}")
    try:
        values = np.array([float(item) for item in items])
    except OverflowError as error:
        raise ValueError(f"{name}={given!r:.200} has a number too large for a float") from error
    inside = (values >= 0) & (values < np.inf) if zero else values > 0
    if not inside.all():
        first = values[~inside][0]
        raise ValueError(f"{name}={given!r:.200} must be a sequence of {kind}; {first:g} is none")
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
    strengths: Mapping[str, Any],
    *,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    start: Sequence[Any] | None = None,
    client: Any = None,
    **more: Any,
) -> Any:
    """Fit copies of an estimator, one for each C or alpha, together where they can be.

    Parameters
    ----------
    model : LinearModel
        With any strength of the penalty.
    X, y, sample_weight, offset, exposure, client
        As of `daskglm.fit`.
    strengths : dict of str to sequence of float
        The parameter, "C" or "alpha", and its values.
    start : sequence of (coef, intercept), optional
        Where the problems start: one pair for all values, or one for each.
    more
        Further settings.

    Returns
    -------
    list of fitted estimators, in the order of the values; an awaitable of it where the client is
    asynchronous.
    """
    ((name, given),) = strengths.items()
    values = values_of(given, name, zero=name == "alpha")
    models = [clone(model).set_params(**{name: float(value)}) for value in values]
    with np.errstate(divide="ignore"):
        Cs = 1.0 / values if name == "alpha" else values
    # of an alpha above 0: without a penalty l1_ratio and others have no meaning
    settings = models[int(Cs.argmin())]._settings(**more)
    settings.check()
    if not np.isfinite(Cs).all() and (settings.penalty.l1_ratio or settings.penalty.of_features):
        raise ValueError(
            f"{name}={given!r:.200} has a value without a penalty, for which "
            f"{' and '.join(('l1_ratio', *settings.penalty.of_features))} can have no effect; fit "
            "that value by itself"
        )
    if start is not None:
        if len(start) not in (1, len(values)):
            raise ValueError(
                f"warm_start has {len(start)} models for {len(values)} values of {name}: give one "
                "for all of them, or one for each"
            )
        start = list(start) * (len(values) // len(start))
    beside = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure}

    def work(X: Any, y: Any, settings: FitConfig, known: Known, data: dict[str, Any]) -> Any:
        return _fit_now(models, (X, y, known, data), settings, Cs, start, client)

    return model._on_rows(X, y, beside, settings, client, work)


def _fit_now(
    models: list[LinearModel],
    data: tuple[Any, Any, Known, dict[str, Any]],
    settings: FitConfig,
    Cs: np.ndarray,
    start: Any,
    client: Any,
) -> list[LinearModel]:
    began, (X, y, known, beside) = time.perf_counter(), data
    how = {"client": client, **beside}
    if find(settings.loss).of_margins is not None:
        each_of = train_path(X, y, settings, Cs, **how, starts=start)
        return [model._adopt(each, known) for model, each in zip(models, each_of, strict=True)]
    with open_grid(X, y, settings, **how, start=start) as grid:
        begin = None if start is None else grid.starts(start)
        solutions = grid.solve(grid.batch(Cs), begin, resumable=True)
        d, fitted = grid.objective.n_features, []
        for c, model in enumerate(models):
            of_model = range(c, len(solutions.W), len(Cs))  # C is fastest
            W = solutions.W[of_model.start :: of_model.step]
            intercept = W[:, d] if settings.fit_intercept else np.zeros(len(W))
            report = grid.report([solutions.reports[p] for p in of_model], began)
            record = record_of(replace(settings, C=float(Cs[c])), grid.engine.facts)
            trained = Trained(W[:, :d], intercept, grid.classes, report, record)
            fitted.append(model._adopt(trained, known))
    warn_unsolved(solutions.reports, float(settings.tol))
    return fitted
