"""A model of the time of a fit on many nodes, fitted to measured rounds: arithmetic only, runs
nothing.

time = passes * bytes / bandwidth + rounds * (latency * hops + software * messages + bytes a round *
messages / network)

`hops` and `messages` are the depth of a round: levels of the tree, and messages that one process
handles one after the other on the longest way from the client to the last worker and back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

HESSIAN_BYTES = 8 << 30  # bytes: daskglm.fitting.runner refuses newton beyond
SOLVERS = ("newton", "tron", "lbfgs", "sdca")
NODES, GBITS = (16, 128, 1024), (25, 200)
SCHEMES = ("leaders", "binary")  # daskglm as it is, and an ideal one


# ---- what there is
@dataclass(frozen=True)
class Shape:
    """A data set: `nbytes` as daskglm stores X."""

    name: str
    rows: int
    features: int
    per_row: float
    nbytes: float
    stored: str


@dataclass(frozen=True)
class Machine:
    """Nodes and their network.

    Bytes/s of memory per node, seconds per hop and per message, bytes/s.
    """

    bandwidth: float = 200e9
    cores: int = 64
    workers: int = 2  # a node: one per NUMA node
    memory: float = 512e9
    latency: float = 0.0
    per_message: float = 0.0
    network: float = math.inf


@dataclass(frozen=True)
class Cost:
    """What a solver needs to the target: passes, rounds, and vectors of d doubles per worker.

    Vectors go to and from every worker. `rate` is bytes/s of X that one core gets through in a
    pass: memory does not limit all of them.
    """

    passes: float
    rounds: float
    vectors: float
    rate: float = math.inf


class Depth(NamedTuple):
    """Levels of a round, and messages handled one after the other."""

    hops: float
    messages: float


class Seconds(NamedTuple):
    """Parts of a predicted time."""

    compute: float
    latency: float
    transfer: float

    @property
    def total(self) -> float:
        return self.compute + self.latency + self.transfer


SHAPES = (
    Shape("HIGGS", 11_000_000, 28, 28, 11e6 * 28 * 4, "dense float32"),
    Shape(
        "Criteo-1TB",
        4_200_000_000,
        1_000_000,
        39,
        4.2e9 * (39 * 4 + 4),
        "CSR, pattern without values",
    ),
    Shape("KDD2010-b", 19_264_097, 29_890_095, 29, 19_264_097 * (29 * 8 + 4), "CSR float32"),
)


def gram_refused(features: int) -> bool:
    """Return whether daskglm would refuse to form the Hessian."""
    return 8 * features**2 > HESSIAN_BYTES


# ---- the model
def depth(workers: int, scheme: str, cores: float = math.inf) -> Depth:
    """Return the depth of a round.

    With fewer cores than busy processes messages wait for a core at both of their ends.
    """
    if scheme == "star":
        found = Depth(1, workers)
    elif scheme in ("tree", "leaders"):
        width = math.ceil(math.sqrt(workers))  # as daskglm.engines.cluster._tree
        found = Depth(2 if width > 1 else 1, math.ceil(workers / width) + width - 1)
    elif scheme == "binary":
        found = Depth(math.ceil(math.log2(workers)), math.ceil(math.log2(workers)))
    elif scheme == "pipelined":
        found = Depth(math.ceil(math.log2(workers)), min(workers - 1, 1))
    else:
        raise ValueError(f"no scheme {scheme!r}")
    return Depth(found.hops, max(found.messages, 2 * workers / cores))


def time(cost: Cost, shape: Shape, machine: Machine, nodes: int, scheme: str) -> Seconds:
    """Predicted seconds of a fit."""
    hops, messages = depth(nodes * machine.workers, scheme)
    speed = min(machine.bandwidth, machine.cores * cost.rate)
    compute = cost.passes * shape.nbytes / nodes / speed
    latency = cost.rounds * (machine.latency * hops + machine.per_message * messages)
    return Seconds(compute, latency, cost.vectors * 8 * shape.features * messages / machine.network)


def memory(shape: Shape, machine: Machine, nodes: int, scheme: str = "leaders") -> float:
    """Return bytes per node.

    These are data and a tenth, vectors of rows, a replica per thread and four more, and those that
    a leader gathers.
    """
    per_worker = machine.cores / machine.workers + 4
    gathered = math.ceil(math.sqrt(nodes * machine.workers)) if scheme in ("tree", "leaders") else 1
    rows = 32 * shape.rows / nodes
    return (
        1.1 * shape.nbytes / nodes
        + rows
        + 8 * shape.features * (machine.workers * per_worker + gathered)
    )


# ---- fitting it to measured rounds
class Point(NamedTuple):
    """A measured median: workers, length of the vectors, star or tree, seconds."""

    workers: int
    d: int
    scheme: str
    seconds: float


@dataclass(frozen=True)
class Fit:
    """Seconds per hop and per message, bytes/s of one process, error of measured medians."""

    latency: float
    per_message: float
    network: float
    cores: int
    median_error: float
    max_error: float
    points: int

    def predict(self, workers: int, d: int, scheme: str) -> float:
        """Predict seconds of a round on the measured machine: w is sent, a gradient returned."""
        hops, messages = depth(workers, scheme, self.cores)
        return self.latency * hops + messages * (self.per_message + 16 * d / self.network)


def fit(points: Sequence[Point], cores: int) -> Fit:
    """Non-negative least squares on relative errors."""
    columns = []
    for workers, d, scheme, _ in points:
        hops, messages = depth(workers, scheme, cores)
        columns.append((hops, messages, 16 * d * messages))
    seconds = np.array([point.seconds for point in points])
    A = np.array(columns) / seconds[:, None]
    scale = np.linalg.norm(A, axis=0)  # columns differ by nine powers of ten
    found, _ = nnls(A / scale, np.ones(len(points)))
    latency, per_message, per_byte = map(float, found / scale)
    errors = np.abs(A @ (found / scale) - 1)
    network = 1 / per_byte if per_byte else math.inf
    return Fit(
        latency,
        per_message,
        network,
        cores,
        float(np.median(errors)),
        float(errors.max()),
        len(points),
    )


# ---- passes and rounds of the solvers
class Count(NamedTuple):
    """Counted on a small set of the kind: sdca with as many groups of rows as workers."""

    data: str
    solver: str
    workers: int
    passes: float
    rounds: float
    vectors: float
    rate: float  # bytes/s of X and core


# 2026-11-21, two shared cores, generated sets of 200,000 rows (Criteo: 500,000); counts do not
# depend on the machine
COUNTS: tuple[Count, ...] = (
    Count("HIGGS", "newton", 1, 4, 4, 120, 4.5e8),
    Count("HIGGS", "tron", 1, 54, 54, 162, 3.2e9),
    Count("HIGGS", "lbfgs", 1, 66, 74, 167, 2.6e9),
    Count("HIGGS", "sdca", 1, 13, 16, 55, 9.6e8),
    Count("HIGGS", "sdca", 2, 89, 307, 872, 1.2e9),
    Count("HIGGS", "sdca", 4, 575, 2274, 6443, 9.5e8),
    Count("HIGGS", "sdca", 8, 737, 2927, 8302, 9e8),
    Count("HIGGS", "sdca", 16, 914, 3641, 10331, 8.4e8),
    Count("Criteo-1TB", "tron", 1, 54, 54, 162, 2.3e8),
    Count("Criteo-1TB", "lbfgs", 1, 40, 43, 87, 6e8),
    Count("Criteo-1TB", "sdca", 1, 8, 11, 32, 5.5e8),
    Count("Criteo-1TB", "sdca", 2, 125, 469, 831, 5.2e8),
    Count("Criteo-1TB", "sdca", 4, 162, 618, 1096, 4.4e8),
    Count("Criteo-1TB", "sdca", 8, 206, 804, 1417, 2.7e8),
    Count("Criteo-1TB", "sdca", 16, 217, 851, 1497, 2.1e8),
    Count("KDD2010-b", "tron", 1, 37, 37, 111, 7.2e8),
    Count("KDD2010-b", "lbfgs", 1, 11, 12, 25, 7.2e8),
    Count("KDD2010-b", "sdca", 1, 8, 11, 32, 7.3e8),
    Count("KDD2010-b", "sdca", 2, 55, 193, 349, 6.3e8),
    Count("KDD2010-b", "sdca", 4, 121, 464, 822, 5.8e8),
    Count("KDD2010-b", "sdca", 8, 106, 398, 711, 5.7e8),
    Count("KDD2010-b", "sdca", 16, 106, 405, 716, 4.7e8),
)


def counts_of(records: Iterable[dict[str, Any]]) -> tuple[Count, ...]:
    """Return the counts in records of `python -m benchmarks.scaling counts`.

    Data without any have the counts that are kept here.
    """
    found = tuple(
        Count(
            r["data"],
            r["solver"],
            r["workers"],
            r["passes"],
            r["rounds"],
            r["vectors_down"] + r["vectors_up"],
            r["passes"] * r["nbytes"] / r["row_seconds"] / r["threads"],
        )
        for r in records
        if r["kind"] == "count"
    )
    return (*found, *(c for c in COUNTS if c.data not in {other.data for other in found}))


def growth(counts: Sequence[Count]) -> float:
    """Fit b in [0, 1] of passes ~ workers^b to counts of two workers or more."""
    some = [(math.log(c.workers), math.log(c.passes)) for c in counts if c.workers > 1]
    if len(some) < 2:
        return 0.0
    return float(np.clip(np.polyfit(*zip(*some, strict=True), 1)[0], 0.0, 1.0))


def cost(counts: Iterable[Count], shape: Shape, solver: str, workers: int) -> Cost | None:
    """Return the cost of a solver with so many workers; None if refused or not counted."""
    mine = sorted(
        (c for c in counts if (c.data, c.solver) == (shape.name, solver)), key=lambda c: c.workers
    )
    if not mine or (solver == "newton" and gram_refused(shape.features)):
        return None
    alone, many = mine[0], [c for c in mine if c.workers > 1]
    if not many or workers == 1:
        return Cost(alone.passes, alone.rounds, alone.vectors, alone.rate)
    b = growth(many)
    # the line of the fit, not its last point: counts jump
    passes = (
        math.exp(np.mean([math.log(c.passes) - b * math.log(c.workers) for c in many])) * workers**b
    )
    rounds, vectors = (
        sum(getattr(c, key) for c in many) / sum(c.passes for c in many)
        for key in ("rounds", "vectors")
    )
    return Cost(passes, passes * rounds, passes * vectors, alone.rate)


# ---- predictions
@dataclass(frozen=True)
class Prediction:
    """Times of the solvers for one shape, number of nodes, network and scheme.

    Solvers that are refused are missing.
    """

    shape: Shape
    nodes: int
    gbit: int
    scheme: str
    seconds: dict[str, Seconds]
    memory: float
    fits: bool

    @property
    def pick(self) -> str:
        """The fastest solver."""
        return min(self.seconds, key=lambda solver: self.seconds[solver].total)


IDEAL_LATENCY = 20e-6  # there and back, a level of an MPI library: an assumption


def machine_for(fitted: Fit, gbit: float, scheme: str) -> Machine:
    """Return nodes on a network.

    Through daskglm every byte passes the software of one process and then the link.
    """
    link = gbit * 1e9 / 8
    if scheme in ("binary", "pipelined"):
        return Machine(latency=IDEAL_LATENCY, network=link)
    return Machine(
        latency=fitted.latency,
        per_message=fitted.per_message,
        network=1 / (1 / fitted.network + 1 / link),
    )


def predict(
    fitted: Fit,
    counts: Sequence[Count],
    scheme: str,
    nodes: Sequence[int] = NODES,
    full_rate: bool = False,
) -> list[Prediction]:
    """Predict all shapes, nodes, networks; with `full_rate` cores are as fast as memory."""
    found = []
    for shape in SHAPES:
        for number in nodes:
            for gbit in GBITS:
                machine = machine_for(fitted, gbit, scheme)
                seconds = {}
                for solver in SOLVERS:
                    needs = cost(counts, shape, solver, number * machine.workers)
                    if needs is not None:
                        needs = replace(needs, rate=math.inf) if full_rate else needs
                        seconds[solver] = time(needs, shape, machine, number, scheme)
                held = memory(shape, machine, number, scheme)
                found.append(
                    Prediction(shape, number, gbit, scheme, seconds, held, held <= machine.memory)
                )
    return found


def changed(one: Iterable[Prediction], other: Iterable[Prediction]) -> list[str]:
    """Say where two lists of predictions pick different solvers."""
    return [
        f"{a.shape.name} on {a.nodes} nodes, {a.gbit} Gbit/s: {b.pick}"
        for a, b in zip(one, other, strict=True)
        if a.pick != b.pick
    ]


def points_of(records: Iterable[dict[str, Any]]) -> list[Point]:
    """Return one point per number of workers, length and way: the median of all seconds."""
    seconds: dict[tuple[int, int, str], list[float]] = {}
    for r in records:
        if r["kind"] == "round":
            seconds.setdefault((r["workers"], r["d"], r["way"]), []).extend(r["seconds"])
    return [Point(*key, median(times)) for key, times in sorted(seconds.items())]
