"""The state of a solve in files, written every so often, from which a later fit goes on.

A checkpoint is a folder: `state.npz` (a description in JSON and arrays; nothing is pickled) and,
for "sdca", a folder of files with the dual variables. The dual variables are written first and
`state.npz` replaces its predecessor at once, so that there is always one whole state.
"""

from __future__ import annotations

import math
import posixpath
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.data import npz
from daskglm.fitting import checkpoint_files as files
from daskglm.fitting import checkpoint_schema as states
from daskglm.objectives.primal import Objective
from daskglm.solvers.iterate import Iterate
from daskglm.system.files import file_system

FORMAT, VERSION = "daskglm-checkpoint", 2
# The default time between two states, which is told without dask: a fit of rows in memory does
# without it.
USUAL, USUAL_SECONDS = "60s", 60.0
# Relative difference of sums over the same data, which are added up in any order.
SAME = 1e-6


@dataclass(frozen=True)
class Identity:
    """The settings and the data that a checkpoint must share with the fit that resumes from it.

    `sums` are those of the first problem at w = 0: value, norm of the gradient, and its product
    with fixed numbers.
    """

    settings: Mapping[str, Any]
    counts: Mapping[str, Any]
    sums: tuple[float, ...]

    def check(self, other: Identity, where: str) -> None:
        """Raise ValueError if `other`, that of a checkpoint, has other settings or data."""
        for name, value in self.settings.items():
            if other.settings.get(name) != value:
                raise ValueError(
                    f"the checkpoint {where} is of a fit with "
                    f"{name}={other.settings.get(name)!r}, this one has "
                    f"{name}={value!r}; to start from its coefficients use warm_start"
                )
        for name, value in self.counts.items():
            if other.counts.get(name) != value:
                raise ValueError(
                    f"the checkpoint {where} is of other data: {name} was "
                    f"{other.counts.get(name)!r}, now it is "
                    f"{value!r}"
                )
        if len(self.sums) != len(other.sums) or not np.allclose(
            self.sums, other.sums, rtol=SAME, atol=0.0
        ):
            raise ValueError(
                f"the checkpoint {where} is of other data of the same shape: sums over their rows "
                "were "
                f"{other.sums}, now they are {self.sums}"
            )


def identity(objective: Objective, settings: Mapping[str, Any]) -> Identity:
    """Read the data once for what tells them from others. Cost: 1 pass, 1 round."""
    facts = objective.engine.facts
    counts = {
        "rows": facts.n_rows,
        "features": facts.n_features,
        "stored values": facts.nonzeros,
        "classes": sorted([repr(label), rows] for label, rows, _ in facts.classes),
    }
    zero = objective.at(objective.origin)
    gradient = to_host(zero.gradient)
    # positive: no sum is small by cancellation alone
    probe = np.random.default_rng(0).uniform(0.5, 1.5, len(gradient))
    sums = (zero.value, float(np.linalg.norm(gradient)), float(np.abs(gradient) @ probe))
    return Identity(dict(settings), counts, sums)


def every(given: int | float | str) -> tuple[float, float]:
    """Iterations and seconds between two states, one of them infinite.

    Raises
    ------
    ValueError
        For what is neither a positive integer nor a time such as "60s".
    """
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and given > 0:
        return float(given), math.inf
    if given == USUAL:
        return math.inf, USUAL_SECONDS
    try:
        if isinstance(given, str) and not given.strip().isdigit():
            from dask.utils import parse_timedelta

            seconds = parse_timedelta(given)
        else:
            seconds = -1.0
    except (KeyError, ValueError, TypeError):
        seconds = -1.0
    if not seconds > 0:
        raise ValueError(
            f"checkpoint_every={given!r} must be a number of iterations, or a time such as '60s'"
        )
    return math.inf, float(seconds)


