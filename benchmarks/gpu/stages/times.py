"""Stages times and ball: what a pass and a step of TRON cost the device, and what they cost the
host.
"""

from __future__ import annotations

import contextlib
import functools
import math
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cupy as cp
import numpy as np

from benchmarks.datasets.snap_ml import epsilon_like, rcv1_like
from benchmarks.gpu.lines import Lines
from benchmarks.gpu.means import graph_at_once, no_graph
from benchmarks.gpu.measure import enqueueing, on_device, on_device_clock, rows_of, wall
from benchmarks.gpu.rows import QUICK, SIZES, factors, higgs
from daskglm.core.device import gpu, to_host
from daskglm.core.requests import Problem
from daskglm.data.blocks import Place, to_block
from daskglm.engines.local import Local
from daskglm.kernels import gram_side
from daskglm.losses.table import LOSSES, law_of
from daskglm.objectives.primal import Objective
from daskglm.solvers.linear_systems import Diagonal
from daskglm.solvers.trust_region import solve_in_region
from daskglm.worker.device_placement import DeviceConfig

FACTOR_ROWS, QUICK_FACTOR_ROWS = 10_000_000, 2_000
TEN_TIMES_RCV1 = 200_000  # rows, whose 120 MB exceed the L2 cache of an H100 (50 MB)
EPSILON_PART = 4  # of epsilon's rows
# of steps: conjugate gradients carry differences of rounding on (6e-5 on 1,000 rows of HIGGS's
# shape)
MATCH = 1e-3
WIDEST_GRAM = 64  # columns up to which a Gram of dense rows is made beside the gradient


def times(lines: Lines, quick: bool) -> None:
    """Time every pass over rows of five shapes.

    Lines have the device's time, bytes of the rows a second, and the host's time to enqueue it.
    """
    for name, rows, make in (
        ("higgs", SIZES["higgs"], higgs),
        ("rcv1", SIZES["rcv1"], rcv1_like),
        ("rcv1 x 10", TEN_TIMES_RCV1, rcv1_like),
        ("epsilon / 4", SIZES["epsilon"] // EPSILON_PART, epsilon_like),
        ("factors", FACTOR_ROWS, factors),
    ):
        few = QUICK.get(name.split()[0], QUICK_FACTOR_ROWS)
        X, y = make(few if quick else rows)
        kernels, on = rows_of(X)
        nbytes = X.nbytes if isinstance(X, np.ndarray) else on.nbytes
        for kind, work in _passes(kernels, on, y, X.shape[1]).items():
            try:
                timed = on_device_clock(work, quick)
                lines.add(
                    "times",
                    set=name,
                    rows=len(y),
                    columns=X.shape[1],
                    kind=kind,
                    device_us=1e6 * timed.seconds,
                    clock=timed.way,
                    GBps=nbytes / timed.seconds / 1e9,
                    host_us=1e6 * enqueueing(work, 1 if quick else 20),
                )
            except Exception:
                lines.failed("times", set=name, kind=kind)


def _passes(kernels: Any, rows: Any, y: np.ndarray, d: int) -> dict[str, Callable[[], None]]:
    """Return the calls that read the rows once, by name."""
    backend = gpu()
    n = len(y)
    rng = np.random.default_rng(2)
    labels = backend.vector(y, rows, exact=False)
    z = backend.vector(None, rows)
    c = backend.vector(None, rows, exact=False)
    w = cp.asarray(0.1 * rng.standard_normal(d))
    v = cp.asarray(rng.standard_normal(d))
    none, out = np.empty(0), cp.zeros(d + 1)
    data, sums = (rows, labels, none, none), cp.zeros(d + 2)
    evaluate = functools.partial(
        kernels.evaluate, law_of(LOSSES["logistic"].ref, compiled=False), data, w, 0, 0, n
    )
    found = {
        "margins": functools.partial(kernels.margins, rows, w, 0, 0, n, z),
        "gradient": functools.partial(evaluate, (z, c, sums, none, none)),
        "with diagonal": functools.partial(evaluate, (z, c, sums, cp.zeros(d + 1), none)),
        "Hessian-vector": functools.partial(kernels.hessian_vector, rows, c, v, 0, 0, n, out),
    }
    if d <= WIDEST_GRAM or isinstance(rows, backend.coded.Rows):
        gram = cp.zeros((gram_side(d), gram_side(d)))
        found["with Gram"] = functools.partial(evaluate, (z, c, sums, none, gram))
    return found


def ball(lines: Lines, quick: bool) -> None:
    """Time a step of TRON by three ways, inside a large ball and on the border of a small one.

    "off" is the distance of the step from that by operations one by one, with scalars on the host.
    """
    sets = {
        "rcv1": rcv1_like(QUICK["rcv1"] if quick else SIZES["rcv1"]),
        "higgs / 4": higgs(QUICK["higgs"] if quick else SIZES["higgs"] // 4),
    }
    for name, (X, y) in sets.items():
        for share in (1e9, 0.1):
            wanted = None
            ways = {
                "operations from the host": contextlib.nullcontext,
                "kernels": no_graph,
                "graph": graph_at_once,
            }
            for way, means in ways.items():
                with means():
                    found, first, usual = _step(
                        X, y, share, by_host=wanted is None, repeats=1 if quick else 10
                    )
                wanted = found if wanted is None else wanted
                here = to_host(wanted.step)
                there = to_host(found.step)
                off = float(np.linalg.norm(there - here) / np.linalg.norm(here))
                lines.add(
                    "ball",
                    set=name,
                    radius_share=share,
                    way=way,
                    off=off,
                    on_border=found.on_border,
                    as_the_host=found.on_border == wanted.on_border and off < MATCH,
                    first_ms=1e3 * first,
                    ms=1e3 * usual,
                )


def _step(
    X: Any, y: np.ndarray, share: float, *, by_host: bool, repeats: int
) -> tuple[Any, float, float]:
    """Take the step from zero in a ball of `share` times the gradient's norm.

    Returns it with seconds of the first solve, and usual ones.
    """
    loss = LOSSES["logistic"]
    engine = Local(
        [to_block(on_device(X), y, place=Place(), classify=True)], where=DeviceConfig("cuda")
    )
    if by_host:
        engine.capabilities = replace(engine.capabilities, solves_trust_regions=False)
    problem = Objective(engine, Problem(loss.ref, 1.0), loss, C=1.0, fit_intercept=False)
    point = problem.at(engine.capabilities.xp.zeros(problem.size), diagonal=True, curved=True)
    M = Diagonal(0.5 + 0.5 * point.diagonal)
    radius = share * math.sqrt(float(point.gradient @ M.times(point.gradient)))
    solve = functools.partial(solve_in_region, point, M, radius)
    found, first = wall(solve)
    return found, first, statistics.median(wall(solve)[1] for _ in range(repeats))
