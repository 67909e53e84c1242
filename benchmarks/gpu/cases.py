"""The measurements: each gives the lines of one table."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

import daskglm
from benchmarks.gpu import reference
from benchmarks.gpu.means import diagonal_metric, graph_at_once, host_cg, no_graph, unfused
from benchmarks.gpu.measure import fitted, judged, on_device, on_device_clock, rows_of, wall
from benchmarks.gpu.rows import SIZES, data
from daskglm.core.device import gpu
from daskglm.kernels import gram_side
from daskglm.losses.table import LOSSES, law_of

Line = dict[str, Any]
LOGISTIC = law_of(LOSSES["logistic"].ref, compiled=False)
POISSON = law_of(LOSSES["poisson"].ref, compiled=False)
LIBLINEAR_EPS = 0.01  # of -s 0
WIDEST_GRAM = 2000


def bandwidth(quick: bool) -> Iterator[Line]:
    """Measure how much a copy on the device moves, read and written counted."""
    size = 1 << (12 if quick else 28)
    a = cp.ones(size, np.float32)
    b = cp.zeros(size, np.float32)

    def copy() -> None:
        b[...] = a

    timed = on_device_clock(copy, quick)
    yield {
        "bytes": 8 * size,
        "seconds": timed.seconds,
        "GB/s": 8 * size / timed.seconds / 1e9,
        "clock": timed.way,
        "right": bool((b == 1).all()),
    }


def passes(quick: bool) -> Iterator[Line]:
    """Measure one pass over the rows: evaluation, with diagonal, with Gram, product.

    It gives bytes of X over device time, and a gradient of Poisson's loss with offsets too. "error"
    is the relative distance of the result from NumPy's in float64 (for a Gram of many columns, that
    of the gradient that comes with it).
    """
    for name in SIZES:
        yield from _passes_over(name, quick)


def _passes_over(name: str, quick: bool) -> Iterator[Line]:
    X, y = data(name, quick)
    kernels, rows = rows_of(X)
    backend, (n, d), rng = gpu(), X.shape, np.random.default_rng(0)
    nbytes = X.nbytes if isinstance(X, np.ndarray) else rows.nbytes
    # no intercept
    at, along = (np.append(scale * rng.standard_normal(d), 0.0) for scale in (0.1, 1.0))
    wanted = reference.sums(X, y, np.ones(n), at, along)
    labels = backend.vector(y, rows, exact=False)
    z = backend.vector(None, rows)
    c = backend.vector(None, rows, exact=False)
    w = cp.asarray(at[:d])
    v = cp.asarray(along[:d])
    none = np.empty(0)

    def evaluate(out: Any, diagonal: Any, gram: Any) -> None:
        vectors = labels, none, none
        kernels.evaluate(LOGISTIC, (rows, *vectors), w, 0, 0, n, (z, c, out, diagonal, gram))

    def gradient(out: Any) -> None:
        evaluate(out, none, none)

    def diagonal(out: Any) -> None:
        evaluate(sums, out, none)

    def gram(out: Any) -> None:
        evaluate(sums, none, out)

    # a regression, whose vectors are float64, with an offset; its counts are 0 and 1
    counts, offset, there = (backend.vector(part, rows) for part in (y > 0.0, 0.1 * y, None))

    def poisson(out: Any) -> None:
        vectors = counts, none, offset
        kernels.evaluate(POISSON, (rows, *vectors), w, 0, 0, n, (z, there, out, none, none))

    def product(out: Any) -> None:
        kernels.hessian_vector(rows, c, v, 0, 0, n, out)

    sums, side = cp.zeros(d + 2), gram_side(d)
    kinds: dict[str, tuple[Any, tuple[int, ...], Any]] = {
        "gradient": (gradient, (d + 2,), np.append(wanted.gradient[:d], 0.0)),
        "with diagonal": (diagonal, (d + 1,), np.append(wanted.diagonal[:d], 0.0)),
        "Hessian-vector": (product, (d + 1,), np.append(wanted.product[:d], 0.0)),
        "gradient, Poisson": (poisson, (d + 2,), reference.poisson(X, y, at)),
    }
    if d <= WIDEST_GRAM:
        kinds["with Gram"] = (gram, (side, side), wanted.gram)
    for kind, (work, shape, right) in kinds.items():
        out = cp.zeros(shape)
        sums[...] = 0.0
        work(out)
        error = _distance(out.get(), sums.get(), right, wanted.gradient, d)
        timed = on_device_clock(functools.partial(work, out), quick)
        yield {
            "set": name,
            "rows": n,
            "columns": d,
            "kind": kind,
            "seconds": timed.seconds,
            "GB/s of X": nbytes / timed.seconds / 1e9,
            "clock": timed.way,
            "error": error,
        }


def _distance(out: Any, sums: Any, right: Any, gradient: Any, d: int) -> float:
    """Return how far the features' part of a sum is from the right one; the intercept has none."""
    if right is None:
        return reference.distance(sums[:d], gradient[:d])
    if right.ndim == 2:
        return reference.distance(np.triu(out[:d, :d]), right[:d, :d])
    return reference.distance(out[:d], right[:d])


