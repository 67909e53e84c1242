"""Several fits on rows that are loaded once: of several quantiles, of a scale that is sought."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Solution
from daskglm.fitting.penalised import with_columns
from daskglm.fitting.report import Report
from daskglm.fitting.runner import WarmStart, objective_of, rows_of, solve_one
from daskglm.fitting.setup import Loaded, loaded
from daskglm.fitting.solvable import check_width
from daskglm.objectives.primal import Objective


@dataclass(frozen=True)
class Fit:
    """One fit on the rows: what was minimised, its solution and its report."""

    objective: Objective
    solution: Solution
    report: Report

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the features."""
        return np.asarray(to_host(self.solution.point.w))[: self.objective.n_features]

    @property
    def intercept(self) -> float:
        """The intercept, or 0."""
        w = to_host(self.solution.point.w)
        return float(w[-1]) if self.objective.fit_intercept else 0.0


class SameRows:
    """Rows of a regression that are held for as long as the context of `same_rows` lasts."""

    def __init__(self, on: Loaded, settings: FitConfig) -> None:
        self.on = on
        self.penalty = settings.penalty
        self.facts = on.engine.facts
        self.weight = on.engine.facts.weight
        self.largest_target = on.engine.facts.largest_target
        self.fits = 0

    def objective(self, settings: FitConfig) -> Objective:
        """Return what these settings ask to minimise."""
        loss = settings.check(one_fit=True)
        settings = replace(settings, penalty=self.penalty)
        return objective_of(self.on.engine, Problem(loss.ref), (self.weight, 0.0), loss, settings)

    def fit(self, settings: FitConfig, start: Any = None) -> Fit:
        """Fit a regression by these settings, from coefficients and an intercept or from zero."""
        objective = self.objective(settings)
        w = np.zeros(objective.size)
        if start is not None:
            w[: objective.n_features] = start[0]
            w[objective.n_features :] = start[1]
        seconds = self.on.seconds if self.fits == 0 else 0.0
        found = solve_one(objective, WarmStart(w), settings, seconds, self.fits, None)
        self.fits += 1
        return Fit(objective, *found)


@contextlib.contextmanager
def same_rows(
    X: Any,
    y: Any,
    settings: FitConfig,
    *,
    sample_weight: Any,
    offset: Any = None,
    exposure: Any = None,
    start: Any,
    client: Any,
) -> Iterator[SameRows]:
    """Load the rows of a regression once for several fits; arguments and errors as of `train`."""
    loss = settings.check(one_fit=True)
    data = rows_of(X, y, sample_weight, loss, offset=offset, exposure=exposure)
    check_width(start, data)
    settings = with_columns(settings, data)
    with loaded(data, replace(settings, checkpoint=None, resume=None), client) as on:
        yield SameRows(on, settings)
