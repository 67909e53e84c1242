"""Scores of a fitted model on rows whose targets are known: data are taken through the doors of
`fit`.

So `score` accepts and refuses what `fit` does. Every partition gives a few sums, and one number is
fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import _check_feature_names

from daskglm.core.decisions import predicted
from daskglm.core.device import to_host
from daskglm.core.warn import warn
from daskglm.data.blocks import Block, with_values
from daskglm.data.containers import plain
from daskglm.data.partitions import Partitions, feature_names, is_lazy
from daskglm.data.targets import in_memory
from daskglm.data.values import Place
from daskglm.estimators.absorbed import coefficients_of
from daskglm.estimators.fitted_data import check_added, with_columns_of_fit
from daskglm.estimators.fitted_record import loss_of_fit
from daskglm.estimators.tables import design_of_model, encoded, with_roles
from daskglm.fitting.runner import rows_of
from daskglm.losses.base import Loss
from daskglm.worker.prediction import decision_values, plus_offset


class Sums(NamedTuple):
    """Sums over a set of rows: number, weight, mean and spread of targets, and squared errors.

    Spread and errors are weighted. For labels `missed` is the weight of those that are predicted
    wrongly.
    """

    rows: int
    weight: float
    mean: float
    spread: float
    missed: float


def accuracy(model: Any, X: Any, y: Any, sample_weight: Any, offset: Any = None) -> float:
    """Share (by weight) of rows whose label a classifier predicts.

    Parameters
    ----------
    model : fitted classifier
    X, y, sample_weight, offset
        As of `fit`.

    Raises
    ------
    ValueError
        For what `fit` refuses, and for strings where the classes are numbers or the other way
        round.
    """
    loss = loss_of_fit(model)
    beside = {} if offset is None else {"offset": offset}
    data = taken(model, X, y, sample_weight, loss, **beside)
    constants, decide = np.atleast_1d(model._constants), getattr(model, "_decide", predicted)
    total = _total(data, coefficients_of(model), constants, model.classes_, decide)
    return (total.weight - total.missed) / total.weight


def r_squared(
    model: Any, X: Any, y: Any, sample_weight: Any, offset: Any = None, exposure: Any = None
) -> float:
    """Return R^2, the share of the variance of y that a regression explains.

    For several targets, without offsets, it is the mean of theirs; NaN, with a warning, for a
    single row. Arguments and errors as of `accuracy`.
    """
    loss = loss_of_fit(model)
    coef = coefficients_of(model)
    intercept = np.atleast_1d(model.intercept_)
    if len(coef) == 1:
        beside = {"offset": offset, "exposure": exposure}
        data = taken(model, X, y, sample_weight, loss, **beside)
        return _explained(_total(data, coef, intercept))
    y = plain(y)
    y = y if is_lazy(y) else np.asarray(to_host(y))
    if y.ndim != 2 or y.shape[1] != len(coef):
        raise ValueError(
            f"y has shape {y.shape}, but {type(model).__name__} was fitted to {len(coef)} targets"
        )
    each = []
    for k in range(len(coef)):
        data = taken(model, X, y[:, k], sample_weight, loss)
        each.append(_explained(_total(data, coef[k : k + 1], intercept[k : k + 1])))
    return float(np.mean(each))


def _explained(total: Sums) -> float:
    if total.rows < 2:
        message = "R^2 score is not well-defined with less than two samples."
        warn(message, UndefinedMetricWarning)
        return float("nan")
    return 1.0 - total.missed / total.spread if total.spread else float(total.missed == 0.0)


def taken(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    loss: Loss,
    *,
    method: str = "score",
    **beside: Any,
) -> Partitions:
    """Return data as `fit` takes them, with the features that the model was fitted to.

    `beside` may have an offset and an exposure; errors name the `method` that wants them.
    """
    if y is None:
        raise ValueError(
            f"{type(model).__name__} requires y to be passed, but the target y is None"
        )
    named = {"offset": None, "exposure": None, "sample_weight": sample_weight, **beside}
    beside = with_roles(getattr(model, "roles_", {}), plain(X), named)
    check_added(model, method, beside)
    design = design_of_model(model)
    if design is None:
        X = with_columns_of_fit(model, X, (y, *beside.values()))
    # a sum over rows can do without those that the fit has left out
    X, beside = encoded(model, X, {"y": y, **beside}, weigh=method == "score")
    y, sample_weight = plain(beside.pop("y")), plain(beside.pop("sample_weight"))
    given = (X, y, sample_weight) if is_lazy(X) else in_memory(X, y, sample_weight)
    data = rows_of(*given, loss, **beside)
    if design is not None:
        return data
    names = feature_names(X, y, sample_weight, *beside.values())
    _check_feature_names(
        model, np.empty((0, 0)) if names is None else pd.DataFrame(columns=names), reset=False
    )
    if data.arrays is not None and data.arrays[0].ndim == 2:
        _same_width(data.arrays[0].shape[1], model)
    elif data.columns is not None:
        _same_width(len(data.columns), model)
    elif hasattr(X, "numblocks"):
        _same_width(X.shape[1], model)
    return data


def _same_width(width: int, model: Any) -> None:
    if width != model.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input"
        )


# ---- sums
Decide = Callable[[np.ndarray], np.ndarray]


def _total(
    data: Partitions,
    coef: np.ndarray,
    intercept: np.ndarray,
    classes: np.ndarray | None = None,
    decide: Decide = predicted,
) -> Sums:
    """Add up all rows, in this process or, for lazy rows, where dask computes them."""
    if data.arrays is not None:
        total = _merged([_sums(block, coef, intercept, classes, decide) for block in data.load()])
    else:
        import dask

        one = dask.delayed(_sums)
        together = dask.delayed(_merged)
        (total,) = dask.compute(
            together([one(block, coef, intercept, classes, decide) for block in data.lazy])
        )
    if total.rows == 0:
        raise ValueError(
            "X has no rows: Found array with 0 sample(s) while a minimum of 1 is required."
        )
    if not total.weight > 0:
        raise ValueError(
            "all sample weights are zero: there is nothing to score. Give some rows a weight above "
            "0, or leave sample_weight out"
        )
    return total


def _sums(
    block: Block,
    coef: np.ndarray,
    intercept: np.ndarray,
    classes: np.ndarray | None,
    decide: Decide = predicted,
) -> Sums:
    """Add up one partition; `decide` turns decision values into numbers of classes."""
    place = Place(None if block.spans[0][0] < 0 else block.spans[0][0])
    rows, width = block.X.shape
    if not rows:
        return Sums(0, 0.0, 0.0, 0.0, 0.0)
    if width != coef.shape[1]:
        raise ValueError(
            f"{place}X has {width} features, but the model was fitted to {coef.shape[1]}"
        )
    scores = decision_values(with_values(block.X), coef, intercept, place)
    scores = plus_offset(scores, block.offset)
    weight = np.ones(rows) if block.weight is None else block.weight
    if classes is None:
        total = float(weight.sum())
        mean = float(weight @ block.y) / total if total else 0.0
        spread = weight @ (block.y - mean) ** 2
        missed = weight @ (block.y - scores) ** 2
        return Sums(rows, total, mean, float(spread), float(missed))
    chosen = decide(scores)
    wrong = _positions(block.labels or (), classes, place)[block.y] != chosen
    return Sums(rows, float(weight.sum()), 0.0, 0.0, float(weight @ wrong))


def _positions(labels: Sequence[Any], classes: np.ndarray, place: Place) -> np.ndarray:
    """Return where each label is among the classes, -1 for labels that the model has not seen."""
    known = {label: k for k, label in enumerate(classes.tolist())}
    for label in np.asarray(labels).tolist():
        if isinstance(label, (str, bytes)) != isinstance(classes[0], (str, bytes)):
            raise ValueError(
                f"{place}y has the label {label!r}, but the model was fitted to labels such as "
                f"{next(iter(known))!r}: Labels in y and of the model should be of the same type"
            )
    return np.array([known.get(label, -1) for label in np.asarray(labels).tolist()])


def _merged(parts: Sequence[Sums]) -> Sums:
    return reduce(_both, parts, Sums(0, 0.0, 0.0, 0.0, 0.0))


def _both(a: Sums, b: Sums) -> Sums:
    """Join the sums of two sets of rows.

    Means are joined without a difference of large sums (Chan, Golub & LeVeque 1983).
    """
    weight = a.weight + b.weight
    share = b.weight / weight if weight else 0.0
    apart = b.mean - a.mean
    spread = a.spread + b.spread + apart * apart * a.weight * share
    return Sums(a.rows + b.rows, weight, a.mean + apart * share, spread, a.missed + b.missed)
