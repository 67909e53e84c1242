"""Objectives on small problems, whose requests may be recorded."""

import numpy as np

from daskglm.core.requests import Problem
from daskglm.core.view import ALL
from daskglm.data.blocks import Place, to_block
from daskglm.data.partitions import partitions
from daskglm.engines.local import Local
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective
from daskglm.solvers import get_solver
from tests.conftest import make_problem


class Recording:
    """An engine that keeps the list of requests it passes on."""

    def __init__(self, engine):
        self.engine, self.requests = engine, []

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def total(self, problem, request, view=ALL):
        self.requests.append(
            type(request).__name__ + ("+gram" if getattr(request, "gram", False) else "")
        )
        return self.engine.total(problem, request, view)


def make_objective(loss="logistic", C=1.0, intercept=True, record=False, **kwargs):
    X, y = make_problem(loss=loss, **kwargs)
    engine = Local([to_block(X, y, place=Place(), classify=LOSSES[loss].classifies)], 1)
    engine = Recording(engine) if record else engine
    problem = Problem(LOSSES[loss].ref, 1.0 if LOSSES[loss].classifies else None)
    return Objective(
        engine, problem, LOSSES[loss], C=C, fit_intercept=intercept, intercept_radius=1.0
    )


def drive(solver, point_count, **kwargs):
    obj = make_objective(record=True, **kwargs)
    points = get_solver(solver).run(obj, np.zeros(obj.size))
    for _ in range(point_count):
        next(points)
    return obj


def problem(X, y, loss="logistic", C=1.0, engine=Local):
    rows = engine(partitions(X, y, None, classify=LOSSES[loss].classifies).load())
    positive = 1.0 if LOSSES[loss].classifies else None
    return Objective(
        rows, Problem(LOSSES[loss].ref, positive), LOSSES[loss], C=C, fit_intercept=False
    )


def decaying(n, d, decay=1.0, seed=0):
    """Dense rows whose covariance has eigenvalues k ** (-2 decay), and noisy labels."""
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    X = (rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -decay) @ rotation
    X /= X.std()
    return X, np.sign(X @ rng.standard_normal(d) + rng.standard_normal(n))
