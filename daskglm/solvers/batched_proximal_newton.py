"""Proximal Newton for several problems on the same rows, which share every pass.

A solve is a generator: it yields the `Trial` that it wants next, and is sent the point. Those of
all problems are evaluated together, each problem at its own pace: one that is done goes on with its
next strength while others still take steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from daskglm.objectives.batched import BatchObjective
from daskglm.objectives.many import Place, Trial, evaluate_together
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers.batched_start import SHORTEN, hessians_at_once
from daskglm.solvers.line_search import ARMIJO, ROUNDING
from daskglm.solvers.newton import is_inexact
from daskglm.solvers.proximal_steps import change_of_model, model_minimum

# How often a step is shortened: each time takes a pass, where a solve by itself searches along
# margins that workers keep. Chosen.
MOST_SHORTENED = 3

T = TypeVar("T")
# A solve at work: what it returns, when all trials that it wanted have been evaluated.
Trials = Generator[Trial, Point, T]


class Found(NamedTuple):
    """Where a solve ended, after so many steps; whether its gap is proved to be at most `tol`."""

    point: Point
    steps: int
    solved: bool


def shared_newton(
    objective: Objective,
    place: Place,
    w: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    begin: Point | None = None,
) -> Trials[Found]:
    """Minimise models of the smooth part plus the penalty, with the Hessian of each trial.

    It ends where the gap is proved, and gives up where steps do not help. A solve by itself may
    still: that searches along steps, measures the columns and finds the best intercept.

    Parameters
    ----------
    objective : Objective
        Made by `many.adapted`.
    place : Place
    w : (size,) array
    tol : float
        Wanted bound on relative suboptimality.
    max_iter : int
        Steps at most.
    begin : Point, optional
        The objective at w with its Hessian, if it is known.

    Yields
    ------
    Trial
    """
    point = (yield Trial(objective, place, w)) if begin is None else begin
    before: Point | None = None
    exact, steps = False, 0
    while not point.relative_gap <= tol:
        if steps >= max_iter or not math.isfinite(point.value + point.gradient_norm):
            return Found(point, steps, False)
        found = model_minimum(objective, point, point.known_hessian, tol, before)
        fall = change_of_model(objective, point, found)
        if not point.exact and is_inexact(point, -fall, tol):
            # from here on all Hessians are summed in float64
            exact = True
            point = yield Trial(objective, place, point.w, exact)
            continue
        if not fall < 0.0:
            return Found(point, steps, False)
        trial = yield from _search(Trial(objective, place, found.w, exact), point, fall)
        if trial is None:
            return Found(point, steps, False)
        before, point, steps = point, trial, steps + 1
        if not (point.value < before.value or point.gradient_norm < 0.5 * before.gradient_norm):
            return Found(point, steps, point.relative_gap <= tol)
    return Found(point, steps, True)


def _search(trial: Trial, point: Point, fall: float) -> Trials[Point | None]:
    """Shorten a step until the objective falls enough; None if it does not. See `backtrack`."""
    step, length = trial.w - point.w, 1.0
    for _ in range(1 + MOST_SHORTENED):
        w = trial.w if length == 1.0 else point.w + length * step
        found = yield Trial(trial.objective, trial.place, w, trial.exact)
        enough = found.value <= point.value + ARMIJO * length * fall
        if enough or abs(found.value - point.value) <= ROUNDING * abs(point.value):
            return found
        length *= SHORTEN
    return None


def solve_together(
    rows: BatchObjective,
    solves: Sequence[Trials[T]],
    watch: Callable[[Sequence[Point]], None] = lambda points: None,
) -> list[T]:
    """Run solves to their ends, evaluating what all of them want next together.

    Parameters
    ----------
    rows : BatchObjective
        Of the rows that all of them train on; it counts the passes.
    solves : sequence of generators
    watch : callable, optional
        Gets the points of each pass.

    Cost: as many passes and rounds as the longest of them has trials, if the Hessians of all take
    at most 512 MiB; else as many times that as they have to be divided.

    Returns
    -------
    list
        What each of them returned.
    """
    found: dict[int, T] = {}
    wanted: dict[int, Trial] = {}

    def resume(k: int, point: Point | None) -> None:
        try:
            wanted[k] = next(solves[k]) if point is None else solves[k].send(point)
        except StopIteration as end:
            found[k] = end.value

    with np.errstate(over="ignore", invalid="ignore"):  # a step too long is told by its value
        for k in range(len(solves)):
            resume(k, None)
        while wanted:
            now = list(wanted)
            most = max(1, hessians_at_once(rows.size))
            for first in range(0, len(now), most):
                run = now[first : first + most]
                points = evaluate_together(rows, [wanted.pop(k) for k in run])
                watch(points)
                for k, point in zip(run, points, strict=True):
                    resume(k, point)
    return [found[k] for k in range(len(solves))]
