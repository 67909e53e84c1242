"""Wait for the workers of a cluster, and try it with a small fit whose answer is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from daskglm.launch import tls
from daskglm.launch.processes import POLL_SECONDS

# Rows of each partition of the trial fit, which has two partitions for each thread.
ROWS = 64


def wait_until_ready(
    address: str,
    workers: int,
    timeout: float,
    *,
    tls_dir: Path | None = None,
    alive: Callable[[], None] = lambda: None,
) -> str:
    """Wait for workers, fit a small model on all of them, and describe the cluster in a sentence.

    Parameters
    ----------
    address : str
        Address of the scheduler.
    workers : int
        Number of workers to wait for.
    timeout : float
        Seconds.
    tls_dir : path, optional
        Folder of certificates.
    alive : callable, optional
        Called while waiting; raises if the cluster cannot come up any more.

    Raises
    ------
    OSError
        If the scheduler does not answer in time.
    TimeoutError
        If the workers do not come in time.
    RuntimeError
        If the fit is wrong, or did not use all workers.
    """
    import dask
    from distributed import Client

    deadline = time.monotonic() + timeout
    with (
        dask.config.set(tls.settings(tls_dir)),
        Client(address, timeout=timeout, set_as_default=False) as client,
    ):
        # Client.wait_for_workers would not notice that a process of the launcher has ended
        while (found := len(client.nthreads())) < workers:
            alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{found} of {workers} workers came within {timeout:.0f} s")
            time.sleep(POLL_SECONDS)

        threads = client.nthreads()
        _try_fit(client, sum(threads.values()), len(threads))
        info = client.scheduler_info(n_workers=-1)["workers"]

    hosts = {worker["host"] for worker in info.values()}
    memory = [worker["memory_limit"] for worker in info.values()]
    limits = f"{sum(memory) / 2**30:.1f} GiB" if all(memory) else "no limit of memory"
    return (
        f"{len(info)} workers on {len(hosts)} host(s), {sum(threads.values())} threads, {limits}; "
        "a fit on all of them gave the right answer"
    )


def _try_fit(client: object, threads: int, workers: int) -> None:
    """Fit targets that are exactly linear in the rows, and compare the coefficients."""
    import dask
    import numpy as np

    from daskglm.fitting.config import FitConfig
    from daskglm.fitting.runner import train

    partitions = 2 * max(threads, workers)
    wanted = np.array([1.0, -2.0, 3.0])

    def rows(k: int) -> np.ndarray:
        return np.random.default_rng(k).standard_normal((ROWS, len(wanted)))

    X = [dask.delayed(rows, pure=False)(k) for k in range(partitions)]
    y = [dask.delayed(np.matmul)(block, wanted) for block in X]
    settings = FitConfig("squared", C=1e6, solver="newton", progress=False)
    fitted = train(X, y, settings, client=client)

    if not (fitted.report.converged and np.allclose(fitted.coef[0], wanted, atol=1e-4)):
        raise RuntimeError(
            f"the trial fit gave {fitted.coef[0]} in place of {wanted}: {fitted.report.reason}"
        )
    if fitted.report.workers < workers:
        raise RuntimeError(f"the trial fit ran on {fitted.report.workers} of {workers} workers")
