"""What one job of the soak is: a case that was drawn, its rows in their storage, and kinds of jobs.

A `Kind` says how its options are drawn, what its rows are, how daskglm is asked, and what is right.
`benchmarks.soak.jobs` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Chunks of dask collections.
CHUNKS = 6
# Storages of functions that take a client, and of estimators, which take the current one for dask
# collections.
WITH_CLIENT = ("process", "sent", "dask", "out of core")
CURRENT_CLIENT = ("process", "dask")

Block = dict[str, Any]  # "X", "y", and what is beside: "sample_weight", "offset", ...


@dataclass(frozen=True)
class Case:
    """One job: its kind and options, shape and seed of its rows, storage, and fault meanwhile."""

    number: int
    kind: str
    rows: int
    columns: int
    dtype: str
    storage: str
    fault: str = "none"
    # at which the fault strikes, where the fit tells of iterations; else after so many seconds
    iteration: int = 0
    seconds: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """How a job is to run: arguments of functions that take a client, and when a fault strikes."""

    client: Any
    storage: str
    callback: Callable[[dict[str, Any]], None] | None = None
    # begins the wait for a fault that comes after some seconds
    begin: Callable[[], None] = lambda: None

    @property
    def where(self) -> dict[str, Any]:
        """Arguments of `daskglm.fit` and others that take a client."""
        given: dict[str, Any] = {}
        if self.storage == "sent":
            given["client"] = self.client
        if self.storage == "out of core":
            given["out_of_core"] = True
        return given


@dataclass(frozen=True)
class Spoil:
    """What makes input faulty, and the error that says so."""

    change: Callable[[Block], None]
    error: str


@dataclass(frozen=True)
class Answer:
    """What a job found, to be checked, and what goes on record of it."""

    found: Any
    repairs: int = 0


@dataclass(frozen=True)
class Kind:
    """A kind of job.

    Parameters
    ----------
    draw : callable
        (generator, columns) to options, of which JSON can be made.
    targets : callable
        (case, X, generator, k) to y and what is beside the rows X of block k.
    run : callable
        (case, data, asked) to an `Answer`, by daskglm.
    check : callable
        (case, all rows in float64, what was found); raises AssertionError where it is wrong.
    storages : tuple of str
    spoils : mapping of a fault of input to how it is made
    tells_iterations : bool
        Whether faults strike at an iteration; else after a time.
    most_rows : int
    share : float
        Of all jobs, compared with others.
    """

    draw: Callable[[np.random.Generator, int], dict[str, Any]]
    targets: Callable[[Case, np.ndarray, np.random.Generator, int], Block]
    run: Callable[[Case, Block, Asked], Answer]
    check: Callable[[Case, Block, Any], None]
    storages: tuple[str, ...] = WITH_CLIENT
    spoils: Mapping[str, Spoil] = field(default_factory=dict)
    tells_iterations: bool = False
    most_rows: int = 12_000
    share: float = 1.0


# ---- faults of input
def _with_nan(block: Block) -> None:
    block["X"][-1, 0] = np.nan


def _of_one_class(block: Block) -> None:
    block["y"][:] = 1


def _outside(block: Block) -> None:
    block["y"][-1] = -1.0


NAN = {"NaN": Spoil(_with_nan, "NaN")}
ONE_CLASS = {"one class": Spoil(_of_one_class, "one class|no class")}
OUTSIDE = {"outside": Spoil(_outside, "has targets")}
# Spoils that are of the last block alone; others are of each.
OF_LAST = ("NaN", "outside")


# ---- rows
def truth(case: Case) -> np.ndarray:
    """Return the coefficients that targets of a case are drawn from."""
    return np.random.default_rng(case.number).standard_normal(case.columns)


def block(case: Case, kind: Kind, k: int) -> Block:
    """Generate one of `CHUNKS` blocks, anew at every call."""
    rng = np.random.default_rng((case.number, k))
    X = rng.standard_normal((case.rows // CHUNKS + 1, case.columns))
    made = {"X": X, **kind.targets(case, X, rng, k)}
    spoil = kind.spoils.get(case.fault)
    if spoil is not None and (case.fault not in OF_LAST or k == CHUNKS - 1):
        spoil.change(made)
    made["X"] = X.astype(case.dtype)
    return made


def in_memory(case: Case, kind: Kind) -> Block:
    """Return all rows in this process."""
    parts = [block(case, kind, k) for k in range(CHUNKS)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def in_storage(case: Case, kind: Kind, made: Callable[[Case, int], Block]) -> Block:
    """Return all rows as the case stores them: arrays, or dask arrays of blocks made on workers.

    `made` is what workers run for block k.
    """
    if case.storage in ("process", "sent"):
        return in_memory(case, kind)
    import dask
    import dask.array as da

    first = block(case, kind, 0)
    blocks = [dask.delayed(made)(case, k) for k in range(CHUNKS)]
    return {
        name: da.concatenate(
            [da.from_delayed(part[name], values.shape, values.dtype) for part in blocks]
        )
        for name, values in first.items()
    }


def beside(data: Block) -> Block:
    """Return what is beside X and y, by the names of daskglm's arguments."""
    return {name: data[name] for name in ("sample_weight", "offset", "exposure") if name in data}
