"""Find by OWL-QN which coefficients are not zero, where they are many, before working sets."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.iterate import Iterate
from daskglm.solvers.owlqn import owlqn
from daskglm.solvers.workload import Workload

# Features of the first working set. Chosen.
FIRST_SET = 500


def with_support(objective: Objective, w: np.ndarray) -> Generator[Iterate, None, Point | None]:
    """Pass on the iterates of OWL-QN until few coefficients come to zero, or leave it.

    Working sets that have to grow to thousands of features are copied and solved several times,
    and their sweeps are made by one thread; an iteration of OWL-QN costs a pass, which all threads
    share, and the coefficients that are not zero are soon those of the optimum. Digits are better
    left to working sets.

    Returns
    -------
    Point or None
        Where working sets begin, which was not passed on; None if nothing was asked.
    """
    if not (may_be_many(objective) and objective.is_origin(w)):
        return None
    point, d = objective.at(w, diagonal=True), objective.n_features
    violated = objective.penalty.feature_kinks.violated(point.w[:d], point.gradient[:d])
    if np.count_nonzero(violated) <= FIRST_SET:
        return point
    steps, before = owlqn(objective, w, start=point), point.w[:d] != 0.0
    for count, iterate in enumerate(steps):
        point = iterate.point
        here = point.w[:d] != 0.0
        changed = np.count_nonzero(here != before)
        if count > 1 and changed <= costs.SETTLED * np.count_nonzero(here):
            break
        if count == costs.SUPPORT_ITERATIONS:
            break
        # another solver resumes from the coefficients
        yield replace(iterate, resume=dict, by="owlqn")
        before = here
    steps.close()
    return point


def may_be_many(objective: Objective) -> bool:
    """Return whether OWL-QN may save time: of sparse rows here, whose vectors cost less than rows.

    Least squares take one model for a set.
    """
    if objective.loss.is_quadratic or not objective.sweeps_columns:
        return False
    vectors = Workload.of(objective).vectors(costs.SUPPORT_VECTORS)
    return vectors <= costs.MOST_SUPPORT_VECTORS
