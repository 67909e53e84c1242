"""What a solver with many threads has to know of the machine: nodes, cores and caches, read from sysfs.

Nothing here raises for what it cannot find: where sysfs is absent (macOS), unreadable or odd, there is one node, every
processor is a core of its own, cache lines have 64 bytes and the last-level cache 8 MiB.
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

LINE_BYTES, LAST_LEVEL_BYTES = 64, 8 << 20
MOVE_PAGES = {"x86_64": 279, "aarch64": 239, "ppc64le": 301}  # numbers of the system call
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Node:
    """A NUMA node: its number and, for each physical core, the processors (SMT siblings) of it that may be used."""

    number: int
    cores: tuple[tuple[int, ...], ...]

    @property
    def cpus(self) -> tuple[int, ...]:
        """All processors of the node."""
        return tuple(sorted(chain.from_iterable(self.cores)))


@dataclass(frozen=True)
class Topology:
    """Nodes with processors, bytes of a cache line, and bytes of one last-level cache."""

    nodes: tuple[Node, ...]
    line_bytes: int = LINE_BYTES
    last_level_bytes: int = LAST_LEVEL_BYTES


def read_topology(root: Path | str = "/sys", allowed: Collection[int] | None = None) -> Topology:
    """Read the machine from sysfs.

    Parameters
    ----------
    root : path
        Where sysfs is mounted.
    allowed : collection of int, optional
        Processors that count; default: those this process may run on. Nodes left without any are dropped.
    """
    system = Path(root) / "devices" / "system"
    if allowed is None:
        present = range(os.cpu_count() or 1)
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(present)
    usable = set(allowed)
    online = _cpus(system / "cpu" / "online")
    usable = (usable & set(online)) or usable if online else usable
    found = {}
    for folder in system.glob("node/node[0-9]*"):
        found[int(folder.name[4:])] = [cpu for cpu in _cpus(folder / "cpulist") if cpu in usable]
    placed = set(chain.from_iterable(found.values()))
    if not placed:
        found = {0: sorted(usable)}
    nodes = tuple(Node(number, _cores(system, found[number])) for number in sorted(found) if found[number])
    line, last = _caches(system, min(usable, default=0))
    return Topology(nodes, line, last)


def _cores(system: Path, cpus: list[int]) -> tuple[tuple[int, ...], ...]:
    """Group processors by the core they share."""
    cores: dict[int, list[int]] = {}
    for cpu in sorted(cpus):
        folder = system / "cpu" / f"cpu{cpu}" / "topology"
        siblings = _cpus(folder / "thread_siblings_list") or _cpus(folder / "core_cpus_list") or [cpu]
        cores.setdefault(min(siblings), []).append(cpu)
    return tuple(tuple(core) for core in cores.values())


def _caches(system: Path, cpu: int) -> tuple[int, int]:
    line, size, highest = LINE_BYTES, LAST_LEVEL_BYTES, 0
    for folder in system.glob(f"cpu/cpu{cpu}/cache/index[0-9]*"):
        level, kind = _text(folder / "level"), _text(folder / "type")
        found = re.fullmatch(r"(\d+)([KMG]?)", _text(folder / "size"))
        if kind == "Instruction" or not level.isdigit() or not found or int(level) <= highest:
            continue
        highest, size = int(level), int(found[1]) * UNITS[found[2]]
        width = _text(folder / "coherency_line_size")
        line = int(width) if width.isdigit() and int(width) > 0 else line
    return line, size or LAST_LEVEL_BYTES


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _cpus(path: Path) -> list[int]:
    """The numbers in a list as the kernel writes it, such as 0-19,40-59; none where it is not one."""
    cpus: list[int] = []
    for part in filter(None, _text(path).split(",")):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if not found:
            return []
        cpus += range(int(found[1]), int(found[2] or found[1]) + 1)
    return cpus


# ---------------------------------------------------------------------------- who works where
def choose_nodes(topology: Topology, threads: int, home: int | None = None) -> list[tuple[Node, int]]:
    """Nodes for a number of threads, and how many threads each gets: the rule of the Snap ML paper (section 3).

    The smallest number of nodes whose physical cores hold the threads, `home` (where the data lie) among them, and
    the threads spread evenly, none beyond a node's cores while another has room. More threads than cores in all:
    every node, evenly over their processors.

    Raises
    ------
    ValueError
        For less than one thread.
    """
    if threads < 1:
        raise ValueError(f"threads={threads} must be at least 1")
    ordered = sorted(topology.nodes, key=lambda node: (node.number != home, -len(node.cores), node.number))
    chosen: list[Node] = []
    while len(chosen) < len(ordered) and sum(len(node.cores) for node in chosen) < threads:
        chosen.append(ordered[len(chosen)])
    counts = [0] * len(chosen)
    rooms = [len(node.cores) for node in chosen]
    for _ in range(threads):
        free = [k for k, count in enumerate(counts) if count < rooms[k]] or range(len(chosen))
        counts[min(free, key=counts.__getitem__)] += 1
    return [(node, count) for node, count in zip(chosen, counts, strict=True) if count]


def cpus_for(node: Node, threads: int) -> list[int]:
    """The processor of each thread on a node: one of every core first, then their siblings, then round again."""
    turns = [cpu for turn in zip_longest(*node.cores) for cpu in turn if cpu is not None]
    return [turns[k % len(turns)] for k in range(threads)]


def node_of_memory(address: int) -> int | None:
    """The NUMA node of the page at an address, by the system call move_pages; None where that cannot be known."""
    number = MOVE_PAGES.get(platform.machine())
    if number is None or platform.system() != "Linux":
        return None
    page = ctypes.c_void_p(address & -os.sysconf("SC_PAGE_SIZE"))
    status = ctypes.c_int(-1)
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        failed = call(number, 0, ctypes.c_ulong(1), ctypes.byref(page), None, ctypes.byref(status), 0)
    except (OSError, AttributeError):
        return None
    return status.value if failed == 0 and status.value >= 0 else None
