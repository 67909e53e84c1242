"""The iterations of a fit, logged as events of Dask for those who watch; see `monitoring`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from distributed import Client

from daskglm.core.outcome import Iteration

# Topic of the events; each is a dictionary with the fields of `monitoring.Fit`, and the iterations
# since the last one.
TOPIC = "daskglm"

# Seconds between two events of a fit; a page looks twice a second.
SEND_SECONDS = 0.2


class Events:
    """Logs iterations on the scheduler, several at once; nobody waits for that.

    Parameters
    ----------
    client : distributed.Client
    session : str
        Names the fit.
    """

    def __init__(self, client: Client, session: str) -> None:
        self.client = client
        self.session = session
        self.busy: dict[str, float] = {}
        self.left: list[dict[str, Any]] = []
        self.repairs = 0
        self.began = self.sent = time.monotonic()

    def begin(self) -> None:
        """Take note that workers are ready for requests."""
        self.began = time.monotonic()

    def worked(self, address: str, seconds: float) -> None:
        """Take note of the time that a worker took for a request."""
        self.busy[address] = self.busy.get(address, 0.0) + seconds

    def add(self, iteration: Iteration, repairs: int) -> None:
        """Log an iteration now, or with those that follow within `SEND_SECONDS`."""
        self.repairs = repairs
        # NumPy's numbers cannot be packed
        self.left.append(
            {
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in iteration.items()
            }
        )
        if time.monotonic() > self.sent + SEND_SECONDS:
            self.send()

    def send(self) -> None:
        """Log what is left."""
        if not self.left:
            return
        self.sent = time.monotonic()
        event = {
            "session": self.session,
            "iterations": self.left,
            "repairs": self.repairs,
            "waiting": self.waiting(self.busy),
        }
        self.left = []
        logging = self.client.scheduler.log_event(topic=TOPIC, msg=event)
        asyncio.run_coroutine_threadsafe(logging, self.client.loop.asyncio_loop)

    def waiting(self, addresses: Iterable[str]) -> dict[str, float]:
        """Return the share of the time since `begin` that workers did not work on requests."""
        elapsed = max(time.monotonic() - self.began, 1e-9)
        return {
            address: max(1.0 - self.busy.get(address, 0.0) / elapsed, 0.0)
            for address in sorted(addresses)
        }
