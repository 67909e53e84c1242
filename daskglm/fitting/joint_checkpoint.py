"""Checkpoints of several fits of all classes together, on the same rows, one after another.

The first fit has the folder that is given, and each other one a folder in it, `fit-1` and so on.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from daskglm.fitting import checkpoint_files as files
from daskglm.fitting.checkpoint import CheckpointWriter, Saved, identity, writer_to
from daskglm.fitting.checkpoint_schema import BATCH
from daskglm.fitting.config import FitConfig
from daskglm.fitting.runner import WarmStart, checkpoints_of, named_settings
from daskglm.objectives.primal import Objective


class JointCheckpoints:
    """Where fits go on from, and the writers of their states.

    Parameters
    ----------
    settings : FitConfig
        With the folder of checkpoints, how often they are written, and what to resume from.
    first : tuple of (Saved or None, str or None), optional
        State and folder of the first fit, from `runner.checkpoints_of`; default: of none.
    """

    def __init__(
        self, settings: FitConfig, first: tuple[Saved | None, str | None] = (None, None)
    ) -> None:
        self.settings, self.first = settings, first
        self.begun = 0

    def next(
        self, objective: Objective, named: Mapping[str, Any], begin: WarmStart
    ) -> tuple[WarmStart, CheckpointWriter | None]:
        """Return where the next fit begins, and what writes its states.

        Parameters
        ----------
        objective : Objective
        named : dict
            Values of JSON that tell this fit from others of the same rows and loss.
        begin : WarmStart
            Where it begins if it has no state.

        Raises
        ------
        ValueError
            Where a state is of another fit. Cost: 1 pass, 1 round; nothing without checkpoints.
        """
        number, self.begun = self.begun, self.begun + 1
        saved, folder = self.first if number == 0 else self._of(number)
        if saved is None and folder is None:
            return begin, None
        found = identity(objective, named_settings(objective, self.settings, **named))
        if saved is not None:
            found.check(saved.identity, saved.path)
            if saved.problem or saved.solver == BATCH:
                raise ValueError(
                    f"the checkpoint {saved.path} is damaged: it is of problem {saved.problem + 1} "
                    "of a fit that has one"
                )
            begin = WarmStart(saved.w, saved.state, saved.solver, saved.iteration)
        return begin, writer_to(folder, self.settings.checkpoint_every, found, saved)

    def _of(self, number: int) -> tuple[Saved | None, str | None]:
        """Read and prepare the folder of a fit, if there are folders at all."""
        whole, of_fit = self.first, f"fit-{number}"
        folder = None if whole[1] is None else posixpath.join(whole[1], of_fit)
        resume = None if whole[0] is None else posixpath.join(whole[0].path, of_fit)
        if resume is not None and not files.exists(resume):
            resume = None
        return checkpoints_of(replace(self.settings, checkpoint=folder, resume=resume), None)
