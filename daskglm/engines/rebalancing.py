"""When a running fit moves blocks to workers that have joined."""

from __future__ import annotations

import time

# Seconds between two looks for workers that have joined.
JOINED_SECONDS = 5.0

# Bytes per second at which the cost of moving blocks is estimated.
MOVED_BYTES = 1e8


class RebalancePolicy:
    """Decide when to move blocks to workers that have none.

    Blocks are moved when the time lost so far by not moving them equals the cost of the move. So
    however long the fit goes on, it takes at most twice the least possible time (the ski rental
    problem; Karlin, Manasse, Rudolph and Sleator, 1988).

    Attributes
    ----------
    is_due : bool
        True if blocks should be moved now.
    """

    def __init__(self) -> None:
        self.looked, self.is_due = time.monotonic(), False
        self.lost = 0.0
        self.idle = 0.0

    def after_round(self, seconds: float, nbytes: int) -> bool:
        """Take note of a round; return True if it is time to look for workers, or to move blocks.

        Parameters
        ----------
        seconds : float
            Duration of the round.
        nbytes : int
            Bytes of all rows.
        """
        self.lost += self.idle * seconds
        cost = self.idle * nbytes / MOVED_BYTES + seconds
        self.is_due = self.idle > 0.0 and self.lost >= cost
        return self.is_due or time.monotonic() > self.looked + JOINED_SECONDS

    def set_busy_threads(self, busy: int, threads: int) -> None:
        """Take note of how many of all threads belong to workers that have blocks."""
        self.looked = time.monotonic()
        self.idle = 1.0 - busy / max(threads, 1)
