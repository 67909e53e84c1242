"""How a row's margins follow from coefficients: what an objective knows of the shape of its loss.

z_i = L (V x_i) + T c + o_i, with coefficients V of the features and constants c without a penalty.
Solvers see one vector: the features of set 0, of set 1, ..., then the constants. Each shape turns
such vectors into requests, and the sums that come back into sums by such vectors; an objective adds
C and the penalty. None of them asks by itself, but for the constants that fit best.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from daskglm.certificates.constants import Intercept
from daskglm.certificates.free import Free
from daskglm.certificates.free_block import FreeBlock
from daskglm.certificates.rounding import Rounding
from daskglm.core.arguments import plain_label
from daskglm.core.asking import Asking
from daskglm.core.device import Array, to_host
from daskglm.core.facts import DataSummary
from daskglm.core.requests import Request, Totals
from daskglm.core.summation import SUMMED_ROWS
from daskglm.losses.base import Loss
from daskglm.objectives.convex import Seen, distance_to_best, first_points, least_of_several
from daskglm.penalties.penalty import Penalty

if TYPE_CHECKING:
    from daskglm.objectives.point import ByThresholds, Point
    from daskglm.objectives.primal import Objective


class Sums(NamedTuple):
    """Sums over the rows, without C, by a vector of solvers.

    Parameters
    ----------
    value : float
    gradient : (size,) array
    hessian : (size, size) array, optional
        The upper triangle, or all of it.
    diagonal : (size,) array, optional
    by_thresholds : ByThresholds, optional
    """

    value: Any
    gradient: Array
    hessian: Array | None = None
    diagonal: Array | None = None
    by_thresholds: ByThresholds | None = None


@dataclass(frozen=True, eq=False)
class Margins(ABC):
    """What all shapes share.

    Parameters
    ----------
    width : int
        Features of a row.

    Attributes
    ----------
    outputs, sets : int
        Margins of a row, and sets of coefficients of the features.
    constants : int
        Entries of vectors that are not features'.
    labels : tuple
        Classes, of losses that are about several.
    weight : float or None
        Total weight of the rows; None: all that the data have.
    """

    width: int

    # whether vectors are in host memory, wherever the rows are
    on_host: ClassVar[bool] = True
    # whether one number moves the cached margins of all rows alike, so that searches may ask for it
    moves_alike: ClassVar[bool] = False
    # what points say of coefficients that no penalty holds
    free: ClassVar[type[Free]] = FreeBlock

    @classmethod
    def of(cls, objective: Objective) -> Self:
        """Return the margins of an objective that has this kind of them."""
        assert isinstance(objective.margins, cls)
        return objective.margins

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Margins of a row."""

    @property
    def offsets(self) -> int:
        """Numbers of a row that are added to its margins, where there are offsets."""
        return 1

    def check_offsets(self, facts: DataSummary) -> None:
        """Raise ValueError for offsets of another number of columns."""
        columns, wanted = facts.offset_columns, self.offsets
        if columns == wanted or (columns <= 1 and not facts.largest_offset):
            return
        if wanted == 1:
            raise ValueError(
                f"offset has {columns} columns, but one number is added to the margins of a row: "
                "give an array of shape (n,)"
            )
        labels = np.array(self.labels).tolist()
        raise ValueError(
            f"offset has {columns} column(s), but a number is added to the margin of each class: "
            f"give an array of shape (n, {wanted}), with columns for {labels}"
        )

    @property
    @abstractmethod
    def constants(self) -> int:
        """Entries of vectors that are not features'."""

    @property
    def sets(self) -> int:
        """Sets of coefficients of the features."""
        return 1

    @property
    def labels(self) -> tuple[Any, ...]:
        """Classes, of losses that are about several."""
        return ()

    def places_among(self, labels: np.ndarray) -> list[int]:
        """Return the places of these classes among all labels."""
        known = labels.tolist()
        return [known.index(plain_label(label)) for label in self.labels]

    @property
    def weight(self) -> float | None:
        """Total weight of the rows, where it is not that of all data."""
        return None

    @property
    def n_features(self) -> int:
        """Entries of vectors that are features'."""
        return self.sets * self.width

    @property
    def size(self) -> int:
        """Length of vectors."""
        return self.n_features + self.constants

    def can_go_without(self, loss: Loss) -> bool:
        """Return whether a Hessian alone bounds points, without a penalty."""
        return True

    def typical_curvature(self, loss: Loss, facts: DataSummary) -> float:
        """Return the largest curvature of a row's loss, or what is to be expected."""
        return min(loss.smoothness, 1.0)

    @abstractmethod
    def rounding(
        self, facts: DataSummary, loss: Loss, penalty: Penalty, C: float, *, on_device: bool
    ) -> Rounding:
        """Return the bounds on rounding errors of an objective's sums."""

    def origin(self, objective: Objective) -> Array:
        """Return the coefficients of a fit without features, or zero."""
        return np.zeros(self.size)

    def is_inside(self, w: Array) -> bool:
        """Return whether an objective can be finite at w: it is everywhere, but for overflow."""
        return True

    @abstractmethod
    def only_side(self, objective: Objective) -> float:
        """Return the sign of the last entry where constants predict the only class; else 0."""

    def feature_sizes(self, w: np.ndarray) -> np.ndarray:
        """Return the sizes of the coefficients of each feature, of w in host memory."""
        return np.abs(w[: self.n_features])

    # ---- requests, and what comes back
    def asked(self, request: Request) -> Request:
        """Return a request about vectors of solvers as rows take it."""
        return request

    @abstractmethod
    def sums(self, w: Array, totals: Totals, *, is_sample: bool) -> Sums:
        """Return the sums of a reply at w."""

    def settled(self, hessian: np.ndarray, penalty: Penalty) -> np.ndarray:
        """Return the Hessian of an objective, made definite where it is flat."""
        return hessian

    def known(self, objective: Objective, point: Point) -> Point:
        """Return a point with what follows for its bound from what is known. Cost: nothing."""
        return point

    def product(self, totals: Totals, point: Point, v: Array) -> Array:
        """Return the losses' Hessian at a point times v, without C, of a reply."""
        return totals["product"]

    @abstractmethod
    def between(self, objective: Objective, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Return sums of losses at a + t (b - a), without C. Cost: 0 passes, 1 round."""

    # ---- constants
    @abstractmethod
    def near_constants(self, objective: Objective, point: Point) -> Point:
        """Bound how far a point's constants are from the best ones for its coefficients."""

    @abstractmethod
    def best_constants(self, objective: Objective, point: Point) -> Point:
        """Evaluate the same coefficients with the constants that fit them best."""

    # ---- parts of the columns
    def restricted(self, columns: np.ndarray) -> Self:
        """Return the same for some features; `columns` are their entries of vectors."""
        return replace(self, width=len(columns) // self.sets)

    def with_penalty(self, penalty: Penalty) -> Self:
        """Return the same, knowing which coefficients a penalty holds."""
        return self

    def features_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the features that have these entries of vectors."""
        return columns

    def tied(self, values: np.ndarray) -> np.ndarray:
        """Return the largest of the values of coefficients that are in working sets together."""
        return values


@dataclass(frozen=True, eq=False)
class OneMargin(Margins):
    """One margin, x.w plus an intercept if there is one.

    Parameters
    ----------
    width : int
    fit_intercept : bool
    """

    fit_intercept: bool

    on_host = False
    moves_alike = True

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    @property
    def constants(self) -> int:
        """One with an intercept, else none."""
        return int(self.fit_intercept)

    def can_go_without(self, loss: Loss) -> bool:
        """Return whether a Hessian alone bounds points: where curvatures vary slowly."""
        slow = loss.is_quadratic or math.isfinite(loss.self_concordance)
        return (loss.family is not None or slow) and loss.is_bounded

    def typical_curvature(self, loss: Loss, facts: DataSummary) -> float:
        """Return the largest curvature of a row's loss, or what is to be expected."""
        return loss.expected_curvature(facts.target_sum / max(facts.weight, 1e-300))

    def rounding(
        self, facts: DataSummary, loss: Loss, penalty: Penalty, C: float, *, on_device: bool
    ) -> Rounding:
        """Return the bounds on rounding errors of an objective's sums."""
        return Rounding(
            facts,
            loss,
            Intercept.of(fit_intercept=self.fit_intercept),
            on_device=on_device,
            run=None if facts.sparse else SUMMED_ROWS,
            penalty=penalty.quadratic,
        )

    def origin(self, objective: Objective) -> Array:
        """Return coefficients of zero, and the intercept `start`."""
        w = objective.xp.zeros(self.size)
        if self.fit_intercept:
            w[-1] = objective.start
        return w

    def only_side(self, objective: Objective) -> float:
        """Return the sign of the only class that has weight, if an intercept can predict it."""
        if objective.sides is None or not (objective.loss.classifies and self.fit_intercept):
            return 0.0
        positive, negative = objective.sides
        return float(negative == 0.0) - float(positive == 0.0)

    def sums(self, w: Array, totals: Totals, *, is_sample: bool) -> Sums:
        """Return the sums of a reply at w."""
        of_hessian = totals.get("gram"), totals.get("diagonal")
        return Sums(totals["value"], totals["gradient"], *of_hessian)

    def between(self, objective: Objective, a: Point, b: Point, steps: np.ndarray) -> np.ndarray:
        """Return sums of losses at a + t (b - a), which `Objective.along` has."""
        raise NotImplementedError("one margin is searched by `along`")

    def near_constants(self, objective: Objective, point: Point) -> Point:
        """Bound how far a point's intercept is from the best one.

        The point comes back as it is if nothing was found. Cost: 0 passes, 1 round where its
        Hessian is known, else 2.
        """

        def derivatives(shifts: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
            _, slopes, hessians = objective.along((point,), np.array([[1.0, t] for t in shifts]))
            return slopes[:, -1], hessians[:, -1, -1]

        # slopes by `along` are added up row after row, unlike those of the gradient
        rounding = objective.rounding
        adding = rounding.in_turn / rounding.terms * point.error.adding
        error, here = 2.0 * (point.error.slopes + adding), _at_its_own(point)
        known = None if here is None else (here.slope, here.curvature)
        near = distance_to_best(derivatives, error, known)
        return point if near is None else point.with_near(near)

    def best_constants(self, objective: Objective, point: Point) -> Point:
        """Evaluate the same coefficients with the best intercept. Cost: 1 pass, a few rounds."""
        w = point.w.copy()
        w[-1] += best_shift(objective, point).at
        return objective.at(w)


def best_shift(
    objective: Objective, point: Point, start: float = 0.0, begun: BegunShift | None = None
) -> Seen:
    """Find what to add to a point's intercept to minimise over it, from `start`.

    The search by `convex` takes cached margins, and has the value of the smooth part there. Cost: 0
    passes, a few rounds.
    """
    here, begun = _at_its_own(point), begun or BegunShift(objective, point, start)

    def ask(shifts: list[float]) -> list[Seen]:
        if here is not None and shifts == [here.at]:
            return [here]
        return begun.seen(shifts)

    loss = objective.loss
    return least_of_several(ask, begun.start, smooth=loss.differentiable, convex=loss.convex)


class BegunShift:
    """What a search for the best shift of a point's intercept asks.

    Parameters
    ----------
    objective : Objective
    point : Point
    start : float
    asking : Asking, optional
        Where the first question is put off, to travel with others.
    """

    def __init__(
        self, objective: Objective, point: Point, start: float, asking: Asking | None = None
    ) -> None:
        self.objective, self.point, self.start = objective, point, start
        self.asking = asking or Asking(objective.ask, objective.problem)
        self.first = first_points(start, smooth=objective.loss.differentiable)
        self.reply = None if asking is None else self._later(self.first, asking)

    def seen(self, shifts: list[float]) -> list[Seen]:
        """Return what is at some shifts. Cost: 1 round, unless that has been asked."""
        known = self.reply is not None and shifts == self.first
        reply = self.reply if known else self._later(shifts, self.asking)
        assert reply is not None
        values, slopes, hessians = (to_host(part) for part in reply())
        return [
            Seen(shift, float(values[k]), float(slopes[k, -1]), float(hessians[k, -1, -1]))
            for k, shift in enumerate(shifts)
        ]

    def _later(self, shifts: list[float], asking: Asking) -> Callable[[], Any]:
        coefficients = np.array([[1.0, shift] for shift in shifts])
        return self.objective.along_later(asking, (self.point,), coefficients)


def _at_its_own(point: Point) -> Seen | None:
    """Return the smooth part by the intercept at a point's own, which is 0 here; None if unknown.

    Cost: nothing.
    """
    if point.hessian is None or point.prediction is not None:
        return None
    value = point.value - point.objective.penalty.kinks.value(to_host(point.w))
    slope, curvature = float(point.gradient[-1]), float(point.hessian.diagonal()[-1])
    return Seen(0.0, value, slope, curvature)
