"""Numbers for each row of a block with its target: residuals and leverages."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import LossRef, Problem
from daskglm.data.blocks import Block, with_values
from daskglm.data.values import Place
from daskglm.kernels import cpu as host
from daskglm.kernels.loss_values import loss_values
from daskglm.kernels.records import NO_NUMBERS, read_only
from daskglm.losses.anscombe import anscombe
from daskglm.losses.base import LOGISTIC, Loss
from daskglm.losses.binomial import FAMILY as BINOMIAL
from daskglm.losses.links import IDENTITY, LOGIT
from daskglm.losses.table import law_of, loss_of
from daskglm.worker.leverage import quadratic_forms
from daskglm.worker.prediction import decision_values, plus_offset
from daskglm.worker.targets import signs_of, targets_of

KINDS = ("response", "working", "pearson", "deviance", "anscombe")


class Fitted(NamedTuple):
    """What residuals are from: coefficients (1, d), intercept (1,), loss, classes (none: ()).

    `kind` is one of `KINDS`.
    """

    coef: np.ndarray
    intercept: np.ndarray
    ref: LossRef
    classes: tuple[Any, ...]
    kind: str


class Hat(NamedTuple):
    """What leverages are from: as of `Fitted`, the problem, curvature and inverse Hessian."""

    coef: np.ndarray
    intercept: np.ndarray
    problem: Problem
    curvature: str
    inverse: np.ndarray


def check_kind(loss: Loss, kind: str) -> None:
    """Raise ValueError for a loss that has no residuals of this kind.

    Losses of numbers that are of no family have differences from the prediction only.
    """
    if loss.family is None and loss.code != LOGISTIC and (loss.classifies or kind != "response"):
        what = "classes have no mean" if loss.classifies else "give kind='response'"
        raise ValueError(
            f"kind={kind!r}: loss={loss.full_name!r} is of no family of distributions; {what}"
        )


def residuals_of(block: Block, model: Fitted) -> np.ndarray:
    """Return the residuals (n,) of a block."""
    if not len(block.y):
        return np.empty(0)
    loss = loss_of(model.ref)
    z, y = _margins(block, model.coef, model.intercept), _targets(block, model.classes)
    logistic = loss.code == LOGISTIC
    family, link = (BINOMIAL, LOGIT) if logistic else (loss.family, loss.link or IDENTITY)
    targets = 0.5 * (y + 1.0) if logistic else y
    mu = np.asarray(link.mean(z), dtype=np.float64)
    apart = targets - mu
    if model.kind == "response":
        return apart
    assert family is not None
    with np.errstate(divide="ignore", invalid="ignore"):  # means at an end of the domain
        if model.kind == "working":
            return apart / link.slope(z)
        if model.kind == "deviance":
            values = np.empty(len(y))
            loss_values(law_of(model.ref), y, z, values)
            found = np.sign(apart) * np.sqrt(2.0 * np.maximum(values, 0.0))
        elif model.kind == "pearson":
            found = apart / np.sqrt(family.variance(mu, loss.p1))
        else:
            found = anscombe(family, targets, mu, loss.p1)
    return found if block.weight is None else found * np.sqrt(to_host(block.weight))


def leverages_of(block: Block, hat: Hat) -> np.ndarray:
    """Return the leverages (n,) of a block."""
    n = len(block.y)
    if not n:
        return np.empty(0)
    X = to_host(with_values(block.X))
    z = _margins(block._replace(offset=None), hat.coef, hat.intercept)
    y, weight, offset = (read_only(to_host(v)) for v in targets_of(block, hat.problem))
    weight, curvature = weight if len(weight) else NO_NUMBERS, np.empty(n)
    law = law_of(hat.problem.loss, curvature=hat.curvature)
    host.margins.curvatures(law, y, weight, offset, z, 0, n, curvature)
    return curvature * quadratic_forms(X, hat.inverse)


def _margins(block: Block, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Return the margins of rows, with their offsets."""
    z = decision_values(with_values(block.X), coef, intercept, _place(block))
    return plus_offset(z, None if block.offset is None else to_host(block.offset))


def _targets(block: Block, classes: tuple[Any, ...]) -> np.ndarray:
    """Return targets in float64, -1 and +1 for two classes.

    Raises ValueError for labels that the model was not fitted to.
    """
    if block.labels is None:
        return np.ascontiguousarray(to_host(block.y), dtype=np.float64)
    if unknown := [label for label in block.labels if label not in classes]:
        raise ValueError(
            f"{_place(block)}y has the label {np.asarray(unknown).tolist()[0]!r}, but the model "
            f"was fitted to {list(classes)}"
        )
    return signs_of(block.labels, classes[1])[to_host(block.y)].astype(np.float64)


def _place(block: Block) -> Place:
    first = block.spans[0][0]
    return Place(None if first < 0 else first)