def solves(quick: bool) -> Iterator[Line]:
    """Time solves without intercept, C = 1, rows on the device; measure memory beyond the data."""
    wanted = {
        "higgs": ("newton", "tron", "lbfgs"),
        "rcv1": ("tron", "lbfgs", "sdca"),
        "epsilon": ("tron", "lbfgs"),
    }
    for name, solvers in wanted.items():
        X, y = data(name, quick)
        Xd = on_device(X)
        for solver in solvers:
            before = cp.get_default_memory_pool().used_bytes()
            model, timed = fitted(
                Xd,
                y,
                1 if quick else 5,
                solver=solver,
                tol=1e-6,
                fit_intercept=False,
                random_state=0,
            )
            value, bound = judged(X, y, model.coef_)
            yield {
                "set": name,
                "solver": solver,
                "tol": 1e-6,
                "seconds": timed.seconds,
                "objective": value,
                "proved suboptimality": bound,
                "iterations": model.report_.n_iter,
                "passes": model.report_.passes,
                "bytes of the data": Xd.nbytes if hasattr(Xd, "nbytes") else None,
                "bytes in use before": before,
                "most bytes in use": _most_in_use(Xd, y, solver),
            }
    yield _liblinear_tolerance(quick)


def _most_in_use(X: Any, y: np.ndarray, solver: str) -> int:
    """Device memory in use at the fullest iteration of a fit."""
    pool, most = cp.get_default_memory_pool(), [0]

    def look(record: Any) -> None:
        most[0] = max(most[0], pool.used_bytes())

    daskglm.fit(
        X,
        y,
        solver=solver,
        tol=1e-6,
        fit_intercept=False,
        random_state=0,
        callback=look,
        progress=False,
    )
    return most[0]


def _liblinear_tolerance(quick: bool) -> Line:
    """Run TRON on RCV1's size until |g| <= 0.01 min(positive, negative) / n |g at 0|.

    That is LIBLINEAR's default rule.
    """
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
            on_device(X),
            y,
            1 if quick else 9,
            solver="tron",
            tol=0.0,
            fit_intercept=False,
            callback=enough,
        )
    value, bound = judged(X, y, model.coef_)
    return {
        "set": "rcv1",
        "solver": "tron",
        "tol": "LIBLINEAR's",
        "seconds": timed.seconds,
        "objective": value,
        "proved suboptimality": bound,
        "iterations": model.report_.n_iter,
        "passes": model.report_.passes,
    }


# ---- what hiding latency gains
def hiding(quick: bool) -> Iterator[Line]:
    """Time TRON with one improvement after the other.

    They are: two products a pass, fused kernels, CG on the device, CG as a graph. The last line is
    TRON as it is, preconditioned by the Hessian of a sample where there are so many values.
    """
    for name in ("rcv1", "higgs"):
        X, y = data(name, quick)
        Xd = on_device(X)
        for label, means in (
            ("baseline", (unfused, host_cg, diagonal_metric)),
            ("+ fused kernels", (host_cg, diagonal_metric)),
            ("+ CG on the device", (no_graph, diagonal_metric)),
            ("+ graph", (graph_at_once, diagonal_metric)),
            ("+ preconditioner", ()),
        ):
            with contextlib.ExitStack() as stack:
                for change in means:
                    stack.enter_context(change())
                model, timed = fitted(
                    Xd, y, 1 if quick else 7, solver="tron", tol=1e-6, fit_intercept=False
                )
            value, bound = judged(X, y, model.coef_)
            yield {
                "set": name,
                "means": label,
                "seconds": timed.seconds,
                "passes": model.report_.passes,
                "objective": value,
                "proved suboptimality": bound,
            }


# ---- more rows than memory
def streaming(quick: bool) -> Iterator[Line]:
    """Time a fit of three times the memory allowed, and a streamed pass with its parts."""
    X, y = data("higgs", quick)
    X, y = X[: len(X) // 4], y[: len(y) // 4]
    limit = X.nbytes // 3 + 24 * len(y)
    # a Gram for each of the tiny chunks takes the stand-in long
    solver = "tron" if quick else "newton"
    whole, resident = fitted(on_device(X), y, 1, solver=solver, tol=1e-6, fit_intercept=False)
    parts, streamed = fitted(
        X,
        y,
        1,
        solver=solver,
        tol=1e-6,
        fit_intercept=False,
        device="cuda",
        device_memory_limit=limit,
    )
    upload = gpu().Upload()
    rows = gpu().move(np.ascontiguousarray(X), X.shape, 0.0, 64 << 20, upload)
    labels, c = (gpu().vector(values, rows, exact=False) for values in (y, None))
    z = gpu().vector(None, rows)
    none = np.empty(0)
    out = cp.zeros(X.shape[1] + 2)
    w = cp.zeros(X.shape[1])

    def a_pass() -> None:
        gpu().streamed.evaluate(
            LOGISTIC, (rows, labels, none, none), w, 0, 0, len(y), (z, c, out, none, none)
        )

    def copy_only() -> None:
        for _ in rows.chunks():
            pass

    kernels, on = rows_of(X)
    compute = on_device_clock(
        lambda: kernels.evaluate(
            LOGISTIC, (on, labels, none, none), w, 0, 0, len(y), (z, c, out, none, none)
        ),
        quick,
    )
    a_pass()
    copies = min(wall(copy_only)[1] for _ in range(3))
    both = min(wall(a_pass)[1] for _ in range(3))
    a = judged(X, y, whole.coef_)[0]
    b = judged(X, y, parts.coef_)[0]
    yield {
        "bytes of X": X.nbytes,
        "limit": limit,
        "relative difference of objectives": abs(a - b) / abs(a),
        "seconds resident": resident.seconds,
        "seconds streamed": streamed.seconds,
        "copies of a pass": copies,
        "kernels of a pass": compute.seconds,
        "streamed pass": both,
        "hidden share of the kernels": (copies + compute.seconds - both)
        / max(compute.seconds, 1e-12),
        "GB/s of the copies": X.nbytes / copies / 1e9,
        "clock of the kernels": compute.way,
    }
