"""How to fit, apart from the data: the settings of a fit, checked before any work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from dask.utils import parse_bytes

from daskglm.checkpoints import every
from daskglm.driver import Callback
from daskglm.losses import LOSSES, Loss
from daskglm.placing import Where
from daskglm.solvers import check_options

DEVICES = (None, "cpu", "cuda")


@dataclass(frozen=True)
class Settings:
    """How to fit, apart from the data; see `daskglm.fit` for the meaning of the fields.

    `threads` are those of this process (None: all), `why` says where the name of the solver comes from.
    """

    loss: str
    C: float = 1.0
    solver: str = "auto"
    fit_intercept: bool = True
    tol: float = 1e-6
    max_iter: int | None = None
    class_weight: Mapping[Any, float] | str | None = None
    callback: Callback | None = None
    progress: bool | None = None
    random_state: Any = None
    solver_options: Mapping[str, Any] | None = None
    device: str | None = None
    device_memory_limit: int | str | None = None
    threads: int | None = None
    why: str = "asked for"
    checkpoint: Any = None
    checkpoint_every: int | str = "60s"
    resume: Any = None
    out_of_core: bool = False

    def check(self) -> Loss:
        """Raise ValueError for values that no fit can use; return the loss."""
        if self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r} is not one of {', '.join(map(repr, LOSSES))}")
        if not isinstance(self.C, (int, float, np.number)) or not self.C > 0:
            hint = "; daskglm.fit takes a sequence, LogisticRegressionCV chooses from one" if np.ndim(self.C) else ""
            raise ValueError(f"C={self.C!r} must be a positive number (inf: no penalty){hint}")
        if not isinstance(self.tol, (int, float, np.number)) or not self.tol >= 0:
            raise ValueError(f"tol={self.tol!r} must be a number not below 0")
        if self.max_iter is not None and (not isinstance(self.max_iter, (int, np.integer)) or self.max_iter < 0):
            raise ValueError(f"max_iter={self.max_iter!r} must be an integer not below 0, or None")
        check_options(self.solver, dict(self.solver_options or {}))
        self.where()
        every(self.checkpoint_every)
        loss = LOSSES[self.loss]
        if not math.isfinite(loss.smoothness) and self.solver not in ("auto", "sdca"):
            raise ValueError(f"solver={self.solver!r} needs a smooth loss, which {self.loss!r} is not; use 'sdca'")
        if math.isinf(self.C) and (self.solver == "sdca" or not math.isfinite(loss.smoothness)):
            raise ValueError(f"C={self.C!r}: without a penalty there is no dual problem for solver='sdca' to solve")
        weight = self.class_weight
        if weight is not None and not loss.classifies:
            raise ValueError(f"class_weight has no meaning for loss={self.loss!r}, which has no classes")
        if weight is not None and weight != "balanced" and not isinstance(weight, Mapping):
            raise ValueError(f"class_weight={weight!r} must be a dict of label: weight, 'balanced' or None")
        if isinstance(weight, Mapping) and any(not value >= 0 for value in weight.values()):
            raise ValueError(f"class_weight={weight!r} has a weight that is not a number >= 0")
        return loss

    def where(self) -> Where:
        """Where the rows are to go; raises ValueError for a device or a limit that makes no sense."""
        if self.device not in DEVICES:
            raise ValueError(f"device={self.device!r} is not one of {', '.join(map(repr, DEVICES))}")
        limit = self.device_memory_limit
        try:
            number = None if limit is None else int(parse_bytes(limit))
        except (ValueError, TypeError) as error:
            raise ValueError(f"device_memory_limit={limit!r} is not a number of bytes, such as '8GB'") from error
        if number is not None and number <= 0:
            raise ValueError(f"device_memory_limit={limit!r} must be positive")
        return Where(self.device, number)
