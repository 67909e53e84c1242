"""Huber's regression with its scale: coefficients and scale that minimise one convex function.

    F(w, b, sigma) = sum_i s_i (sigma + sigma H((y_i - z_i) / sigma)) + alpha |w|^2,

where another penalty may stand for 1/2 |w|^2, times 2 alpha, and
H(r) = r^2 up to epsilon and 2 epsilon |r| - epsilon^2 beyond (Huber & Ronchetti, Robust Statistics,
section 7.7; Owen 2007). For one sigma it is a fit with the Huber loss of delta = epsilon sigma. The
derivative in sigma is S (1 - G), with S = sum_i s_i and

    S G = 2 (V - delta E) / sigma^2,

V the sum of Huber losses and E that of losses epsilon_insensitive(delta), both sums over margins
that workers keep. A secant method seeks the sigma where G is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.fitting.config import FitConfig
from daskglm.fitting.report import Report
from daskglm.fitting.same_rows import Fit, SameRows
from daskglm.losses.table import find
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective, tokens

# Least scale, as scikit-learn's.
LEAST = 10.0 * float(np.finfo(np.float64).eps)
# Share of the tolerance that each fit for one scale may use. Chosen.
FIT_SHARE = 0.3
# Largest step of the scale's logarithm by the secant method. Chosen.
LONGEST = 2.0


@dataclass(frozen=True)
class Scaled:
    """Coefficients, their scale and how they were found; `steps` counts changes of the scale."""

    fit: Fit
    scale: float
    steps: int
    report: Report


@dataclass(frozen=True)
class _Seen:
    """A fit for one scale: the whole objective, its bound, and log(G) / 2."""

    fit: Fit
    scale: float
    value: float
    bound: float
    pull: float

    @property
    def at(self) -> float:
        """Logarithm of the scale."""
        return math.log(self.scale)


class JointScale:
    """Fits on rows for one scale after the other.

    Parameters
    ----------
    rows : SameRows
    settings : FitConfig
        C is ignored.
    epsilon, alpha : float
    """

    def __init__(self, rows: SameRows, settings: FitConfig, epsilon: float, alpha: float) -> None:
        self.rows = rows
        self.settings = settings
        self.epsilon = epsilon
        self.alpha = alpha
        self.fits: list[Fit] = []

    def settings_for(self, scale: float) -> FitConfig:
        """Return settings of the fit for one scale."""
        C = 1.0 / (self.alpha * scale) if self.alpha > 0.0 else math.inf
        return replace(self.settings, loss=f"huber({float(self.epsilon * scale)!r})", C=C)

    def fit(self, scale: float, start: Any = None, *, tol: float | None = None) -> Fit:
        """Fit coefficients for one scale."""
        settings = replace(
            self.settings_for(scale),
            tol=self.settings.tol if tol is None else tol,
            max_iter=None,
        )
        found = self.rows.fit(settings, start)
        self.fits.append(found)
        return found

    def solve(self, start: Any, scale: float | None, most: int) -> Scaled:
        """Find the best scale, from a start or from least squares, in at most so many changes."""
        seen = self._at(max(scale or self.rows.largest_target or 1.0, LEAST), start)
        before: _Seen | None = None
        steps = 0
        while seen.bound > self.settings.tol * (seen.value - seen.bound) and steps < most:
            at = max(seen.at + _step(before, seen), math.log(LEAST))
            if at == seen.at:
                break
            before, steps = seen, steps + 1
            seen = self._at(math.exp(at), (seen.fit.coef, seen.fit.intercept))
        return Scaled(seen.fit, seen.scale, steps, self._report(seen, steps, most))

    def _at(self, scale: float, start: Any) -> _Seen:
        """Fit for one scale, and see how the whole objective falls with it. Cost: of the fit."""
        fit = self.fit(scale, start, tol=FIT_SHARE * self.settings.tol)
        delta, weight = self.epsilon * scale, self.rows.weight
        huber = self._sum(fit, f"huber({delta!r})")
        beyond = self._sum(fit, f"epsilon_insensitive({delta!r})")
        share = max(2.0 * (huber - delta * beyond) / (weight * scale * scale), 0.0)

        # the fit's objective is the penalty + C huber, with C = 1 / (alpha scale)
        factor = 2.0 * self.alpha if self.alpha > 0.0 else 2.0 / scale
        value = weight * scale + factor * fit.report.objective
        # F(w', sigma') >= F(w, sigma) - what coefficients gain - slope |sigma' - sigma|, since F is
        # convex; and a better scale is between 0 and F / S
        gap = fit.report.relative_gap
        excess = 0.0 if math.isnan(gap) else 1.0 if math.isinf(gap) else gap / (1.0 + gap)
        bound = factor * excess * fit.report.objective
        far = max(scale, value / weight - scale)
        # at the least scale it can only rise
        slope = 0.0 if scale <= LEAST and share < 1.0 else weight * abs(1.0 - share)
        pull = 0.5 * math.log(max(share, LEAST))
        return _Seen(fit, scale, value, bound + slope * far, pull)

    def _sum(self, fit: Fit, name: str) -> float:
        """Add up a loss over all rows at a fit's coefficients. Cost: at most 1 pass."""
        loss, of = find(name), fit.objective
        objective = Objective(
            of.engine, Problem(loss.ref), loss, C=math.inf, fit_intercept=of.fit_intercept
        )
        at = fit.solution.point
        token = at.token if at.token >= 0 else next(tokens)
        point = Point(objective, at.w, math.nan, at.gradient, token)
        return float(objective.along((point,), np.array([[1.0, 0.0]]))[0][0])

    def _report(self, seen: _Seen, steps: int, most: int) -> Report:
        """Make the report of the whole fit: its objective is F, its bound is for w and sigma."""
        last = seen.fit.report
        reports = [fit.report for fit in self.fits]
        gap = seen.bound / (seen.value - seen.bound) if seen.bound < seen.value else math.inf
        small = gap <= self.settings.tol
        reason = last.reason
        if not small:
            reason = (Reason.MAX_ITER if steps >= most else Reason.NO_PROGRESS).value
        return replace(
            last,
            objective=seen.value,
            relative_gap=gap if self.alpha > 0.0 else math.nan,
            converged=small and (last.converged or self.alpha > 0.0),
            reason=reason,
            n_iter=steps,
            passes=sum(report.passes for report in reports),
            rounds=sum(report.rounds for report in reports),
            bytes_reduced=sum(report.bytes_reduced for report in reports),
            seconds=sum(report.seconds for report in reports),
            seconds_loading=reports[0].seconds_loading,
            history=[record for report in reports for record in report.history],
        )


def _step(before: _Seen | None, seen: _Seen) -> float:
    """Return the change of the scale's logarithm: by the secant, or that of a fixed point."""
    step = seen.pull
    if before is not None and seen.at != before.at:
        slope = (seen.pull - before.pull) / (seen.at - before.at)
        # log(G) / 2 falls with the scale, by -1 where no row is beyond delta
        if slope < 0.0:
            step = -seen.pull / slope
    return min(max(step, -LONGEST), LONGEST) if before is not None else step
