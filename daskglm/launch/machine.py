"""The workers that one machine is to run: which processors and memory each is bound to, its
command, its environment.

The rest of `launch` starts what is planned here; nothing here starts anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from daskglm.system.topology import Node, Topology

# of the machine's memory that workers may take; the rest is the system's and the scheduler's
MEMORY_SHARE = 0.9
# workers, or threads of one: more only wait for each other; a typing error may be 1000000
MOST_A_PROCESSOR = 16
DEATH_SECONDS = 300  # a worker that finds no scheduler for so long ends
# without it the HTTP server is open to all
LOOPBACK_ONLY = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]

# Set unless the user's environment has them. Rows are worked on by daskglm's own threads: those of
# a BLAS would spin beside them. A partner that is gone is given up after 20 s instead of 30, a
# worker that is silent after 60 s instead of 300, and data stay in memory: a partition that is
# spilled would be read from disk at every pass.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
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
    """Place of one worker: NUMA nodes, processors, threads (one a physical core), bytes of memory
    (0: no limit).
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
        Bytes of each NUMA node that its workers may take together.
    workers : int, optional
        Default: one per NUMA node. Fewer get several nodes each; more share the cores of a node.
    threads : int, optional
        Of each worker; default: its physical cores.

    Raises
    ------
    ValueError
        For less than one worker or thread, and for more than `MOST_A_PROCESSOR` of either a
        processor.
    """
    nodes = topology.nodes
    count = len(nodes) if workers is None else workers
    if count < 1 or (threads is not None and threads < 1):
        raise ValueError(f"workers={workers} and threads={threads} must be at least 1")
    processors = sum(len(core) for node in nodes for core in node.cores)
    for name, number in (("workers", count), ("threads", threads or 1)):
        if number > MOST_A_PROCESSOR * processors:
            raise ValueError(
                f"{name}={number} is more than {MOST_A_PROCESSOR} for each of the {processors} "
                "processors here"
            )
    slots: list[Slot] = []
    if count <= len(nodes):
        runs = [
            nodes[k * len(nodes) // count : (k + 1) * len(nodes) // count] for k in range(count)
        ]
        for run in runs:
            cores = [core for node in run for core in node.cores]
            slots.append(
                _slot(run, cores, threads, sum(memory.get(node.number, 0) for node in run))
            )
        return slots
    for k, node in enumerate(nodes):
        here = (k + 1) * count // len(nodes) - k * count // len(nodes)
        share = memory.get(node.number, 0) // here
        for i in range(here):
            cut = slice(i * len(node.cores) // here, (i + 1) * len(node.cores) // here)
            cores = list(node.cores[cut]) or [node.cores[i % len(node.cores)]]
            slots.append(_slot([node], cores, threads, share))
    return slots


def _slot(
    nodes: Sequence[Node], cores: list[tuple[int, ...]], threads: int | None, memory: int
) -> Slot:
    cpus = tuple(sorted(cpu for core in cores for cpu in core))
    return Slot(tuple(node.number for node in nodes), cpus, threads or len(cores), memory)


def memory_of_nodes(topology: Topology, limit: int, root: Path | str = "/sys") -> dict[int, int]:
    """Bytes of each NUMA node that workers may take, within the limit on this process group (a
    container's, say).
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


# ---- commands
def scheduler_command(
    host: str, port: int, file: Path, tls: Sequence[str], dashboard: str | None
) -> list[str]:
    """Start a scheduler that listens on one address only; `file` will say which."""
    shown = ["--dashboard-address", dashboard] if dashboard else LOOPBACK_ONLY
    protocol = "tls" if tls else "tcp"
    return [
        *_python("distributed.cli.dask_scheduler"),
        *(
            "--host",
            f"{protocol}://{bracketed(host)}",
            "--port",
            str(port),
            "--scheduler-file",
            str(file),
        ),
        *shown,
        *tls,
    ]


def worker_command(
    slot: Slot, scheduler: Sequence[str], name: str, common: Sequence[str]
) -> list[str]:
    """Start one worker, bound to its processors and memory by numactl where that works; see
    `binds`.
    """
    command = [
        *_python("distributed.cli.dask_worker"),
        *scheduler,
        *(
            "--nworkers",
            "1",
            "--nthreads",
            str(slot.threads),
            "--memory-limit",
            str(slot.memory),
            "--name",
            name,
        ),
        *("--death-timeout", str(DEATH_SECONDS)),
        *LOOPBACK_ONLY,
        *common,
    ]
    return [*numactl(slot), *command] if binds(slot) else command


def gpu_command(scheduler: Sequence[str], name: str, common: Sequence[str]) -> list[str]:
    """Start one worker per visible GPU: dask-cuda's, which also binds each to the processors near
    its GPU.
    """
    last = ["--death-timeout", str(DEATH_SECONDS)]
    return [*_python("dask_cuda.cli"), *scheduler, "--name", name, *LOOPBACK_ONLY, *common, *last]


def numactl(slot: Slot) -> list[str]:
    """Bind processors and memory of what follows."""
    cpus, nodes = (",".join(map(str, numbers)) for numbers in (slot.cpus, slot.nodes))
    return ["numactl", f"--physcpubind={cpus}", f"--membind={nodes}"]


def binds(slot: Slot) -> bool:
    """Whether numactl is here and the kernel lets it bind (containers often may not)."""
    if shutil.which("numactl") is None:
        return False
    return (
        subprocess.run([*numactl(slot), "true"], capture_output=True, check=False).returncode == 0
    )


def environment(threads: int | None = None) -> dict[str, str]:
    """What processes of a cluster are given besides the user's environment, which wins."""
    more = {"NUMBA_NUM_THREADS": str(threads)} if threads else {}
    return {**ENVIRONMENT, **more, **os.environ}


def bracketed(host: str) -> str:
    """A host as it stands in an address: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]
