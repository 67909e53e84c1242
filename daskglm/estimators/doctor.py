"""What a machine and a cluster offer to fits, and what to change; `daskglm doctor` shows it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import math
import os
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskglm.core.device import gpu
from daskglm.engines.local import available_threads
from daskglm.estimators.functional import fit
from daskglm.kernels import sweep
from daskglm.system import compiled, processor
from daskglm.system.memory import memory_left, memory_of_machine
from daskglm.system.topology import Topology, read_topology

# Of the rows of the benchmark: 48 MB, more than most caches hold.
ROWS, FEATURES = 200_000, 60
# Seconds of the benchmark for each number of threads.
SECONDS = 0.5
# Share of the ideal speed-up by threads below which something is wrong.
LEAST_SPEED_UP = 0.5
# Seconds of a round trip to a worker above which rounds are slow; on one machine it is 2e-3.
SLOW_ROUND_TRIP = 0.02
# Round trips whose median is taken.
TRIPS = 9


class Finding(NamedTuple):
    """One line of what was found; `change` says what to do about it, if anything."""

    name: str
    text: str
    change: str = ""


def machine(topology: Topology | None = None) -> Iterator[Finding]:
    """Look at processors, caches, memory and GPUs of this machine."""
    topology = topology or read_topology()
    cores = sum(len(node.cores) for node in topology.nodes)
    processors = sum(len(node.cpus) for node in topology.nodes)
    level = next(iter(processor.runs()), platform.machine() or "unknown")
    yield Finding(
        "processors", f"{processors} on {cores} cores, {len(topology.nodes)} NUMA node(s), {level}"
    )
    yield Finding(
        "caches",
        f"last level {topology.last_level_bytes / 2**20:.3g} MiB, lines of {topology.line_bytes} "
        "bytes",
    )
    threads = available_threads()
    change = ""
    if threads < cores:
        change = (
            f"fits take {threads} thread(s) although {cores} cores may be used: unset "
            f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')} or set it to {cores}"
        )
    elif len(topology.nodes) > 1:
        change = (
            "memory of another NUMA node is slower: start a worker for each node with `daskglm "
            "cluster start`"
        )
    yield Finding("threads of a fit", f"{threads}", change)
    left, whole = memory_left(), memory_of_machine()
    yield Finding(
        "memory",
        f"{left / 2**30:.3g} GiB left of {whole / 2**30:.3g}",
        "less than a tenth is left: end what else uses it, or fit with out_of_core=True"
        if left < 0.1 * whole
        else "",
    )
    try:
        device = gpu()
    except RuntimeError as error:
        yield Finding("GPU", f"none: {error}")
    else:
        yield Finding("GPU", device.describe())


def versions() -> Iterator[Finding]:
    """Compare the installed versions with those that this package asks for."""
    from packaging.requirements import Requirement

    yield Finding("Python", f"{platform.python_version()}, {sys.platform}")
    wrong = []
    found = [f"daskglm {importlib.metadata.version('daskglm')}"]
    for text in importlib.metadata.requires("daskglm") or []:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{wanted.name} is missing")
            continue
        found.append(f"{wanted.name} {version}")
        if not wanted.specifier.contains(version, prereleases=True):
            wrong.append(f"{wanted.name} {version} is not {wanted.specifier}")
    change = f"{', '.join(wrong)}: pip install --upgrade daskglm" if wrong else ""
    yield Finding("packages", ", ".join(found), change)


def kernels() -> Iterator[Finding]:
    """Look at where compiled kernels are kept, and whether those of a first fit are there."""
    folder = sweep.evaluate._cache._cache_file.folder
    shipped = [level for level in processor.levels() if (compiled.SHIPPED / level).is_dir()]
    if shipped:
        yield Finding("kernels of the wheel", f"for {shipped[0]}")
    if folder is None:
        yield Finding(
            "kernels compiled here",
            "nowhere to keep them",
            "each process compiles again: set NUMBA_CACHE_DIR to a folder that can be written to",
        )
        return
    files = len(list(folder.parent.rglob("*.py[0-9]*"))) if folder.is_dir() else 0
    ready = bool(files or shipped)
    yield Finding(
        "kernels compiled here",
        f"{files} files under {folder.parent}",
        "" if ready else "the first fit compiles for some seconds: run `daskglm warm-up` once",
    )
    parent = next(each for each in [folder, *folder.parents] if each.exists())
    if not os.access(parent, os.W_OK):
        yield Finding(
            "kernels compiled here",
            f"{parent} cannot be written to",
            "set NUMBA_CACHE_DIR to a folder that can be",
        )


def benchmark() -> Iterator[Finding]:
    """Measure passes over rows in memory, by one thread and by all, for a second."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, FEATURES), dtype=np.float32)
    y = X[:, 0] + rng.standard_normal(ROWS, dtype=np.float32) > 0.0
    threads = available_threads()
    rates = {count: _passes_per_second(X, y, count) for count in sorted({1, threads})}
    text = ", ".join(
        f"{rate * X.nbytes / 1e9:.3g} GB/s by {count} thread(s)" for count, rate in rates.items()
    )
    speed_up = rates[threads] / rates[1]
    change = ""
    if speed_up < LEAST_SPEED_UP * threads:
        change = (
            f"{threads} threads are {speed_up:.2g} times as fast as one: other processes use the "
            "processors, the container has fewer of them (set n_jobs), or memory is the limit"
        )
    yield Finding(f"passes over {X.nbytes / 1e6:.0f} MB", text, change)


