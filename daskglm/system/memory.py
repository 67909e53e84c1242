"""Memory of this machine: how much it has, and how much this process may still take."""

from __future__ import annotations

import psutil


def memory_of_machine() -> int:
    """Bytes of this machine's memory, or of the limit on its container."""
    from distributed.system import MEMORY_LIMIT

    return int(MEMORY_LIMIT)


def memory_left() -> int:
    """Bytes that this process may still take."""
    return int(
        min(
            psutil.virtual_memory().available,
            memory_of_machine() - psutil.Process().memory_info().rss,
        )
    )
