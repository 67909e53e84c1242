"""What answerers of requests are given: one request, beside the rows of one worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from daskglm.core.facts import DataSummary
from daskglm.core.requests import Problem, Totals
from daskglm.data.blocks import Block
from daskglm.kernels import cpu as host
from daskglm.losses.base import Law
from daskglm.losses.table import law_of
from daskglm.worker.pieces import Piece

R = TypeVar("R")

# Threads get sums of their own while all of them fit in these bytes.
SUMS_BYTES = 1 << 30


class Each(Protocol):
    """Shares pieces of rows out among threads, and adds up what they find."""

    def __call__(self, work: Callable[[list[Piece]], Totals], threads: int | None = None) -> Totals:
        """Work with no more than so many threads; default: all."""


@dataclass(frozen=True)
class Asked(Generic[R]):
    """A request and the rows that it is about.

    Parameters
    ----------
    problem : Problem
    request : object
    blocks : sequence of Block
    caches : sequence of BlockCache
        Of these blocks.
    facts : DataSummary
        Of all blocks.
    each : Each
    """

    problem: Problem
    request: R
    blocks: Sequence[Block]
    caches: Sequence[Any]
    facts: DataSummary
    each: Each

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.facts.n_features or 0

    @property
    def backend(self) -> Any:
        """Where the rows are."""
        return self.caches[0].backend if self.caches else host

    @property
    def law(self) -> Law:
        """The problem's loss as kernels take it."""
        return law_of(self.problem.loss, compiled=self.backend is host)

    @property
    def in_host_memory(self) -> bool:
        """Whether all rows are in host memory."""
        return all(cache.backend is host for cache in self.caches)

    def add_up(self, work: Callable[[list[Piece]], Totals], nbytes: int) -> Totals:
        """Add up what threads find, as many of them as have room for sums of so many bytes each."""
        return self.each(work, max(1, SUMS_BYTES // nbytes) if nbytes else None)
