"""Trust-region Newton by conjugate gradients (TRON): for many features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from daskglm.core.device import Array
from daskglm.core.outcome import Reason
from daskglm.core.view import Drawn, Soon
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.forecast import relative_error
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING, backtrack
from daskglm.solvers.linear_systems import DenseMetric, Diagonal, Metric
from daskglm.solvers.secant_pairs import SecantPairs
from daskglm.solvers.trust_region import SHARE, RegionStep, solve_in_region, steihaug_cg
from daskglm.solvers.workload import hessian_passes

# Ratios of real to predicted decrease: below the first a step is rejected, below the others the
# radius shrinks much or little. Then factors of the radius. Both are those of LIBLINEAR 2.30 (eta0
# to eta2, sigma1 to sigma3).
ACCEPT, POOR, GOOD = 1e-4, 0.25, 0.75
SHRINK, HALVE, GROW = 0.25, 0.5, 4.0
# Factor of the radius after a step that a search has shortened. Four squared hinges of fewer rows
# than features took 1,123, 295, 985 and 1,932 passes with it, 1,484, 462, 1,001 and 2,224 without;
# where the radius shrinks instead none converged in 1,000 iterations (2026-11-23).
LENGTHEN = 2.0
# Shares of the Hessian's diagonal in the preconditioner that are tried, the rest being the
# identity; LIBLINEAR takes the second.
MIXTURES = (0.5, 0.01)
# Products after which the preconditioner is reviewed; the number doubles each time it stays.
REVIEW = 20.0
# Part of a product that is saved where a dense preconditioner saves one: it costs the rest. Chosen.
NET_SAVING = 0.75
# Part of the gradient that `tol` allows to which the last system is solved, for what the model
# misses: half and four fifths did equally well on those problems. And the least and the largest
# share, the first by what rounding leaves. Chosen.
MARGIN, LEAST_SHARE, MOST_SHARE = 0.5, 1e-7, 0.9


def tron(
    objective: Objective,
    w: np.ndarray,
    *,
    tol: float = 1e-6,
    most: float = math.inf,
    start: Point | None = None,
    radius: float | None = None,
    missed: float = SHARE,
    **state: Any,
) -> Iterates:
    """Trust-region Newton with preconditioned conjugate gradients.

    The method of Lin and More 1999 with the constants, radius rules and inner stopping rule of
    LIBLINEAR 2.30 (the algorithm of Halloran & Rocke 2020), but for four things. Where LIBLINEAR
    rejects a step and solves in a smaller region, a search along the step by cached margins
    shortens it (Nocedal & Yuan 1998): curvature that jumps, as that of the squared hinge, would
    otherwise shrink the region again and again. The preconditioner: those of `MIXTURES` and, if
    features are few enough, the Hessian of a sample of the rows are tried on another sample; the
    one that costs least there is used, and reviewed at a later point if it took many products.
    LIBLINEAR's is the second mixture. And systems are solved as far as pays, see `_share`, not to a
    tenth each: 118 drawn problems took 12 % fewer passes so, least squares half as many (2026-11).
    And products with one Hessian help to solve for the next step, see `SecantPairs`.

    A system takes no more passes than are left of `most`, for another solver to go on from there.
    `start` is the point at w with diagonal and curvatures, if it is known.
    `radius`, `missed` and `state` are those of a solve to resume. Cost: 1 pass and 1 round per CG
    product, 1 of each per trial point; about 1 pass for a trial, and a sample's Hessian.
    """
    first, end = radius is None, objective.passes + most
    if objective.loss.is_quadratic:
        missed = 0.0
    if first:
        preconditioner = Preconditioner(objective, w)
    else:
        preconditioner = Preconditioner(objective, None, **state)
    point = start or objective.at(w, diagonal=True, curved=True)
    M = preconditioner.metric(point)
    if radius is None:
        radius = math.sqrt(float(point.gradient @ M.times(point.gradient)))
    yield _iterate(point, radius, missed, preconditioner)
    while True:
        before = objective.passes
        share, left = _share(point, tol, missed), max(end - before, 1.0)
        taken = solve_in_region(point, M, radius, share, preconditioner.pairs, left)
        preconditioner.spent += objective.passes - before

        predicted = -0.5 * (taken.slope - taken.left)
        trial = objective.at(point.w + taken.step, diagonal=True, curved=True, beside=point)
        value = trial.value if math.isfinite(trial.value) else math.inf
        actual = point.value - value

        # the first radius, a gradient's norm, is no length of a step
        radius = min(radius, taken.length) if first else radius
        first = False

        # a step that is level in floating point may still lower the gradient
        level = max(abs(actual), abs(predicted)) <= ROUNDING * abs(point.value)
        accepted: Point | None = None
        if actual > ACCEPT * predicted or (level and predicted > 0):
            accepted = trial
            radius = _next_radius(radius, taken, actual, predicted)
        elif predicted > 0:
            accepted = backtrack(
                objective, point, trial, slope=taken.slope, diagonal=True, curved=True
            )
            if accepted is None:
                radius = _next_radius(radius, taken, actual, predicted)
            else:
                radius *= LENGTHEN
        if accepted is None:
            if predicted <= 0 or radius == 0.0:
                return Reason.NO_PROGRESS
            continue

        if not objective.loss.is_quadratic:
            foreseen = _norm(taken.residual)
            missed = min(abs(accepted.gradient_norm - foreseen) / point.gradient_norm, SHARE)
        preconditioner.pairs.learn(accepted.w - point.w, accepted.gradient - point.gradient)
        point = accepted
        if preconditioner.reviewed(point):
            # the radius is in the norm of the preconditioner
            moved = preconditioner.metric(point).times(taken.step)
            radius *= math.sqrt(float(taken.step @ moved)) / taken.length
        M = preconditioner.metric(point)
        yield _iterate(point, radius, missed, preconditioner)


def _iterate(point: Point, radius: float, missed: float, preconditioner: Preconditioner) -> Iterate:
    """Return the point with the state of the solve, as it is now."""
    state = preconditioner.state()
    return Iterate(point, resume=lambda: {"radius": radius, "missed": missed, **state})


def _share(point: Point, tol: float, missed: float) -> float:
    """Choose the share of the gradient that is left when the next system is solved.

    It is what the quadratic model misses, by the share of the last gradient that it missed
    (Eisenstat & Walker 1996, choice 1), at most a tenth; but not less than what `tol` asks for.
    """
    objective = point.objective
    if not objective.is_penalised:
        return SHARE
    error = relative_error(objective, point, point.gradient_norm)
    enough = MARGIN * math.sqrt(tol / error) if error > 0.0 else 1.0
    return min(max(missed, enough, LEAST_SHARE), MOST_SHARE)


def _norm(vector: Array) -> float:
    return math.sqrt(float(vector @ vector))


# ---- the preconditioner
class Preconditioner:
    """The preconditioner of a solve, chosen on a sample of the rows and reviewed later.

    It is the identity mixed with the Hessian's diagonal (`mixture` is the diagonal's part) or,
    where `share` is not zero, the Hessian at `center` of that share of the rows; and `pairs` of
    earlier systems around them, whose arguments are those of `SecantPairs`. `w` is where the
    first one is chosen; with w = None the other arguments are those of a solve to resume. `spent`
    counts the products since the last choice; the next is made after `due` of them.
    """

    def __init__(
        self,
        objective: Objective,
        w: np.ndarray | None,
        mixture: float = MIXTURES[0],
        share: float = 0.0,
        center: np.ndarray | None = None,
        spent: float = 0.0,
        due: float = REVIEW,
        **pairs: Any,
    ) -> None:
        self.objective = objective
        self.mixture = mixture
        self.share = share
        self.center = center
        self.spent, self.due = spent, due
        self.pairs = SecantPairs(objective, **pairs)
        engine = objective.engine
        facts = objective.engine.facts
        d = objective.size
        large = facts.nonzeros >= costs.SAMPLED_VALUES
        self.tries = engine.capabilities.cheap_samples and large

        # the Hessian of some rows for each feature, where that is a small part of all rows
        self.wide = costs.HESSIAN_SAMPLE_ROWS * d / max(facts.n_rows, 1)
        self.drawn = Soon(Drawn(self.wide, 11), 1)
        few = self.wide <= costs.LARGEST_SAMPLE and d <= costs.LARGEST_HESSIAN
        samples = engine.capabilities.answers_samples and large
        self.factors = samples and objective.is_penalised and few
        # to add up and factorise it doubles its cost with 1,000 features. Chosen.
        self.cost = hessian_passes(facts, self.wide) * (1.0 + d / 1000.0)

        self.full = None if center is None else self._hessian(objective.xp.asarray(center))
        if w is None:
            return
        # choices are for the systems that are expected to follow. Chosen.
        if self.tries:
            self._choose(w, 5)
        elif self.factors and self.cost <= 1.0:  # a pass is little enough without a trial
            self._adopt(w)

    def metric(self, point: Point) -> Metric:
        """Return the preconditioner at a point that knows its Hessian's diagonal."""
        return _diagonal(point, self.mixture) if self.full is None else self.full

    def state(self) -> dict[str, Any]:
        """Return the arguments with which a resumed solve makes its preconditioner."""
        known = {"mixture": self.mixture, "share": self.share, "spent": self.spent, "due": self.due}
        center = {} if self.center is None else {"center": self.center}
        return {**known, **center, **self.pairs.state()}

    def reviewed(self, point: Point) -> bool:
        """Review the choice if it is due; return whether the preconditioner has changed."""
        if not (self.factors and self.spent >= max(self.due, self.cost / NET_SAVING)):
            return False
        had = self.full
        if self.tries:
            self._choose(point.w, 3)  # fewer systems are left than at first
        else:
            self._adopt(point.w)
        self.due = 2.0 * self.due if self.full is had else REVIEW
        self.spent = 0.0
        return self.full is not had

    def _choose(self, w: np.ndarray, steps: int) -> None:
        """Choose what costs least for this number of systems, by trials on a sample at w."""
        # one row of 16, with a seed of its own. Chosen.
        trial = Drawn(1 / 16, 10)
        soon = (Soon(trial, math.inf), *([self.drawn] if self.factors else []))
        point = self.objective.on(trial, soon).at(w, diagonal=True, curved=True)
        counts = {mixture: self._products(point, _diagonal(point, mixture)) for mixture in MIXTURES}
        self.mixture = min(MIXTURES, key=counts.__getitem__)
        least = counts[self.mixture]
        if self.full is not None:
            least = min(least, self._products(point, self.full))

        # even a good preconditioner leaves three products a system
        if not self.factors or steps * NET_SAVING * (least - 3) <= self.cost:
            return
        full = self._hessian(w)
        if steps * NET_SAVING * (least - self._products(point, full)) > self.cost:
            self.full, self.share, self.center = full, self.wide, w.copy()

    def _adopt(self, w: Array) -> None:
        """Precondition by the Hessian of a sample at w, unless that is singular."""
        full = self._hessian(w)
        if full.inverse is not None:
            self.full, self.share, self.center = full, self.wide, w.copy()

    def _hessian(self, center: Array) -> DenseMetric:
        """Form the Hessian of a sample at `center`, of other rows than those of trials."""
        gram = self.objective.on(self.drawn.part, (self.drawn,)).at(center, gram=True).hessian
        assert gram is not None
        return DenseMetric(gram)

    def _products(self, point: Point, M: Metric) -> int:
        """Count the products that conjugate gradients take at a point, with the pairs around M."""
        count = 0

        def product(v: np.ndarray) -> np.ndarray:
            nonlocal count
            count += 1
            return point.hessian_vector(v)

        steihaug_cg(product, point.gradient, self.pairs.around(M), math.inf)
        return count


def _diagonal(point: Point, mixture: float) -> Diagonal:
    assert point.diagonal is not None
    return Diagonal((1.0 - mixture) + mixture * point.diagonal)


# ---- the trust region
def _next_radius(radius: float, taken: RegionStep, actual: float, predicted: float) -> float:
    """Choose the radius of the next step by how well the quadratic model predicted this one."""
    length = taken.length
    beyond = -actual - taken.slope  # f(w + s) - f(w) - g's: what the linear model missed
    alpha = GROW if beyond <= 0 else max(SHRINK, -0.5 * taken.slope / beyond)
    if actual < ACCEPT * predicted:
        return min(alpha * length, HALVE * radius)
    if actual < POOR * predicted:
        return max(SHRINK * radius, min(alpha * length, HALVE * radius))
    if actual < GOOD * predicted:
        return max(SHRINK * radius, min(alpha * length, GROW * radius))
    return GROW * radius if taken.on_border else max(radius, min(alpha * length, GROW * radius))
