"""The measurements: each gives the lines of one table."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

import daskglm
from benchmarks.gpu.measure import by_events, fitted, judged, on_device, rows_of, wall
from benchmarks.problems import higgs_like
from benchmarks.sdca.data import epsilon_like, rcv1_like
from daskglm.kernels import gpu, gram_side

Line = dict[str, Any]
SIZES = {"higgs": 11_000_000, "rcv1": 20_242, "epsilon": 400_000}
QUICK = {"higgs": 1_000, "rcv1": 100, "epsilon": 40}
LIBLINEAR_EPS = 0.01  # of -s 0


@functools.cache
def data(name: str, quick: bool) -> tuple[Any, np.ndarray]:
    """Generated rows with the shape of a set, float32."""
    rows = (QUICK if quick else SIZES)[name]
    if name == "higgs":
        return higgs_like(rows, 0)
    return (rcv1_like if name == "rcv1" else epsilon_like)(rows, 0)


def bandwidth(quick: bool) -> list[Line]:
    """What a copy on the device moves, read and written counted."""
    size = 1 << (12 if quick else 28)
    a, b = cp.zeros(size, np.float32), cp.zeros(size, np.float32)

    def copy() -> None:
        b[...] = a

    timed = by_events(copy, quick)
    return [{"bytes": 8 * size, "seconds": timed.seconds, "GB/s": 8 * size / timed.seconds / 1e9}]


def passes(quick: bool) -> list[Line]:
    """One pass over the rows: evaluation, with diagonal, with Gram, product; bytes of X over device time."""
    lines: list[Line] = []
    for name in SIZES:
        X, y = data(name, quick)
        kernels, rows = rows_of(X)
        home, (n, d) = gpu(), X.shape
        nbytes = X.nbytes if isinstance(X, np.ndarray) else rows.nbytes
        labels, z, c = home.vector(y, rows, exact=False), home.vector(None, rows), home.vector(None, rows, exact=False)
        w, none, out = cp.zeros(d), np.empty(0), cp.zeros(d + 2)
        side = gram_side(d)
        kinds = {"gradient": (none, none), "with diagonal": (cp.zeros(d + 1), none)}
        if d <= 2000:
            kinds["with Gram"] = (none, cp.zeros((side, side)))
        for kind, (diagonal, gram) in kinds.items():
            evaluate = functools.partial(
                kernels.evaluate, 0, rows, labels, none, w, 0, 0, n, z, c, out, diagonal, gram
            )  # fmt: skip
            timed = by_events(evaluate, quick)
            lines.append({"set": name, "rows": n, "columns": d, "kind": kind, "seconds": timed.seconds})
            lines[-1]["GB/s of X"] = nbytes / timed.seconds / 1e9
        timed = by_events(functools.partial(kernels.hessian_vector, rows, c, w, 0, 0, n, out[: d + 1]), quick)
        lines.append({"set": name, "rows": n, "columns": d, "kind": "Hessian-vector", "seconds": timed.seconds})
        lines[-1]["GB/s of X"] = nbytes / timed.seconds / 1e9
    return lines


def solves(quick: bool) -> list[Line]:
    """Solves without intercept, C = 1, rows on the device before the clock starts; memory beyond the data."""
    lines: list[Line] = []
    wanted = {"higgs": ("newton", "tron", "lbfgs"), "rcv1": ("tron", "lbfgs", "sdca"), "epsilon": ("tron", "lbfgs")}
    for name, solvers in wanted.items():
        X, y = data(name, quick)
        Xd = on_device(X)
        for solver in solvers:
            before = cp.get_default_memory_pool().used_bytes()
            model, timed = fitted(
                Xd, y, 1 if quick else 5, solver=solver, tol=1e-6, fit_intercept=False, random_state=0
            )  # fmt: skip
            value, bound = judged(X, y, model.coef_)
            lines.append({
                "set": name, "solver": solver, "tol": 1e-6, "seconds": timed.seconds, "objective": value,
                "proved suboptimality": bound, "iterations": model.report_.n_iter, "passes": model.report_.passes,
                "bytes of the data": Xd.nbytes if hasattr(Xd, "nbytes") else None,
                "bytes in use before": before, "most bytes in use": _most_in_use(Xd, y, solver),
            })  # fmt: skip
    lines.append(_liblinear_tolerance(quick))
    return lines


def _most_in_use(X: Any, y: np.ndarray, solver: str) -> int:
    """Device memory in use at the fullest iteration of a fit."""
    pool, most = cp.get_default_memory_pool(), [0]

    def look(record: Any) -> None:
        most[0] = max(most[0], pool.used_bytes())

    daskglm.fit(X, y, solver=solver, tol=1e-6, fit_intercept=False, random_state=0, callback=look, progress=False)
    return most[0]


def _liblinear_tolerance(quick: bool) -> Line:
    """TRON on RCV1's size until |g| <= 0.01 min(positive, negative) / n |g at 0|, LIBLINEAR's default rule."""
    X, y = data("rcv1", quick)
    share = LIBLINEAR_EPS * min((y > 0).sum(), (y < 0).sum()) / len(y)
    first: list[float] = []

    def enough(record: Any) -> bool:
        if record["iteration"] == 0:
            first[:] = [record["gradient_norm"]]
        return bool(record["gradient_norm"] <= share * first[0])

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the callback ends it before tol does
        model, timed = fitted(
            on_device(X), y, 1 if quick else 9, solver="tron", tol=0.0, fit_intercept=False, callback=enough
        )  # fmt: skip
    value, bound = judged(X, y, model.coef_)
    return {
        "set": "rcv1", "solver": "tron", "tol": "LIBLINEAR's", "seconds": timed.seconds, "objective": value,
        "proved suboptimality": bound, "iterations": model.report_.n_iter, "passes": model.report_.passes,
    }  # fmt: skip


# ---------------------------------------------------------------------------- what hiding latency gains
def hiding(quick: bool) -> list[Line]:
    """TRON with one means after the other: two products a pass, fused kernels, CG on the device, CG as a graph."""
    lines: list[Line] = []
    for name in ("rcv1", "higgs"):
        X, y = data(name, quick)
        Xd = on_device(X)
        for label, means in (
            ("baseline", (_unfused, _host_cg)), ("+ fused kernels", (_host_cg,)), ("+ CG on the device", (_no_graph,)),
            ("+ graph", ()),
        ):  # fmt: skip
            with contextlib.ExitStack() as stack:
                for change in means:
                    stack.enter_context(change())
                model, timed = fitted(Xd, y, 1 if quick else 7, solver="tron", tol=1e-6, fit_intercept=False)
            lines.append({"set": name, "means": label, "seconds": timed.seconds, "passes": model.report_.passes})
    return lines


@contextlib.contextmanager
def _patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def _unfused() -> Iterator[None]:
    """Losses in a pass over the margins of their own; dense rows are read once for each product."""
    home = gpu()

    def evaluate(
        code: int, rows: Any, y: Any, weight: Any, w: Any, b: int, start: int, stop: int, z: Any, c: Any, sums: Any,
        diagonal: Any, gram: Any,
    ) -> None:  # fmt: skip
        slope = cp.empty(len(z), z.dtype)
        home.csr.margins(rows, w, b, start, stop, z)
        home.margins.losses(code, y, weight, z, slope, c, sums[rows.d + 1 :])
        home.csr.backward(rows, slope, start, stop, sums)
        if diagonal.size:
            home.csr._columns(rows, slope, cp.zeros(rows.d), c, diagonal)  # rows read once more, as for the gradient

    with (
        _patched(home.dense, "NARROW", 0),
        _patched(home.dense, "WIDE", {4: 0, 8: 0}),
        _patched(home.csr, "evaluate", evaluate),
    ):
        yield


@contextlib.contextmanager
def _host_cg() -> Iterator[None]:
    """Conjugate gradients by CuPy operations, their scalars on the host."""
    from daskglm.respond import Shard

    with _patched(Shard, "solves_balls", False):
        yield


@contextlib.contextmanager
def _no_graph() -> Iterator[None]:
    with _patched(gpu(), "Ball", functools.partial(gpu().Ball, capture=False)):
        yield


# ---------------------------------------------------------------------------- more rows than memory
def streaming(quick: bool) -> list[Line]:
    """A fit of three times the memory allowed, and what a streamed pass costs beside its copy and its kernels."""
    X, y = data("higgs", quick)
    X, y = X[: len(X) // 4], y[: len(y) // 4]
    limit = X.nbytes // 3 + 24 * len(y)
    whole, resident = fitted(on_device(X), y, 1, solver="newton", tol=1e-6, fit_intercept=False)
    parts, streamed = fitted(
        X, y, 1, solver="newton", tol=1e-6, fit_intercept=False, device="cuda", device_memory_limit=limit
    )  # fmt: skip
    upload = gpu().Upload()
    rows = gpu().move(np.ascontiguousarray(X), X.shape, 0.0, 64 << 20, upload)
    labels, c = (gpu().vector(values, rows, exact=False) for values in (y, None))
    z = gpu().vector(None, rows)
    none, out, w = np.empty(0), cp.zeros(X.shape[1] + 2), cp.zeros(X.shape[1])

    def a_pass() -> None:
        gpu().streamed.evaluate(0, rows, labels, none, w, 0, 0, len(y), z, c, out, none, none)

    def copy_only() -> None:
        for _ in rows.chunks():
            pass

    kernels, on = rows_of(X)
    compute = by_events(lambda: kernels.evaluate(0, on, labels, none, w, 0, 0, len(y), z, c, out, none, none), quick)
    a_pass()
    copies = min(wall(copy_only)[1] for _ in range(3))
    both = min(wall(a_pass)[1] for _ in range(3))
    a, b = judged(X, y, whole.coef_)[0], judged(X, y, parts.coef_)[0]
    return [{
        "bytes of X": X.nbytes, "limit": limit, "relative difference of objectives": abs(a - b) / abs(a),
        "seconds resident": resident.seconds, "seconds streamed": streamed.seconds, "copies of a pass": copies,
        "kernels of a pass": compute.seconds, "streamed pass": both,
        "hidden share of the kernels": (copies + compute.seconds - both) / max(compute.seconds, 1e-12),
        "GB/s of the copies": X.nbytes / copies / 1e9,
    }]  # fmt: skip
