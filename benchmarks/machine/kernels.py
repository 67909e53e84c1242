"""`python -m benchmarks.machine.kernels`: CPU kernels beside the memory's bandwidth and BLAS, as
Markdown.

Kernels are called as the package calls them: one call a thread, each on a run of rows, with outputs
of its own. The yardsticks are measured in the same process: a sum over a large array, BLAS's syrk,
and for sparse rows the gather and the scatter of the same index stream, each alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from benchmarks.datasets.problems import load
from daskglm.kernels import for_rows, gram_side, sweep
from daskglm.losses.table import LOSSES, law_of

WIDTHS = (8, 18, 28, 64, 128, 512, 2000, 4096)
WIDE = 64  # features from which a Gram is measured against syrk, below against reading
GRAM_WORK = 2e10  # multiplications and additions in one timed Gram, about
NOTHING = np.empty(0)
NO_GRAM = np.empty((0, 0))
LOGISTIC = law_of(LOSSES["logistic"].ref)

Work = Callable[[int, int], Any]  # one thread's part: first row, one past the last
Row = tuple[Any, ...]


# ---- yardsticks
# Loops run from zero over slices: a place that may be negative, for all numba knows, costs a
# test.
@njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
def _read(values):  # type: ignore[no-untyped-def]
    total = values.dtype.type(0)
    for p in range(len(values)):
        total += values[p]
    return total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _gather(data, indices, w):  # type: ignore[no-untyped-def]
    even, odd = 0.0, 0.0  # two sums, so that no addition waits for the one before
    if len(data) == 1:
        for q in range(len(indices) // 2):
            even += w[np.uint64(indices[2 * q])]
            odd += w[np.uint64(indices[2 * q + 1])]
    else:
        for q in range(len(indices) // 2):
            even += data[2 * q] * w[np.uint64(indices[2 * q])]
            odd += data[2 * q + 1] * w[np.uint64(indices[2 * q + 1])]
    return even + odd


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _scatter(data, indices, s, out):  # type: ignore[no-untyped-def]
    if len(data) == 1:
        for p in range(len(indices)):
            out[np.uint64(indices[p])] += s
    else:
        for p in range(len(indices)):
            out[np.uint64(indices[p])] += s * data[p]


class Clock:
    """Times parts of rows on threads of a pool.

    Parameters
    ----------
    threads, repeats : int
        Threads, and timed repeats beside one to warm up.
    """

    def __init__(self, threads: int, repeats: int) -> None:
        self.threads, self.repeats = threads, repeats
        self.pool = ThreadPoolExecutor(threads)

    def seconds(self, n: int, works: Sequence[Work]) -> list[float]:
        """Median seconds of each of several works over n rows, interleaved."""
        cuts = [n * k // self.threads for k in range(self.threads + 1)]
        spans = list(pairwise(cuts))
        taken: list[list[float]] = [[] for _ in works]
        for repeat in range(self.repeats + 1):
            for work, times in zip(works, taken, strict=True):
                begin = time.perf_counter()
                for reply in [self.pool.submit(work, *span) for span in spans]:
                    reply.result()
                if repeat:
                    times.append(time.perf_counter() - begin)
        return [median(times) for times in taken]


def syrk_rate(threads: int, dtype: Any) -> float:
    """Return floating-point operations a second of BLAS's X'X for 16,384 x 1,024.

    One triangle is counted; it is the best of five.
    """
    X = np.ones((16_384, 1_024), dtype)
    times = []
    with threadpool_limits(threads):
        for _ in range(6):
            begin = time.perf_counter()
            X.T @ X
            times.append(time.perf_counter() - begin)
    return float(gram_work(*X.shape) / min(times[1:]))


def gram_work(n: int, d: int) -> float:
    """Multiplications and additions of one triangle of X'X."""
    return float(n) * d * (d + 1)


