"""Losses of all classes together: what a fit needs of each between settings and solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskglm.fitting import ordinal, outputs
from daskglm.fitting.config import FitConfig
from daskglm.fitting.driver import Solution
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import is_ordinal
from daskglm.solvers.iterate import Iterates


def _same(value: Any) -> Any:
    return value


def _no_statistics(objective: Any, point: Any) -> dict[str, float]:
    return {}


def _as_they_come(objective: Any, iterates: Iterates) -> Iterates:
    return iterates


@dataclass(frozen=True)
class JointFit:
    """What fits of one such loss have of their own.

    Parameters
    ----------
    objective : callable
        (engine, problem, weights of all classes, loss, settings) to the objective.
    start : callable
        (start or None, objective, labels) to the vector where a solver starts.
    coefficients : callable
        (objective, w, labels) to coefficients and intercepts, or thresholds, of all labels.
    settled : callable
        (objective, solution) to the solution as it is reported.
    saved : callable
        (objective) to what a checkpoint says of the size of its vectors.
    settings : callable
        Settings to those that suit the loss; raises ValueError for others.
    iterates : callable
        (objective, iterates) to what the driver sees of a solver.
    statistics : callable
        (objective, point) to fields of the report.
    """

    objective: Callable[..., Any]
    start: Callable[[Any, Any, np.ndarray], np.ndarray]
    coefficients: Callable[[Any, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    settled: Callable[[Any, Solution], Solution]
    saved: Callable[[Any], dict[str, Any]]
    settings: Callable[[FitConfig], FitConfig] = _same
    iterates: Callable[[Any, Iterates], Iterates] = _as_they_come
    statistics: Callable[[Any, Any], dict[str, float]] = _no_statistics


_MULTINOMIAL = JointFit(
    outputs.multinomial_objective,
    outputs.start_of_outputs,
    outputs.coefficients,
    outputs.settled_outputs,
    lambda objective: {"sets": objective.margins.sets},
    settings=outputs.solvable,
    iterates=outputs.with_last_bound,
)
_ORDINAL = JointFit(
    ordinal.ordinal_objective,
    ordinal.start_of_ordinal,
    ordinal.coefficients,
    ordinal.settled_ordinal,
    lambda objective: {"constants": objective.margins.constants},
    statistics=ordinal.ordinal_statistics,
)


def joint_fit(loss: Loss) -> JointFit | None:
    """Return what fits of a loss have of their own; None for losses of one margin."""
    if loss.of_margins is not None:
        return _MULTINOMIAL
    return _ORDINAL if is_ordinal(loss) else None