def _passes_per_second(X: np.ndarray, y: np.ndarray, threads: int) -> float:
    """Return the passes of gradient descent over X in a second, after a first fit."""
    end = math.inf

    def enough(record: Any) -> bool:
        return time.perf_counter() > end

    with warnings.catch_warnings():
        # it is stopped, and need not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit(X[:1000], y[:1000], solver="gd", n_jobs=threads, max_iter=1)
        end = time.perf_counter() + SECONDS
        model = fit(X, y, solver="gd", n_jobs=threads, tol=1e-12, max_iter=10_000, callback=enough)
    return float(model.report_.passes / model.report_.seconds)


def cluster(client: Any) -> Iterator[Finding]:
    """Look at a cluster: its workers' versions, threads, memory and round trips."""
    from daskglm.engines.scheduler_calls import on_loop
    from daskglm.engines.versions import check_cluster
    from daskglm.engines.waiting import worker_states

    workers = client.scheduler_info(n_workers=-1)["workers"]
    yield Finding(
        "cluster",
        f"{client.scheduler.address}, {len(workers)} worker(s)",
        "" if workers else "no worker is connected: start some with `daskglm cluster worker`",
    )
    if not workers:
        return
    try:
        on_loop(client, check_cluster(client))
    except RuntimeError as error:
        yield Finding("versions of the workers", "they differ", str(error))
        return
    yield Finding("versions of the workers", "those of this process")

    for state in on_loop(client, worker_states(client)):
        about = workers[state.address]
        free = f"{state.limit / 2**30:.3g} GiB" if state.limit else "memory without a limit"
        change = ""
        if state.paused:
            change = "Dask has paused it, its memory is full: release what it holds"
        yield Finding(
            f"worker {about['name']}",
            f"{state.address}, {about['nthreads']} thread(s), {free}, "
            f"{state.process / 2**30:.2g} GiB in use",
            change,
        )

    async def round_trips() -> list[float]:
        seconds = []
        for _ in range(TRIPS):
            start = time.perf_counter()
            await client.run(_nothing)
            seconds.append(time.perf_counter() - start)
            await asyncio.sleep(0)
        return seconds

    middle = statistics.median(on_loop(client, round_trips()))
    yield Finding(
        "round trip to all workers",
        f"{middle * 1e3:.3g} ms, median of {TRIPS}",
        "each round of a fit takes as long: run the client beside the scheduler, in one network "
        "with the workers"
        if middle > SLOW_ROUND_TRIP
        else "",
    )


def _nothing() -> None:
    """Run on a worker."""
