"""Placements: which worker has which partition of the data.

`cluster` asks a placement where partitions are, and asks again when workers were lost or have
joined. `block_placement` keeps partitions in the workers' memory, `stream_placement` has workers
read them at every pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from daskglm.core.facts import DataSummary

# Seconds that lost blocks, or workers, may take to come back before the fit gives up.
REPAIR_SECONDS = 300.0

# Relative difference allowed between squared norms of the same rows: the order of sums differs.
SAME_NORMS = 1e-9


class ClusterLost(RuntimeError):
    """The scheduler is gone, or was started again and has forgotten the fit."""


class DataLost(RuntimeError):
    """Blocks of the data are gone and cannot be computed again."""


class Placement(Protocol):
    """Where the partitions of a data set are.

    Attributes
    ----------
    open_function : callable
        Runs on a worker and makes a shard of some partitions.
    resident : bool
        True if rows stay in the workers' memory.
    """

    open_function: Any
    resident: bool

    @property
    def keys(self) -> list[str]:
        """Keys of the partitions, in their order."""

    async def load(self) -> None:
        """Load the partitions, if they are kept; raise the error of the first faulty one."""

    async def locate(self, keys: list[str], deadline: float) -> dict[str, list[str]]:
        """Return the keys that each worker has, by its address; wait for what was lost.

        `deadline` is a value of `time.monotonic()`.
        """

    async def holders(self, keys: list[str]) -> Mapping[str, Sequence[str]]:
        """Return the addresses of the workers that have each key now."""

    async def move(self, keys: Mapping[str, str]) -> None:
        """Move partitions to other workers, given by key and address."""

    def recipe(self, held: list[str]) -> tuple[Any, ...]:
        """Return the further arguments of `open_function` for these keys."""

    def close(self) -> None:
        """Release the partitions."""


def assign(parts: Sequence[Any], threads: Mapping[str, int]) -> dict[str, list[Any]]:
    """Divide parts among workers: each gets neighbours, in proportion to its threads."""
    done, total = 0, sum(threads.values())
    assigned: dict[str, list[Any]] = {}
    for address, count in threads.items():
        low = round(len(parts) * done / total)
        high = round(len(parts) * (done + count) / total)
        assigned[address] = list(parts[low:high])
        done += count
    return assigned


def plan_moves(held: Mapping[str, Sequence[str]], threads: Mapping[str, int]) -> dict[str, str]:
    """Return the keys to move to workers that have none, and their new addresses.

    Afterwards each worker has keys in proportion to its threads.
    """
    total = sum(threads.values())
    keys = sum(map(len, held.values()))
    wanted = {address: keys * count // total for address, count in threads.items()}
    spare = [
        key for address, own in held.items() for key in reversed(own[wanted.get(address, 0) :])
    ]
    found: dict[str, str] = {}
    for address in threads:
        for _ in range(wanted[address] if not held.get(address) else 0):
            if spare:
                found[spare.pop(0)] = address
    return found


def check_same_rows(before: DataSummary, now: DataSummary, *, ordered: bool) -> None:
    """Raise DataLost if partitions that were computed again have other rows.

    If `ordered`, rows in another order count as other rows.
    """
    rows = [{label: count for label, count, _ in facts.classes} for facts in (before, now)]
    counts = before.n_rows == now.n_rows and before.nonzeros == now.nonzeros and rows[0] == rows[1]
    if not counts or not math.isclose(before.squared_norms, now.squared_norms, rel_tol=SAME_NORMS):
        raise DataLost(
            "partitions that were lost with a worker came back with other rows: their source is "
            "random or has changed. Write the data to files, or persist them, and fit again"
        )
    if ordered and before.order != now.order:
        raise DataLost(
            "partitions that were lost with a worker came back with their rows in another order "
            "(as shuffles do), and folds are kept by row: persist the dataframe, or write it to "
            "files, and fit again"
        )
