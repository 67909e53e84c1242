"""Assign rows to groups of threads once, and buckets of rows to partitions, once or in each epoch.

No row is read here. A range is a run of rows of one block; a slice is a run of places in the random
order of a range's buckets (see `kernels.coordinate_ascent.place_of`), so that assigning them takes
no time that grows with the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from daskglm.core.facts import DataSummary
from daskglm.core.requests import SDCAConfig
from daskglm.system.topology import Topology, choose_nodes, cpus_for, node_of_memory, read_topology

# Rows of more bytes come from memory: buckets pay through prefetching (measured,
# docs/benchmarks.md).
STREAMED_BYTES = 16 << 20
# Least stored values and rows of the slices in which several blocks are visited, in random order.
# An elastic net of 8 blocks of 45,000 values took 21 epochs with 512, 26 with 1,024, over 150 with
# 16,384, and the least time with 512 (21 epochs in one block; 2026-11-28).
SLICE_VALUES = 1 << 9
# Most slices of a block. Runs in one block pass on the sum of its dual variables to other blocks,
# which is slow: news20's elastic net in 8 blocks took 17 epochs to 1e-6 with 32 slices of each, 19
# with 16, 28 with 8, 42 with 4, over 100 with one; rows in one block took 17 (2026-11-28).
SLICES = 64


# Stands for a list of all rows.
ALL_ROWS = np.empty(0, np.intp)


class Range(NamedTuple):
    """Rows [first, stop) of a block, and their stored values."""

    block: int
    first: int
    stop: int
    work: float


class Slice(NamedTuple):
    """Places [begin, end) in the random order, named by `key`, of the buckets of a range."""

    block: int
    first: int
    stop: int
    key: int
    begin: int
    end: int

    def order(self, listed: np.ndarray | None, bucket: int) -> tuple[Any, ...]:
        """Return what `coordinate_ascent.sweep` takes, of all rows or of those that are listed.

        Of listed rows of the range it is the same share, so that slices do not meet.
        """
        rows = self.stop - self.first
        if listed is None or len(listed) == rows:
            return ALL_ROWS, self.first, self.stop, bucket, self.key, self.begin, self.end
        most, count = -(-rows // bucket), -(-len(listed) // bucket)
        begin, end = self.begin * count // most, self.end * count // most
        return listed, 0, len(listed), bucket, self.key, begin, end


# Least stored values of a thread's rows, where a row counts as so many, and so many more for each
# feature: threads wait for each other two or three times an epoch, 0.15 ms of 2 threads, each has a
# copy of the shared vector, and they take up to 1.4 times the epochs. Of 28 drawn problems those of
# fewer took 0.4 to 0.9 of the time with one thread, the others 0.8 to 1.6 (2 threads beside another
# program, 2026-11-29).
ROW_VALUES, WAIT_VALUES, COPIED_VALUES = 30, 1 << 18, 1 << 6
# Least stored values of a thread's rows where some are passed over: threads wait for each other,
# add up their changes, and take 1.3 to 1.4 times the epochs. By hinges on 1.3 to 2 million values
# two threads took 1.1 to 1.5 times the time of one, on 4 million 0.8 (2026-11-29).
THREAD_VALUES = 1 << 20


@cache
def machine() -> Topology:
    """Return the topology of this machine, which is read once."""
    return read_topology()


def bucket_rows(rows: int, nbytes: int) -> int:
    """Return the rows of a bucket: those whose dual variables share a cache line, or one.

    Buckets are used, by the rule of the Snap ML paper (section 3), if the dual variables do not fit
    the last-level cache, and also if the rows themselves stream from memory: a bucket's rows are
    contiguous there.
    """
    streamed = rows * 8 > machine().last_level_bytes or nbytes > STREAMED_BYTES
    return max(machine().line_bytes // 8, 1) if streamed else 1


@dataclass
class Group:
    """Threads that share a replica of the shared vector between epochs, with their rows."""

    ranges: list[Range]
    partitions: int
    threads: int
    cpus: list[int] = field(default_factory=list)
    _pool: ThreadPoolExecutor | None = None

    def map(self, work: Callable[[int], Any]) -> list[Any]:
        """Do the work of every partition, on the group's threads."""
        if self.threads == 1 and not self.cpus:
            return [work(p) for p in range(self.partitions)]
        if self._pool is None:
            places = iter(self.cpus)
            self._pool = ThreadPoolExecutor(self.threads, initializer=_pin, initargs=(places,))
        return list(self._pool.map(work, range(self.partitions)))

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
        self._pool = None


def _pin(cpus: Iterable[int]) -> None:
    """Bind the calling thread to the next cpu, if there is one; a refusal costs locality only."""
    cpu = next(iter(cpus), None)
    if cpu is not None and hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, {cpu})  # of the calling thread, not of the process
        except OSError:
            return