# ---- one form of rows
class Rows:
    """Rows with all that the kernels want beside them.

    Parameters
    ----------
    X : ndarray or csr_matrix
        The rows.
    y : (n,) ndarray
        Labels of -1/+1.
    """

    def __init__(self, X: Any, y: np.ndarray) -> None:
        self.n, self.d = X.shape
        self.y = y
        self.kernels, self.raw = for_rows(X)
        self.w = np.random.default_rng(1).standard_normal(self.d) / np.sqrt(self.d)
        self.z = np.empty(self.n)
        self.curvature = np.ones(self.n)

    def evaluate(self, lo: int, hi: int) -> None:
        self._evaluate(lo, hi, NOTHING, NO_GRAM)

    def evaluate_and_keep(self, lo: int, hi: int) -> None:
        self._evaluate(lo, hi, self.z, NO_GRAM)

    def gram(self, lo: int, hi: int) -> None:
        side = gram_side(self.d)
        self._evaluate(lo, hi, NOTHING, np.zeros((side, side)))

    def hessian_vector(self, lo: int, hi: int) -> None:
        self.kernels.hessian_vector(
            self.raw, self.curvature, self.w, 0.0, lo, hi, np.zeros(self.d + 1)
        )

    def margins(self, lo: int, hi: int) -> None:
        self.kernels.margins(self.raw, self.w, 0.0, lo, hi, self.z)

    def squared_norms(self, lo: int, hi: int) -> None:
        self.kernels.squared_norms(self.raw, lo, hi)

    def _evaluate(self, lo: int, hi: int, z: np.ndarray, gram: np.ndarray) -> None:
        sums = np.zeros(self.d + 2)
        sweep.evaluate(
            LOGISTIC,
            (self.raw, self.y, NOTHING, NOTHING),
            self.w,
            0.0,
            lo,
            hi,
            (z, NOTHING, sums, NOTHING, gram),
        )


PASSES = ("evaluate", "evaluate_and_keep", "hessian_vector", "margins", "squared_norms")
# bytes of numbers for each row that a pass has to read or write beside X
BESIDE = {
    "read": 0,
    "evaluate": 1,
    "evaluate_and_keep": 9,
    "gram": 1,
    "hessian_vector": 8,
    "margins": 8,
    "squared_norms": 0,
}


