"""Many problems on the same rows, as their joint solver sees them: one request for all, and what each is worth.

A problem is one class against the rest, one fold held out (or none) and one C. This adds penalty and C to the sums
over the rows, counts joint passes, and bounds how far each problem is from its optimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from daskglm.batch_requests import EvaluateMany, JointRequest, WeighGroups
from daskglm.engine import Engine
from daskglm.kernels.many import MOMENT
from daskglm.losses import Loss
from daskglm.messages import Problem, Totals, roles_of
from daskglm.objective import excess_of

ROUNDED = 1e-8  # share of a gradient that a Newton step may leave by rounding
LARGEST_EXPONENT = 2.0  # margins may have moved by so much since a Hessian that still serves a bound


@dataclass(frozen=True)
class Columns:
    """Problems: index of the positive class, fold held out (-1: none) and C, each (P,)."""

    of: np.ndarray
    fold: np.ndarray
    C: np.ndarray

    def __len__(self) -> int:
        return len(self.of)

    def take(self, which: np.ndarray) -> Columns:
        """Some of the problems."""
        return Columns(self.of[which], self.fold[which], self.C[which])


@dataclass(frozen=True)
class Found:
    """Problems evaluated at W (P, size): objectives and gradients; held-out losses and counts (P, 4); Hessians asked.

    `counts` are weights of rows held out: positive ones predicted right, positive ones, the same of negative ones.
    `moved` (P,) bounds how far any margin is from that at the problem's frame.
    """

    W: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    losses: np.ndarray
    counts: np.ndarray
    hessians: np.ndarray
    moved: np.ndarray


@dataclass(frozen=True)
class Frame:
    """Hessian of one problem's objective at w, factorised, and the trace of its inverse (inf: singular)."""

    w: np.ndarray
    factor: Any
    trace: float

    @classmethod
    def of(cls, w: np.ndarray, hessian: np.ndarray) -> Frame:
        """Factorise a Hessian, with something added to the diagonal where it is singular."""
        n = len(hessian)
        scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
        scaled = hessian * scale[:, None] * scale
        for ridge in (0.0, 1e-10, 1e-6, 1e-2):
            try:
                L = scipy.linalg.cholesky(scaled + ridge * np.eye(n), lower=True, check_finite=False)
            except (scipy.linalg.LinAlgError, ValueError):
                continue
            L = L / scale[:, None]
            inverse = scipy.linalg.lapack.dtrtri(L, lower=1)[0]
            return cls(w, L, float(np.sum(inverse * inverse)) if ridge == 0.0 else math.inf)
        return cls(w, np.diag(1.0 / scale), math.inf)

    def step(self, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """Newton's step and the square of its decrement, gradient' H^-1 gradient."""
        half = scipy.linalg.solve_triangular(self.factor, gradient, lower=True, check_finite=False)
        return -scipy.linalg.solve_triangular(self.factor, half, lower=True, trans=1, check_finite=False), half @ half


class Joint:
    """Objectives of many problems over the rows of an engine.

    Parameters
    ----------
    engine : Engine
        With rows in host memory.
    problem : Problem
        Loss, class weights and folds.
    loss : Loss
    classes : tuple
        Positive labels of the problems; empty: a regression.
    labels : tuple
        All labels.
    fit_intercept : bool
    """

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        loss: Loss,
        classes: tuple[Any, ...],
        labels: tuple[Any, ...],
        *,
        fit_intercept: bool,
    ) -> None:
        self.engine, self.problem, self.loss, self.classes = engine, problem, loss, classes
        self.n_features = engine.facts.n_features or 0
        self.size = self.n_features + fit_intercept
        self.fit_intercept = fit_intercept
        self.passes, self.rounds = 0.0, 0
        self.penalised = np.ones(self.size)
        self.penalised[self.n_features :] = 0.0
        self.roles = roles_of(problem.folds)
        self.weights = self.ask(WeighGroups(labels))["weights"]
        self.labels = labels
        self.radius = math.hypot(engine.facts.largest_row_norm, float(fit_intercept))

    def ask(self, request: JointRequest) -> Totals:
        """Pass a request to the engine, counting joint passes."""
        totals = self.engine.total(self.problem, request)
        self.passes += totals["rows"] / max(self.engine.facts.n_rows, 1)
        self.rounds += 1
        return totals

    def evaluate(
        self,
        columns: Columns,
        W: np.ndarray,
        gram: np.ndarray,
        part: tuple[int, int] = (1, 0),
        frames: Sequence[Frame] = (),
    ) -> Found:
        """Evaluate problems at W, with the Hessians of those in `gram`. Cost: 1 pass, 1 round.

        With a `part` of the rows the losses are scaled up to all. `frames`, if given, are those of the problems.
        """
        points = {id(frame.w): frame.w for frame in frames}
        order = {name: k for k, name in enumerate(points)}
        anchors = np.array(list(points.values())) if frames else None
        anchor = np.array([order[id(frame.w)] for frame in frames]) if frames else None
        request = EvaluateMany(
            W, columns.of, columns.fold, self.classes, tuple(map(int, gram)), False, part, anchors, anchor
        )
        totals = self.ask(request)
        scale = columns.C * (self.engine.facts.n_rows / max(totals["rows"], 1) if part[0] > 1 else 1.0)
        trained = self.roles[:, columns.fold] == 0
        held = self.roles[:, columns.fold] == 1
        penalty = 0.5 * np.einsum("pj,pj,j->p", W, W, self.penalised)
        hessians = np.empty((0, self.size, self.size))
        if len(gram):
            hessians = scale[gram][:, None, None] * totals["grams"][0] + np.diag(self.penalised)
        return Found(
            W,
            scale * (totals["values"] * trained).sum(axis=0) + penalty,
            scale[:, None] * totals["gradients"][0] + self.penalised * W,
            (totals["values"] * held).sum(axis=0),
            totals["counts"],
            hessians,
            totals["moments"] ** (1.0 / MOMENT) if frames else np.zeros(len(columns)),
        )

    def score(self, columns: Columns, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Losses and counts (see `Found`) of the rows held out of problems at W. Cost: 1 pass, 1 round."""
        totals = self.ask(EvaluateMany(W, columns.of, columns.fold, self.classes, score=True))
        return (totals["values"] * (self.roles[:, columns.fold] == 1)).sum(axis=0), totals["counts"]

    def by_group(self, of: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums of the losses, their gradients and Hessians at W by group: (P, groups, ...). Cost: 1 pass, 1 round.

        They serve all values of C and all folds that divide the rows by these groups.
        """
        everything, all_of = np.full(len(of), -1), tuple(range(len(of)))
        totals = self.ask(EvaluateMany(W, of, everything, self.classes, all_of, by_group=True))
        return totals["values"].T, totals["gradients"].swapaxes(0, 1), totals["grams"].swapaxes(0, 1)

    def trained(self, fold: int) -> np.ndarray:
        """One for each group that a fold (-1: none) trains on."""
        return (self.roles[:, fold] == 0).astype(np.float64)

    def sides(self, of: int, fold: int) -> tuple[float, float]:
        """Weight of positive and of negative rows that a problem trains on."""
        by_label = self.trained(fold) @ self.weights
        if not self.classes:
            return float(by_label.sum()), 0.0
        positive = float(by_label[self.labels.index(self.classes[of])])
        return positive, float(by_label.sum()) - positive

    # ------------------------------------------------------------------ how good a point is
    def bounds(self, columns: Columns, found: Found, frames: Sequence[Frame]) -> np.ndarray:
        """Bound on (value - optimum) / optimum of each problem.

        The better of two bounds on the excess: that of strong convexity, as `Objective.bound`; and one by the Hessian
        of a frame, see `excess`.
        """
        gaps = np.empty(len(columns))
        for p, frame in enumerate(frames):
            value, g = float(found.values[p]), found.gradients[p]
            reach = math.sqrt(2.0 * max(value, 0.0)) * self.engine.facts.largest_row_norm
            bound = 0.5 * float(g[: self.n_features] @ g[: self.n_features])
            if self.fit_intercept:
                span = self.loss.intercept_span(
                    *self.sides(int(columns.of[p]), int(columns.fold[p])), self.engine.facts.largest_target
                )
                bound += abs(float(g[-1])) * (abs(float(found.W[p, -1])) + reach + span)
            bound = min(bound, self.excess(g, frame, float(found.moved[p])))
            bound = min(bound, value) if math.isfinite(value) else math.inf
            least = value - bound
            gaps[p] = 0.0 if bound == 0.0 else (bound / least if least > 0 else math.inf)
        return gaps

    def excess(self, gradient: np.ndarray, frame: Frame, moved: float) -> float:
        """Bound on the excess at a point by the Hessian H of one nearby, for losses whose curvature varies slowly.

        See `objective.excess`. Where margins differ by at most t (`moved`) curvatures differ by factors within
        exp(+-t concordance), so exp(t concordance) H^-1 takes the place of the inverse Hessian there, and its trace
        that of its largest eigenvalue.
        """
        return self._excess(frame.step(gradient)[1], frame, moved)

    def _excess(self, square: float, frame: Frame, moved: float) -> float:
        rate = self.loss.concordance
        if not math.isfinite(square + frame.trace + rate) or (rate > 0.0 and not moved <= LARGEST_EXPONENT):
            return math.inf
        grown = math.exp(rate * moved) if rate > 0.0 else 1.0
        squared = grown * square
        return excess_of(squared, rate * self.radius * math.sqrt(grown * frame.trace * squared))

    def ahead(self, frame: Frame, value: float, step: np.ndarray, square: float) -> tuple[float, float, float]:
        """What Newton's step from a frame leads to, before any row is read there: value, its error, bound on the gap.

        Parameters
        ----------
        frame : Frame
            Of the problem's own Hessian H where the step begins.
        value : float
            The objective there.
        step, square : (size,) array and float
            Newton's step and its decrement squared.

        Notes
        -----
        Margins move by t at most, so on the way curvatures are within exp(+-t concordance) of those in H. Then the
        norm of the gradient, in that of H^-1, falls to at most (exp(t) - 1 - t) / t of what it was (Bach 2010,
        proposition 1), and the value is that of the quadratic model but for that share of its decrease.
        """
        moved = self.radius * float(np.linalg.norm(step))
        t = self.loss.concordance * moved
        if not t <= LARGEST_EXPONENT:
            return value, math.inf, math.inf
        left = (math.expm1(t) / t - 1.0 if t > 1e-6 else 0.5 * t) + ROUNDED
        reached, error = value - 0.5 * square, 0.5 * left * square
        bound = self._excess(left * left * square, frame, moved)
        least = reached - error - bound
        return reached, error, bound / least if least > 0.0 else (0.0 if bound == 0.0 else math.inf)
