"""The objective P(w) + C sum_i s_i loss(y_i, z_i), which solvers ask for all they need.

It is made of rows, a loss, margins z and a penalty P: it adds P and C to the sums that an engine
takes over the rows. `bounds` says how far a point can be from the optimum. w holds the features'
coefficients and last what has no penalty: an intercept, or several, or thresholds. Points hold the
gradient of the smooth part, losses and quadratic penalties.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from daskglm.certificates.bounds import Bounds, ByConvexity, Certify
from daskglm.certificates.rounding import Norms
from daskglm.certificates.tangent import ByTangent
from daskglm.core.asking import Asking
from daskglm.core.block_hessian import BlockHessian
from daskglm.core.column_requests import ColumnSweeps
from daskglm.core.device import Array, gpu, to_host
from daskglm.core.engine import Engine
from daskglm.core.inference_requests import InferenceSums
from daskglm.core.level_blocks import LevelBlocks
from daskglm.core.matrices import mirror_upper
from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    Problem,
    Request,
    Totals,
    TrustRegionStep,
)
from daskglm.core.view import Drawn, Part, Soon
from daskglm.losses.base import Loss
from daskglm.objectives.elimination import blocks_of
from daskglm.objectives.level_pairs import with_pairs
from daskglm.objectives.margins import Margins, OneMargin, Sums
from daskglm.objectives.point import Point
from daskglm.objectives.rows import Rows
from daskglm.penalties.penalty import Penalty

# Relative differences of the objective that may be rounding in sums over rows.
SAME_VALUE = 1e-12
# Numbers that name the margins and dual variables that workers keep.
tokens = itertools.count()


class Objective:
    """Penalty plus C times the sum of losses, over the rows of an engine.

    Parameters
    ----------
    engine : Engine
    problem : Problem
        Loss, positive label and class weights.
    loss : Loss
    C : float
        Weight of the losses; infinity means no penalty (then the losses have weight one).
    fit_intercept : bool, optional
        Whether w ends in an unpenalised intercept, where `margins` are not given.
    margins : Margins, optional
        How margins follow from coefficients. Default: one margin a row.
    intercept_radius : float
        See `Loss.largest_intercept_radius`.
    sides : tuple of float, optional
        Total weights of positive and of negative rows (regression: of all, and 0), class weights
        included.
    penalty : Penalty, optional
        Default: a ridge of strength one, or none where C is infinite.
    any_penalty : bool
        Whether points have bounds that hold for any penalty; else for a ridge of one strength, or
        none. Vectors are in host memory then, wherever the rows are.
    start : float
        Intercept of the `origin`.
    """

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        loss: Loss,
        *,
        C: float,
        fit_intercept: bool | None = None,
        margins: Margins | None = None,
        intercept_radius: float = 0.0,
        sides: tuple[float, float] | None = None,
        penalty: Penalty | None = None,
        any_penalty: bool = False,
        start: float = 0.0,
    ) -> None:
        facts, there = engine.facts, engine.capabilities.xp is not np
        if margins is None:
            if fit_intercept is None:
                raise TypeError(f"fit_intercept={fit_intercept!r}: give it, or margins")
            margins = OneMargin(facts.n_features or 0, bool(fit_intercept))
        margins.check_offsets(facts)
        if margins.labels:
            problem = replace(problem, classes=margins.labels)
        self.rows = Rows(engine, problem, moves=there and any_penalty)
        self.loss = loss
        self.C = 1.0 if math.isinf(C) else C
        if penalty is None:
            strength = 0.0 if math.isinf(C) else 1.0
            penalty = Penalty.ridge(margins.n_features, margins.size, strength)
        self.penalty = penalty
        self._take(margins.with_penalty(penalty))
        self.bounded = ByTangent if any_penalty else ByConvexity
        on_host = any_penalty or margins.on_host
        if there and not (on_host or penalty.is_plain):
            raise ValueError("a penalty with a strength for each feature wants rows on the CPU")
        self.sides = sides
        self.total_weight = facts.weight if sides is None else sum(sides)
        if margins.weight is not None:
            self.total_weight = margins.weight
        self.intercept_radius = intercept_radius
        self.start = start if self.fit_intercept else 0.0
        self.inside: Array | None = (
            None  # coefficients to start from, where zero is outside of a domain
        )
        self.prepared = 0.0  # passes that the penalty took, before the solve
        self.xp = np if on_host else engine.capabilities.xp
        on_device = engine.capabilities.device != "cpu"
        self.rounding = margins.rounding(facts, loss, penalty, self.C, on_device=on_device)

    def _take(self, margins: Margins) -> None:
        """Take margins, and how long vectors are with them."""
        self.margins = margins
        self.outputs, self.fit_intercept = margins.outputs, margins.constants > 0
        self.n_features, self.size = margins.n_features, margins.size

    @property
    def bounds(self) -> Bounds:
        """How far points can be from the optimum, and what may be done to know it better."""
        # made anew: with one that was kept the rows would be free only when the collector runs
        return self.bounded(self)

    @property
    def engine(self) -> Engine:
        """The engine that has the rows."""
        return self.rows.engine

    @property
    def problem(self) -> Problem:
        """What turns stored labels into targets and row weights."""
        return self.rows.problem

    @property
    def passes(self) -> float:
        """Passes over all rows up to now."""
        return self.rows.meter.passes

    @property
    def waited(self) -> float:
        """Seconds that were waited for data up to now."""
        return self.rows.meter.waited

    @property
    def is_penalised(self) -> bool:
        """Whether the penalty is strongly convex in all features, so that points can be bounded."""
        return self.penalty.quadratic.strong_convexity > 0.0

    @property
    def threshold(self) -> float:
        """`Penalty.threshold`; nan where vectors are not where the rows are."""
        return math.nan if self.rows.moves else self.penalty.threshold

    @property
    def solves_trust_regions(self) -> bool:
        """Whether subproblems of a trust region may be solved where the rows are."""
        there = self.engine.capabilities.solves_trust_regions
        return there and not (self.margins.on_host or self.bounded.any_penalty)

    @property
    def sweeps_columns(self) -> bool:
        """Whether models are minimised along one coefficient after the other where the rows are."""
        there = self.engine.capabilities.sweeps_columns
        separable = self.penalty.quadratic.is_diagonal and not self.penalty.is_grouped
        return there and separable and self.margins.moves_alike

    @property
    def has_dual(self) -> bool:
        """Whether dual ascent knows the dual: not with offsets, unless targets take them in."""
        has_offset = self.engine.facts.largest_offset > 0.0 and not self.loss.shifts
        known = self.threshold >= 0.0 or not self.bounded.any_penalty
        return self.loss.has_dual and not has_offset and known

    @property
    def typical_curvature(self) -> float:
        """The largest curvature of a row's loss, or what is to be expected where there is none."""
        return self.margins.typical_curvature(self.loss, self.engine.facts)

    @property
    def can_go_without(self) -> bool:
        """Whether a Hessian alone bounds points, without a penalty."""
        return self.margins.can_go_without(self.loss)

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Factors whose levels Hessians have apart, the first one eliminated; see `blocks_of`."""
        return blocks_of(self)

    def _level_blocks(self) -> LevelBlocks | None:
        """Return them with the pairs of their levels. Cost: 1 pass the first time, of several."""
        return with_pairs(self.rows, self.blocks, self.size)

    @property
    def origin(self) -> Array:
        """Where solves start: those of a fit without features, or the nearest within the bounds;
        `inside` where it is known.
        """
        if self.inside is not None:
            return self.inside
        return self.penalty.kinks.clip(self.margins.origin(self))

    def is_origin(self, w: Array) -> bool:
        """Return whether these are the coefficients of the `origin`."""
        return bool((w == self.origin).all())

    @staticmethod
    def new_token() -> int:
        """Return a number that names margins of a point."""
        return next(tokens)

    def is_inside(self, w: Array) -> bool:
        """Return whether the objective can be finite at w: it is everywhere, but for overflow."""
        return self.margins.is_inside(w)

    @property
    def only_side(self) -> float:
        """Sign of the only class that has weight, if constants can predict it; else 0."""
        return self.margins.only_side(self)

    # ---- points
    def at(
        self,
        w: np.ndarray,
        *,
        gram: bool = False,
        diagonal: bool = False,
        keep: bool = True,
        curved: bool = False,
        beside: Point | None = None,
        exact: bool = False,
    ) -> Point:
        """Evaluate the objective and the gradient of its smooth part. Cost: 1 pass, 1 round.

        Parameters
        ----------
        w : (size,) array
            Where it is not within the bounds, the nearest point that is is evaluated. Where no
            value is finite only margins are made, for a search from there.
        gram, diagonal : bool
            Whether to form the Hessian, and its diagonal.
        keep : bool
            Whether workers keep the margins (8 bytes a row) of this point and of one other. Without
            them a search between points, and a product with the Hessian, take one more pass.
        curved : bool
            Whether workers keep the curvatures, too (8 bytes a row), for products.
        beside : Point, optional
            The other point whose margins are kept, to which a search may go back; default: the last
            one evaluated.
        exact : bool
            Whether the Hessian is summed in float64; else in the dtype of dense rows, over a few
            rows at a time.
        """
        token, w = next(tokens), self.penalty.kinks.clip(w)
        inside = self.margins.is_inside(w)
        gram, diagonal, keep = gram and inside, diagonal and inside, keep or not inside
        exact = gram and (exact or self.rounding.is_exact)
        other = beside.token if beside else None
        how: Any = {"blocks": self._level_blocks() if gram else None}
        evaluate = Evaluate(w, token, gram, diagonal, keep, curved, other, exact, **how)
        totals = self.ask(self.margins.asked(evaluate))
        if not inside:
            return Point(self, w, math.inf, np.full(self.size, math.nan), token)
        if self.xp is not np:
            return self._point_there(w, token, totals, beside, exact=exact)

        sums = self.margins.sums(w, totals, is_sample=self.is_sample)
        return self.point_of(sums, w, token, exact=exact)

    def point_of(self, sums: Sums, w: np.ndarray, token: int, *, exact: bool) -> Point:
        """Return the point at w that the losses have these sums at, in host memory.

        Cost: nothing.
        """
        quadratic, kinks = self.penalty.quadratic, self.penalty.kinks
        penalty, gradient = self.penalty.smooth_part(w, sums.gradient, self.C)
        diagonals = hessian = None
        if sums.diagonal is not None:
            diagonals = self.C * sums.diagonal + quadratic.diagonal(self.size)
        if sums.hessian is not None:
            hessian = self._hessian(sums.hessian)
        value = self.C * float(sums.value) + penalty
        how: Any = {"by_thresholds": sums.by_thresholds}
        point = Point(self, w, value, gradient, token, hessian, diagonals, exact, **how)
        point = self.margins.known(self, point)
        return point if kinks.is_empty else replace(point, value=point.value + kinks.value(w))

    def _hessian(self, upper: Array) -> Any:
        """Form the Hessian of the objective from the upper triangle of that of the losses.

        With `blocks` it is a `BlockHessian`, of the sums that `Evaluate` has then.
        """
        quadratic, xp = self.penalty.quadratic, self.xp
        if xp is not np:
            upper = xp.triu(upper)
            ridge = xp.diag(quadratic.diagonal(self.size, xp))
            return self.C * (upper + xp.triu(upper, 1).T) + ridge
        blocks = self._level_blocks()
        if blocks is not None:
            return BlockHessian.of_sums(upper, blocks, self.C, quadratic.diagonal(self.size))
        hessian: np.ndarray = self.C * upper
        mirror_upper(hessian)
        quadratic.add_to(hessian)
        return self.margins.settled(hessian, self.penalty)

    def _point_there(
        self, w: Array, token: int, totals: Totals, beside: Point | None, *, exact: bool
    ) -> Point:
        """Make a point whose vectors stay on the device, with one wait for all its scalars."""
        hessian = self._hessian(totals["gram"]) if "gram" in totals else None
        found = gpu().finish(
            totals["value"],
            totals["gradient"],
            totals.get("diagonal"),
            w,
            None if beside is None else beside.w,
            self.n_features,
            self.C,
            self.penalty.quadratic.largest,  # of all features
        )
        return Point(
            self,
            w,
            found.value,
            found.gradient,
            token,
            hessian,
            found.diagonal,
            exact,
            norms=(Norms(found.norm, found.intercept), Norms(found.gradient_norm, found.slope)),
            beside=None if beside is None else (beside.token, found.moved),
        )

    def expected_hessian(self, w: np.ndarray) -> Any:
        """Return the Hessian with expected curvatures, Fisher's. Cost: 1 pass, 1 round."""
        blocks = self._level_blocks()
        if blocks is None:
            return self._hessian(self.ask(InferenceSums(w))["bread"])
        how: Any = {"gram": True, "keep": False, "exact": True, "expected": True}
        return self._hessian(self.ask(Evaluate(w, next(tokens), blocks=blocks, **how))["gram"])

    def hessian_vector(self, point: Point, v: np.ndarray) -> np.ndarray:
        """Multiply v by the Hessian at an evaluated point. Cost: 1 pass, 1 round."""
        totals = self.ask(self.margins.asked(HessianVector(v, (point.token, point.w))))
        product = self.margins.product(totals, point, v)
        return self.C * product + self.penalty.quadratic.hessian_vector(v)

    def column_sweeps(
        self,
        point: Point,
        v: np.ndarray,
        slope: np.ndarray,
        wanted: float,
        most: int,
        more: np.ndarray | float = 0.0,
    ) -> tuple[np.ndarray, int]:
        """Descend on the model at an evaluated point along one coefficient after the other.

        Parameters
        ----------
        v, slope : (size,) arrays
            Where to start, and the gradient of the model's quadratic there.
        wanted : float
            Residual, a norm in the inverse of the Hessian's diagonal, at which to end.
        most : int
            Sweeps at most.
        more : (size,) array or float
            What is added to the Hessian's diagonal.

        Returns
        -------
        tuple of (size,) array and int
            Where the sweeps led to, and their number. Cost: 1 pass for each.
        """
        assert point.diagonal is not None
        kinks, ridge = self.penalty.kinks, self.penalty.quadratic.diagonal(self.size) + more
        diagonal = np.where(point.diagonal + more > 0.0, point.diagonal + more, 1.0)
        model = np.array([slope, diagonal, ridge, kinks.strengths, kinks.lower, kinks.upper])
        totals = self.ask(ColumnSweeps((point.token, point.w), self.C, v, model, wanted, most))
        return totals["v"], totals["sweeps"]

    def trust_region_step(self, point: Point, metric: Array, radius: float, share: float) -> Totals:
        """Solve the subproblem of a trust region where the rows are: `requests.TrustRegionStep`.

        Cost: 1 pass per product, 1 round.
        """
        return self.ask(
            TrustRegionStep(
                (point.token, point.w),
                point.gradient,
                metric,
                radius,
                share,
                self.C,
                self.penalty.quadratic.diagonal(self.size, self.xp),
            )
        )

    def along(
        self, points: Sequence[Point], coefficients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate the smooth part at combinations of points, with derivatives by coefficients.

        Row m of `coefficients` (m, k + 1) means sum_j c_j w_j plus c_k on the intercept; the c_j
        must sum to one where there is an intercept. Returns values (m,), slopes (m, k + 1) and
        Hessians (m, k + 1, k + 1). Margins are affine in w, so those that workers keep are enough.
        Cost: 0 passes, 1 round.

        Raises NotImplementedError where a row has several constants.
        """
        return self.along_later(Asking(self.ask, self.problem), points, coefficients)()

    def along_later(
        self, asking: Asking, points: Sequence[Point], coefficients: np.ndarray
    ) -> Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Put `along` off, to be asked by `asking`; return what returns what that does."""
        if not self.margins.moves_alike:
            raise NotImplementedError("margins with several constants are searched by `between`")
        coefficients = np.atleast_2d(coefficients)
        at = tuple((point.token, point.w) for point in points)
        request = EvaluateAlong(at, coefficients[:, :-1], coefficients[:, -1:])
        reply = asking.later(request, self.problem)

        # products of the points in the penalty; the last is the intercept's, which has no penalty
        inner = np.zeros((len(points) + 1, len(points) + 1))
        for i, p in enumerate(points):
            pulled = self.penalty.quadratic.hessian_vector(p.w)
            for j, q in enumerate(points[: i + 1]):
                inner[i, j] = inner[j, i] = float(pulled @ q.w)
        pc = coefficients @ inner
        penalty = 0.5 * np.einsum("mk,mk->m", pc, coefficients)

        def found() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            totals = reply()
            with np.errstate(over="ignore"):  # exponential losses, far from the optimum
                return (
                    self.C * totals["values"] + penalty,
                    self.C * totals["slopes"] + pc,
                    self.C * totals["hessians"] + inner,
                )

        return found

    def between(self, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Evaluate a + t (b - a) for each t of `steps`. Cost: 0 passes, 1 round."""
        quadratic, kinks = self.penalty.quadratic, self.penalty.kinks
        if self.margins.moves_alike:
            coefficients = np.stack([1 - steps, steps, np.zeros(len(steps))], axis=1)
            smooth = self.along((a, b), coefficients)[0]
        else:
            losses = self.margins.between(self, a, b, steps)
            smooth = self.C * losses
            smooth = smooth + [quadratic.value(a.w + t * (b.w - a.w)) for t in steps]
        if kinks.is_empty:
            return smooth
        return smooth + np.array([kinks.value(a.w + t * (b.w - a.w)) for t in steps])

    def slopes_between(self, a: Point, b: Point, steps: Sequence[float]) -> np.ndarray:
        """Return slopes along b - a at a + t (b - a) for each t of `steps`.

        Cost: 0 passes, 1 round; a pass for each where a row has several constants.
        """
        if not self.margins.moves_alike:
            step = b.w - a.w
            points = [self.at(a.w + t * step, keep=False) for t in steps]
            return np.array([float(point.gradient @ step) for point in points])
        way = np.array([[1.0 - t, t, 0.0] for t in steps])
        slopes = to_host(self.along((a, b), way)[1])
        found: np.ndarray = slopes[:, 1] - slopes[:, 0]
        return found

    def feature_sizes(self, w: np.ndarray) -> np.ndarray:
        """Return the sizes of the coefficients of each feature, of w in host memory."""
        return self.margins.feature_sizes(w)

    # ---- how good a point is
    def certificate(self, tol: float) -> Certify:
        """Return what the driver calls to bound the points of one solve."""
        return self.bounds.certificate(tol)

    def residual(self, point: Point) -> Array:
        """Return the shortest subgradient at a point. Cost: nothing."""
        if self.penalty.is_smooth:
            return point.gradient
        return self.penalty.kinks.residual(point.w, point.gradient)

    def sample(self, fraction: float, seed: int, requests: float = math.inf) -> Self:
        """Return the objective on a random part of the rows; see `samples`."""
        return self.samples([fraction], seed, requests)[0]

    def samples(self, shares: Sequence[float], seed: int, requests: float = math.inf) -> list[Self]:
        """Return the objective on one random part after the other, with seeds from `seed` on.

        Where samples travel these do in one message, if they are worth it for about so many
        requests about each.
        """
        parts = [Drawn(share, seed + k) for k, share in enumerate(shares)]
        soon = tuple(Soon(part, requests) for part in parts)
        return [self.on(part, soon) for part in parts]

    def on(self, part: Part, soon: tuple[Soon, ...] = ()) -> Self:
        """Return the objective on a part of the rows, with losses scaled up to all rows.

        Its passes count with those of the whole. `soon` are parts that are asked about next.
        """
        # what is learnt there is not of all rows
        rounding = copy.copy(self.rounding)
        return self._with(rows=self.rows.on(part, soon), C=self.C / part.share, rounding=rounding)

    def brought(self) -> Self | None:
        """Return the objective on the same rows in this process; None where they do not travel.

        Cost: 1 round.
        """
        engine = self.engine.brought(self.rows.problem)
        return None if engine is None else self._with(rows=replace(self.rows, engine=engine))

    def held(self, features: np.ndarray) -> Self:
        """Return the objective with some features at zero; see `Penalty.held`."""
        return self._with(rows=self.rows.metered_apart(), penalty=self.penalty.held(features))

    def on_columns(self, columns: np.ndarray, key: int) -> Self:
        """Return the objective on some features; see `Restriction`."""
        margins = self.margins.restricted(columns)
        return self._with(
            rows=self.rows.restricted(self.margins.features_of(columns), key),
            margins=margins,
            penalty=self.penalty.restricted(columns, margins.size),
            rounding=self.rounding.restricted(columns),
        )

    def _with(self, **changed: Any) -> Self:
        """Return the objective with other attributes."""
        found = copy.copy(self)
        vars(found).update(changed)
        if "penalty" in changed:
            found._take(found.margins.with_penalty(found.penalty))
        return found

    @property
    def is_sample(self) -> bool:
        """Whether it is about a part of the rows."""
        return self.rows.view.part is not None

    def ask(self, request: Request) -> Totals:
        """Pass a request about these rows to the engine, counting passes."""
        return self.rows.ask(request)
