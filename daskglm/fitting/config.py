"""How to fit, apart from the data: the settings of a fit, checked before any work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from daskglm.core.arguments import (
    check_C,
    check_callback,
    check_choice,
    check_class_weight,
    check_flag,
    check_options_kind,
    check_path,
    check_random_state,
    check_tol,
    check_whole,
    shown,
)
from daskglm.fitting.checkpoint import every
from daskglm.fitting.driver import Callback
from daskglm.losses.base import Loss
from daskglm.losses.ordinal import check_link
from daskglm.losses.table import find
from daskglm.penalties.config import PLAIN, PenaltyConfig
from daskglm.solvers import SolverSpec, check_options, get_solver, solver_names
from daskglm.worker.device_placement import DeviceConfig

STOPS = ("gap", "coefficients")
DEVICES = ("cpu", "cuda")
# Ways to add up sums of GPUs, beside None: over Dask's connections.
COLLECTIVES = ("nccl",)
# Solvers of smooth problems, and those that do the same within bounds, by which features that a
# penalty leaves out are held at zero.
WITHIN_BOUNDS = {"newton": "proximal_newton", "tron": "owlqn", "lbfgs": "owlqn", "gd": "owlqn"}


@dataclass(frozen=True)
class FitConfig:
    """How to fit, apart from the data; see `daskglm.fit` for the meaning of the fields.

    `threads` are those of this process (None: all), `why` says where the name of the solver comes
    from. With `average` C is the weight of the losses' mean, not of their sum. `penalty` is what
    C weighs the losses against. `in_doubt` says that columns may depend on others, and that the
    fit is to look: see `fitting.independence`.
    """

    loss: str
    C: float = 1.0
    solver: str = "auto"
    fit_intercept: bool = True
    tol: float = 1e-6
    stop: str = "gap"
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
    average: bool = False
    penalty: PenaltyConfig = PLAIN
    in_doubt: bool = False

    def weight_of_losses(self, total: float) -> float:
        """Return the C of the sum of the losses, of rows whose weights add up to `total`."""
        return float(self.C) / total if self.average else float(self.C)

    def without_checkpoints(self) -> FitConfig:
        """Return the same settings, to neither write checkpoints nor resume from one."""
        return replace(self, checkpoint=None, resume=None)

    def check(self, *, one_fit: bool = False) -> Loss:
        """Raise ValueError or TypeError for values that no fit can use; return the loss.

        `one_fit` says that it is no path or search, which starts from coefficients of zero.
        """
        loss = find(self.loss)
        check_C(self.C)
        check_tol(self.tol)
        check_choice(self.stop, "stop", STOPS)
        if self.stop == "coefficients" and math.isinf(self.C):
            raise ValueError(
                f"stop='coefficients' wants a penalty, by which they are known; C={self.C!r} has "
                "none"
            )
        if self.stop == "coefficients" and not loss.is_bounded:
            raise ValueError(
                f"stop='coefficients' wants a bound on their error, which is not known for "
                f"loss={self.loss!r}; give stop='gap', which then stops by the gradient"
            )
        check_whole(self.max_iter, "max_iter", 0, optional=True)
        check_flag(self.fit_intercept, "fit_intercept")
        check_flag(self.out_of_core, "out_of_core")
        check_flag(self.progress, "progress", optional=True)
        check_class_weight(self.class_weight)
        check_random_state(self.random_state)
        check_callback(self.callback)
        check_path(self.checkpoint, "checkpoint")
        check_path(self.resume, "resume")
        check_options_kind(self.solver_options)
        check_options(self.solver, dict(self.solver_options or {}))
        self.where()
        every(self.checkpoint_every)
        named = None if self.solver == "auto" else get_solver(self.solver)
        corners = named is not None and named.rounds_corners
        if corners and loss.smoothed is None:
            raise ValueError(
                f"solver={self.solver!r} rounds the corners of a loss, and {self.loss!r} has none; "
                "use 'newton', or 'auto'"
            )
        if not (loss.differentiable or named is None or named.solves_dual or corners):
            raise ValueError(
                f"solver={self.solver!r} needs a smooth loss, which {self.loss!r} is not; use "
                "'auto', 'proximal' or 'sdca'"
            )
        # that of two classes may have a dual, and `joint.JointFit.settings` refuses others
        has_dual = loss.has_dual or bool(loss.two_classes)
        if named is not None and named.solves_dual and not has_dual:
            raise ValueError(
                f"solver={self.solver!r} solves the dual, and loss={self.loss!r} has no dual; use "
                "'newton', 'tron', 'lbfgs' or 'auto'"
            )
        # separable classes would have to be told where a loss of classes has corners
        unpenalised = loss.differentiable or (loss.smoothed is not None and not loss.classifies)
        if math.isinf(self.C) and ((named is not None and named.solves_dual) or not unpenalised):
            dual = "sdca" if named is None else named.name
            raise ValueError(
                f"C={self.C!r}: without a penalty there is no dual problem for solver={dual!r} to "
                "solve"
            )
        bounded = loss.link is not None and loss.link.is_bounded
        if bounded and not (self.fit_intercept or one_fit):
            assert loss.link is not None
            raise ValueError(
                f"loss={self.loss!r} wants margins {loss.link.inside}, and fit_intercept=False "
                "leaves no margin for a path to start from; fit an intercept, or take another link"
            )
        if self.class_weight is not None and not loss.classifies:
            raise ValueError(
                f"class_weight has no meaning for loss={self.loss!r}, which has no classes"
            )
        if self.device == "cuda":
            check_link(loss)
        self.penalty.check()
        self._check_penalty(loss, named)
        return loss

    def _check_penalty(self, loss: Loss, named: SolverSpec | None) -> None:
        """Raise ValueError for a penalty that does not go with the other fields."""
        penalty = self.penalty
        of_strength = [f"l1_ratio={penalty.l1_ratio!r}"] if penalty.l1_ratio else []
        # what leaves features out has an effect without a penalty, too
        kept = "penalty_factor" if penalty.leaves_out else ""
        of_factors = [name for name in penalty.of_features if name != kept]
        if math.isinf(self.C) and (given := [*of_strength, *of_factors]):
            raise ValueError(
                f"C={self.C!r} leaves no penalty, for which {' and '.join(given)} can have no "
                "effect; leave that out, or give a finite C (an alpha above 0)"
            )
        if penalty.is_plain:
            return
        given = [*of_strength, *penalty.of_features]
        what = given[0] if given else "bounds of coefficients"
        alike = penalty.l1_ratio > 0.0 and not (penalty.of_features or penalty.has_bounds)
        by_dual = (loss.has_dual or bool(loss.two_classes)) and alike and penalty.l1_ratio < 1.0
        beside = [*penalty.of_features, *["bounds of coefficients"] * penalty.has_bounds]
        if named is not None and named.solves_dual and not by_dual:
            raise ValueError(
                f"solver={self.solver!r} takes penalties with the same L2 strength above zero and "
                "the same L1 strength for all features, without bounds, not "
                f"{(beside or [what])[0]}; use 'auto'"
            )
        if penalty.is_smooth:
            return
        only_left_out = penalty.l1_ratio == 0 and not penalty.is_bounded
        if only_left_out and self.solver in WITHIN_BOUNDS and not self.solver_options:
            return
        if named is not None and not named.takes_kinks:
            known = [get_solver(name) for name in solver_names()]
            taking = [
                each.name
                for each in known
                if each.takes_kinks
                and each.rounds_corners == (not loss.differentiable)
                and (by_dual or not each.solves_dual)
            ]
            raise ValueError(
                f"solver={self.solver!r} takes no L1 penalty and no bounds ({what}); use "
                f"{', '.join(map(repr, ['auto', *taking]))}"
            )
        if penalty.groups is not None and named is not None and not named.takes_groups:
            raise ValueError(
                f"solver={self.solver!r} takes no groups of coefficients; use 'auto' or "
                "'proximal_newton', or leave groups out"
            )

    def where(self, *, workers: bool = False) -> DeviceConfig:
        """Return where the rows are to be.

        Raises ValueError for an unknown device, a limit that makes no sense, and, of rows on
        `workers`, whom alone it is for, a setting daskglm.collective that does not exist.
        """
        if self.device is not None:
            check_choice(self.device, "device", DEVICES)
        limit = self.device_memory_limit
        try:
            if isinstance(limit, bool):
                raise TypeError("a bool")
            number = None if limit is None else _bytes_of(limit)
        except (ValueError, TypeError, OverflowError, AttributeError) as error:
            raise ValueError(
                f"device_memory_limit={shown(limit)} is not a number of bytes, such as '8GB'"
            ) from error
        if number is not None and number <= 0:
            raise ValueError(f"device_memory_limit={limit!r} must be positive")
        return DeviceConfig(self.device, number, _collective() if workers else None)


def _collective() -> Any:
    """Return the setting of Dask of this name; ValueError for another value."""
    import dask

    collective = dask.config.get("daskglm.collective", None)
    if collective is not None:
        check_choice(collective, "the setting daskglm.collective", COLLECTIVES)
    return collective


def _bytes_of(limit: Any) -> int:
    """Return a number of bytes, which may be a text such as "8GB"."""
    from dask.utils import parse_bytes

    return int(parse_bytes(limit))
