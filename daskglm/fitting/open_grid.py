"""From checked arguments to the rows, folds and problems of a grid."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from daskglm.core.warn import warn
from daskglm.fitting.config import FitConfig
from daskglm.fitting.cv_splits import divide
from daskglm.fitting.penalised import with_columns
from daskglm.fitting.problem_grid import ProblemGrid
from daskglm.fitting.report import Report
from daskglm.fitting.runner import checkpoints_of, rows_of
from daskglm.fitting.setup import loaded, problems_of
from daskglm.fitting.solvable import check_width
from daskglm.losses.table import find


@contextlib.contextmanager
def open_grid(
    X: Any,
    y: Any,
    settings: FitConfig,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    client: Any = None,
    cv: Any = False,
    split_params: Mapping[str, Any] = MappingProxyType({}),
    start: Any = None,
    joint: type[ProblemGrid] | None = None,
) -> Iterator[ProblemGrid]:
    """Load the rows for as long as the context lasts.

    Parameters
    ----------
    X, y, sample_weight, offset, exposure, client
        As of `runner.train`.
    cv : int, splitter, iterable of (train, test), None or False
        Folds: None is 5, False none at all. Dask collections take numbers only.
    split_params : mapping
        Arguments of the splitter's `split`, such as groups.
    start : list of (coef, intercept), optional
        Where problems will start, see `ProblemGrid.starts`; checked here before any work.
    joint : type, optional
        Kind of the grid where the loss is of all classes together, and there are more than two;
        it has the problems of one class against the rest.

    Raises
    ------
    ValueError
        For arguments out of range, before any work; for bad data; for folds whose rows to train on
        have no weight.
    """
    loss = settings.check()
    checkpoints = checkpoints_of(settings, start)
    data = rows_of(X, y, sample_weight, loss, offset=offset, exposure=exposure)
    for each in start or ():
        check_width(each, data)
    settings = with_columns(settings, data)
    folds = None if cv is False else divide(data, cv, settings.random_state, split_params)
    with loaded(data, settings, client) as on:
        if on.engine.capabilities.device != "cpu" and folds is not None:
            raise ValueError(
                "cross-validation in one pass wants rows in host memory: give device='cpu'"
            )
        made, pairs = ProblemGrid, on.problems
        if loss.two_classes:
            assert on.classes is not None
            loss = find(loss.two_classes)
            if len(on.classes) == 2:
                settings = replace(settings, loss=loss.full_name)
            elif joint is not None:
                made, pairs = joint, problems_of(on.engine.facts, loss, settings)[1]
        problems = [problem for problem, _ in pairs]
        yield made(
            on.engine, loss, settings, on.classes, problems, folds, on.seconds, data, checkpoints
        )


def warn_unsolved(reports: Sequence[Report], tol: float) -> None:
    """Raise one ConvergenceWarning for the problems that did not reach `tol`."""
    failed = [report for report in reports if not report.converged]
    if failed:
        worst = max(failed, key=lambda report: report.relative_gap)
        warn(
            f"{len(failed)} of {len(reports)} problems stopped before tol={tol:g}; the worst: "
            f"{worst.reason} (reached: relative gap {worst.relative_gap:.1e}). Raise max_iter or "
            "tol, or scale the columns of X.",
            ConvergenceWarning,
        )
