"""Many problems on the same rows, as their joint solver sees them: one request for all, and what
each is worth.

A problem is one class against the rest, one fold held out (or none) and one C. This adds penalty
and C to the sums over the rows, counts joint passes, and bounds how far each problem is from its
optimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskglm.core.batch_requests import EvaluateMany, JointRequest, WeighGroups
from daskglm.core.engine import Engine
from daskglm.core.requests import Problem, Spread, Totals, roles_of
from daskglm.core.summation import LEAST_ROWS, MOMENT
from daskglm.losses.base import Loss
from daskglm.objectives.bounds import FLOAT32, GradientError, HessianFactor, Rounding, excess

# margins may have moved by so much since a Hessian that still serves a bound
LARGEST_EXPONENT = 2.0


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
    """Problems evaluated at W (P, size): objectives and gradients; held-out losses and counts (P,
    4); Hessians asked.

    `counts` are weights of rows held out: positive ones predicted right, positive ones, the same of
    negative ones. `moved` (P,) bounds how far any margin is from that at the problem's frame.
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
    """Hessian of one problem's objective at w, factorised."""

    w: np.ndarray
    hessian: HessianFactor

    @classmethod
    def of(cls, w: np.ndarray, hessian: np.ndarray, error: float) -> Frame:
        """Factorise a Hessian of such an `error` (see `bounds.Rounding.gram`).

        A singular one serves for steps with something added to its diagonal; it proves nothing.
        """
        for ridge in (0.0, 1e-10, 1e-6, 1e-2):
            factor = HessianFactor.of(hessian + np.diag(ridge * np.diag(hessian)), error)
            if math.isfinite(factor.norm):
                return cls(w, factor if ridge == 0.0 else replace(factor, doubt=math.inf))
        return cls(w, factor)

    def step(self, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """Newton's step and the square of its decrement, gradient' H^-1 gradient."""
        return self.hessian.step(gradient)


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
        self.rounding = Rounding(
            engine.facts, loss, fit_intercept=fit_intercept, on_device=False, run=LEAST_ROWS
        )
        if (
            engine.facts.sparse
            # tiles of sparse rows are made dense, and their Grams are summed like those of dense
            # rows
        ):
            self.rounding.roundoff = FLOAT32
        self.exact = False  # whether Grams are summed in float64, whatever the dtype of the rows

    def ask(self, request: JointRequest | Spread) -> Totals:
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

        With a `part` of the rows the losses are scaled up to all. `frames`, if given, are those of
        the problems.
        """
        points = {id(frame.w): frame.w for frame in frames}
        order = {name: k for k, name in enumerate(points)}
        anchors = np.array(list(points.values())) if frames else None
        anchor = np.array([order[id(frame.w)] for frame in frames]) if frames else None
        request = EvaluateMany(
            W,
            columns.of,
            columns.fold,
            self.classes,
            tuple(map(int, gram)),
            False,
            part,
            anchors,
            anchor,
            exact=self.exact,
        )
        totals = self.ask(request)
        scale = columns.C * (
            self.engine.facts.n_rows / max(totals["rows"], 1) if part[0] > 1 else 1.0
        )
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
        """Losses and counts (see `Found`) of the rows held out of problems at W. Cost: 1 pass, 1
        round.
        """
        totals = self.ask(EvaluateMany(W, columns.of, columns.fold, self.classes, score=True))
        return (totals["values"] * (self.roles[:, columns.fold] == 1)).sum(axis=0), totals["counts"]

    def by_group(self, of: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums of the losses, their gradients and Hessians at W by group: (P, groups, ...). Cost: 1
        pass, 1 round.

        They serve all values of C and all folds that divide the rows by these groups.
        """
        everything, all_of = np.full(len(of), -1), tuple(range(len(of)))
        totals = self.ask(
            EvaluateMany(W, of, everything, self.classes, all_of, by_group=True, exact=self.exact)
        )
        return (
            totals["values"].T,
            totals["gradients"].swapaxes(0, 1),
            totals["grams"].swapaxes(0, 1),
        )

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

    # ---- how good a point is
    def frame(self, w: np.ndarray, hessian: np.ndarray) -> Frame:
        """A problem's Hessian at w, factorised."""
        return Frame.of(w, hessian, self._gram_error())

    def _gram_error(self, *, likely: bool = False) -> float:
        return self.rounding.gram(exact=self.exact or self.rounding.is_exact, likely=likely)

    def must_be_exact(self, frames: Sequence[Frame]) -> bool:
        """Whether Hessians summed in the rows' dtype are in too much doubt; from then on they are
        summed in float64.
        """
        if self.exact:
            return False
        likely, proofs = self._gram_error(likely=True), math.isfinite(self.loss.concordance)
        self.exact = any(
            frame.hessian.is_doubtful(likely) or (proofs and not frame.hessian.proves)
            for frame in frames
        )
        return self.exact

    def _error(
        self, w: np.ndarray, value: float, columns: Columns, p: int
    ) -> tuple[GradientError, float]:
        """Bounds on the rounding errors of problem p's gradient at w, and its loss's span of the
        intercept.
        """
        sides = self.sides(int(columns.of[p]), int(columns.fold[p]))
        error = self.rounding.gradient(w, value, scale=float(columns.C[p]), weight=sum(sides))
        span = (
            self.loss.intercept_span(*sides, self.engine.facts.largest_target)
            if self.fit_intercept
            else 0.0
        )
        return error, span

    def survey_if_hidden(
        self, columns: Columns, W: np.ndarray, values: np.ndarray, tol: float
    ) -> None:
        """Learn more about the rows where rounding hides a relative suboptimality of `tol`.

        Cost: nothing, or 2 joint passes.
        """
        for p in range(len(columns)):
            value = float(values[p])
            if self.rounding.hides(tol * value, W[p], value, *self._error(W[p], value, columns, p)):
                self.rounding.survey(self.ask, self.engine.facts)
                return

    def bounds(self, columns: Columns, found: Found, frames: Sequence[Frame]) -> np.ndarray:
        """Bound on (value - optimum) / optimum of each problem.

        The better of two bounds on the excess: that of strong convexity, and one by the Hessian of
        a frame.
        """
        gaps = np.empty(len(columns))
        for p, frame in enumerate(frames):
            value, g = float(found.values[p]), found.gradients[p]
            error, span = self._error(found.W[p], value, columns, p)
            bound = min(
                self.rounding.convex(found.W[p], g, value, error, span),
                self.excess(g, frame, float(found.moved[p]), error),
            )
            bound = min(bound, value) if math.isfinite(value) else math.inf
            least = value - bound
            gaps[p] = 0.0 if bound == 0.0 else (bound / least if least > 0 else math.inf)
        return gaps

    def excess(
        self, gradient: np.ndarray, frame: Frame, moved: float, error: GradientError
    ) -> float:
        """Bound on the excess at a point by the Hessian H of one nearby, for losses whose curvature
        varies slowly.

        See `bounds.excess`. Where margins differ by at most t (`moved`) curvatures differ by
        factors within exp(+-t concordance), so exp(t concordance) H^-1 takes the place of the
        inverse Hessian there.
        """
        if not frame.hessian.proves:
            return math.inf
        decrement = frame.hessian.decrement(gradient) + frame.hessian.error(
            error, self.n_features, self.rounding.columns
        )
        return self._excess(decrement, frame, moved)

    def _excess(self, decrement: float, frame: Frame, moved: float) -> float:
        rate = self.loss.concordance
        if not math.isfinite(decrement + rate) or (rate > 0.0 and not moved <= LARGEST_EXPONENT):
            return math.inf
        grown = math.sqrt(math.exp(rate * moved)) if rate > 0.0 else 1.0
        return excess(grown * decrement, rate * grown * self.rounding.reach(frame.hessian))

    def ahead(
        self, frame: Frame, value: float, step: np.ndarray, square: float, columns: Columns, p: int
    ) -> tuple[float, float, float]:
        """What Newton's step from a frame leads to, before any row is read there: value, its error,
        bound on the gap.

        Parameters
        ----------
        frame : Frame
            Of the problem's own Hessian H where the step begins.
        value : float
            The objective there.
        step, square : (size,) array and float
            Newton's step and its decrement squared.
        columns, p : Columns and int
            Which problem it is.

        Notes
        -----
        Margins move by t at most, so on the way curvatures are within exp(+-t concordance) of those
        in H. Then the norm of the gradient, in that of H^-1, falls to at most (exp(t) - 1 - t) / t
        of what it was (Bach 2010, proposition 1), and the value is that of the quadratic model but
        for that share of its decrease. What the computed H and its factor are off by leaves a share
        of the gradient, too.
        """
        moved = self.rounding.ball.margins(step, self.n_features)
        t = self.loss.concordance * moved
        if not (t <= LARGEST_EXPONENT and frame.hessian.proves):
            return value, math.inf, math.inf
        left = (math.expm1(t) / t - 1.0 if t > 1e-6 else 0.5 * t) + frame.hessian.doubt
        decrement = math.sqrt(square / (1.0 - frame.hessian.doubt))
        reached, error = value - 0.5 * square, 0.5 * left * decrement * decrement
        rounded = frame.hessian.error(
            self._error(frame.w, value, columns, p)[0], self.n_features, self.rounding.columns
        )
        bound = self._excess(left * decrement + rounded, frame, moved)
        least = reached - error - bound
        return reached, error, bound / least if least > 0.0 else (0.0 if bound == 0.0 else math.inf)
