"""Memory of this machine, and how much of it this process may still take."""

from __future__ import annotations

import psutil


def memory_of_machine() -> int:
    """Return the bytes of this machine's memory, or the limit of its container if that is less."""
    from distributed.system import MEMORY_LIMIT

    return int(MEMORY_LIMIT)


def memory_left() -> int:
    """Return the bytes that this process may still take."""
    own = psutil.Process().memory_info().rss
    return int(min(psutil.virtual_memory().available, memory_of_machine() - own))
