"""Parameters that inference reports of fits of all classes together, and their names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.arguments import shown
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import is_ordinal
from daskglm.losses.table import JOINT_LOSSES


class JointParameters(NamedTuple):
    """Parameters of a fit of several classes.

    Parameters
    ----------
    params : (p,) array
        As `core.inference_requests.InferenceSums` has them.
    order : tuple of int
        Places of the classes, in the order of `params`; of a multinomial fit the first is the class
        of reference.
    classes : (K,) array
        Labels.
    intercept : bool
        Whether each class of a multinomial fit has one.
    ordinal : bool
    """

    params: np.ndarray
    order: tuple[int, ...]
    classes: np.ndarray
    intercept: bool
    ordinal: bool

    def names(self, features: Sequence[str]) -> tuple[str, ...]:
        """Return names of the parameters.

        A multinomial fit has "class:feature", an ordinal one the features and "low|high" for the
        threshold between two classes.
        """
        labels = [str(self.classes[k]) for k in self.order]
        if self.ordinal:
            return (*features, *(f"{a}|{b}" for a, b in itertools.pairwise(labels)))
        of_class = (*features, "intercept") if self.intercept else tuple(features)
        return tuple(f"{label}:{name}" for label in labels[1:] for name in of_class)


def joint_parameters(
    model: Any, loss: Loss, reference: Any, *, intercept: bool = True
) -> JointParameters | None:
    """Return the parameters of a fitted model of all classes together; None for other losses.

    `intercept` says whether classes of a multinomial fit have one. Raises ValueError for a
    `reference` that is no class of the fit.
    """
    if loss.name not in JOINT_LOSSES:
        return None
    classes = model.classes_
    K = len(classes)
    if is_ordinal(loss):
        params = np.append(np.ravel(model.coef_), model.thresholds_)
        return JointParameters(params, tuple(range(K)), classes, False, True)
    labels = classes.tolist()
    if reference is not None and reference not in labels:
        raise ValueError(f"reference={shown(reference)} is not one of the classes {labels}")
    first = 0 if reference is None else labels.index(reference)
    W = model.coef_
    if intercept:
        W = np.column_stack([W, model.intercept_])
    order = (first, *(k for k in range(K) if k != first))
    params = (W[list(order[1:])] - W[first]).ravel()
    return JointParameters(params, order, classes, intercept, False)
