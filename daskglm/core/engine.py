"""Where requests go: the protocol that objectives see and engines fulfil."""

from __future__ import annotations

from typing import Any, Protocol

from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem, Request, Totals


class Engine(Protocol):
    """All rows of a data set, wherever they are, as one verb.

    `facts` is what the loading pass learnt; `rounds`, `bytes_reduced` and `repairs` count since the
    engine was made. `device` is "cpu" or "cuda", `xp` the namespace (NumPy or CuPy) of vectors in
    requests and replies; `solves_trust_regions` tells whether `TrustRegionStep` is answered.
    """

    device: str
    xp: Any
    solves_trust_regions: bool
    facts: DataSummary
    rounds: int
    bytes_reduced: int
    repairs: int

    @property
    def samples(self) -> bool:
        """Whether `Sampled` is answered for its part of the cost of a pass."""

    @property
    def answers_samples(self) -> bool:
        """Whether `Sampled` is answered, at whatever cost."""

    @property
    def shares_memory(self) -> bool:
        """Whether all rows are in the memory of this process, which who asks and who answers may
        share vectors in.
        """

    @property
    def workers(self) -> int:
        """How many places answer a request."""

    def total(self, problem: Problem, request: Request) -> Totals:
        """Answer one request with sums over all rows. Cost: 1 round."""

    def close(self) -> None:
        """Release data, caches and threads."""
