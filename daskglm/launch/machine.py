"""The workers of one machine: the processors and memory of each, its command and environment.

Nothing here starts a process of a cluster; `launcher` does that.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from daskglm.launch.addresses import bracketed
from daskglm.system.topology import Node, Topology

# Share of the machine's memory for workers; the rest is for the system and the scheduler.
MEMORY_SHARE = 0.9

# Most workers, and most threads of a worker, per processor: more would only wait for each other,
# and a mistyped number would start thousands of processes.
MAX_PER_PROCESSOR = 16

# Seconds after which a worker that finds no scheduler ends.
DEATH_SECONDS = 300

# Dask would serve each worker's HTTP pages on all addresses, even without a dashboard.
LOOPBACK_ONLY = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]

# Settings of Dask for all processes of a cluster; variables that the user has set win. Links that
# are broken are given up after 20 s instead of 30, silent workers after 60 s instead of 300. Data
# stay in memory: a partition on disk would be read again at every pass.
ENVIRONMENT = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "30s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "20s",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "60s",
    "DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": "300s",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_LOGGING__DISTRIBUTED": "warning",
}


@dataclass(frozen=True)
class Slot:
    """Place of one worker on a machine.

    Attributes
    ----------
    nodes, cpus : tuple of int
        Numbers of its NUMA nodes and of its processors.
    threads : int
    memory : int
        Bytes; 0: no limit.
    """

    nodes: tuple[int, ...]
    cpus: tuple[int, ...]
    threads: int
    memory: int


def plan(
    topology: Topology,
    memory: Mapping[int, int],
    workers: int | None = None,
    threads: int | None = None,
) -> list[Slot]:
    """Divide a machine among workers.

    Parameters
    ----------
    topology : Topology
    memory : mapping of int to int
        Bytes for workers on each NUMA node, by number of the node.
    workers : int, optional
        Default: one per NUMA node. Fewer workers get several nodes each; more share the cores of a
        node.
    threads : int, optional
        Threads of each worker; default: its number of physical cores.

    Raises
    ------
    ValueError
        If `workers` or `threads` is below 1, or above `MAX_PER_PROCESSOR` for each processor.
    """
    nodes = topology.nodes
    count = len(nodes) if workers is None else workers
    if count < 1 or (threads is not None and threads < 1):
        raise ValueError(f"workers={workers} and threads={threads} must be at least 1")
    processors = sum(len(core) for node in nodes for core in node.cores)
    for name, number in (("workers", count), ("threads", threads or 1)):
        if number > MAX_PER_PROCESSOR * processors:
            raise ValueError(
                f"{name}={number} is more than {MAX_PER_PROCESSOR} for each of the {processors} "
                "processors here"
            )

    slots: list[Slot] = []
    if count <= len(nodes):
        for k in range(count):
            own = nodes[k * len(nodes) // count : (k + 1) * len(nodes) // count]
            cores = [core for node in own for core in node.cores]
            size = sum(memory.get(node.number, 0) for node in own)
            slots.append(_slot(own, cores, threads, size))
        return slots

    for k, node in enumerate(nodes):
        here = (k + 1) * count // len(nodes) - k * count // len(nodes)
        size = memory.get(node.number, 0) // here
        for i in range(here):
            cut = slice(i * len(node.cores) // here, (i + 1) * len(node.cores) // here)
            cores = list(node.cores[cut]) or [node.cores[i % len(node.cores)]]
            slots.append(_slot([node], cores, threads, size))
    return slots


def _slot(
    nodes: Sequence[Node], cores: list[tuple[int, ...]], threads: int | None, memory: int
) -> Slot:
    cpus = tuple(sorted(cpu for core in cores for cpu in core))
    return Slot(tuple(node.number for node in nodes), cpus, threads or len(cores), memory)


def memory_of_nodes(topology: Topology, limit: int, root: Path | str = "/sys") -> dict[int, int]:
    """Return the bytes for workers on each NUMA node, by number of the node.

    Parameters
    ----------
    limit : int
        Bytes that all workers together may take, such as the limit of a container.
    root : path
        Where sysfs is mounted.
    """
    total = {node.number: _mem_total(Path(root), node.number) for node in topology.nodes}
    if not all(total.values()):
        total = dict.fromkeys(total, limit // max(len(total), 1))
    share = MEMORY_SHARE * min(1.0, limit / max(sum(total.values()), 1))
    return {number: int(share * size) for number, size in total.items()}


def _mem_total(root: Path, node: int) -> int:
    try:
        text = (root / "devices" / "system" / "node" / f"node{node}" / "meminfo").read_text(
            encoding="ascii"
        )
    except (OSError, ValueError):
        return 0
    found = re.search(r"MemTotal:\s*(\d+) kB", text)
    return 1024 * int(found[1]) if found else 0


def visible_gpus() -> list[str]:
    """Return the GPUs that dask-cuda would use: those of CUDA_VISIBLE_DEVICES, or else all.

    Raises
    ------
    RuntimeError
        Without dask-cuda, or if NVML finds no GPU.
    """
    try:
        from dask_cuda.utils import get_n_gpus
    except ImportError as error:
        raise RuntimeError(
            f"--device cuda needs dask-cuda: pip install 'daskglm[cuda13]' ({error})"
        ) from error

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        # CUDA reads names up to the first that is none: -1 hides all
        given = [gpu.strip() for gpu in visible.split(",")]
        return list(itertools.takewhile(lambda gpu: gpu not in ("", "-1"), given))
    try:
        return [str(gpu) for gpu in range(get_n_gpus())]
    except Exception as error:  # NVML has exceptions of its own
        raise RuntimeError(f"--device cuda: no GPU was found on this machine ({error})") from error


# ---- commands
def scheduler_command(
    host: str, port: int, file: Path, *, encrypted: bool, dashboard: str | None
) -> list[str]:
    """Return the command of a scheduler that listens on one address and writes it to `file`."""
    listen = f"{'tls' if encrypted else 'tcp'}://{bracketed(host)}"
    where = ["--host", listen, "--port", str(port), "--scheduler-file", str(file)]
    shown = ["--dashboard-address", dashboard] if dashboard else LOOPBACK_ONLY
    return [*_python("distributed.cli.dask_scheduler"), *where, *shown]


def worker_command(
    slot: Slot, scheduler: Sequence[str], name: str, more: Sequence[str]
) -> list[str]:
    """Return the command of one worker, with numactl before it if memory can be bound."""
    size = ["--nthreads", str(slot.threads), "--memory-limit", str(slot.memory)]
    command = [
        *_python("distributed.cli.dask_worker"),
        *scheduler,
        *("--nworkers", "1", *size, "--name", name),
        *("--death-timeout", str(DEATH_SECONDS)),
        *LOOPBACK_ONLY,
        *more,
    ]
    return [*numactl(slot), *command] if can_bind_memory(slot) else command


def gpu_command(scheduler: Sequence[str], name: str, more: Sequence[str]) -> list[str]:
    """Return the command of dask-cuda: one worker per GPU, on the processors near its GPU."""
    last = ["--death-timeout", str(DEATH_SECONDS)]
    return [*_python("dask_cuda.cli"), *scheduler, "--name", name, *LOOPBACK_ONLY, *more, *last]


def numactl(slot: Slot) -> list[str]:
    """Return the beginning of a command that binds the rest to processors and memory."""
    cpus, nodes = (",".join(map(str, numbers)) for numbers in (slot.cpus, slot.nodes))
    return ["numactl", f"--physcpubind={cpus}", f"--membind={nodes}"]


def can_bind_memory(slot: Slot) -> bool:
    """Return True if numactl is here and the kernel allows it; in containers it often does not."""
    if shutil.which("numactl") is None:
        return False
    done = subprocess.run([*numactl(slot), "true"], capture_output=True, check=False)
    return done.returncode == 0


def environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a process of the cluster; the user's variables win."""
    more = {"NUMBA_NUM_THREADS": str(threads)} if threads else {}
    return {**ENVIRONMENT, **more, **os.environ}


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]
