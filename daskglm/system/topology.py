"""NUMA nodes, cores and caches of this machine, read from sysfs, and which thread runs where.

Nothing here raises an error for what it cannot find. If sysfs is absent (macOS), unreadable or odd,
the machine has one node, each processor is a core of its own, cache lines have 64 bytes and the
last-level cache has 8 MiB.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

# Bytes of a cache line, and of the last-level cache, if sysfs does not say.
LINE_BYTES, LAST_LEVEL_BYTES = 64, 8 << 20

# Plausible bytes of a cache line; s390 and A64FX have 256.
LINES = [16, 32, 64, 128, 256, 512, 1024]

# Number of the system call move_pages for 64-bit processes, by machine.
MOVE_PAGES = {"x86_64": 279, "aarch64": 239, "ppc64le": 301}

# Units of sizes in sysfs, in bytes.
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Node:
    """A NUMA node: its number, and for each physical core its usable processors (SMT siblings)."""

    number: int
    cores: tuple[tuple[int, ...], ...]

    @property
    def cpus(self) -> tuple[int, ...]:
        """Numbers of all processors of the node."""
        return tuple(sorted(chain.from_iterable(self.cores)))


@dataclass(frozen=True)
class Topology:
    """NUMA nodes with processors, and bytes of a cache line and of one last-level cache."""

    nodes: tuple[Node, ...]
    line_bytes: int = LINE_BYTES
    last_level_bytes: int = LAST_LEVEL_BYTES


def read_topology(root: Path | str = "/sys", allowed: Collection[int] | None = None) -> Topology:
    """Read NUMA nodes, in the order of their numbers, and the caches of the first processor.

    Parameters
    ----------
    root : path
        Where sysfs is mounted.
    allowed : collection of int, optional
        Processors to use; default: those this process may run on (its affinity), or all
        `os.cpu_count()` if the system has no affinity. Nodes without allowed processors are left
        out.

    Notes
    -----
    Processors that are offline are left out, unless all seem to be: the sysfs of a sandbox may
    belong to another machine. If the nodes in sysfs lack one of the other processors, or have one
    twice, all processors form one node.
    """
    system = Path(root) / "devices" / "system"
    usable = _affinity() if allowed is None else set(allowed)
    online = usable & set(_cpus(system / "cpu" / "online"))
    usable = online or usable
    folders = _numbered(system / "node", "node")
    found = {
        number: [cpu for cpu in _cpus(folders[number] / "cpulist") if cpu in usable]
        for number in sorted(folders)
    }
    placed = sorted(chain.from_iterable(found.values()))
    if not placed or placed != sorted(online or set(placed)):
        found = {0: sorted(usable)}
    nodes = tuple(Node(number, _cores(system, cpus)) for number, cpus in found.items() if cpus)
    return Topology(nodes, *_caches(system, nodes[0].cpus[0] if nodes else 0))


def _affinity() -> set[int]:
    try:
        return os.sched_getaffinity(0)
    except (AttributeError, OSError):
        # macOS has no affinity
        return set(range(os.cpu_count() or 1))


def _cores(system: Path, cpus: list[int]) -> tuple[tuple[int, ...], ...]:
    """Group processors by the core they share."""
    cores: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        folder = system / "cpu" / f"cpu{cpu}" / "topology"
        siblings = _cpus(folder / "thread_siblings_list") or _cpus(folder / "core_cpus_list")
        cores.setdefault(min(siblings) if cpu in siblings else cpu, []).append(cpu)
    return tuple(tuple(core) for core in cores.values())


def _caches(system: Path, cpu: int) -> tuple[int, int]:
    """Return the bytes of a cache line and of the last-level cache of one processor."""
    folders = _numbered(system / "cpu" / f"cpu{cpu}" / "cache", "index").values()
    data = [
        folder
        for folder in folders
        if _text(folder / "type") in ("Data", "Unified") and _number(folder / "level")
    ]
    data.sort(key=lambda folder: _number(folder / "level"), reverse=True)
    # firmware leaves out the line size of some levels: take the highest level that has one
    line = next(
        (line for folder in data if (line := _number(folder / "coherency_line_size")) in LINES),
        LINE_BYTES,
    )
    # if the size of the last level is missing, the one of the level below it does not help
    return line, (_number(data[0] / "size") if data else 0) or LAST_LEVEL_BYTES


def _numbered(folder: Path, prefix: str) -> dict[int, Path]:
    """Return the entries of a folder that are named `prefix` and a number, by number."""
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):
        return {}
    found = [re.fullmatch(rf"{prefix}([0-9]{{1,6}})", name) for name in names]
    return {int(match[1]): folder / match[0] for match in found if match}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _number(path: Path) -> int:
    """Return a number as the kernel writes it, such as 3, 64 or 32768K; 0 if it is not one."""
    found = re.fullmatch(r"([0-9]{1,12})([KMG]?)", _text(path))
    return int(found[1]) * UNITS[found[2]] if found else 0


def _cpus(path: Path) -> list[int]:
    """Return the numbers of a list as the kernel writes it, such as 0-19,40-59; empty if not."""
    cpus: list[int] = []
    for part in filter(None, _text(path).split(",")):
        found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if not found:
            return []
        cpus += range(int(found[1]), int(found[2] or found[1]) + 1)
    return cpus


# ---- threads on nodes
def choose_nodes(
    topology: Topology, threads: int, home: int | None = None
) -> list[tuple[Node, int]]:
    """Choose nodes for a number of threads, and the number of threads on each.

    This is the rule of the Snap ML paper (section 3): take the smallest number of nodes whose
    physical cores suffice, `home` among them, and spread the threads evenly over them. A node gets
    more threads than cores only if all nodes do. Then threads go to SMT siblings in the same way,
    and beyond these in proportion to the processors.

    Parameters
    ----------
    topology : Topology
    threads : int
    home : int, optional
        Number of the node whose memory has the data. It is ignored if the node has no processors
        (memory of a GPU).

    Returns
    -------
    list of (Node, int)
        Home first, then the nodes with most cores; each has at least one thread.

    Raises
    ------
    ValueError
        If `threads` is below 1, or the topology has no nodes.
    """
    if threads < 1:
        raise ValueError(f"threads={threads} must be at least 1")
    if not topology.nodes:
        raise ValueError("the topology has no nodes: no processor was allowed when it was read")
    ordered = sorted(
        topology.nodes, key=lambda node: (node.number != home, -len(node.cores), node.number)
    )

    chosen: list[Node] = []
    while len(chosen) < len(ordered) and sum(len(node.cores) for node in chosen) < threads:
        chosen.append(ordered[len(chosen)])
    counts = [0] * len(chosen)
    cores = [len(node.cores) for node in chosen]
    cpus = [len(node.cpus) for node in chosen]

    def load(k: int) -> tuple[int, float]:
        crowded = counts[k] >= cpus[k]
        return (counts[k] >= cores[k]) + crowded, counts[k] / cpus[k] if crowded else counts[k]

    for _ in range(threads):
        counts[min(range(len(chosen)), key=load)] += 1
    return list(zip(chosen, counts, strict=True))


def cpus_for(node: Node, threads: int) -> list[int]:
    """Return the processor of each thread: one of every core, then the siblings, then again."""
    turns = [cpu for turn in zip_longest(*node.cores) for cpu in turn if cpu is not None]
    return [turns[k % len(turns)] for k in range(threads)]


def node_of_memory(address: int) -> int | None:
    """Return the NUMA node of the page at an address; None if unknown, or never written to."""
    number = MOVE_PAGES.get(platform.machine())
    if number is None or platform.system() != "Linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    page = ctypes.c_void_p(address & -os.sysconf("SC_PAGE_SIZE"))
    status = ctypes.c_int(-1)
    try:
        # process 0 is this one; without target nodes move_pages only reports where the page is
        call = ctypes.CDLL(None, use_errno=True).syscall
        failed = call(
            ctypes.c_long(number),
            0,
            ctypes.c_ulong(1),
            ctypes.byref(page),
            None,
            ctypes.byref(status),
            0,
        )
    except (OSError, AttributeError):
        return None
    return status.value if failed == 0 and status.value >= 0 else None
