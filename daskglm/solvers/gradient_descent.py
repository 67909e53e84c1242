"""Gradient descent with the constant step of the HPC paper, or with Barzilai-Borwein steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from daskglm.core.arguments import is_number, shown
from daskglm.core.outcome import Reason
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import backtrack
from daskglm.solvers.spec import SolverSpec


def gradient_descent(
    objective: Objective,
    w: np.ndarray,
    *,
    step: float | str = "auto",
    epsilon: float | None = None,
    state: dict[str, Any] | None = None,
) -> Iterates:
    """Plain gradient descent on the mean objective.

    Parameters
    ----------
    step : float or "auto"
        A number is the constant alpha of Algorithms 1 and 7 of Mouhajir, Nechba & Sedjari (HPC
        applied to logistic regression): w <- w - alpha * gradient / (C * sum of weights), which
        with C = inf is their mean gradient exactly. "auto": Barzilai-Borwein steps, safeguarded by
        a non-monotone Armijo rule on cached margins.
    epsilon : float, optional
        With a constant step: stop as they do, after the step taken where the mean gradient's norm
        is <= epsilon.
    state : dict, optional
        State of a solve to resume.

    Notes
    -----
    The paper's Algorithm 1 adds alpha times a gradient whose sign makes it climb; its code, and
    this, descend. Cost: 1 pass and 1 round per step; 2 passes where an automatic step must be
    shortened.
    """
    point = objective.at(w)
    if step == "auto":
        return (yield from _barzilai_borwein(objective, point, **(state or {})))

    total = objective.C * objective.total_weight
    while True:
        yield Iterate(point)
        mean_gradient = point.gradient / total
        # the paper's code takes one more step where it finds the gradient small
        small = epsilon is not None and np.linalg.norm(mean_gradient) <= epsilon
        point = objective.at(point.w - float(step) * mean_gradient)
        if small:
            yield Iterate(point)
            return Reason.SMALL_MEAN_GRADIENT


def check_step(step: Any, name: str) -> None:
    """Raise ValueError unless a step is a positive finite number, or "auto"."""
    if isinstance(step, str) and step == "auto":
        return
    if not is_number(step) or not 0 < step < math.inf:
        raise ValueError(
            f"{name}={shown(step)} of solver_options must be a positive finite number, or 'auto'"
        )


def check_epsilon(epsilon: Any, name: str) -> None:
    """Raise ValueError unless a bound on the mean gradient is a number not below 0, or None."""
    if epsilon is not None and (not is_number(epsilon) or not 0 <= epsilon < math.inf):
        raise ValueError(
            f"{name}={shown(epsilon)} of solver_options must be a finite number not "
            "below 0, or None"
        )


def _barzilai_borwein(
    objective: Objective,
    point: Point,
    t: float = 0.0,
    odd: bool = False,
    before: Sequence[float] = (),
) -> Iterates:
    """Alternate the two Barzilai-Borwein steps, from a first step of one over the curvature.

    `t`, `odd` and `before` are the state of a solve to resume: the step, which of the two comes
    next, and the last values.
    """
    radius = objective.engine.facts.largest_row_norm
    row_curvature = radius * radius + objective.fit_intercept
    weight = objective.C * objective.typical_curvature * objective.total_weight
    # the largest, or what is to be expected of losses that have none
    curvature = objective.penalty.quadratic.largest + weight * row_curvature
    t = t or 1.0 / max(curvature, np.finfo(float).tiny)

    # a step may raise the objective up to the largest of the last ten values (Grippo, Lampariello
    # & Lucidi 1986)
    values: deque[float] = deque(before, maxlen=10)
    while True:
        kept = {"t": t, "odd": odd, "before": list(values)}
        values.append(point.value)
        yield Iterate(point, resume=partial(dict, state=kept))
        trial = objective.at(point.w - t * point.gradient, beside=point)
        accepted = backtrack(objective, point, trial, reference=max(values))
        if accepted is None:
            return Reason.NO_PROGRESS

        s = accepted.w - point.w
        change = accepted.gradient - point.gradient
        inner = float(s @ change)
        if inner > 0.0:
            t = inner / float(change @ change) if odd else float(s @ s) / inner
            odd = not odd
        else:  # no curvature was seen along the step
            t *= 2.0
        point = accepted


SPEC = SolverSpec(
    "gd",
    gradient_descent,
    max_iter=20_000,
    options={"step": check_step, "epsilon": check_epsilon},
)
