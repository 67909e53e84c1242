"""A path of multinomial fits on the same rows, one for each C, each from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.fitting.config import FitConfig
from daskglm.fitting.joint import joint_fit
from daskglm.fitting.joint_checkpoint import JointCheckpoints
from daskglm.fitting.open_grid import warn_unsolved
from daskglm.fitting.penalised import with_columns
from daskglm.fitting.record import record_of
from daskglm.fitting.runner import (
    Trained,
    WarmStart,
    checkpoints_of,
    objective_of,
    rows_of,
    solve_one,
    start_of,
)
from daskglm.fitting.setup import loaded
from daskglm.fitting.solvable import check_width


def train_path(
    X: Any,
    y: Any,
    settings: FitConfig,
    Cs: np.ndarray,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    starts: Sequence[Any] | None = None,
    client: Any = None,
) -> list[Trained]:
    """Fit all values of C on rows that are loaded once, from the smallest C to the largest.

    Parameters
    ----------
    X, y, sample_weight, offset, exposure, client
        As of `runner.train`.
    Cs : (P,) array
    starts : sequence of (coef, intercept), optional
        One for each C; default: the solution for the next smaller C.

    Raises
    ------
    ValueError
        For `starts` beside a checkpoint to resume from, or one of other fits.
    """
    loss = settings.check()
    checkpoints = JointCheckpoints(settings, checkpoints_of(settings, starts))
    data = rows_of(X, y, sample_weight, loss, offset=offset, exposure=exposure)
    for start in starts or ():
        check_width(start, data)
    given, settings = settings, with_columns(settings, data)
    found: dict[int, Trained] = {}
    with loaded(data, settings, client) as on:
        assert on.classes is not None
        ((problem, weights),) = on.problems
        w: np.ndarray | None = None
        for c in np.argsort(Cs, kind="stable").tolist():
            of_c = replace(settings, C=float(Cs[c]))
            objective = objective_of(on.engine, problem, weights, loss, of_c)
            joint = joint_fit(objective.loss)
            of_c = of_c if joint is None else joint.settings(of_c)
            if starts is not None or w is None:
                start = None if starts is None else starts[c]
                w = start_of(start, 0, 1, objective, on.classes)
            begin, writer = checkpoints.next(objective, {"C": float(Cs[c])}, WarmStart(w))
            solution, report = solve_one(objective, begin, of_c, on.seconds, 0, writer)
            w = to_host(solution.point.w)
            if joint is not None:
                coef, intercept = joint.coefficients(objective, w, on.classes)
            else:
                d = objective.n_features
                coef, intercept = w[None, :d], w[d:] if of_c.fit_intercept else np.zeros(1)
            record = record_of(
                replace(given, C=float(Cs[c])), on.engine.facts, dispersion=report.dispersion
            )
            found[c] = Trained(coef, intercept, on.classes, report, record)
    warn_unsolved([each.report for each in found.values()], float(settings.tol))
    return [found[c] for c in range(len(Cs))]
