"""What a loss is: its formulas for one row, and what solvers, bounds and kernels may rely on.

A loss is one module with a record `Loss`; `daskglm.losses.table` lists those of the package and
registers those from outside of it. Formulas are plain functions of numbers that numba compiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.arguments import plain_label
from daskglm.core.facts import DataSummary
from daskglm.core.requests import LossRef
from daskglm.losses.family import Family
from daskglm.losses.links import Link

# what kernels take for a loss: code, two parameters, address of a compiled `tile`, or 0
Law = tuple[int, float, float, int]

# Codes of the losses of this package, the same as in kernels/cuda/common.cu.
LOGISTIC, SQUARED_HINGE, SQUARED, HINGE, SMOOTHED_HINGE = range(5)
HUBER, QUANTILE, EPSILON_INSENSITIVE, SQUARED_EPSILON_INSENSITIVE = range(10, 14)
# Those of exponential families, the same as in kernels/cuda/families.cu.
POISSON, POISSON_IDENTITY, POISSON_SQRT = range(20, 23)
GAMMA, GAMMA_INVERSE, GAMMA_IDENTITY = range(23, 26)
INVERSE_GAUSSIAN, INVERSE_GAUSSIAN_SQUARED = range(26, 28)
TWEEDIE, TWEEDIE_ABOVE_TWO = range(28, 30)
NEGATIVE_BINOMIAL = 30
BINOMIAL, BINOMIAL_PROBIT, BINOMIAL_CLOGLOG = range(31, 34)
GAUSSIAN_LOG = 34
GAUSSIAN_INVERSE, BINOMIAL_LOG, BINOMIAL_IDENTITY = range(35, 38)
INVERSE_GAUSSIAN_IDENTITY, TWEEDIE_IDENTITY, TWEEDIE_POWER = range(38, 41)
# Code of all losses from outside of the package, whose functions kernels call by address.
OUTSIDE = 1000

# Mean of targets that are all zero, from which a solve starts. Chosen.
LEAST_MEAN = 1e-8
# Change of a margin, times its rate, within which `Loss.local_rate` bounds the fall of a curvature.
LARGEST_FALL = 1.6
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


class Parameter(NamedTuple):
    """The number that a loss takes after its name, as in "huber(1.35)".

    Parameters
    ----------
    name : str
        Name that errors and estimators give it.
    low, high : float
        Where it lies; both ends are excluded unless `closed`.
    default : float
    closed : bool
        Whether the ends are allowed.
    """

    name: str
    low: float
    high: float
    default: float
    closed: bool = False

    def check(self, loss: str, value: float) -> None:
        """Raise ValueError for a value out of range."""
        inside = self.low <= value <= self.high if self.closed else self.low < value < self.high
        if not (inside and math.isfinite(value)):
            left, right = ("[", "]") if self.closed else ("(", ")")
            raise ValueError(
                f"loss {loss!r}: {self.name}={value:g} must be in {left}{self.low:g}, "
                f"{self.high:g}{right}"
            )


@dataclass(frozen=True)
class Loss:
    r"""One loss of a target y and a margin z: nowhere negative, and convex in z but for a few.

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
        Supremum of :math:`|l'''| / l''`, l being the loss as a function of z; infinite where the
        curvature jumps.
    continuous_curvature : bool
        Whether the curvature is continuous all the same, where `self_concordance` is infinite since
        its rate of change has no bound, or none that is claimed; families have that anyway.
    differentiable : bool
        Whether the slope is continuous, which all solvers but sdca need.
    is_quadratic : bool
        Whether the curvature is the same everywhere.
    has_two_curvatures : bool
        Whether the curvature is `smoothness` on one interval of margins and zero everywhere else.
    rest_margin : float
        Of classes: y z from which on the value is its infimum, or within a rounding of it.
    attains_infimum : bool
        Whether that infimum is reached: else separable classes have no optimum without a penalty.
    convex : bool
        Whether it is convex in z. If not, nothing is proved of points, and `row` returns the
        expected curvature (Fisher's), which is nowhere negative.
    family : Family, optional
        Distribution of which it is half the unit deviance.
    link : Link, optional
        How a margin gives the mean of the family.
    has_open_ends : bool
        Whether an end of the margins that the link takes can be the best place for rows whose
        target is at an end of what the family has: their loss has no barrier there.
    fisher : callable, optional
        (y, z, p1, p2) to the expected curvature; default: that of `row` is.
    local_rate : callable, optional
        (y, z) to rates at which the curvature falls near a margin, vectors (n,): within d of z it
        is at least :math:`\exp(-\rho |d|)` times that at z, for all d up to `LARGEST_FALL` over the
        rate :math:`\rho`; zero where the curvature is constant, and only there. For convex losses
        of families whose curvature changes at no bounded rate. Of links whose margins have an end
        the curvature rises, and the rate grows, no faster than :math:`1 / r^2` does in the distance
        r from the nearest; of others the curvature rises no faster than it falls.
    rest_curvature : callable, optional
        (weight, sum of weighted targets, p1) to a bound on the weighted sum of the curvatures at
        the margins where each row's loss is least: for self-concordant losses without smoothness.
    two_classes : str
        Of losses of all classes together: name of the loss that takes its place for two.
    of_margins : callable, optional
        Of losses of K margins a row that depend on their differences: makes of p1 the law, a named
        tuple by whose class kernels choose their functions (`kernels.class_losses`).
    shares : callable, optional
        Of these losses: (weights of the classes, p1) to those whose logarithms are the best
        intercepts of a fit without features; default: the same.
    shifts : bool
        Whether it depends on z - y only, so that an offset is taken from the target.
    intercept_radius : callable, optional
        (positive, negative, largest) to how far the best intercept can lie outside the range of
        -x.w, from the weights of both classes and the largest absolute target. Default: the rest
        margin for classes whose loss attains its infimum, else the largest target.
    dual : DualFormulas, optional
        What sdca needs.
    p1, p2 : float
        Parameters of the formulas.
    parameter : Parameter, optional
        What users may set p1 to, in parentheses after the name.
    smoothed : callable, optional
        Takes this loss and a width; returns it with the corners rounded over that width, whose
        conjugate is larger by :math:`\frac12 a^2` times the width. `moved` of the smoothed loss
        makes that a proximal term.
    moved : callable, optional
        (y, a, width) to targets with which a loss that is smoothed over this width has, but for a
        constant, a proximal term around the dual variables a; y and a are vectors.
    at : callable, optional
        Takes a value of the parameter and returns the loss with it; default: with another p1.
    at_exponent : callable, optional
        Takes this loss and the exponent of its link, which is p2; returns the loss with it.
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
    continuous_curvature: bool = False
    differentiable: bool = True
    is_quadratic: bool = False
    has_two_curvatures: bool = False
    rest_margin: float = 1.0
    attains_infimum: bool = True
    convex: bool = True
    family: Family | None = None
    link: Link | None = None
    has_open_ends: bool = False
    fisher: Callable[..., float] | None = None
    local_rate: Callable[[Any, Any], Any] | None = None
    rest_curvature: Callable[[float, float, float], float] | None = None
    two_classes: str = ""
    of_margins: Callable[[float], Any] | None = None
    shares: Callable[[np.ndarray, float], np.ndarray] | None = None
    shifts: bool = False
    intercept_radius: Callable[[float, float, float], float] | None = None
    dual: DualFormulas | None = None
    p1: float = 0.0
    p2: float = 0.0
    parameter: Parameter | None = None
    smoothed: Callable[[Loss, float], Loss] | None = None
    moved: Callable[..., Any] | None = None
    at: Callable[[float], Loss] | None = None
    at_exponent: Callable[[Loss, float], Loss] | None = None
    code: int = OUTSIDE
    module: str = ""

    @property
    def full_name(self) -> str:
        """The name with the parameter, by which `losses.table.find` returns this loss."""
        if self.parameter is None:
            return self.name
        exponent = "" if self.at_exponent is None else f", {self.p2!r}"
        return f"{self.name}({self.p1!r}{exponent})"

    def with_parameter(self, value: float) -> Loss:
        """Return the loss with another value of its parameter.

        Raises ValueError for a value out of range, and for losses that take none.
        """
        if self.parameter is None:
            raise ValueError(f"loss {self.name!r} takes no parameter; {value:g} was given")
        self.parameter.check(self.name, value)
        return replace(self, p1=float(value)) if self.at is None else self.at(float(value))

    @property
    def ref(self) -> LossRef:
        """What requests carry."""
        return LossRef(self.name, self.p1, self.p2, self.module)

    @property
    def has_dual(self) -> bool:
        """Whether sdca can minimise it."""
        return self.dual is not None

    @property
    def is_bounded(self) -> bool:
        """Whether something is known of its curvature, so that points can be bounded."""
        return self.convex and math.isfinite(min(self.smoothness, self.self_concordance))

    @property
    def has_smooth_curvature(self) -> bool:
        """Whether curvatures are known to change gradually with a margin."""
        return math.isfinite(self.self_concordance) or self.continuous_curvature

    @property
    def jumps(self) -> bool:
        """Whether curvatures jump where a margin passes a corner, as those of squared hinges do."""
        return self.differentiable and self.family is None and not self.has_smooth_curvature

    def expected_curvature(self, mean: float) -> float:
        """Return the curvature to be expected of a row with this mean of its target.

        The largest, if that is known; else Fisher's.
        """
        if math.isfinite(self.smoothness) or self.family is None or self.link is None:
            return self.smoothness
        mean = max(mean, LEAST_MEAN) if self.family.domain.low == 0.0 else mean
        with np.errstate(all="ignore"):
            slope = float(self.link.slope(self.link.of_mean(mean)))
            variance = float(self.family.variance(mean, self.p1))
        curvature = slope * slope / variance if variance > 0.0 else math.nan
        return curvature if 0.0 < curvature < math.inf else 1.0

    @property
    def runs_on_gpu(self) -> bool:
        """Whether the CUDA kernels have it."""
        return self.code != OUTSIDE

    def largest_intercept_radius(self, positive: float, negative: float, largest: float) -> float:
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

    @property
    def bends(self) -> bool:
        """Whether it is of a family whose mean is not the margin itself, but a function of it."""
        link = self.link
        return link is not None and (link.name != "identity" or link.is_bounded)

    def intercept_radius_of(self, facts: DataSummary, positive: float, negative: float) -> float:
        """Bound how far the best intercept can be outside the range of -x.w, for all rows.

        With a link the best constant margin is that of the mean target, and offsets move it by as
        much as they are large. `positive` and `negative` are as in `largest_intercept_radius`.
        """
        if not self.bends:
            largest = facts.largest_target + facts.largest_offset
            return self.largest_intercept_radius(positive, negative, largest)
        assert self.link is not None
        with np.errstate(divide="ignore"):
            margin = float(self.link.of_mean(facts.target_sum / facts.weight))
        return abs(margin) + facts.largest_offset if math.isfinite(margin) else math.inf

    def start(self, facts: DataSummary) -> float:
        """Return an intercept for w = 0 that is near the best one, where the link is not linear.

        It is the link of the mean target; with offsets less what they add to it.
        """
        link = self.link
        if not self.bends or link is None:
            return 0.0
        mean, offset = facts.target_sum / facts.weight, facts.largest_offset
        inside = self.family.domain if self.family else None
        if inside is not None and math.isfinite(inside.high):
            # all rows of one kind have no finite margin
            share = 0.5 / max(facts.n_rows, 1)
            mean = min(max(mean, inside.low + share), inside.high - share)
        elif not mean > 0.0:
            mean = LEAST_MEAN
        if not offset:
            return float(link.of_mean(mean))
        exposed = math.isfinite(facts.exposure_sum) and facts.exposure_sum > 0.0
        if link.name == "log" and exposed and not link.is_bounded:
            return float(link.of_mean(mean)) - math.log(facts.exposure_sum / facts.weight)
        margin = float(link.of_mean(mean))
        if not link.is_bounded:
            return margin - facts.offset_sum / facts.weight
        # inside for every row, if there is such an intercept
        if math.isinf(link.high):
            return margin - facts.least_offset
        if math.isinf(link.low):
            return margin - facts.most_offset
        least, most = link.low - facts.least_offset, link.high - facts.most_offset
        if not least < most:
            return margin - facts.offset_sum / facts.weight
        return least + (most - least) * (margin - link.low) / (link.high - link.low)

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
            self._check_mean(facts)
            return
        names = [repr(plain_label(label)) for label, _, _ in facts.classes]
        if len(names) < 2:
            raise ValueError(f"all rows have one class, {', '.join(names)}: a classifier needs two")

    def _check_mean(self, facts: DataSummary) -> None:
        """Raise ValueError where a link has means above zero, and the mean of any targets is not.

        Of families without negative targets a mean of zero is the end of what the link has.
        """
        family, link = self.family, self.link
        if family is None or link is None or not (link.is_bounded and family.domain.is_everything):
            return
        mean = facts.target_sum / facts.weight if facts.weight > 0.0 else math.nan
        if mean <= 0.0:
            raise ValueError(
                f"the mean target is {mean:.6g}, and the link {link.name!r} has means above zero "
                "only; take another link, or targets of the other sign"
            )
