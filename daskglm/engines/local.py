"""The engine that answers requests in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from daskglm.core.requests import Problem, Request, Totals
from daskglm.data.blocks import Block
from daskglm.worker.device_placement import WHERE_THEY_ARE, Where
from daskglm.worker.shard import Shard
from daskglm.worker.streaming import StreamedShard

# features up to which a Hessian's factorisation on the host takes less than the device's latency
HOST_FEATURES = 256


class Local:
    """Answers in this process, on threads.

    Vectors of a solver are where the rows are; but of few features in host memory, where its
    arithmetic takes less time than a launch, and a reply comes in one copy.

    Parameters
    ----------
    blocks : sequence of Block
    threads : int, optional
        Default: the processors this process may run on.
    where : Where
        Whether the rows go to a GPU; default: they are used where they are.
    """

    def __init__(
        self, blocks: Sequence[Block], threads: int | None = None, where: Where = WHERE_THEY_ARE
    ) -> None:
        shard = Shard(blocks, threads or available_threads(), where=where)
        few = (shard.facts.n_features or 0) <= HOST_FEATURES
        self._answers(shard, np if few else shard.home.xp)

    @classmethod
    def reading(
        cls,
        recipes: Sequence[Any],
        room: int,
        where: Where = WHERE_THEY_ARE,
        threads: int | None = None,
    ) -> Local:
        """An engine that reads partitions, given as delayed blocks, at every pass; see
        `StreamedShard`.
        """
        engine = cls.__new__(cls)
        engine._answers(
            StreamedShard(
                recipes, range(len(recipes)), threads or available_threads(), room, where
            ),
            np,
        )
        return engine

    def _answers(self, shard: Shard | StreamedShard, xp: Any) -> None:
        self.shard: Shard | StreamedShard = shard
        self.device, self.xp, self.solves_balls = shard.device, xp, shard.solves_balls
        self.facts = self.shard.facts
        self.workers = 1
        self.rounds = 0
        self.bytes_reduced = 0
        self.repairs = 0

    @property
    def samples(self) -> bool:
        """Whether parts of the rows cost their part of a pass: where all are in host memory, not on
        a device.
        """
        return isinstance(self.shard, Shard) and self.device == "cpu"

    @property
    def answers_samples(self) -> bool:
        """Whether parts of the rows can be asked: where all are in host memory, or in that of one
        device.
        """
        return self.samples or self.solves_balls

    @property
    def shares_memory(self) -> bool:
        """Whether vectors may be shared: not with rows that are read at every pass, part by
        part.
        """
        return isinstance(self.shard, Shard)

    def total(self, problem: Problem, request: Request) -> Totals:
        """Answer one request with sums over all rows. Cost: 1 round, 0 bytes."""
        self.rounds += 1
        return (
            self.shard.answer(problem, request)
            if self.xp is not np
            else self.shard.answer_host(problem, request)
        )

    def close(self) -> None:
        """End the threads and forget the memos."""
        self.shard.close()


def available_threads() -> int:
    """Processors this process may run on, at most OMP_NUM_THREADS where that is set."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) > 0 else cores
