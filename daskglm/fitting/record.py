"""What was fitted, in one record: predictions, scores, inference, tests and files read that and
nothing else, whatever becomes of an estimator's parameters after the fit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from daskglm.core.facts import DataSummary
from daskglm.fitting.config import FitConfig
from daskglm.losses.base import Loss
from daskglm.losses.table import find, for_classes
from daskglm.penalties.config import PLAIN, PenaltyConfig

# Relative difference of sums over rows that may be rounding, also of targets to float32. Chosen.
SAME = 1e-7
# What coefficients are: the optimum of loss and penalty; that of the features which the penalty
# selected, without it; means of the optima of folds.
OPTIMUM, RELAXED, AVERAGED = "optimum", "relaxed", "averaged"
KINDS = (OPTIMUM, RELAXED, AVERAGED)


class RowsMark(NamedTuple):
    """What tells rows from others, whichever features and containers they have.

    Rows of weight zero do not count.

    Parameters
    ----------
    used : int
        Rows of weight above zero.
    weight, target_sum, target_squares, offset_sum : float
        Sums of weights, and weighted sums.
    classes : tuple of (str, float)
        Labels and their weights, in order.
    """

    used: int
    weight: float
    target_sum: float = 0.0
    target_squares: float = 0.0
    offset_sum: float = 0.0
    classes: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, facts: DataSummary) -> RowsMark:
        """Return the mark of loaded rows."""
        classes = sorted((str(label), weight) for label, _, weight in facts.classes if weight > 0.0)
        return cls(
            facts.n_used,
            float(facts.weight),
            float(facts.target_sum),
            float(facts.target_squares),
            float(facts.offset_sum),
            tuple(classes),
        )

    def difference(self, other: RowsMark) -> str:
        """Return in words the first difference from other rows; empty: none is seen."""
        if self.used != other.used:
            return f"{self.used:,} rows of weight above zero and {other.used:,}"
        size = math.sqrt(self.weight * self.target_squares)
        pairs = {
            "the sum of the weights": (self.weight, other.weight, self.weight),
            "the sum of the targets": (self.target_sum, other.target_sum, size),
            "the sum of the squared targets": (
                *(self.target_squares, other.target_squares),
                self.target_squares,
            ),
            "the sum of the offsets": (
                *(self.offset_sum, other.offset_sum),
                max(abs(self.offset_sum), self.weight),
            ),
        }
        for what, (a, b, of) in pairs.items():
            if math.isfinite(a + b) and abs(a - b) > SAME * of:
                return f"{what} {a:.8g} and {b:.8g}"
        if [label for label, _ in self.classes] != [label for label, _ in other.classes]:
            return "other classes"
        for (label, a), (_, b) in zip(self.classes, other.classes, strict=True):
            if abs(a - b) > SAME * a:
                return f"the weight of the class {label} {a:.8g} and {b:.8g}"
        return ""


@dataclass(frozen=True, eq=False)
class FitRecord:
    """What was fitted: the problem, and what the fit found beside coefficients.

    Parameters
    ----------
    loss : str
        Name of the loss with its parameter: that which was found, where one was estimated.
    C : float
        What weighs the losses against the penalty; of cross-validation the one chosen.
    average : bool
        Whether C is the weight of the losses' mean, not of their sum; 1 / C is then alpha.
    penalty : PenaltyConfig
        With the l1_ratio chosen.
    fit_intercept : bool
    class_weight : dict, "balanced" or None
    rows : RowsMark, optional
        Of the rows of the fit; None where a file of an earlier version does not say.
    dispersion : float
        Pearson's statistic over rows less coefficients; nan for losses of no family.
    estimated : str, optional
        "theta", "power" or "scale": the parameter that the fit found, which is in `loss`.
    scale : float
        The scale of `HuberRegressor`, whose loss has delta = epsilon times this; else 1.
    kind : {"optimum", "relaxed", "averaged"}
        Whether coefficients minimise loss and penalty, or were fitted again without the penalty to
        the features that it selected, or are means over folds.
    parts : tuple of FitRecord
        Of several targets or quantiles, those of each; other fields are then of the first.
    """

    loss: str
    C: float
    average: bool = False
    penalty: PenaltyConfig = PLAIN
    fit_intercept: bool = True
    class_weight: Mapping[Any, float] | str | None = None
    rows: RowsMark | None = None
    dispersion: float = math.nan
    estimated: str | None = None
    scale: float = 1.0
    kind: str = OPTIMUM
    parts: tuple[FitRecord, ...] = ()

    def chosen(
        self, C: float, l1_ratio: float, *, relaxed: bool = False, averaged: bool = False
    ) -> FitRecord:
        """Return the record with what cross-validation chose."""
        return replace(
            self,
            C=float(C),
            penalty=replace(self.penalty, l1_ratio=float(l1_ratio)),
            kind=RELAXED if relaxed else AVERAGED if averaged else OPTIMUM,
        )

    @property
    def of_loss(self) -> Loss:
        """The loss, with its parameter and link."""
        return find(self.loss)

    @property
    def parameter(self) -> float:
        """The estimated parameter of a family; a theta of 0 is Poisson."""
        loss = self.of_loss
        return 0.0 if loss.parameter is None else loss.p1

    @property
    def is_penalised(self) -> bool:
        """Whether coefficients are other than those of the least loss."""
        return math.isfinite(self.C) or not self.penalty.is_plain or self.kind != OPTIMUM

    def settings(self, **more: Any) -> FitConfig:
        """Return settings of a fit of the same problem; `more` are further fields."""
        names = ("loss", "C", "average", "penalty", "fit_intercept", "class_weight")
        return FitConfig(**{name: getattr(self, name) for name in names}, **more)


def record_of(
    settings: FitConfig, facts: DataSummary, *, dispersion: float = math.nan, **more: Any
) -> FitRecord:
    """Return the record of a fit by these settings to rows of which this is known.

    The loss of the settings is the one that was fitted; `more` are further fields.
    """
    given = settings.class_weight
    fields: dict[str, Any] = {
        "loss": for_classes(find(settings.loss), len(facts.classes)).full_name,
        "C": float(settings.C),
        "average": settings.average,
        "penalty": settings.penalty,
        "fit_intercept": bool(settings.fit_intercept),
        "class_weight": dict(given) if isinstance(given, Mapping) else given,
        "rows": RowsMark.of(facts),
        "dispersion": dispersion,
    }
    return FitRecord(**(fields | more))


def several(parts: list[FitRecord]) -> FitRecord:
    """Return the record of several targets or quantiles."""
    return parts[0] if len(parts) == 1 else replace(parts[0], parts=tuple(parts))
