"""When a fit that is under way gives blocks to workers that have come meanwhile."""

from __future__ import annotations

import time

LOOK_SECONDS = 5.0  # how often a fit looks whether workers have come
MOVED_BYTES = 1e8  # bytes a second that moving blocks is counted at


class Wish:
    """When blocks are worth moving to workers that have none: as soon as what was lost by not doing
    it equals its cost.

    So no more than twice the least possible time is spent, however long the fit goes on (the ski
    rental problem).
    """

    def __init__(self) -> None:
        self.looked, self.lost, self.cost, self.idle, self.is_due = (
            time.monotonic(),
            0.0,
            0.0,
            0.0,
            False,
        )

    def after(self, seconds: float, nbytes: int) -> bool:
        """A round took so long; true if it is time to look for workers, or to move blocks of so
        many bytes.
        """
        self.lost += self.idle * seconds
        self.cost = self.idle * nbytes / MOVED_BYTES + seconds
        self.is_due = self.idle > 0.0 and self.lost >= self.cost
        return self.is_due or time.monotonic() > self.looked + LOOK_SECONDS

    def learn(self, used: int, threads: int) -> None:
        """So many threads of all are at work."""
        self.looked, self.idle = time.monotonic(), 1.0 - used / max(threads, 1)
