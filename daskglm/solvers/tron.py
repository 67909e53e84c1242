"""Trust-region Newton by conjugate gradients (TRON): for many features."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace

import numpy as np

from daskglm.objective import Objective, Point
from daskglm.report import Reason
from daskglm.solvers.linear import ball_step, cg_in_ball

ACCEPT, POOR, GOOD = 1e-4, 0.25, 0.75  # eta0, eta1, eta2 of LIBLINEAR 2.30
SHRINK, HALVE, GROW = 0.25, 0.5, 4.0  # sigma1, sigma2, sigma3
MIXTURES = (0.5, 0.01)  # shares of the Hessian's diagonal in the preconditioner, the rest being the identity
TRIAL_SHARE, TRIAL_VALUES = 1 / 16, 1_000_000  # of the rows that choose the mixture, where there are so many values
TRIAL_SEED = 10
TINY = 16 * np.finfo(float).eps  # relative changes of the objective that no longer count (LIBLINEAR: 1e-12)


def tron(
    objective: Objective, w: np.ndarray, *, radius: float | None = None, mixture: float | None = None
) -> Generator[Point, None, Reason]:
    """Trust-region Newton with diagonally preconditioned conjugate gradients.

    The method of Lin and More 1999 with the constants, radius rules and inner stopping rule of LIBLINEAR 2.30 (the
    algorithm of Halloran & Rocke 2020), but for the preconditioner: `MIXTURES` are tried on a sample of the rows, and
    the one that takes fewer products there is used (LIBLINEAR's is the second). `radius` and `mixture` are those of a
    solve to go on from. Cost: 1 pass and 1 round per CG product, 1 of each per trial point; about 1 pass for the trial.
    """
    mixture = _fewest_products(objective, w) if mixture is None else mixture
    point = objective.at(w, diagonal=True, curved=True)
    M = _preconditioner(point, mixture)
    first = radius is None
    radius = math.sqrt(float(point.gradient @ (M * point.gradient))) if radius is None else radius
    yield _resumable(point, radius, mixture)
    while True:
        ball = ball_step(point, M, radius)
        slope = float(point.gradient @ ball.step)
        predicted = -0.5 * (slope - float(ball.step @ ball.residual))
        trial = objective.at(point.w + ball.step, diagonal=True, curved=True, beside=point)
        value = trial.value if math.isfinite(trial.value) else math.inf
        actual = point.value - value
        length = math.sqrt(float(ball.step @ (M * ball.step)))
        radius = min(radius, length) if first else radius
        first = False
        radius = _next_radius(radius, length, slope, actual, predicted, on_border=ball.on_border)
        level = max(abs(actual), abs(predicted)) <= TINY * abs(point.value)
        if actual > ACCEPT * predicted or (level and predicted > 0):
            point = trial
            M = _preconditioner(point, mixture)
            yield _resumable(point, radius, mixture)
        elif predicted <= 0 or radius == 0.0:
            return Reason.NO_PROGRESS


def _resumable(point: Point, radius: float, mixture: float) -> Point:
    return replace(point, resume=lambda: {"radius": radius, "mixture": mixture})


def _preconditioner(point: Point, mixture: float) -> np.ndarray:
    assert point.diagonal is not None
    return (1.0 - mixture) + mixture * point.diagonal


def _fewest_products(objective: Objective, w: np.ndarray) -> float:
    """The mixture with which conjugate gradients take fewest products at w on a sample; else the first."""
    if not objective.engine.samples or objective.engine.facts.nonzeros < TRIAL_VALUES:
        return MIXTURES[0]
    point = objective.sample(TRIAL_SHARE, TRIAL_SEED).at(w, diagonal=True, curved=True)
    counts = dict.fromkeys(MIXTURES, 0)
    for mixture in MIXTURES:

        def product(v: np.ndarray, mixture: float = mixture) -> np.ndarray:
            counts[mixture] += 1
            return point.hessian_vector(v)

        cg_in_ball(product, point.gradient, _preconditioner(point, mixture), math.inf)
    return min(MIXTURES, key=counts.__getitem__)


def _next_radius(
    radius: float, length: float, slope: float, actual: float, predicted: float, *, on_border: bool
) -> float:
    """Radius for the next step, from how well the quadratic model foresaw this one."""
    beyond = -actual - slope  # f(w + s) - f(w) - g's: what the linear model missed
    alpha = GROW if beyond <= 0 else max(SHRINK, -0.5 * slope / beyond)
    if actual < ACCEPT * predicted:
        return min(alpha * length, HALVE * radius)
    if actual < POOR * predicted:
        return max(SHRINK * radius, min(alpha * length, HALVE * radius))
    if actual < GOOD * predicted:
        return max(SHRINK * radius, min(alpha * length, GROW * radius))
    return GROW * radius if on_border else max(radius, min(alpha * length, GROW * radius))
