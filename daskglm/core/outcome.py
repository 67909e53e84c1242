"""What a solver reports: a record of each iteration, and why it stopped."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypedDict


class Reason(enum.Enum):
    """Why a solve ended; the value is the sentence that users read."""

    CONVERGED = "the bound on relative suboptimality fell to tol"
    COEFFICIENTS = "the bound on the relative error of the coefficients fell to tol"
    SMALL_DECREMENT = (
        "no gap is proved, but Newton's step would lower the objective by less than tol times its "
        "value"
    )
    EDGE = (
        "the optimum is at an end of the margins that the link takes: a barrier there leaves at "
        "most tol of the objective's value"
    )
    EXACT = "the targets are fitted exactly, but for rounding"
    SMALL_MEAN_GRADIENT = "the norm of the mean gradient fell to epsilon"
    SMALL_CHANGE = (
        "the coefficients changed by less than tol, relatively, from one epoch to the next"
    )
    ONE_SIDE = "all weight is on one side, to which every row is given"
    SEPARABLE = (
        "the classes are linearly separable: without a penalty there is no optimum, "
        "coefficients grow for ever"
    )
    NO_OPTIMUM = "the objective falls for ever as coefficients grow: there is no optimum in sight"
    SEVERAL_OPTIMA = (
        "the objective is not convex, and solves from other starts ended at different points: this "
        "is the lowest one"
    )
    NO_PROGRESS = "no step lowers the objective further in floating point"
    STALLED = (
        "the duality gap falls no further: columns of X have large means or very unlike scales, "
        "or tol is small"
    )
    MAX_ITER = "max_iter iterations were made"
    CALLBACK = "the callback asked to stop"
    NOT_FINITE = "the objective is not finite: values are too large"

    @property
    def converged(self) -> bool:
        """Whether a stopping rule was met, as against running out of iterations or of precision."""
        return self in (
            *(
                Reason.CONVERGED,
                Reason.SMALL_DECREMENT,
                Reason.EDGE,
                Reason.EXACT,
                Reason.SMALL_MEAN_GRADIENT,
                Reason.SMALL_CHANGE,
            ),
            *(Reason.COEFFICIENTS, Reason.ONE_SIDE),
        )


@dataclass(frozen=True)
class Cost:
    """Passes over X, requests answered by all workers, bytes that they sent, and wall seconds."""

    passes: float = 0.0
    rounds: int = 0
    bytes_reduced: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.passes + other.passes,
            self.rounds + other.rounds,
            self.bytes_reduced + other.bytes_reduced,
            self.seconds + other.seconds,
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.passes - other.passes,
            self.rounds - other.rounds,
            self.bytes_reduced - other.bytes_reduced,
            self.seconds - other.seconds,
        )


class Iteration(TypedDict):
    """One accepted point.

    Counters run from the start of the solve; `step` is the norm of the change of w. `estimated`
    marks an objective and a gap summed over the margins that epochs met ("sdca"), instead of
    evaluated ones. `solver` names the solver of the point where two solvers take turns.
    """

    iteration: int
    objective: float
    relative_gap: float
    gradient_norm: float
    step: float
    estimated: bool
    solver: str
    passes: float
    rounds: int
    bytes: int
    seconds: float
