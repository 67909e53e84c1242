"""The objectives of many problems on the same rows: one request evaluates all of them.

A problem is one class against the rest, one fold held out (or none) and one C. `BatchObjective`
adds the penalty and C to the sums over the rows, counts passes, and bounds how far each problem is
from its optimum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from daskglm.certificates.constants import Intercept
from daskglm.certificates.hessian_factor import GradientError, HessianFactor
from daskglm.certificates.relative import relative_gap
from daskglm.certificates.rounding import (
    FLOAT32,
    LARGEST_EXPONENT,
    Norms,
    Rounding,
    Vector,
)
from daskglm.core.batch_requests import BatchRequest, EvaluateMany, WeighGroups
from daskglm.core.engine import Engine
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem, Spread, Totals, roles_of
from daskglm.core.summation import LEAST_ROWS, MOMENT
from daskglm.losses.base import Loss
from daskglm.objectives.primal import Objective
from daskglm.objectives.rows import Rows
from daskglm.penalties.penalty import Penalty

FLOAT64 = np.finfo(float)


class OneProblem(NamedTuple):
    """One of a `ProblemBatch`."""

    of: int
    fold: int
    C: float


@dataclass(frozen=True)
class ProblemBatch:
    """Problems: index of the positive class, fold held out (-1: none) and C, each (P,)."""

    of: np.ndarray
    fold: np.ndarray
    C: np.ndarray

    def __len__(self) -> int:
        return len(self.of)

    def __getitem__(self, p: int) -> OneProblem:
        return OneProblem(int(self.of[p]), int(self.fold[p]), float(self.C[p]))

    def take(self, which: np.ndarray) -> ProblemBatch:
        """Return the problems at these places."""
        return ProblemBatch(self.of[which], self.fold[which], self.C[which])


@dataclass(frozen=True)
class BatchEvaluation:
    """Problems evaluated at W.

    Parameters
    ----------
    W : (P, size) array
    values, gradients : (P,) and (P, size) arrays
        Objectives and their gradients.
    losses : (P,) array
        Losses of rows held out.
    counts : (P, 4) array
        Weights of rows held out: of positive ones predicted right, of all positive ones, and the
        same of negative ones.
    hessians : (k, size, size) array
        Those of the k problems for which they were asked.
    moved : (P,) array
        Bound on how far any margin is from that at the problem's factor.
    """

    W: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    losses: np.ndarray
    counts: np.ndarray
    hessians: np.ndarray
    moved: np.ndarray


@dataclass(frozen=True, eq=False)
class BatchPoint:
    """The best point of each problem: to a batch solver what a `Point` is to others.

    Parameters
    ----------
    objective : BatchObjective
    batch : ProblemBatch
    w : (P, size) array
        Coefficients.
    values, gaps : (P,) arrays
        Objectives, and bounds on their relative suboptimality.
    n_iter : (P,) array
    losses, counts : (P,) and (P, 4) arrays
        Of rows held out, see `BatchEvaluation`, where `scored` (P,) is true.
    active, given_up : (P,) masks
        Problems still being solved, and those that the solver could not solve.
    gradient_norm : float
        Of the gradients of all problems that are not given up.
    """

    objective: BatchObjective
    batch: ProblemBatch
    w: np.ndarray
    values: np.ndarray
    gaps: np.ndarray
    n_iter: np.ndarray
    losses: np.ndarray
    counts: np.ndarray
    scored: np.ndarray
    active: np.ndarray
    given_up: np.ndarray
    gradient_norm: float
    certify: ClassVar[None] = None
    prediction: ClassVar[None] = None
    replaces_earlier: ClassVar[bool] = True

    @property
    def value(self) -> float:
        """Sum of the objectives of the problems that are not given up."""
        return float(self.values[~self.given_up].sum())

    @property
    def gap(self) -> float:
        """Bound on the distance of `value` from its least."""
        return float(self.excesses[~self.given_up].sum())

    @property
    def relative_gap(self) -> float:
        """The largest bound on the relative suboptimality of any problem."""
        return float(self.gaps.max(initial=0.0))

    @property
    def excesses(self) -> np.ndarray:
        """Bounds on the distance of each objective from its optimum, (P,)."""
        gaps = np.minimum(self.gaps, FLOAT64.max)
        return np.asarray(self.values * (gaps / (1.0 + gaps)))

    @property
    def coefficient_errors(self) -> np.ndarray:
        """Bounds on |w - w*| / |w| for the features' coefficients of each problem, (P,).

        The objectives are 1-strongly convex, so |w - w*| is at most the root of twice the excess.
        """
        norms = np.linalg.norm(self.w[:, : self.objective.n_features], axis=1)
        return np.sqrt(2.0 * np.maximum(self.excesses, 0.0)) / np.maximum(norms, FLOAT64.tiny)

    @property
    def vectors(self) -> tuple[Vector, Vector]:
        """Norms of all coefficients and of the gradients: input of bounds."""
        d = self.objective.n_features
        w = Norms(float(np.linalg.norm(self.w[:, :d])), float(np.linalg.norm(self.w[:, d:])))
        return w, Norms(self.gradient_norm, 0.0)

    def distance(self, other: BatchPoint) -> float:
        """Norm of the difference of all coefficients."""
        return float(np.linalg.norm(self.w - other.w))

    def resume(self) -> dict[str, Any]:
        """Return what a checkpoint keeps besides the coefficients."""
        return {"given_up": np.flatnonzero(self.given_up).tolist()}

    def with_scores(self) -> BatchPoint:
        """Return the point with losses and counts of the rows held out, for all problems.

        Only problems whose last point was reached without a pass have none yet. Cost: 1 pass and 1
        round, or nothing.
        """
        left = np.flatnonzero(~self.scored & (self.batch.fold >= 0))
        if not len(left):
            return self
        losses = self.losses.copy()
        counts = self.counts.copy()
        losses[left], counts[left] = self.objective.score(self.batch.take(left), self.w[left])
        return replace(self, losses=losses, counts=counts)


def rounding_of_tiles(
    facts: DataSummary, loss: Loss, *, fit_intercept: bool, **given: Any
) -> Rounding:
    """Return the rounding of sums over the tiles that `worker.batched` reads.

    `given` are further arguments of `Rounding`.
    """
    constants = Intercept.of(fit_intercept=fit_intercept)
    found = Rounding(facts, loss, constants, on_device=False, run=LEAST_ROWS, **given)
    if facts.sparse:
        # tiles of sparse rows are made dense, so that their Grams are summed in float32
        found.roundoff = FLOAT32
    return found


class BatchObjective:
    """The objectives of many problems over the rows of an engine.

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
        self.engine = engine
        self.rows = Rows(engine, problem)
        self.loss = loss
        self.classes = classes
        self.n_features = engine.facts.n_features or 0
        self.size = self.n_features + fit_intercept
        self.fit_intercept = fit_intercept
        self.prepared = 0.0
        self.origin = np.zeros(self.size)
        self.penalty = Penalty.ridge(self.n_features, self.size)
        self.is_penalised = True  # no problem of a batch is without a penalty
        self.penalised = self.penalty.quadratic.diagonal(self.size)
        self.roles = roles_of(problem.folds)
        self.weights = self.ask(WeighGroups(labels))["weights"]
        self.labels = labels
        self.rounding = rounding_of_tiles(engine.facts, loss, fit_intercept=fit_intercept)
        self.exact = False  # whether Grams are summed in float64, whatever the dtype of the rows

    @property
    def passes(self) -> float:
        """Passes over all rows up to now."""
        return self.rows.meter.passes

    def ask(self, request: BatchRequest | Spread) -> Totals:
        """Pass a request to the engine, counting passes."""
        return self.rows.ask(request)

    def evaluate(
        self,
        batch: ProblemBatch,
        W: np.ndarray,
        gram: np.ndarray,
        part: tuple[int, int] = (1, 0),
        factors: Sequence[HessianFactor] = (),
    ) -> BatchEvaluation:
        """Evaluate problems at W. Cost: 1 pass, 1 round.

        Parameters
        ----------
        batch : ProblemBatch
        W : (P, size) array
        gram : (k,) array
            Places of the problems whose Hessians to form.
        part : tuple of int
            (every, first): read each `every`-th tile of the rows, beginning with number `first`,
            and scale the losses up to all rows.
        factors : sequence of HessianFactor
            Those of the problems, for `BatchEvaluation.moved`; default: that is zero.
        """
        # points that several factors share are sent once
        points = {id(factor.at): factor.at for factor in factors}
        order = {name: k for k, name in enumerate(points)}
        anchors = np.array(list(points.values())) if factors else None
        anchor = np.array([order[id(factor.at)] for factor in factors]) if factors else None
        request = EvaluateMany(
            W,
            batch.of,
            batch.fold,
            self.classes,
            tuple(map(int, gram)),
            False,
            part,
            anchors,
            anchor,
            exact=self.exact,
        )
        totals = self.ask(request)

        share = 1.0
        if part[0] > 1:
            share = self.engine.facts.n_rows / max(totals["rows"], 1)
        scale = batch.C * share
        trained = self.roles[:, batch.fold] == 0
        held = self.roles[:, batch.fold] == 1
        penalty = 0.5 * np.einsum("pj,pj,j->p", W, W, self.penalised)
        hessians = np.empty((0, self.size, self.size))
        if len(gram):
            hessians = scale[gram][:, None, None] * totals["grams"][0] + np.diag(self.penalised)
        return BatchEvaluation(
            W,
            scale * (totals["values"] * trained).sum(axis=0) + penalty,
            scale[:, None] * totals["gradients"][0] + self.penalised * W,
            (totals["values"] * held).sum(axis=0),
            totals["counts"],
            hessians,
            totals["moments"] ** (1.0 / MOMENT) if factors else np.zeros(len(batch)),
        )

    def score(self, batch: ProblemBatch, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return losses and counts (see `BatchEvaluation`) of the rows held out of problems at W.

        Cost: 1 pass, 1 round.
        """
        totals = self.ask(EvaluateMany(W, batch.of, batch.fold, self.classes, score=True))
        held = self.roles[:, batch.fold] == 1
        return (totals["values"] * held).sum(axis=0), totals["counts"]

    def by_group(self, of: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sum the losses, their gradients and Hessians at W by group: (P, groups, ...).

        The sums are enough for all values of C and all folds that divide the rows by these groups.
        Cost: 1 pass, 1 round.
        """
        everything = np.full(len(of), -1)
        all_of = tuple(range(len(of)))
        totals = self.ask(
            EvaluateMany(W, of, everything, self.classes, all_of, by_group=True, exact=self.exact)
        )
        return (
            totals["values"].T,
            totals["gradients"].swapaxes(0, 1),
            totals["grams"].swapaxes(0, 1),
        )

    def trained(self, fold: int) -> np.ndarray:
        """Return one for each group that a fold (-1: none) trains on, and zero for the others."""
        return (self.roles[:, fold] == 0).astype(np.float64)

    def sides(self, of: int, fold: int) -> tuple[float, float]:
        """Return the weights of positive and of negative rows that a problem trains on."""
        by_label = self.trained(fold) @ self.weights
        if not self.classes:
            return float(by_label.sum()), 0.0
        positive = float(by_label[self.labels.index(self.classes[of])])
        return positive, float(by_label.sum()) - positive

    # ---- how good a point is
    def certificate(self, tol: float) -> Callable[[BatchPoint], tuple[BatchPoint, float]]:
        """Return what the driver calls to bound points, which have their bounds already."""
        return lambda point: (point, point.relative_gap)

    def factor(self, w: np.ndarray, hessian: np.ndarray) -> HessianFactor:
        """Factorise a problem's Hessian at w."""
        return HessianFactor.for_steps(hessian, self._gram_error(), w)

    def _gram_error(self, *, likely: bool = False) -> float:
        return self.rounding.gram(exact=self.exact or self.rounding.is_exact, likely=likely)

    def must_be_exact(self, factors: Sequence[HessianFactor]) -> bool:
        """Return whether the Hessians must be formed again, in float64, for their rounding.

        All later ones are then summed in float64, too.
        """
        if self.exact:
            return False
        likely = self._gram_error(likely=True)
        proofs = math.isfinite(self.loss.self_concordance)
        self.exact = any(
            factor.is_doubtful(likely) or (proofs and not factor.proves) for factor in factors
        )
        return self.exact

    def _error(self, one: OneProblem, w: np.ndarray, value: float) -> tuple[GradientError, float]:
        """Bound the rounding errors of a problem's gradient at w; and its intercept radius."""
        sides = self.sides(one.of, one.fold)
        error = self.rounding.gradient(w, value, C=one.C, weight=sum(sides))
        intercept_radius = 0.0
        if self.fit_intercept:
            intercept_radius = self.loss.largest_intercept_radius(
                *sides, self.engine.facts.largest_target
            )
        return error, intercept_radius

    def survey_if_hidden(
        self, batch: ProblemBatch, W: np.ndarray, values: np.ndarray, tol: float
    ) -> None:
        """Survey the rows if rounding keeps the bound of any problem above `tol`.

        Cost: nothing, or 2 passes.
        """
        for p in range(len(batch)):
            value = float(values[p])
            error, intercept_radius = self._error(batch[p], W[p], value)
            if self.rounding.hides(tol * value, W[p], value, error, intercept_radius):
                self.rounding.survey(self.ask, self.engine.facts)
                return

    def bounds(
        self,
        batch: ProblemBatch,
        points: tuple[np.ndarray, np.ndarray, np.ndarray],
        factors: Sequence[HessianFactor],
        moved: np.ndarray,
    ) -> np.ndarray:
        """Bound (value - optimum) / optimum of each problem.

        This takes the better of two bounds on the excess: by strong convexity, and by the
        factorised Hessian of a point nearby. `points` are W, values and gradients; for `moved` see
        `BatchEvaluation`.
        """
        gaps = np.empty(len(batch))
        for p, (w, value, g, factor) in enumerate(zip(*points, factors, strict=True)):
            one, value = batch[p], float(value)
            error, intercept_radius = self._error(one, w, value)
            bound = min(
                self.rounding.convex(w, g, value, error, intercept_radius),
                self.rounding.by_hessian(factor, g, error, float(moved[p])),
            )
            bound = min(bound, value) if math.isfinite(value) else math.inf
            weight = sum(self.sides(one.of, one.fold))
            zero = self.rounding.zero(w, value, C=one.C, weight=weight)
            gaps[p] = relative_gap(bound, value, zero) if math.isfinite(bound) else math.inf
        return gaps

    def ahead(
        self, one: OneProblem, factor: HessianFactor, value: float, step: np.ndarray, square: float
    ) -> tuple[float, float, float]:
        """Foresee the objective where Newton's step leads, without reading any row.

        Parameters
        ----------
        one : OneProblem
            Which problem it is.
        factor : HessianFactor
            Of the problem's own Hessian H where the step begins, `factor.at`.
        value : float
            The objective there.
        step, square : (size,) array and float
            Newton's step and its decrement squared.

        Returns
        -------
        value, error, gap : float
            The objective there, a bound on that value's error, and one on the relative gap.

        Notes
        -----
        Margins move by t at most, so on the way curvatures are within exp(+-t self_concordance) of
        those in H. Then the norm of the gradient, in that of H^-1, falls to at most
        (exp(t) - 1 - t) / t of what it was (Bach 2010, proposition 1), and the value is that of the
        quadratic model but for that share of its decrease. What the computed H and its factor are
        off by leaves a share of the gradient, too.
        """
        assert factor.at is not None
        moved = self.rounding.ball.margins(step, self.n_features)
        t = self.loss.self_concordance * moved
        if not (t <= LARGEST_EXPONENT and factor.proves):
            return value, math.inf, math.inf

        # (exp(t) - 1 - t) / t cancels for small t
        left = (math.expm1(t) / t - 1.0 if t > 1e-6 else 0.5 * t) + factor.doubt
        decrement = math.sqrt(square / (1.0 - factor.doubt))
        reached = value - 0.5 * square
        error = 0.5 * left * decrement * decrement
        rounding, _ = self._error(one, factor.at, value)
        rounded = factor.error(rounding, self.n_features, self.rounding.widest(factor.roots))
        bound = self.rounding.by_decrement(factor, left * decrement + rounded, moved)
        return reached, error, relative_gap(bound, reached - error)


# Of one problem, or of many.
AnyObjective = Objective | BatchObjective
