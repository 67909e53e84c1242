"""Whether a cluster is there: waits for its workers, looks at what they are, and fits a small model
on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import dask
import numpy as np

from daskglm.fitting.config import Settings
from daskglm.fitting.runner import train
from daskglm.launch import tls

POLL_SECONDS = 0.2
ROWS = 64  # of each partition of the fit that tries the cluster, two partitions a thread


def wait_until_ready(
    address: str | None,
    workers: int,
    timeout: float,
    *,
    folder: Path | None = None,
    file: Path | None = None,
    alive: Callable[[], None] = lambda: None,
) -> str:
    """Wait for a number of workers, fit on all of them, and say in a sentence what the cluster is.

    Parameters
    ----------
    address : str, optional
        Of the scheduler; or `file`, which a scheduler writes.
    timeout : float
        Seconds for all of it.
    folder : path, optional
        Certificates.
    alive : callable, optional
        Asked while waiting; raises where the cluster will not come up.

    Raises
    ------
    TimeoutError
        Where the workers, or an answer, do not come in time.
    RuntimeError
        Where the fit is not right or did not use all workers.
    """
    from distributed import Client

    deadline = time.monotonic() + timeout
    with dask.config.set(tls.settings(folder)):
        client = Client(
            address,
            scheduler_file=None if file is None else str(file),
            timeout=timeout,
            set_as_default=False,
        )
        with client:
            while (there := len(client.nthreads())) < workers:
                alive()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{there} of {workers} workers came within {timeout:.0f} s")
                time.sleep(POLL_SECONDS)
            threads = client.nthreads()
            _try(client, sum(threads.values()), len(threads))
            info = client.scheduler_info(n_workers=-1)["workers"]
    hosts = {worker["host"] for worker in info.values()}
    memory = [worker["memory_limit"] for worker in info.values()]
    limits = f"{sum(memory) / 2**30:.1f} GiB" if all(memory) else "no limit of memory"
    return (
        f"{len(info)} workers on {len(hosts)} host(s), {sum(threads.values())} threads, {limits}; "
        "a fit on all of them gave the right answer"
    )


def _try(client: object, threads: int, workers: int) -> None:
    """Fit a model whose answer is known: targets that are exactly linear in the rows."""
    parts = 2 * max(threads, workers)
    wanted = np.array([1.0, -2.0, 3.0])

    def rows(k: int) -> np.ndarray:
        return np.random.default_rng(k).standard_normal((ROWS, len(wanted)))

    made = [dask.delayed(rows, pure=False)(k) for k in range(parts)]
    targets = [dask.delayed(np.matmul)(X, wanted) for X in made]
    settings = Settings("squared", C=1e6, solver="newton", progress=False)
    fitted = train(made, targets, settings, client=client)
    if not (fitted.report.converged and np.allclose(fitted.coef[0], wanted, atol=1e-4)):
        raise RuntimeError(
            f"the trial fit gave {fitted.coef[0]} in place of {wanted}: {fitted.report.reason}"
        )
    if fitted.report.workers < workers:
        raise RuntimeError(f"the trial fit ran on {fitted.report.workers} of {workers} workers")
