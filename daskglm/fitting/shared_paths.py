"""Paths of several folds, classes and mixes of penalties on the same rows, which share passes.

Each is a generator of `solvers.batched_proximal_newton`. Nothing waits for the others but the
passes: while one path is at its tenth strength, another may be at its twelfth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from daskglm.core.engine import Engine
from daskglm.core.outcome import Cost, Reason
from daskglm.fitting.coefficients import coefficient_error
from daskglm.fitting.driver import Record, Solution
from daskglm.losses.base import Loss
from daskglm.objectives.batched import BatchObjective
from daskglm.objectives.carried_point import carried
from daskglm.objectives.many import Place, adapted
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.batched_proximal_newton import Found, Trials, shared_newton, solve_together
from daskglm.solvers.proximal_newton import SPEC
from daskglm.solvers.workload import Workload

# Features of sparse rows up to which Hessians of several problems are formed at once:
# `worker.output_layouts` makes tiles of them dense.
SPARSE_FEATURES = 500
# Columns for each stored value of a row from which Hessians of one problem at a time, by products
# of stored values, take less time than those of several, by dense tiles. Shared passes, a fifth
# as many, took 5 times the CPU seconds with 27 columns a value (one-hot rows), 4 with 20 (random
# places), 1.6 with 9 (a9a), 0.95 with 5 (mushrooms), 0.8 with 4 (swmotorcycle); 8 to 10 strengths
# in 5 folds (2026-11-28).
SPREAD = 7.0

T = TypeVar("T")


def can_share(engine: Engine, loss: Loss) -> bool:
    """Return whether one pass can evaluate several problems with their Hessians, and prove gaps.

    A Hessian proves the gap at its own point where the curvature of the loss varies slowly. Other
    losses need searches for the best intercept, which each problem makes by itself. Nor with more
    than `costs.LARGEST_HESSIAN` features, or where a Hessian costs more than products with it:
    working sets differ. Nor sparse rows of this process with `SPREAD` columns for a value, where
    passes cost no messages.
    """
    facts, can = engine.facts, engine.capabilities
    d = facts.n_features or 0
    return (
        can.device == "cpu"
        and d <= (SPARSE_FEATURES if facts.sparse else costs.LARGEST_HESSIAN)
        and Workload(facts, d, samples=can.cheap_samples).forms_hessian
        and math.isfinite(loss.self_concordance)
        and not loss.is_quadratic
        and not (facts.sparse and can.shares_memory and d > SPREAD * facts.per_row)
    )


def shared_path(
    objectives: Sequence[Callable[[], Objective]],
    place: Place,
    begin: Found | np.ndarray,
    alone: Callable[[int, Found], Point],
    *,
    tol: float,
    max_iter: int,
    finished: Callable[[int, Found], None] | None = None,
) -> Trials[list[Found]]:
    """Solve problems in turn, each from the solution before, with its Hessian.

    Parameters
    ----------
    objectives : sequence of callable
        Each makes the `Objective` of one problem, when its turn has come.
    place : Place
    begin : Found or (size,) array
        Where the first begins. The Hessian of a point is used if it is `solved`.
    alone : callable
        Takes the number of a problem that shared steps did not solve, and where they ended; solves
        it, and returns the point.
    tol : float
    max_iter : int
        Steps for each.
    finished : callable, optional
        Takes the number of each problem as it is solved, and the result.

    Returns
    -------
    list of Found
        Those that are not `solved` were left to `alone`, and have its points.
    """
    known, w = (None, begin) if isinstance(begin, np.ndarray) else _start(begin)
    all_found = []
    for k, make in enumerate(objectives):
        objective = adapted(make())
        inside = objective.penalty.kinks.clip(w)
        start = carried(known, objective) if known is not None and (inside == w).all() else None
        found = yield from shared_newton(
            objective, place, inside, tol=tol, max_iter=max_iter, begin=start
        )
        if not found.solved:
            found = found._replace(point=alone(k, found))
        all_found.append(found)
        if finished is not None:
            finished(k, found)
        known, w = _start(found)
    return all_found


def _start(found: Found) -> tuple[Point | None, np.ndarray]:
    """Return where the next solve starts: the point if its sums are of shared passes, and w."""
    return found.point if found.solved else None, found.point.w


def run(
    rows: BatchObjective,
    works: Sequence[Trials[T]],
    record: Record | None = None,
    *,
    by: str = SPEC.name,
) -> list[T]:
    """Run solves to their ends with shared passes; see `solve_together`.

    Those who watch see each pass as an iteration, with the sum of the objectives that it evaluated,
    and the largest of their gaps.

    Parameters
    ----------
    rows : BatchObjective
    works : sequence of generators
    record : Record, optional
        Gets the iterations; default: a new one.
    by : str
        Name of the solver in these.
    """
    record = record or Record(rows)

    def watch(points: Sequence[Point]) -> None:
        gap = max(point.relative_gap for point in points)
        record.add(_Evaluated(points), gap, by)

    return solve_together(rows, works, watch)


def solution_at(point: Point, record: Record | None = None) -> Solution:
    """Return the solution at a point whose gap is proved, with the record of all if given."""
    history, cost = ([], Cost()) if record is None else (record.history, record.spent())
    gap, error = point.relative_gap, coefficient_error(point.objective, point)
    return Solution(point, Reason.CONVERGED, gap, math.nan, error, history, cost)


@dataclass(frozen=True)
class _Evaluated:
    """Points of one pass, as `Record` sees a point."""

    points: Sequence[Point]
    certify: ClassVar[None] = None

    @property
    def value(self) -> float:
        return sum(point.value for point in self.points)

    @property
    def gradient_norm(self) -> float:
        return math.hypot(*(point.gradient_norm for point in self.points))

    def distance(self, other: Any) -> float:
        """Not known: the problems evaluated by two passes may differ."""
        return math.nan
