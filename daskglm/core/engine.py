"""Where requests go: the protocol that objectives see and engines fulfil."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from daskglm.core.facts import DataSummary
from daskglm.core.outcome import Iteration
from daskglm.core.requests import Problem, Request, Totals
from daskglm.core.view import ALL, View


@dataclass(frozen=True)
class Capabilities:
    """What an engine offers to solvers. It may change from one request to the next.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        Where the rows are.
    xp : module
        Namespace (NumPy or CuPy) of the vectors in requests and replies.
    workers : int
        How many places answer a request.
    answers_samples : bool
        Whether samples of the rows are answered for, at whatever cost.
    cheap_samples : bool
        Whether a sample costs no more than its part of a pass.
    travelling : int
        Bytes of sampled rows up to which they travel to this process in one round; requests about
        them cost no round after.
    threads : int
        How many threads of all places answer.
    shares_memory : bool
        Whether all rows are in the memory of this process, so that engine and solver may share
        vectors.
    solves_trust_regions : bool
        Whether `TrustRegionStep` is answered.
    sweeps_columns : bool
        Whether `ColumnSweeps` is answered.
    descends_columns : bool
        Whether `ColumnDescent` is answered.
    """

    device: str
    xp: Any
    workers: int = 1
    answers_samples: bool = False
    cheap_samples: bool = False
    travelling: int = 0
    threads: int = 1
    shares_memory: bool = False
    solves_trust_regions: bool = False
    sweeps_columns: bool = False
    descends_columns: bool = False


class Engine(Protocol):
    """All rows of a data set, wherever they are, as one verb.

    `facts` is what the loading pass learnt; `rounds`, `bytes_reduced` and `repairs` count since the
    engine was made.
    """

    facts: DataSummary
    rounds: int
    bytes_reduced: int
    repairs: int

    @property
    def capabilities(self) -> Capabilities:
        """What is offered now."""

    def total(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Answer one request with sums over all rows, or over a view of them. Cost: 1 round."""

    def brought(self, problem: Problem) -> Engine | None:
        """Return an engine of this process with the same rows; None where they do not travel.

        It is closed with this engine. Cost: 1 round.
        """

    def publish(self, iteration: Iteration) -> None:
        """Tell those who watch the fit from elsewhere of an iteration. Cost: no round."""

    def close(self) -> None:
        """Release data, caches and threads."""