def threads_for(plan: SDCAConfig, facts: Sequence[DataSummary], most: int) -> int:
    """Return the threads, up to `most`, that are worth it where a plan names no number of parts."""
    if plan.partitions or plan.nodes or plan.partitioning == "wild":
        return most
    values = sum(part.nonzeros for part in facts)
    rows = sum(part.n_rows for part in facts)
    copied = max((part.n_features or 0 for part in facts), default=0)
    least = WAIT_VALUES + COPIED_VALUES * copied
    worth = min((values + ROW_VALUES * rows) // least, most)
    if plan.shrink:
        worth = min(worth, values // THREAD_VALUES)
    return int(max(worth, 1))


def groups_of(
    plan: SDCAConfig, facts: Sequence[DataSummary], threads: int, address: int
) -> list[Group]:
    """Make a group for each NUMA node of the Snap ML paper's rule, or `plan.nodes` groups.

    Rows are split by work. `address` is that of some rows: the node of their memory is always among
    the chosen.
    """
    topology = machine()
    if plan.nodes is None:
        pinned = len(topology.nodes) > 1
        chosen = choose_nodes(topology, threads, node_of_memory(address) if pinned else None)
        counts = [(count, cpus_for(node, count) if pinned else []) for node, count in chosen]
    else:
        cuts = [threads * k // plan.nodes for k in range(plan.nodes + 1)]
        counts = [(max(b - a, 1), []) for a, b in pairwise(cuts)]
    whole = [
        Range(i, 0, part.n_rows, float(part.nonzeros + part.n_rows)) for i, part in enumerate(facts)
    ]
    shares = split(whole, [count for count, _ in counts])
    total = plan.partitions or sum(count for count, _ in counts)
    parts = [total * k // len(counts) for k in range(len(counts) + 1)]
    return [
        Group(share, max(parts[k + 1] - parts[k], 1), count, cpus)
        for k, (share, (count, cpus)) in enumerate(zip(shares, counts, strict=True))
    ]


def split(ranges: Sequence[Range], shares: Sequence[float]) -> list[list[Range]]:
    """Cut ranges, in order, into runs whose work is proportional to `shares`."""
    total = sum(part.work for part in ranges)
    bounds = np.cumsum(shares) / np.sum(shares) * total
    parts: list[list[Range]] = [[] for _ in shares]
    done, k = 0.0, 0
    for part in ranges:
        first, rows = part.first, part.stop - part.first
        while k + 1 < len(shares) and done + part.work > bounds[k]:
            at = min(
                max(part.first + round((bounds[k] - done) / part.work * rows), first), part.stop
            )
            if at > first:
                parts[k].append(Range(part.block, first, at, part.work * (at - first) / rows))
            first, k = at, k + 1
        if part.stop > first:
            parts[k].append(
                Range(part.block, first, part.stop, part.work * (part.stop - first) / rows)
            )
        done += part.work
    return parts


def assign_buckets(
    group: Group, plan: SDCAConfig, bucket: int, rng: np.random.Generator
) -> list[list[Slice]]:
    """Return the slices that each partition visits in the next epoch, in order."""
    if plan.partitioning == "static":
        return [
            _slices(part, 1, bucket, rng)[0]
            for part in split(group.ranges, [1.0] * group.partitions)
        ]
    return _slices(group.ranges, group.partitions, bucket, rng)


def _slices(
    ranges: Sequence[Range], partitions: int, bucket: int, rng: np.random.Generator
) -> list[list[Slice]]:
    """Buckets of all ranges in random order, cut into runs of about equal work."""
    pieces: list[tuple[Slice, float]] = []
    for part in ranges:
        buckets = -(-(part.stop - part.first) // bucket)
        key = int(rng.integers(1 << 62))
        most = min(buckets, int(part.work) // SLICE_VALUES, SLICES)
        count = 1 if len(ranges) == 1 else max(most, 1)
        cuts = [buckets * k // count for k in range(count + 1)]
        for begin, end in pairwise(cuts):
            pieces.append((Slice(*part[:3], key, begin, end), part.work * (end - begin) / buckets))
    order = rng.permutation(len(pieces))
    if partitions == 1:
        return [[pieces[k][0] for k in order]]
    total = sum(work for _, work in pieces) or 1.0
    parts: list[list[Slice]] = [[] for _ in range(partitions)]
    done = 0.0
    for piece, work in (pieces[k] for k in order):
        begin, count = piece.begin, piece.end - piece.begin
        while begin < piece.end:
            k = min(
                int((done + work * (begin - piece.begin) / count) * partitions / total + 1e-9),
                partitions - 1,
            )
            if k + 1 < partitions:
                room = ((k + 1) * total / partitions - done) / max(work, 1e-300) * count
            else:
                room = np.inf
            end = min(max(piece.begin + round(min(room, 1e18)), begin + 1), piece.end)
            parts[k].append(piece._replace(begin=begin, end=end))
            begin = end
        done += work
    return parts
