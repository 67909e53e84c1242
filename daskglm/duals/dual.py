"""The dual of the objective: rounds of coordinate ascent, steps along their changes, certificates.

D(a) = -C sum_i s_i loss*(-a_i) - 1/2 |v|^2 with v = C sum_i s_i a_i x_i. Dual variables live with
the rows; `Dual` holds v, which is the primal point too, and the number of their state.

A penalty of another strength mu is one of strength one for losses of the weight C / mu. With an L1
penalty of strength mu t besides, w is v with all entries moved towards zero by t, and |w|^2 takes
the place of |v|^2 in the dual (Shalev-Shwartz & Zhang 2014). Half that square is never more curved
than 1/2 |v|^2, so that steps of single rows and sums of changes rise as they do without.

With an unpenalised intercept sum_i s_i a_i must be 0, which changes of single coordinates cannot
keep. So the ascent is a proximal-point method in b: a penalised constant feature stands for b minus
an offset, and after every round the offset moves to b. At the limit that penalty has no force.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from daskglm.certificates.rounding import HIDDEN
from daskglm.core.asking import Asking
from daskglm.core.requests import (
    DualInterior,
    DualLine,
    DualLoad,
    DualRound,
    DualSave,
    DualShape,
    DualSpan,
    DualStateRef,
    DualTotals,
    DualValue,
    SDCAConfig,
    Totals,
)
from daskglm.duals.corrected import Corrected
from daskglm.duals.first_asked import First, Read, first_asked
from daskglm.duals.intercept import constant_feature, value_at_zero
from daskglm.duals.penalty import DualPenalty, Sums
from daskglm.objectives.margins import best_shift
from daskglm.objectives.point import NO_GRADIENT, Point
from daskglm.objectives.primal import Objective, tokens


class Certificate(NamedTuple):
    """Primal and dual value of one state, and w with its intercept."""

    w: np.ndarray
    primal: float
    dual: float


Ahead = Callable[[DualStateRef, int], DualLine | DualSpan]


class Dual:
    """Dual variables at a numbered state, and the steps from one to the next.

    Parameters
    ----------
    objective : Objective
        With a penalty of one strength above zero for all features, and an L1 penalty of its
        `threshold` times that, unless values are `corrected`.
    w : (d,) or (d + 1,) array
        Where to start: from features of zero, with dual variables of zero and the best intercept;
        else the dual variables are the negative slopes at w.
    plan : SDCAConfig
    seed : int
        Of the random orders; the same seed, plan and placement give the same bits.
    saved : tuple of (dict, str), optional
        What `state` gave and the folder that `save` wrote to: start from those dual variables
        instead.
    corrected : Corrected, optional
        What dual variables of another objective prove, which proximal points adopt.
    """

    before: int | None
    w: np.ndarray | None
    change: Any
    swept: Any
    steps: list[Any]

    def __init__(
        self,
        objective: Objective,
        w: np.ndarray,
        plan: SDCAConfig,
        seed: int,
        saved: tuple[dict[str, Any], str] | None = None,
        corrected: Corrected | None = None,
    ) -> None:
        self.penalty = DualPenalty.of(objective) if corrected is None else corrected.penalty
        self.feasible = corrected or self.penalty  # what is proved where variables are feasible
        self.objective = objective
        self.C = objective.C / self.penalty.strength
        self.plan = plan
        self.seed = seed
        d = objective.n_features
        self.bias = constant_feature(objective, self.C) if objective.fit_intercept else 0.0
        self.offset = float(w[d]) if objective.fit_intercept else 0.0
        self.rounds = self.read_at = 0
        self.drift = 1.0  # sums over the rows, by their multiples, that v was added up from
        self.gap = 0.0 if saved is None else math.inf
        self._begin(w if w[:d].any() else None, objective.xp.zeros(d + 1))

        self.kept, self.value = w, math.inf  # the best point evaluated
        self.lower = 0.0  # the highest dual value met; dual variables of zero have one of zero
        self.met = Certificate(w, math.inf, 0.0)  # of the state that was certified last
        self.at_zero = math.inf  # the objective at w = 0 with the best intercept, where it is known
        self.plane: Callable[..., Any] | None = None  # what `along.line` moves on
        self.lost = False  # see `has_lost`
        self.rests = False  # whether proximal points of it have come to rest
        self.ahead: Callable[[], Totals] | None = None  # see `round`
        # where `adopt` took the slopes, and what rows said of it
        self.adopted: tuple[np.ndarray, Read] | None = None

        if saved is not None:
            state, folder = saved
            self.rounds = int(state["rounds"])
            self.offset = float(state["offset"])
            self.w = w
            self.read_at = self.rounds
            self.v = self.objective.ask(DualLoad(self.ref(), folder))["own"]
            self.w = self.primal_point()
        elif self.w is not None:
            self.v = self.objective.ask(DualTotals(self.ref(), self.v, next(tokens)))["own"]

    def _begin(self, w: np.ndarray | None, v: Any) -> None:
        """Take a state that no step leads to: blocks begin with the slopes at w, None: with zero.

        v is its shared vector.
        """
        # the state, the one before it, and the step that leads from there, which blocks may keep
        self.number, self.step, self.keep = next(tokens), (1.0, 0.0), 0
        self.before, self.w, self.v = None, w, v
        self.change = self.swept = None  # of the last round, until it is committed
        self.steps = []  # the last ones that are kept, the newest first
        self.sure = True  # v is the sum over the rows of what they have

    def state(self) -> dict[str, Any]:
        """Return what `saved` takes, besides the dual variables themselves."""
        return {"rounds": self.rounds, "offset": self.offset}

    def save(self, folder: str) -> None:
        """Have every worker write the dual variables of its rows to a folder that all of them see.

        Cost: 1 round.
        """
        self.ask(DualSave(self.ref(), folder))

    def ref(self) -> DualStateRef:
        """Return what names this state to rows, and rebuilds it."""
        return DualStateRef(
            self.number,
            self.before,
            self.step,
            self.w,
            self.C,
            self.bias,
            self.offset,
            self.keep,
            self._is_near(),
            self.v if self._is_own() else None,
            self.penalty.threshold,
        )

    def _is_own(self) -> bool:
        """Return whether the engine can read v from shared memory, and need not add it up again."""
        shared = self.objective.engine.capabilities.shares_memory
        return shared and self.change is None and self.sure

    def ask(self, request: Any) -> Totals:
        """Pass on a request about the state, and note whether blocks have lost theirs."""
        return self.noted(self.objective.ask(request))

    def noted(self, totals: Totals) -> Totals:
        """Note whether blocks have lost their dual variables before a reply."""
        if totals.get("rebuilt", 0):
            # blocks that begin anew know no step before, so that no block may go along one
            self.steps = []
            self.sure = False
            self.lost = True
        return totals

    def has_lost(self) -> bool:
        """Return whether requests since the last call showed lost dual variables."""
        lost, self.lost = self.lost, False
        return lost

    def _is_near(self) -> bool:
        """Return whether lost blocks may take the negative slopes at w for their dual variables.

        The shared vector of those misses w by the gradient there, whose square is at most 2 L gap.
        Far from the optimum that is many times w itself, and drives an unpenalised intercept so far
        away that it takes hundreds of rounds to come back.
        """
        objective = self.objective
        L = self.C * objective.loss.smoothness * objective.engine.facts.squared_norms
        missed = L * self.gap / self.penalty.strength  # half the bound on that square
        return self.gap == 0.0 or missed <= self.penalty.conjugate(self.v)

    @property
    def intercept(self) -> float:
        """The intercept that the constant feature stands for."""
        return self.offset + self.bias * float(self.v[-1])

    def primal_point(self) -> np.ndarray:
        """Return the coefficients and, where there is one, the intercept.

        Nobody writes to shared vectors, so this may be a view.
        """
        w = self.penalty.coefficients(self.v)[:-1]
        return np.append(w, self.intercept) if self.objective.fit_intercept else w

    def shape(self) -> tuple[int, int]:
        """Count groups of threads over all workers, and the most partitions that a group has.

        Cost: 0 passes, 1 round.
        """
        totals = self.objective.ask(DualShape(self.plan))
        groups = int(totals["groups"])
        return groups, math.ceil(totals["partitions"] / max(groups, 1))

    def start_point(self) -> Point:
        """Return the point where the ascent starts.

        From zero the intercept starts at its best value there, and the dual variables, all zero,
        have a dual value of zero. From elsewhere nothing is known of the dual yet. Cost: nothing
        from zero for classes, else 1 pass.
        """
        objective = self.objective
        if self.w is not None:
            self.value = objective.at(self.w).value
        else:
            self.value, best = value_at_zero(objective, self.kept)
            self.at_zero = self.value
            if objective.fit_intercept:
                self.offset = best
                self.kept = self.kept.copy()
                self.kept[-1] = best
        return self.kept_point()

    def kept_point(self) -> Point:
        """Return the best point evaluated; its value is its gap, as no dual variables are known."""
        return self._point(self.kept, self.value, self.value)

    def point(self, value: float, gap: float) -> Point:
        """Return the committed state as a point whose value and gap are estimates."""
        self.gap = gap
        w = self.primal_point() if self.w is None else self.w
        return self._point(w, value, gap, certify=self.certified_point)

    def _point(self, w: np.ndarray, value: float, gap: float, **more: Any) -> Point:
        return Point(self.objective, w, value, NO_GRADIENT, -1, gap=gap, **more)

    def certified_point(self, w: np.ndarray | None = None) -> Point:
        """Evaluate the committed state, or w with its dual variables; return the best point so far.

        That has its true value, and the gap between it and the highest dual value met. Cost: see
        `certificate`.
        """
        found = self.met = self.certificate(w)
        self.lower = max(self.lower, found.dual)
        if found.primal <= self.value:
            self.kept, self.value = found.w, found.primal

        gap = max(self.value - self.lower, 0.0)
        rounding = self._rounding()
        is_hidden = rounding > HIDDEN * gap and not self.objective.rounding.is_surveyed
        if is_hidden and not self.feasible.keeps_points:
            self.objective.bounds.survey()
            rounding = self._rounding()
        return self._point(self.kept, self.value, gap + rounding)

    def is_hidden(self, tol: float) -> bool:
        """Return whether the best value is within tol of the dual's, and rounding hides a proof.

        No more can be had from an ascent then. Cost: nothing.
        """
        return self.value - self.lower <= tol * abs(self.value) < self._rounding()

    def _rounding(self) -> float:
        """Bound the rounding error of the gap. Cost: nothing."""
        objective = self.objective
        return objective.rounding.gap(
            self.kept,
            self.value,
            self.lower,
            C=objective.C,
            weight=objective.total_weight,
            drift=self.drift,
        )

    def start_again(self) -> None:
        """Set all dual variables to zero, and the offset to the best point's intercept.

        Cost: nothing.
        """
        self._begin(None, self.objective.xp.zeros(self.objective.n_features + 1))
        self.offset = float(self.kept[-1]) if self.objective.fit_intercept else 0.0

    def come_near(self) -> bool:
        """Go on with dual variables of zero and the rows in this process, if these travel.

        What is proved so far stays. Cost: 1 round.
        """
        near = self.objective.brought()
        if near is None:
            return False
        self.objective = near
        self.start_again()
        return True

    # ---- steps
    def round(self, outer: float, inner: float, ahead: Ahead | None = None) -> Totals:
        """Run local epochs on all workers; `commit` takes their changes.

        `ahead` makes a request about their end, which travels with this, of the state and the
        number of kept steps; `self.ahead` returns its reply. Cost: 1 pass an epoch, 1 round.
        """
        seed = (self.seed, self.rounds)
        self.rounds += 1
        self.adopted = None
        asking, state = Asking(self.ask), self.ref()
        reply = asking.later(DualRound(state, self.v, self.plan, seed, outer, inner))
        self.ahead = ahead and asking.later(ahead(state, len(self.steps)))
        totals = reply()
        self.v, self.change = totals["own"], totals["change"]
        self.drift += float(totals.get("drift", 0.0))
        self.swept = self.change  # by the epochs, whatever is made of it
        self.plane = None
        self.sure = True
        return totals

    def commit(
        self, c1: float, c2: float = 0.0, *, keep: int = 0, error: float | None = None
    ) -> None:
        """Move by c1 times the last round's change and c2 times the previous step.

        Blocks cache the last `keep` steps, this one among them, for a search along them after the
        next round. `error` is in rounding errors of an epoch's change; default: by the multiples.
        Cost: nothing.
        """
        self.keep = keep
        c2 = c2 if self.steps else 0.0
        # a multiple of one would copy a vector as long as w
        step = self.change if c1 == 1.0 else c1 * self.change
        if c2 != 0.0:
            step = step + c2 * self.steps[0]

        self.v = self.v + step
        self.change = self.swept = None
        self.steps = [step, *self.steps][:keep] if self.sure else []
        self.drift += max(abs(c1), 1.0) + abs(c2) if error is None else error
        self.number, self.before, self.step = next(tokens), self.number, (c1, c2)
        self.offset = self.intercept
        self.w = self.primal_point()

    # ---- proximal steps
    def smoothed(self, width: float) -> Objective:
        """Return the primal with a proximal term around the dual variables as they are.

        It rounds the corners of the loss over this width.
        """
        objective, loss = self.objective, self.objective.loss
        assert loss.smoothed is not None
        rounded = loss.smoothed(loss, width)
        return Objective(
            objective.engine,
            replace(objective.problem, loss=rounded.ref, centre=(self.number, width)),
            rounded,
            C=objective.C,
            fit_intercept=objective.fit_intercept,
            intercept_radius=2.0 if loss.classifies else objective.intercept_radius + width,
            sides=objective.sides,
            penalty=objective.penalty,
            any_penalty=objective.bounds.any_penalty,
        )

    def adopt(self, primal: Objective, w: np.ndarray) -> None:
        """Set the dual variables to the negative slopes of a primal, which may be smoothed, at w.

        Cost: 2 passes.
        """
        objective, d = self.objective, self.objective.n_features
        token = next(tokens)
        self._begin(w, self.v)
        self.gap = 0.0  # the slopes at w are what is wanted
        features, side = np.append(w[:d], 0.0), objective.fit_intercept
        asking = Asking(primal.ask, primal.problem)
        totals = asking.later(DualTotals(self.ref(), features, token, side, anew=False))
        shift = float(w[d]) if len(w) > d else 0.0
        first = self._first(asking)(w[:d], token, shift)
        self.v = totals()["own"]
        self.adopted = w, Read(w[:d], totals()["side"], first)
        self.read_at, self.drift = self.rounds, 1.0
        if primal is not objective:
            objective.rows.meter.absorb(primal.rows.meter)
        self.offset = float(w[d]) - self.bias * float(self.v[-1]) if len(w) > d else 0.0

    # ---- interior points
    def step_inside(self, way: str) -> Totals:
        """Go to where a step of interior points leads, its intercept included.

        `way` and what is returned are those of `DualInterior`. Cost: 1 pass or 10, 1 round.
        """
        self.rounds += 1
        self.adopted, self.plane = None, None
        totals = self.ask(DualInterior(self.ref(), self.objective.loss.ref, way))
        self.sure, self.change = True, totals["change"]
        self.commit(1.0)
        # what the rows add up to, not a small rest of long changes
        self.v, self.drift, self.read_at = totals["own"], 1.0, self.rounds
        if self.objective.fit_intercept:
            self.offset = float(totals["intercept"]) - self.bias * float(self.v[-1])
        self.w = self.primal_point()
        return totals

    # ---- how good it is
    def certificate(self, at: np.ndarray | None = None) -> Certificate:
        """Evaluate the primal at v's coefficients, or at `at`, and the dual at the committed state.

        With an intercept the primal takes the best one, and the dual is taken where the variables
        are feasible: their sum is zero. Cost: 1 pass, or none at a point that `adopt` has just been
        at, and a few rounds.
        """
        objective, feasible = self.objective, self.feasible
        read = self._read(at)
        w, asking = read.features, Asking(self.ask, objective.problem)
        sums = Sums(self.v, read.side, self.bias, self._losses)
        factors = sums.factors if feasible.balances else {}
        losses = read.first.losses or asking.later(DualValue(self.ref(), **factors))
        if (search := read.first.search) is not None:
            search.asking = asking
            best = best_shift(objective, search.point, search.start, search)
            w, primal = np.append(w, best.at), best.value + feasible.value_of_kinks(w)
        else:
            primal = objective.C * float(read.first.value()["values"][0])
            primal += feasible.value(w)
            w = np.append(w, read.first.shift) if objective.fit_intercept else w
        sums = sums._replace(losses=partial(self._losses, known=(factors, losses)))
        return Certificate(w, primal, feasible.proved(sums, w, primal))

    def _read(self, at: np.ndarray | None) -> Read:
        """Have the rows keep margins, without an intercept, of v's coefficients or of `at`.

        v may be added up from the rows again. Cost: 1 pass, or none.
        """
        d, objective = self.objective.n_features, self.objective
        if at is not None and self.adopted is not None and at is self.adopted[0]:
            return self.adopted[1]

        # changes of threads that share v without locks may be lost, so v is always added up from
        # the rows again; else after every 20 rounds, since changes round it off
        anew = self.plan.partitioning == "wild" or self.rounds - self.read_at >= 20
        # v may not be the sum over the rows: then the primal is evaluated at that sum instead
        for _ in range(3):
            token, v = next(tokens), self.v
            features = self.penalty.coefficients(v) if at is None else np.append(at[:d], 0.0)
            side, asking = objective.fit_intercept, Asking(self.ask, objective.problem)
            reply = asking.later(DualTotals(self.ref(), features, token, side, anew))
            shift = self.intercept if at is None or not side else float(at[-1])
            first = self._first(asking)(features[:-1], token, shift)
            totals = reply()
            own = self.v = totals["own"]
            self.sure = True
            off = float(np.linalg.norm(own - v)) if anew or totals["rebuilt"] else 0.0
            if at is not None or off <= 1e-9 * float(np.linalg.norm(own)):
                break
        if anew:
            self.read_at, self.drift = self.rounds, 1.0
        return Read(features[:-1], totals["side"], first)

    def _first(self, asking: Asking) -> Callable[[Any, int, float], First]:
        """Return what puts off the first questions about coefficients; see `first_asked`."""
        changes = self.feasible.balances and self.bias
        value = None if changes else DualValue(self.ref())
        to_search = not self.feasible.keeps_points
        return partial(first_asked, asking, self.objective, value, to_search)

    def _losses(
        self,
        known: Any = None,
        **factors: float,
    ) -> float:
        """Return the losses' part of the dual value; `factors` are those of `DualValue`.

        `known` are the factors that have been asked about, and what returns the reply.
        """
        asked = known is not None and known[0] == factors
        totals = known[1]() if asked else self.ask(DualValue(self.ref(), **factors))
        return -self.objective.C * float(totals["value"])
