"""A LocalCluster for contestants that run on one; needs dask and distributed, which their
environments have.
"""

from __future__ import annotations

import atexit
from functools import cache
from typing import Any


@cache
def client_of(workers: int, threads: int) -> Any:
    """Return the client of one cluster for the life of this process."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=workers,
        threads_per_worker=max(1, threads // workers),
        dashboard_address=":0",
        memory_limit=0,
    )
    client = Client(cluster)
    atexit.register(lambda: (client.close(), cluster.close()))
    return client
