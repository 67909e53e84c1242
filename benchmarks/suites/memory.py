"""Memory of this process and of all that it started, read from /proc; None where there is none."""

from __future__ import annotations

import os
import resource
from pathlib import Path

PROC = Path("/proc")
SHARE = 0.8  # of the memory that is free: asking for more fails the run, not the machine


def resident_mb() -> float | None:
    """Resident memory now, of the process and its descendants together."""
    return _sum("VmRSS")


def peak_mb() -> float | None:
    """Return the sum of processes' own peaks since `reset_peaks`: at least that of the sum."""
    return _sum("VmHWM")


def reset_peaks() -> bool:
    """Reset peaks after loading, so that they are those of the fit; return False if that fails."""
    try:
        for pid in _family():
            (PROC / str(pid) / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def limit(processes: int) -> float | None:
    """Bound the address space of this process and its children.

    A Hessian of 47,000 columns is 17 GiB. Returns the bound in MB, None if there is none.
    """
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        free_mb = next(
            int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable:")
        )
        bound_mb = SHARE * free_mb / max(processes, 1)
        resource.setrlimit(resource.RLIMIT_AS, (int(bound_mb * 2**20), resource.RLIM_INFINITY))
    except (OSError, StopIteration, ValueError):
        return None
    return bound_mb


def _sum(field: str) -> float | None:
    found = []
    for pid in _family():
        try:
            lines = (PROC / str(pid) / "status").read_text().splitlines()
        except OSError:
            continue  # it ended meanwhile
        found += [int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":")]
    return sum(found) if found else None


def _family() -> list[int]:
    """Return this process and its descendants."""
    parents = {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            after_name = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(after_name[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found
