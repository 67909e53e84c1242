"""What a certificate of dual variables asks first, with the request by which rows make margins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.asking import Asking
from daskglm.core.requests import DualValue, EvaluateAlong, Totals
from daskglm.objectives.margins import BegunShift
from daskglm.objectives.point import NO_GRADIENT, Point
from daskglm.objectives.primal import Objective


class First(NamedTuple):
    """What is asked first about the margins of coefficients.

    Parameters
    ----------
    shift : float
        The intercept.
    losses : callable, optional
        Returns the reply to a `DualValue` without factors, if that is wanted.
    search : BegunShift, optional
        For the best intercept.
    value : callable
        Without a search returns the reply that has the losses with the intercept.
    """

    shift: float
    losses: Callable[[], Totals] | None
    search: BegunShift | None = None
    value: Callable[[], Totals] = dict


class Read(NamedTuple):
    """Coefficients (d,), `side` of `Sums` that rows have of them, and what was asked first."""

    features: Any
    side: Any
    first: First


def first_asked(
    asking: Asking,
    objective: Objective,
    value: DualValue | None,
    to_search: bool,
    features: Any,
    token: int,
    shift: float,
) -> First:
    """Put off what is asked first about margins that a request before it makes.

    Parameters
    ----------
    asking : Asking
    objective : Objective
    value : DualValue, optional
        What is asked about the dual variables, if that is known before they are.
    to_search : bool
        Whether an intercept is to be the best one.
    features : (d,) array
    token : int
        Of the margins.
    shift : float
        The intercept, or where to search for it.
    """
    problem, losses = objective.problem, None
    if value is not None:
        losses = asking.later(value, problem)
    w = np.append(features, 0.0) if objective.fit_intercept else features
    if objective.fit_intercept and to_search:
        # no best intercept is farther from zero, and an ascent gone astray may be anywhere
        largest_margin = float(np.linalg.norm(w)) * objective.engine.facts.largest_row_norm
        reach = largest_margin + objective.intercept_radius + 1.0
        start = min(max(shift, -reach), reach)
        point = Point(objective, w, math.nan, NO_GRADIENT, token)
        return First(shift, losses, search=BegunShift(objective, point, start, asking))
    along = EvaluateAlong(((token, w),), np.ones((1, 1)), np.array([[shift]]))
    return First(shift, losses, value=asking.later(along, problem))
