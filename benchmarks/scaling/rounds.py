"""What it costs to ask all workers once: bare exchanges in several ways, beside a gradient round of
daskglm.

A bare exchange sends a vector of d doubles to every worker, which adds 1 and sends it back; the sum
of the replies is wanted on the client. So what is measured is latency and transport, no arithmetic
to speak of.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import Any

import numpy as np

from benchmarks.reports.tabular import table

SIZES = (28, 47_000, 1_000_000)
WARM_UP = 10
ROWS_PER_PARTITION, NONZEROS_PER_ROW = 64, 10
Round = Callable[[np.ndarray], np.ndarray]


# ---- on a worker
def reply(w: np.ndarray) -> np.ndarray:
    """Return a worker's answer."""
    return w + 1.0


async def reply_in_thread(w: np.ndarray) -> np.ndarray:
    """Return the same, off the event loop of the worker."""
    return await asyncio.get_running_loop().run_in_executor(None, reply, w)


def add(*replies: np.ndarray) -> np.ndarray:
    """Sum the replies."""
    return sum(replies[1:], start=replies[0])


class Answering:
    """The same as an actor."""

    def reply(self, w: np.ndarray) -> np.ndarray:
        """Return a worker's answer."""
        return reply(w)


# ---- bare exchanges
def _submit_and_gather(client: Any, addresses: list[str]) -> Round:
    def round(w: np.ndarray) -> np.ndarray:
        return add(
            *client.gather([client.submit(reply, w, workers=[a], pure=False) for a in addresses])
        )

    return round


def _submit_and_reduce(client: Any, addresses: list[str]) -> Round:
    def round(w: np.ndarray) -> np.ndarray:
        parts = [client.submit(reply, w, workers=[a], pure=False) for a in addresses]
        return client.submit(add, *parts, pure=False).result()

    return round


def _scatter_and_reduce(client: Any, addresses: list[str]) -> Round:
    def round(w: np.ndarray) -> np.ndarray:
        sent = client.scatter(w, broadcast=True, hash=False)
        parts = [client.submit(reply, sent, workers=[a], pure=False) for a in addresses]
        return client.submit(add, *parts, pure=False).result()

    return round


def _actors(client: Any, addresses: list[str]) -> Round:
    actors = [
        client.submit(Answering, actor=True, workers=[a], pure=False).result() for a in addresses
    ]

    def round(w: np.ndarray) -> np.ndarray:
        return add(*[call.result() for call in [actor.reply(w) for actor in actors]])

    return round


def _run_for_all(client: Any, addresses: list[str]) -> Round:
    def round(w: np.ndarray) -> np.ndarray:
        return add(*client.run(reply_in_thread, w, workers=addresses, on_error="return").values())

    return round


def _run_for_each(client: Any, addresses: list[str]) -> Round:
    async def ask(w: np.ndarray) -> list[dict[str, np.ndarray]]:
        calls = [client.run(reply_in_thread, w, workers=[a], on_error="return") for a in addresses]
        return await asyncio.gather(*calls)

    def round(w: np.ndarray) -> np.ndarray:
        answers = asyncio.run_coroutine_threadsafe(ask(w), client.loop.asyncio_loop).result()
        return add(*[part for answer in answers for part in answer.values()])

    return round


WAYS: dict[str, Callable[[Any, list[str]], Round]] = {
    "(a) submit to each, gather": _submit_and_gather,
    "(b) submit to each, a task that adds": _submit_and_reduce,
    "(c) scatter, submit to each, a task that adds": _scatter_and_reduce,
    "(d) an actor on each": _actors,
    "(e1) client.run, one call for all": _run_for_all,
    "(e2) client.run, one call for each, at once": _run_for_each,
}


# ---- a round of daskglm
def daskglm_round(
    client: Any, d: int, partitions: int, *, tree: bool = False
) -> tuple[Round, Callable[[], None]]:
    """Make a gradient round over tiny CSR partitions of d columns, and a function to close it."""
    import dask
    import scipy.sparse as sp

    import daskglm.engines.cluster
    from daskglm.core.requests import Evaluate, LossRef, Problem
    from daskglm.data.blocks import Place, to_block
    from daskglm.engines.block_placement import BlockPlacement
    from daskglm.engines.cluster import Cluster

    def block(i: int) -> Any:
        random = np.random.default_rng(i)
        columns = random.integers(0, d, ROWS_PER_PARTITION * NONZEROS_PER_ROW)
        starts = np.arange(0, len(columns) + 1, NONZEROS_PER_ROW)
        X = sp.csr_matrix(
            (random.standard_normal(len(columns)), columns, starts), shape=(ROWS_PER_PARTITION, d)
        )
        return to_block(X, np.arange(ROWS_PER_PARTITION) % 2, place=Place(i), classify=True)

    engine = Cluster(
        client,
        BlockPlacement(client, [dask.delayed(block)(i) for i in range(partitions)], pin=True),
    )
    tokens = iter(range(10**9))

    def round(w: np.ndarray) -> np.ndarray:
        daskglm.engines.cluster.STAR_WORKERS = 1 if tree else 10**6
        return engine.total(Problem(LossRef("logistic"), positive=1), Evaluate(w, next(tokens)))[
            "gradient"
        ]

    return round, engine.close


# ---- the table
def measure(workers: int, sizes: Sequence[int] = SIZES, repeats: int = 100) -> str:
    """Median and 90th percentile in milliseconds, as a Markdown table."""
    from distributed import Client, LocalCluster

    options = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "memory_limit": 0,
    }
    ours = {
        f"(f) daskglm gradient, {2 * workers} partitions": (2 * workers, False),
        f"(g) daskglm gradient, {100 * workers} partitions": (100 * workers, False),
        f"(h) daskglm gradient through leaders, {2 * workers} partitions": (2 * workers, True),
    }
    rows: dict[str, list[str]] = {way: [] for way in (*WAYS, *ours)}
    with warnings.catch_warnings(), LocalCluster(**options) as cluster, Client(cluster) as client:
        warnings.simplefilter("ignore")  # of large graphs: the point of some of the ways
        addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
        for d in sizes:
            for way, make in WAYS.items():
                rows[way].append(_timed(make(client, addresses), d, repeats, expected=workers))
            for way, (partitions, tree) in ours.items():
                rows[way].append(_timed_daskglm(client, d, repeats, partitions, tree))
    title = (
        f"Milliseconds for one exchange with {workers} worker processes, median (90th percentile) "
        f"of {repeats}:"
    )
    head = ["way", *(f"{d:,} doubles" for d in sizes)]
    return f"{title}\n\n{table(head, [[way, *cells] for way, cells in rows.items()])}\n"


def _timed(round: Round, d: int, repeats: int, expected: float | None = None) -> str:
    w, seconds = np.zeros(d), []
    for repeat in range(WARM_UP + repeats):
        start = time.perf_counter()
        total = round(w)
        seconds.append(time.perf_counter() - start)
        if expected is not None and repeat == 0 and not np.array_equal(total, np.full(d, expected)):
            raise RuntimeError("an exchange gave a wrong sum")
    seconds = seconds[WARM_UP:]
    ninetieth = quantiles(seconds, n=10)[-1] if len(seconds) > 1 else seconds[0]
    return f"{1e3 * median(seconds):.2f} ({1e3 * ninetieth:.2f})"


def _timed_daskglm(client: Any, d: int, repeats: int, partitions: int, tree: bool) -> str:
    round, close = daskglm_round(client, d, partitions, tree=tree)
    try:
        return _timed(round, d, repeats)
    finally:
        close()
