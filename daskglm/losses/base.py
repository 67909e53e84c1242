"""What a loss is: its formulas for one row, and what solvers, bounds and kernels may rely on.

A loss is one module with a record `Loss`; `daskglm.losses.table` lists those of the package and
registers those from outside of it. Formulas are plain functions of numbers that numba compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from daskglm.core.facts import DataSummary
from daskglm.core.requests import LossRef

# what kernels take for a loss: code, two parameters, address of a compiled `tile`, or 0
Law = tuple[int, float, float, int]

# Codes of the losses of this package, the same as in kernels/cuda/common.cu.
LOGISTIC, SQUARED_HINGE, SQUARED, HINGE, SMOOTHED_HINGE = range(5)
# Code of all losses from outside of the package, whose functions kernels call by address.
OUTSIDE = 1000

# Replaces zero in logarithms and divisions.
TINY = 1e-300


class DualFormulas(NamedTuple):
    """The loss as the dual problem sees it, for one row.

    The dual variable a stands for minus the slope at the row's margin. y is the target, p1 and p2
    are the parameters of the loss.

    Parameters
    ----------
    conjugate : callable
        (y, a, p1, p2) to loss*(-a), for a within the domain.
    derivatives : callable
        (y, a, p1, p2) to loss*(-a) at the nearest a within the domain, its first and second
        derivative in a, and whether a is outside of the domain beyond rounding.
    step : callable
        (y, z, a, q, p1, p2) to the best dual variable, all others fixed: minus the slope at the
        margin u that solves u + q slope(u) = z - q a. z is the margin now, q how much it falls when
        a falls by one.
    into_domain : callable
        (y, a, p1, p2) to the nearest a at which the conjugate is finite.
    best_constant : callable, optional
        (positive, negative, p1, p2) to the margin z at which positive loss(z) + negative loss(-z)
        is least, for weights above zero; for losses of classes.
    """

    conjugate: Callable[..., float]
    derivatives: Callable[..., tuple[float, float, float, bool]]
    step: Callable[..., float]
    into_domain: Callable[..., float]
    best_constant: Callable[..., float] | None = None


@dataclass(frozen=True)
class Loss:
    """One loss of a target y and a margin z: convex in z and nowhere negative.

    Parameters
    ----------
    name : str
        What users write.
    row : callable
        (y, z, p1, p2) to value, slope and curvature in z. numba compiles it; where an optimiser may
        meet margins that are NaN or infinite, the value must not be finite (a term 0 * z does it).
        Where the slope jumps or has a corner, any generalised curvature will do.
    classifies : bool
        True if targets are -1 and +1 for the labels of classes, False if they are numbers.
    smoothness : float
        Supremum of the curvature; infinite where the slope jumps.
    self_concordance : float
        Supremum of |third derivative| over curvature; infinite where the curvature jumps.
    differentiable : bool
        Whether the slope is continuous, which all solvers but sdca need.
    is_quadratic : bool
        Whether the curvature is the same everywhere.
    rest_margin : float
        Of classes: y z from which on the value is its infimum, or within a rounding of it.
    attains_infimum : bool
        Whether that infimum is reached: else separable classes have no optimum without a penalty.
    intercept_radius : callable, optional
        (positive, negative, largest) to how far the best intercept can lie outside the range of
        -x.w, from the weights of both classes and the largest absolute target. Default: the rest
        margin for classes whose loss attains its infimum, else the largest target.
    dual : DualFormulas, optional
        What sdca needs.
    p1, p2 : float
        Parameters of the formulas.
    code : int
        Branch of the compiled kernels; losses from outside of the package have none.
    module : str
        Module that registers the loss, which workers import to know it; empty: this package.
    """

    name: str
    row: Callable[..., tuple[float, float, float]]
    classifies: bool
    smoothness: float
    self_concordance: float = math.inf
    differentiable: bool = True
    is_quadratic: bool = False
    rest_margin: float = 1.0
    attains_infimum: bool = True
    intercept_radius: Callable[[float, float, float], float] | None = None
    dual: DualFormulas | None = None
    p1: float = 0.0
    p2: float = 0.0
    code: int = OUTSIDE
    module: str = ""

    @property
    def ref(self) -> LossRef:
        """What requests carry."""
        return LossRef(self.name, self.p1, self.p2, self.module)

    @property
    def has_dual(self) -> bool:
        """Whether sdca can minimise it."""
        return self.dual is not None

    @property
    def runs_on_gpu(self) -> bool:
        """Whether the CUDA kernels have it."""
        return self.code != OUTSIDE

    def intercept_span(self, positive: float, negative: float, largest: float) -> float:
        """Bound how far the best intercept can be outside the range of -x.w.

        It bounds the cost of a wrong intercept. At the optimum the slopes sum to zero. Margins of
        one class all at rest, or residuals all of one sign, make that impossible; this bounds the
        intercept from both sides.

        Parameters
        ----------
        positive, negative : float
            Total weight of the two classes.
        largest : float
            Largest absolute target of a regression.
        """
        if self.intercept_radius is not None:
            return self.intercept_radius(positive, negative, largest)
        return self.rest_margin if self.classifies else largest

    def best_constant(self, positive: float, negative: float) -> float:
        """Return the margin z at which positive * loss(z) + negative * loss(-z) is least.

        It is the intercept of a fit with w = 0.

        Parameters
        ----------
        positive, negative : float
            Total weights of the two classes, both above zero.
        """
        if self.dual is None or self.dual.best_constant is None:
            raise ValueError(f"the best constant of the loss {self.name!r} is not known")
        return self.dual.best_constant(positive, negative, self.p1, self.p2)

    def check_targets(self, facts: DataSummary) -> None:
        """Raise ValueError for targets that the loss cannot be fitted to."""
        if not self.classifies:
            return
        names = [repr(_plain(label)) for label, _, _ in facts.classes]
        if len(names) < 2:
            raise ValueError(f"all rows have one class, {', '.join(names)}: a classifier needs two")


def _plain(label: Any) -> Any:
    """Return a label as Python writes it."""
    return label.item() if hasattr(label, "item") else label
