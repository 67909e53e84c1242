"""Stage env: packages, the device, and what copies and launches cost before any kernel of ours."""

from __future__ import annotations

import importlib
import platform
import time
from typing import Any

from benchmarks.gpu.lines import Lines
from benchmarks.gpu.results import version

NEEDED = {  # package: what to do where it cannot be imported
    "numpy": "nothing runs without it",
    "scipy": "nothing runs without it",
    "numba": "daskglm cannot be imported without it; where it refuses this NumPy take a newer "
    "numba and its llvmlite "
    "(0.68.1 and 0.50.0 take NumPy 2.5), or an older NumPy",
    "sklearn": "daskglm cannot be imported without it",
    "pandas": "daskglm cannot be imported without it",
    "cupy": "nothing runs on the device without it",
}
WISHED = {
    "dask": "needed by stage cluster, and by fits of dask collections",
    "distributed": "needed by stage cluster",
    "dask-cuda": "needed by stage cluster for LocalCUDACluster",
    "torch": "a rival of benchmarks.gpu",
    "cuml": "a rival of benchmarks.gpu",
}


def env(lines: Lines, quick: bool) -> None:
    """List packages, and what to do if one is missing; then ours, the device, its overheads."""
    for name, why in NEEDED.items():
        try:
            lines.add("env", package=name, version=importlib.import_module(name).__version__)
        # numba raises ImportError for a NumPy that it does not know, CuPy its own kinds
        except Exception as error:
            lines.add("env", package=name, error=repr(error)[:300], do=why)
    for name, why in WISHED.items():
        found = version(name)
        lines.add("env", package=name, **({"version": found} if found else {"missing": why}))
    began = time.perf_counter()
    importlib.import_module("daskglm.kernels").gpu()
    lines.add("env", what="importing daskglm and its kernels", seconds=time.perf_counter() - began)
    _device(lines)
    _speeds(lines, quick)


def _device(lines: Lines) -> None:
    import cupy as cp

    properties = cp.cuda.runtime.getDeviceProperties(0)
    lines.add(
        "env",
        python=platform.python_version(),
        device=properties["name"].decode(),
        compute_capability=cp.cuda.Device().compute_capability,
        driver=cp.cuda.runtime.driverGetVersion(),
        runtime=cp.cuda.runtime.runtimeGetVersion(),
        multiprocessors=properties["multiProcessorCount"],
        l2_bytes=properties.get("l2CacheSize"),
        memory_free_and_all=cp.cuda.runtime.memGetInfo(),
    )


def _speeds(lines: Lines, quick: bool) -> None:
    import cupy as cp
    import numpy as np

    from benchmarks.gpu.measure import enqueueing, on_device_clock, wall

    size = 1 << (12 if quick else 28)
    a = cp.ones(size, np.float32)
    b = cp.zeros(size, np.float32)
    copy = on_device_clock(lambda: b.__setitem__(..., a), quick)
    lines.add("env", what="copy on the device", GBps=8 * size / copy.seconds / 1e9, clock=copy.way)
    v = cp.ones(28)
    for what, work in (
        ("a launch", lambda: v + v),
        ("a number that the host waits for", lambda: float(v @ v)),
    ):
        lines.add(
            "env", what=f"host's time for {what}", us=1e6 * enqueueing(work, 20 if quick else 200)
        )
    host = np.ones(size, np.uint8)
    out = cp.empty(size, np.uint8)
    lines.add(
        "env", what="to the device, pageable", GBps=size / wall(lambda: out.set(host))[1] / 1e9
    )
    seconds = _locking(lines, host)
    if seconds is not None:
        lines.add(
            "env",
            what="to the device, page-locked",
            GBps=size / wall(lambda: out.set(host))[1] / 1e9,
        )
        cp.cuda.runtime.hostUnregister(host.ctypes.data)


def _locking(lines: Lines, host: Any) -> float | None:
    """Page-lock an array in place; None, and a line, where that cannot be done here."""
    import cupy as cp

    began = time.perf_counter()
    try:
        cp.cuda.runtime.hostRegister(host.ctypes.data, host.nbytes, 0)
    except cp.cuda.runtime.CUDARuntimeError as error:
        lines.add(
            "env",
            what="page-locking in place",
            error=repr(error),
            do="streamed rows are copied more slowly here",
        )
        return None
    seconds = time.perf_counter() - began
    lines.add("env", what="page-locking in place", GBps=host.nbytes / max(seconds, 1e-9) / 1e9)
    return seconds
