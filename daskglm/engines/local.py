"""The engine that answers requests in this process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from daskglm.core.engine import Capabilities
from daskglm.core.outcome import Iteration
from daskglm.core.requests import Problem, Request, Totals
from daskglm.core.view import ALL, View
from daskglm.data.blocks import Block
from daskglm.worker.device_placement import AS_THEY_ARE, DeviceConfig
from daskglm.worker.shard import Shard
from daskglm.worker.streaming import StreamedShard

# Most features for which a solver's vectors are in host memory although the rows are on a device:
# factorising such a Hessian on the host takes less time than a launch on the device.
HOST_FEATURES = 256
# Read once, as OpenMP does: Dask sets the variable to 1 in this process, too, when it starts the
# workers of a LocalCluster.
OMP_THREADS = os.environ.get("OMP_NUM_THREADS", "")


class Local:
    """Answers requests in this process, on threads.

    The vectors of a solver are where the rows are, but in host memory if there are few features:
    arithmetic takes less time there than a launch, and a reply is one copy.

    Parameters
    ----------
    blocks : sequence of Block
    threads : int, optional
        Default: the processors this process may run on.
    where : Where
        Device to compute on; default: the one that holds the rows.
    """

    def __init__(
        self, blocks: Sequence[Block], threads: int | None = None, where: DeviceConfig = AS_THEY_ARE
    ) -> None:
        shard = Shard(blocks, threads or available_threads(), where=where)
        few = (shard.facts.n_features or 0) <= HOST_FEATURES
        self._answers(shard, np if few else shard.backend.xp)

    @classmethod
    def reading(
        cls,
        recipes: Sequence[Any],
        room: int,
        where: DeviceConfig = AS_THEY_ARE,
        threads: int | None = None,
    ) -> Local:
        """Return an engine that reads partitions, given as delayed blocks, at every pass.

        `room` is the number of bytes that rows may take meanwhile; see `StreamedShard`.
        """
        engine = cls.__new__(cls)
        engine._answers(
            StreamedShard(
                recipes, range(len(recipes)), threads or available_threads(), room, where
            ),
            np,
        )
        return engine

    @classmethod
    def of(cls, shard: Shard) -> Local:
        """Return an engine that answers from a shard of this process."""
        engine = cls.__new__(cls)
        engine._answers(shard, np)
        return engine

    def _answers(self, shard: Shard | StreamedShard, xp: Any) -> None:
        self.shard: Shard | StreamedShard = shard
        self.facts = shard.facts
        in_memory = isinstance(shard, Shard)
        # a device has samples, too, at the cost of taking the rows out
        cheap = in_memory and shard.device == "cpu"
        self.capabilities = Capabilities(
            shard.device,
            xp,
            answers_samples=cheap or shard.solves_trust_regions,
            cheap_samples=cheap,
            threads=shard.threads,
            shares_memory=in_memory,
            solves_trust_regions=shard.solves_trust_regions,
            sweeps_columns=shard.sweeps_columns,
            descends_columns=shard.descends_columns,
        )
        self.rounds = 0
        self.bytes_reduced = 0
        self.repairs = 0

    def total(self, problem: Problem, request: Request, view: View = ALL) -> Totals:
        """Answer one request with sums over a view of the rows. Cost: 1 round, 0 bytes."""
        self.rounds += 1
        if self.capabilities.xp is not np:
            return self.shard.answer(problem, request, view)
        return self.shard.answer_host(problem, request, view)

    def brought(self, problem: Problem) -> None:
        """Return None: the rows are here."""

    def publish(self, iteration: Iteration) -> None:
        """Do nothing: who watches is in this process, and is called back."""

    def close(self) -> None:
        """End the threads, and drop cached results."""
        self.shard.close()


def available_threads() -> int:
    """Return the number of processors of this process, at most OMP_NUM_THREADS.

    That is the value when the package was imported.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return min(cores, int(OMP_THREADS)) if OMP_THREADS.isdigit() and int(OMP_THREADS) else cores