@dataclass(frozen=True)
class Saved:
    """A state as it was read: its source, its problem, and what the solver resumes from."""

    path: str
    solver: str
    problem: int
    iteration: int
    finished: np.ndarray
    w: np.ndarray
    identity: Identity
    state: dict[str, Any]
    left: list[int]  # of a grid of problems, see `grid_checkpoint`

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for the solver."""
        return dict(self.state)


def load(path: Any) -> Saved:
    """Read the state in a folder.

    Raises
    ------
    FileNotFoundError
        Where there is none.
    ValueError
        Where it is no state, of another version, or damaged.
    """
    about, arrays = files.read(path, lambda content: states.read(content, FORMAT, VERSION))
    w, finished = arrays.pop("w"), arrays.pop("finished")
    state = {**about["state"], **arrays}
    if about["rows"]:
        state["folder"] = posixpath.join(str(path), about["rows"])
    whose = Identity(about["settings"], about["counts"], tuple(about["sums"]))
    return Saved(
        str(path),
        about["solver"],
        about["problem"],
        about["iteration"],
        finished,
        w,
        whose,
        state,
        about.get("left", []),
    )


@dataclass
class CheckpointWriter:
    """Writes states of a solve to a folder: of its first iterate, as often as asked, of its last.

    What came before the first iterate may have taken far longer than the time between two states:
    workers started, rows were read, kernels were compiled. And so may the next iteration.

    Parameters
    ----------
    path : str
        Folder, as `prepare` left it; a path or URL of fsspec. For "sdca" all workers must see it.
    between : tuple of float
        See `every`.
    identity : Identity
    resumed : Saved, optional
        The state that the fit goes on from. Its dual variables are kept until its problem has read
        them, as they may be in the same folder.
    """

    path: str
    between: tuple[float, float]
    identity: Identity
    resumed: Saved | None = None
    solver: str = ""
    problem: int = 0
    before: int = 0
    finished: list[np.ndarray] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    written: tuple[float, float] = field(default_factory=lambda: (0.0, time.monotonic()))
    rows: str = ""
    first: bool = True  # of this solve no state is written yet
    wrote: bool = False

    def begin(self, solver: str, problem: int, before: int) -> None:
        """Note the solver and the problem of a solve, and the iterations of the fit it resumes."""
        self.solver = solver
        self.problem = problem
        self.before = before
        self.first = True
        self.written = (0.0, self.written[1])  # that of an earlier problem is a state, too

    def after(self, iterate: Iterate, iteration: int, *, last: bool = False) -> None:
        """Write the state of the solve if that is due, at the first iterate or at the last."""
        since = iteration - self.written[0], time.monotonic() - self.written[1]
        due = since[0] >= self.between[0] or since[1] >= self.between[1]
        if due or ((self.first or last) and not self._is_behind()):
            self._write(iterate, iteration)
            self.written = iteration, time.monotonic()
            self.first, self.wrote = False, True

    def _is_behind(self) -> bool:
        """Return whether the state in the folder is of a problem after this one.

        It is until a fit that goes on in its folder has come to the problem it was at: those before
        are soon done again, and a kill meanwhile must not cost what comes after them.
        """
        if self.resumed is None or self.wrote or self.problem >= self.resumed.problem:
            return False
        return file_system(self.path)[1] == file_system(self.resumed.path)[1]

    def _write(self, iterate: Iterate, iteration: int) -> None:
        rows = ""
        if iterate.save_rows is not None:
            rows = f"rows-{uuid.uuid4().hex}"
            iterate.save_rows(posixpath.join(self.path, rows))
        state = {name: to_host(value) for name, value in iterate.resume().items()}
        arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
        about = {
            "format": FORMAT,
            "version": VERSION,
            "solver": self.solver,
            "problem": self.problem,
            "iteration": self.before + iteration,
            "rows": rows,
            "left": self.left,
            "settings": self.identity.settings,
            "counts": self.identity.counts,
            "sums": self.identity.sums,
            "state": {name: value for name, value in state.items() if name not in arrays},
        }
        w = to_host(iterate.point.w)
        arrays |= {
            "about": states.as_text(about),
            "w": w,
            "finished": np.reshape(self.finished, (-1, w.shape[-1])),
        }
        files.write(self.path, npz.write(arrays))
        self.rows = rows
        self._clear()

    def _clear(self) -> None:
        """Remove dual variables of earlier states and fits."""
        kept = {self.rows}
        if self.resumed is not None and self.problem < self.resumed.problem:
            kept.add(posixpath.basename(self.resumed.state.get("folder", "")))
        filesystem, inside = file_system(self.path)
        filesystem.invalidate_cache(inside)
        for path in filesystem.ls(inside, detail=False):
            name = posixpath.basename(path.rstrip("/"))
            if name not in kept and states.ROWS.fullmatch(name):
                filesystem.rm(path, recursive=True)


def writer_to(
    folder: str | None, between: int | float | str, identity: Identity, resumed: Saved | None
) -> CheckpointWriter | None:
    """Make the writer of states to a folder, as `every` reads `between`; None without a folder."""
    return None if folder is None else CheckpointWriter(folder, every(between), identity, resumed)