def dense(clock: Clock, flat: np.ndarray, widths: Sequence[int], rate: float) -> list[Row]:
    """Time all kernels on dense rows of each width, cut from one array."""
    found: list[Row] = []
    signs = np.where(np.random.default_rng(2).random(flat.size // min(widths)) < 0.5, 1, -1).astype(
        np.int8
    )
    for d in widths:
        n = flat.size // d
        whole = flat[: n * d].reshape(n, d)
        rows = Rows(whole, signs[:n])
        works: list[Work] = [
            lambda lo, hi, X=whole: _read(X[lo:hi].reshape(-1)),
            *(getattr(rows, each) for each in PASSES),
        ]
        times = clock.seconds(n, works)
        read = whole.nbytes / times[0]
        for name, seconds in zip(("read", *PASSES), times, strict=True):
            found.append(_dense_row(clock, rows, name, n, seconds, flat.itemsize, read))
        few = int(min(n, max(GRAM_WORK / d**2, 1024)))
        (seconds,) = clock.seconds(few, [rows.gram])
        row = _dense_row(clock, rows, "gram", few, seconds, flat.itemsize, read)
        found.append(
            row
            if d < WIDE
            else (*row[:-2], "", f"{gram_work(few, d) / seconds / rate:.0%} of syrk")
        )
    return found


def _dense_row(
    clock: Clock, rows: Rows, name: str, n: int, seconds: float, itemsize: int, read: float
) -> Row:
    size = n * rows.d * itemsize
    moved = size + n * BESIDE[name]
    dtype = "float32" if itemsize == 4 else "float64"
    return (
        f"{dtype} {rows.d}",
        clock.threads,
        name,
        f"{1e3 * seconds:.2f}",
        f"{size / seconds / 1e9:.1f}",
        f"{size / seconds / read:.0%}",
        f"{moved / seconds / read:.0%}",
    )


def sparse(clock: Clock, name: str, X: Any, y: np.ndarray) -> list[Row]:
    """Time all kernels on sparse rows beside a gather and scatter of the same places."""
    pattern = bool((X.data == X.data[0]).all())
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    rows = Rows(X, y.astype(np.int8))
    data = X.data[:1].copy() if pattern else X.data
    rows.raw = (data, X.indices, X.indptr)
    size = X.indices.nbytes + X.indptr.nbytes + (0 if pattern else X.data.nbytes)
    outs = [np.zeros(X.shape[1]) for _ in range(clock.threads)]
    cuts = [len(y) * k // clock.threads for k in range(clock.threads)]

    def stream(lo: int, hi: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(X.indptr[lo], X.indptr[hi])
        return data if pattern else data[part], X.indices[part]

    def gather(lo: int, hi: int) -> None:
        _gather(*stream(lo, hi), rows.w)

    def scatter(lo: int, hi: int) -> None:
        _scatter(*stream(lo, hi), 1.0, outs[cuts.index(lo)])

    def read_all(lo: int, hi: int) -> None:
        for part in stream(lo, hi):
            _read(part)

    works: list[Work] = [read_all, gather, scatter, *(getattr(rows, each) for each in PASSES)]
    reading, *times = clock.seconds(rows.n, works)
    read = size / reading
    both = times[0] + times[1]
    ceiling = {
        "gather": times[0],
        "scatter": times[1],
        "evaluate": both,
        "evaluate_and_keep": both,
        "hessian_vector": both,
        "margins": times[0],
    }
    found: list[Row] = []
    for each, seconds in zip(("gather", "scatter", *PASSES), times, strict=True):
        share = f"{ceiling[each] / seconds:.0%} of gather/scatter" if each in ceiling else ""
        speed = f"{size / seconds / 1e9:.1f}"
        found.append(
            (
                name,
                clock.threads,
                each,
                f"{1e3 * seconds:.2f}",
                speed,
                f"{size / seconds / read:.0%}",
                share,
            )
        )
    return found


# ---- the page
HEAD = (
    "rows",
    "threads",
    "kernel",
    "ms",
    "GB/s of X",
    "of read bandwidth",
    "with the vectors beside X",
)


def table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [HEAD, ("---",) * len(HEAD), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


@click.command()
@click.option("--megabytes", type=int, default=256, show_default=True, help="Of dense rows.")
@click.option("--repeats", type=int, default=5, show_default=True)
@click.option("--threads", type=int, multiple=True, help="Repeatable. Default: 1 and 2.")
@click.option("--width", type=int, multiple=True, help="Features of dense rows; repeatable.")
@click.option(
    "--dtype", type=click.Choice(["float32", "float64"]), multiple=True, help="Default: float32."
)
@click.option(
    "--data", multiple=True, help="Sparse sets; repeatable. Default: rcv1-like, criteo-like."
)
@click.option(
    "--storage", type=click.Choice(["dense", "csr"]), multiple=True, help="Default: both."
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Folder that keeps the sparse sets between runs.",
)
def main(
    megabytes: int,
    repeats: int,
    threads: Sequence[int],
    width: Sequence[int],
    dtype: Sequence[str],
    data: Sequence[str],
    storage: Sequence[str],
    cache: Path | None,
) -> None:
    """Measure CPU kernels beside the bandwidth of memory, BLAS and gathers; write Markdown."""
    found: list[Row] = []
    clocks = [Clock(count, repeats) for count in threads or (1, 2)]
    if not storage or "dense" in storage:
        for kind in dtype or ("float32",):
            flat = np.random.default_rng(0).standard_normal(
                megabytes * 2**20 // np.dtype(kind).itemsize, kind
            )
            for clock in clocks:
                rate = syrk_rate(clock.threads, kind)
                click.echo(f"syrk {kind}, {clock.threads} thread(s): {rate / 1e9:.0f} GFLOP/s")
                found += dense(clock, flat, width or WIDTHS, rate)
    if not storage or "csr" in storage:
        for name in data or ("rcv1-like", "criteo-like"):
            X, y = load(name, cache=cache)
            for clock in clocks:
                found += sparse(clock, name, X, y)
    click.echo("\n" + table(found))


if __name__ == "__main__":
    main()
