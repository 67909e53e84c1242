"""Checkpoints of paths: the fits that are finished, from which a later fit goes on.

A path is told by the number of its mix of both parts of the penalty and that of its fold. Its fits
finish in the order of the strengths, so what a state has of a path is a first part of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from daskglm.core.outcome import Reason
from daskglm.data import npz
from daskglm.fitting import checkpoint_files as files
from daskglm.fitting import schema
from daskglm.fitting.checkpoint import Identity, every, identity
from daskglm.fitting.checkpoint_schema import as_text, check_identity, description
from daskglm.fitting.config import FitConfig
from daskglm.fitting.penalty_path import Fitted, PathProblem
from daskglm.objectives.point import Point
from daskglm.objectives.primal import Objective

FORMAT, VERSION = "daskglm-path-checkpoint", 1
# Numbers of a fit beside its coefficients: objective, gap, loss, iterations.
NUMBERS = 4

Key = tuple[int, int]


@dataclass(frozen=True)
class SavedPaths:
    """A state as it was read.

    Parameters
    ----------
    alphas : (mixes, values) array
    counts : (mixes, folds) int array
        Fits that are finished.
    fits : list of Fitted
        Those of the first mix's first fold, then of its second, and so on.
    identity : Identity
    """

    alphas: np.ndarray
    counts: np.ndarray
    fits: list[Fitted]
    identity: Identity

    def paths(self) -> dict[Key, list[Fitted]]:
        """Return the finished fits of each path."""
        ends = self.counts.ravel().cumsum().reshape(self.counts.shape)
        return {
            key: self.fits[ends[key] - self.counts[key] : ends[key]]
            for key in np.ndindex(*self.counts.shape)
        }


class PathFits:
    """The fits of paths as they finish, kept in a checkpoint where one is asked for.

    Parameters
    ----------
    settings : FitConfig
        With the folder of checkpoints, how often they are written, and what to resume from. All of
        it is checked before any data are read.
    """

    def __init__(self, settings: FitConfig) -> None:
        self.settings = settings
        self.folder = None if settings.checkpoint is None else files.prepare(settings.checkpoint)
        self.saved: SavedPaths | None = None
        if settings.resume is not None:
            self.saved = files.read(settings.resume, parsed)
        self.between = every(settings.checkpoint_every)
        self.identity: Identity | None = None
        self.alphas: np.ndarray | None = None if self.saved is None else self.saved.alphas
        self.fits: dict[Key, list[Fitted]] = {}
        if self.saved is not None:
            # from the first fit that ended above tol a path is solved again, with more iterations
            self.fits = {
                key: list(takewhile(lambda fitted: fitted.converged, path))
                for key, path in self.saved.paths().items()
            }
        restored = [fitted for path in self.fits.values() for fitted in path]
        self.iterations_restored = sum(fitted.n_iter for fitted in restored)
        self.due = math.inf, math.inf  # fits, and the reading of the clock, at the next state

    def begin(self, objective: Objective, asked: Mapping[str, Any]) -> None:
        """Check that the state to resume from is of this problem and of what is asked for.

        Parameters
        ----------
        objective : Objective
            On all rows, with any strength.
        asked : dict
            Values of JSON that tell these paths from others of the same problem.

        Raises
        ------
        ValueError
            Where it is of other settings or data. Cost: 1 pass, 1 round; nothing without
            checkpoints.
        """
        if self.folder is None and self.saved is None:
            return
        settings = self.settings
        named = {
            "loss": settings.loss,
            "tol": float(settings.tol),
            "fit_intercept": bool(settings.fit_intercept),
            "penalty": settings.penalty.digest,
            **asked,
        }
        self.identity = identity(objective, named)
        if self.saved is not None:
            self.identity.check(self.saved.identity, str(settings.resume))
        self._wait()
        if math.isfinite(self.between[1]):
            # of a time the first fit is due at once: what came before it may have taken far longer
            self.due = self.due[0], -math.inf

    def finished(self, key: Key) -> list[Fitted]:
        """Return the fits of a path that are finished."""
        return self.fits.setdefault(key, [])

    def add(self, key: Key, fitted: Fitted) -> None:
        """Take note of the next fit of a path; write a state if that is due."""
        self.finished(key).append(fitted)
        if self._count() >= self.due[0] or time.monotonic() >= self.due[1]:
            self.write()

    def solve(
        self, key: Key, problem: PathProblem, alphas: Sequence[float], begin: Point | None
    ) -> list[Fitted]:
        """Solve what is left of a path; return all of it.

        `begin` is where a path begins that has no fit yet.
        """
        found = self.finished(key)
        start = found[-1].w if found else begin
        assert start is not None
        for fitted in problem.solve(alphas[len(found) :], start):
            self.add(key, fitted)
        return found

    def write(self) -> None:
        """Write a state, where a folder was given."""
        if self.folder is None:
            return
        assert self.identity is not None
        assert self.alphas is not None
        # a fit that has overflowed is no place to go on from
        kept = {key: list(takewhile(_is_finite, path)) for key, path in self.fits.items()}
        keys = sorted(key for key, path in kept.items() if path)
        if not keys:
            return
        counts = np.zeros((len(self.alphas), 1 + max(key[1] for key in keys)), int)
        for key in keys:
            counts[key] = len(kept[key])
        fits = [fitted for key in keys for fitted in kept[key]]
        numbers = [(each.objective, each.gap, each.loss, each.n_iter) for each in fits]
        about = {
            "format": FORMAT,
            "version": VERSION,
            "settings": self.identity.settings,
            "counts": self.identity.counts,
            "sums": self.identity.sums,
            "reasons": [each.reason.name for each in fits],
        }
        arrays = {
            "about": as_text(about),
            "alphas": self.alphas,
            "finished": counts,
            "w": np.array([each.w for each in fits]),
            "numbers": np.array(numbers, float),
        }
        files.write(self.folder, npz.write(arrays))
        self._wait()

    def _count(self) -> int:
        return sum(map(len, self.fits.values()))

    def _wait(self) -> None:
        if self.folder is not None:
            fits, seconds = self.between
            self.due = self._count() + fits, time.monotonic() + seconds


def strengths_asked(alphas: np.ndarray | int, eps: float) -> dict[str, Any]:
    """Return strengths, or their number and range, as `PathFits.begin` takes them.

    A number and a range are named: as a list they would equal two strengths.
    """
    grid = {"n_alphas": alphas, "eps": eps}
    return {"alphas": grid if isinstance(alphas, int) else alphas.tolist()}


def _is_finite(fitted: Fitted) -> bool:
    return math.isfinite(fitted.objective) and bool(np.isfinite(fitted.w).all())


def parsed(content: bytes) -> SavedPaths:
    """Check and return the state in a file; raises ValueError for what is none."""
    arrays = npz.read(content)
    about = description(arrays.pop("about", np.zeros(0)), FORMAT, VERSION)
    check_identity(about)
    checks: dict[str, Callable[[np.ndarray], bool]] = {
        "alphas": lambda each: each.ndim == 2 and each.size > 0 and bool((each >= 0.0).all()),
        "finished": lambda each: each.ndim == 2 and each.dtype.kind == "i",
        "w": lambda each: each.ndim == 2 and bool(np.isfinite(each).all()),
        "numbers": lambda each: each.ndim == 2 and each.shape[1] == NUMBERS,
    }
    for name, check in checks.items():
        if name not in arrays or not check(arrays[name]):
            raise ValueError(f"it has no {name!r}, or one of another shape or with other numbers")
    alphas, counts, W, numbers = (arrays[name] for name in checks)
    size = about["counts"]["features"] + about["settings"]["fit_intercept"]
    reasons, most = about.get("reasons"), alphas.shape[1]
    names = list(Reason.__members__)
    if not isinstance(reasons, list) or any(each not in names for each in reasons):
        raise ValueError(f"reasons {reasons!r:.80} are not those for which fits end")
    inside = (counts >= 0) & (counts <= most)
    shapes = len(counts) == len(alphas) and W.shape == (counts.sum(), size)
    if not (inside.all() and shapes and len(W) == len(numbers) == len(reasons)):
        raise ValueError(f"its coefficients have shape {W.shape}, which are not those of its fits")
    of_fit = [
        float(alpha)
        for values, of_mix in zip(alphas, counts, strict=True)
        for count in of_mix
        for alpha in values[:count]
    ]
    fits = []
    for alpha, w, (objective, gap, loss, n_iter), reason in zip(
        of_fit, W, numbers.tolist(), reasons, strict=True
    ):
        schema.number(objective, "an objective")
        schema.number(loss, "a loss")
        iterations = schema.integer(int(n_iter) if math.isfinite(n_iter) else -1, "n_iter")
        fits.append(Fitted(alpha, w, objective, gap, loss, iterations, Reason[reason]))
    whose = Identity(about["settings"], about["counts"], tuple(about["sums"]))
    return SavedPaths(alphas, counts, fits, whose)
