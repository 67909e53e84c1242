"""D^2 of a fitted regression of a family, the share of the deviance that it explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from daskglm.core.warn import warn
from daskglm.data.blocks import Block, with_values
from daskglm.data.values import Place
from daskglm.estimators.absorbed import coefficients_of
from daskglm.estimators.fitted_record import loss_of_fit
from daskglm.estimators.score_rows import taken
from daskglm.kernels import margins
from daskglm.kernels.records import NO_NUMBERS, read_only
from daskglm.losses.base import Loss
from daskglm.losses.table import LOSSES, find, law_of
from daskglm.worker.prediction import decision_values


class Sums(NamedTuple):
    """Sums over rows: number, weight, mean target, and losses of the model and of the mean.

    All but the number are weighted.
    """

    rows: int
    weight: float
    mean: float
    of_model: float
    of_mean: float


NONE = Sums(0, 0.0, 0.0, 0.0, 0.0)


def deviance_explained(
    model: Any, X: Any, y: Any, sample_weight: Any, offset: Any = None, exposure: Any = None
) -> float:
    """Return 1 - deviance / deviance of the mean target; nan, with a warning, for a single row.

    Raises ValueError for what `fit` refuses.
    """
    return share(total_of(model, X, y, sample_weight, offset, exposure))


def total_of(
    model: Any, X: Any, y: Any, sample_weight: Any, offset: Any = None, exposure: Any = None
) -> Sums:
    """Return the sums over these rows, from which `share` makes the score."""
    loss = loss_of_fit(model)
    data = taken(model, X, y, sample_weight, loss, offset=offset, exposure=exposure)
    coef, intercept = coefficients_of(model), np.atleast_1d(model.intercept_)
    how = coef, intercept, loss.full_name
    if data.arrays is not None:
        total = _merged([_sums(block, *how) for block in data.load()], loss.full_name)
    else:
        import dask

        one, together = dask.delayed(_sums), dask.delayed(_merged)
        parts = [one(block, *how) for block in data.lazy]
        (total,) = dask.compute(together(parts, loss.full_name))
    return total


def share(total: Sums) -> float:
    """Return D^2 of sums; nan, with a warning, for a single row.

    Raises ValueError without weight.
    """
    if not total.weight > 0.0:
        raise ValueError(
            "there are no rows with weight to score: X has no rows, or weights of zero"
        )
    if total.rows < 2:
        warn("D^2 is not well-defined with less than two rows", UndefinedMetricWarning)
        return float("nan")
    if not total.of_mean > 0.0:
        return float(total.of_model <= 0.0)
    return 1.0 - total.of_model / total.of_mean


def _sums(block: Block, coef: np.ndarray, intercept: np.ndarray, name: str) -> Sums:
    """Add up one partition."""
    rows, width = block.X.shape
    if not rows:
        return NONE
    place = Place(None if block.spans[0][0] < 0 else block.spans[0][0])
    if width != coef.shape[1]:
        raise ValueError(
            f"{place}X has {width} features, but the model was fitted to {coef.shape[1]}"
        )
    loss, facts = find(name), block.facts
    z = decision_values(with_values(block.X), coef, intercept, place)
    if block.offset is not None:
        z = z + block.offset
    mean = facts.target_sum / facts.weight if facts.weight > 0.0 else 0.0
    by_mean = _of_means(loss)
    margin = _margin(by_mean, mean)
    y = read_only(block.y)
    weight = NO_NUMBERS if block.weight is None else read_only(block.weight)
    constant = np.array([[0.0, margin if math.isfinite(margin) else 0.0]])
    deviances = []
    for each, at in ((loss, np.array([[1.0, 0.0]])), (by_mean, constant)):
        out = np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2, 2))
        margins.along(law_of(each.ref), y, weight, NO_NUMBERS, (z,), at, 0, rows, out)
        deviances.append(float(out[0][0]))
    of_model, of_mean = deviances
    # a mean at the end of the domain is that of targets that all lie there
    return Sums(rows, facts.weight, mean, of_model, of_mean if math.isfinite(margin) else 0.0)


def _merged(parts: Sequence[Sums], name: str) -> Sums:
    return reduce(partial(both, _of_means(find(name))), parts, NONE)


def both(loss: Loss, a: Sums, b: Sums) -> Sums:
    """Join the sums of two sets of rows.

    Deviances are Bregman divergences: that from another mean is the deviance from the own one, plus
    the weight times the deviance between both means. No large sums are subtracted.
    """
    weight = a.weight + b.weight
    mean = a.mean + (b.mean - a.mean) * (b.weight / weight if weight > 0.0 else 0.0)
    of_mean = a.of_mean + b.of_mean
    for part in (a, b):
        if part.weight > 0.0 and part.mean != mean:
            between = loss.row(part.mean, _margin(loss, mean), loss.p1, loss.p2)[0]
            of_mean += part.weight * float(between)
    return Sums(a.rows + b.rows, weight, mean, a.of_model + b.of_model, of_mean)


def _of_means(loss: Loss) -> Loss:
    """Return the loss of the family by its first link, which takes every mean that targets have.

    The deviance from a mean is the same by any link, and the model's may not take that mean.
    """
    family = loss.family
    assert family is not None
    known = (each for each in LOSSES.values() if each.family and each.family.name == family.name)
    first = next(known)
    return first if first.parameter is None else first.with_parameter(loss.p1)


def _margin(loss: Loss, mean: float) -> float:
    """Return the margin at which the mean is this."""
    with np.errstate(divide="ignore"):
        return mean if loss.link is None else float(loss.link.of_mean(mean))
