"""Rows of a cluster that have travelled to the client, where they cost no round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from daskglm.core import sample_requests
from daskglm.core.engine import Capabilities
from daskglm.core.facts import DataSummary
from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    Problem,
    Request,
    Together,
    Totals,
)
from daskglm.core.sample_requests import TRAVELLING_BYTES, DrawRows, bytes_of, fitting
from daskglm.core.view import Drawn, Part, View
from daskglm.data.blocks import Block
from daskglm.engines.local import available_threads
from daskglm.worker.shard import Shard

# Requests that all rows may answer here: solvers ask them in most rounds.
NEAR = {Evaluate, EvaluateAlong, HessianVector}


class NearSamples:
    """Parts of the rows, each as a shard of this process; the oldest are dropped for new ones.

    They are the rows that workers would draw, block by block, so it does not matter to sums who
    answers, and workers that are lost later do not matter to samples.
    """

    def __init__(self) -> None:
        # by part, and whether its folds are known
        self._shards: dict[tuple[Part, bool], Shard] = {}
        self._all: dict[bool, Shard] = {}

    def shard(
        self,
        problem: Problem,
        view: View,
        facts: DataSummary,
        ask: Callable[[DrawRows], Totals],
    ) -> Shard | None:
        """Return the shard of a view's part of the rows of these facts.

        None if it is too large, or for so few requests.

        Cost: where it is not there, one request that is asked by `ask`.
        """
        folds, part = problem.folds is not None, view.part
        assert part is not None
        if (part, folds) not in self._shards:
            coming = fitting({part: math.inf, **dict(view.soon)}, facts, TRAVELLING_BYTES)
            if part not in coming:
                return None
            self._make_room(sum(bytes_of(each.share, facts) for each in coming), facts)
            drawn = ask(DrawRows(coming, folds))["drawn"].parts()
            for k, each in enumerate(coming):
                self._shards[each, folds] = _shard_of(drawn[k], facts)
        return self._shards[part, folds]

    def answers(
        self,
        problem: Problem,
        request: Request,
        view: View,
        facts: DataSummary,
        can: Capabilities,
        rounds: int,
    ) -> bool:
        """Return whether a request is one that all rows answer here, as it pays after these rounds.

        What workers keep of an ascent, and rows by their numbers, do not travel.
        """
        if view.part is not None or problem.folds is not None or problem.centre is not None:
            return False
        asked = request.requests if isinstance(request, Together) else (request,)
        if not all(type(each) in NEAR for each in asked):
            return False
        has_come = False in self._all  # for problems without folds
        return has_come or (
            can.travelling > 0
            and sample_requests.pays(facts, rounds, can.threads, available_threads())
        )

    def all_rows(
        self, facts: DataSummary, ask: Callable[[DrawRows], Totals], *, folds: bool
    ) -> Shard:
        """Return the shard of all rows. Cost: where it is not there, a request asked by `ask`."""
        if folds not in self._all:
            drawn = ask(DrawRows((Drawn(1.0, 0),), folds))["drawn"].parts()
            self._all[folds] = _shard_of(drawn[0], facts)
        return self._all[folds]

    def close(self) -> None:
        """Release the rows."""
        for shard in (*self._shards.values(), *self._all.values()):
            shard.close()
        self._shards, self._all = {}, {}

    def _make_room(self, needed: float, facts: DataSummary) -> None:
        held = sum(bytes_of(part.share, facts) for part, _ in self._shards)
        for key in list(self._shards):
            if held + needed <= TRAVELLING_BYTES:
                break
            held -= bytes_of(key[0].share, facts)
            self._shards.pop(key).close()


def _shard_of(blocks: Sequence[Block], facts: DataSummary) -> Shard:
    shard = Shard(blocks, available_threads())
    shard.facts = replace(shard.facts, n_features=facts.n_features)
    return shard
