"""Checkpoints of a grid of problems, of which some are solved together and the rest one by one.

A state lists the problems that were `left` to a solver of one, in the order of solving; all others
are solved together before. While that goes on, the state's `w` has a row for each of them. Later it
is the state of the problem that is being solved, and `finished` has the rows of all before it:
first those that were solved together, by number, then those that were left.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from daskglm.core.requests import Folds
from daskglm.fitting import checkpoint_files as files
from daskglm.fitting.checkpoint import CheckpointWriter, Saved, identity, writer_to
from daskglm.fitting.checkpoint_schema import BATCH
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import WarmStart, checkpoints_of
from daskglm.objectives.batched import ProblemBatch
from daskglm.objectives.primal import Objective


@dataclass
class GridState:
    """Where a grid begins: problems left to a solver of one, and where those and the others start.

    Parameters
    ----------
    left : list of int
        Problems, in the order of solving.
    W : (P, size) array
        Where problems start; zero: nowhere yet.
    starts : dict of int to WarmStart
        More about problems of `left` that had been begun.
    before : int
        Iterations that were made together before.
    resumed : bool
        Whether the problems that are solved together are where an earlier fit left them.
    """

    left: list[int]
    W: np.ndarray
    starts: dict[int, WarmStart] = field(default_factory=dict)
    before: int = 0
    resumed: bool = False


def restore(saved: Saved, state: GridState) -> GridState:
    """Go on from a checkpoint of the same grid.

    Parameters
    ----------
    saved : Saved
        Whose identity was checked.
    state : GridState
        Of a fit that begins: in `left` what cannot be solved together.

    Raises
    ------
    ValueError
        Where the checkpoint does not fit together.
    """
    W, (P, size) = state.W.copy(), state.W.shape
    together = [p for p in range(P) if p not in set(saved.left)]
    order = [*together, *saved.left]
    in_batch = saved.solver == BATCH
    given_up = [int(k) for k in saved.state.get("given_up", [])] if in_batch else []
    whole = (
        max(saved.left, default=0) < P
        and (not in_batch or saved.w.shape == (len(together), size))
        and max(given_up, default=0) < max(len(together), 1)
        and (in_batch or len(together) <= saved.problem < P)
    )
    if not whole:
        raise ValueError(f"the checkpoint {saved.path} is damaged: it is of other problems")

    starts: dict[int, WarmStart] = {}
    if in_batch:
        W[together] = saved.w
    else:
        for p, w in zip(order, saved.finished, strict=False):
            W[p] = w
            starts[p] = WarmStart(w, solver=saved.solver)
        current = order[saved.problem]
        W[current] = saved.w
        starts[current] = WarmStart(saved.w, saved.state, saved.solver, saved.iteration)
    left = [*saved.left, *(together[k] for k in given_up)]
    left += [p for p in state.left if p not in left]
    before = saved.iteration if in_batch else 0
    return GridState(left, W, starts, before, resumed=True)


def checkpoints_of_mixes(settings: FitConfig, count: int) -> list[tuple[Saved | None, str | None]]:
    """Read and prepare the checkpoints of several grids, one for each l1_ratio, before any data.

    Each has a folder of its own, `mix-0` and so on, in the one that is given. Those behind the last
    that was begun begin anew.
    """
    if count == 1:
        return [checkpoints_of(settings, None)]
    found = []
    for k in range(count):
        folder, resume = (
            None if given is None else posixpath.join(str(given), f"mix-{k}")
            for given in (settings.checkpoint, settings.resume)
        )
        if k and resume is not None and not files.exists(resume):
            resume = None
        found.append(checkpoints_of(replace(settings, checkpoint=folder, resume=resume), None))
    return found


def grid_writer(
    objective: Objective,
    settings: FitConfig,
    batch: ProblemBatch,
    folds: Folds | None,
    checkpoint: tuple[Saved | None, str | None],
) -> CheckpointWriter | None:
    """Check that a checkpoint is of this grid, and prepare to write others. Cost: 1 pass, 1 round.

    `objective` is that of one of its problems, on all rows; `checkpoint` what to resume from, and
    the folder to write to.
    """
    named: dict[str, Any] = {
        "loss": settings.loss,
        "C": list(dict.fromkeys(batch.C.tolist())),
        "fit_intercept": bool(settings.fit_intercept),
        "folds": None if folds is None else digest(folds),
    }
    if not settings.penalty.is_plain:
        named["penalty"] = settings.penalty.digest
    found, (saved, folder) = identity(objective, named), checkpoint
    if saved is not None:
        found.check(saved.identity, saved.path)
    return writer_to(folder, settings.checkpoint_every, found, saved)


def digest(folds: Folds) -> str:
    """Return a number that tells this division of the rows from others."""
    content = hashlib.sha256(repr((folds.roles, folds.seed)).encode())
    if folds.groups is not None:
        content.update(np.asarray(folds.groups, dtype="<i8").tobytes())
    return content.hexdigest()[:16]
