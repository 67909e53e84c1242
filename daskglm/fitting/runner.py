"""From checked arguments to solved problems: where each begins, the solver that suits it, and its
report.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from daskglm.core.device import to_host
from daskglm.core.engine import Engine
from daskglm.core.outcome import Reason
from daskglm.core.requests import Problem
from daskglm.core.warn import warn
from daskglm.data.partitions import Partitions, partitions
from daskglm.engines.local import Local
from daskglm.fitting.checkpoint import (
    CheckpointWriter,
    Saved,
    identity,
    load,
    writer_to,
)
from daskglm.fitting.checkpoint_files import prepare
from daskglm.fitting.checkpoint_schema import BATCH
from daskglm.fitting.config import WITHIN_BOUNDS, FitConfig
from daskglm.fitting.driver import Record, Solution, StoppingRule, solve
from daskglm.fitting.edges import from_inside, may_be_at_an_end
from daskglm.fitting.independence import ColumnsInDoubt, of_independent_columns
from daskglm.fitting.inside import start_inside
from daskglm.fitting.joint import joint_fit
from daskglm.fitting.level_means import at_level_means
from daskglm.fitting.other_starts import OtherStarts
from daskglm.fitting.penalised import with_columns, with_penalty
from daskglm.fitting.progress import progress_bar
from daskglm.fitting.record import FitRecord, record_of
from daskglm.fitting.report import Report, combine
from daskglm.fitting.setup import loaded
from daskglm.fitting.solvable import (
    asked,
    check_corners,
    check_offset,
    check_size,
    check_width,
    warn_of_one_side,
)
from daskglm.fitting.statistics import at_best_constant, statistics_of
from daskglm.fitting.unpenalised import settled, warn_of_separated_classes
from daskglm.losses.base import Loss
from daskglm.losses.table import convex_beside, find
from daskglm.objectives.batched import AnyObjective
from daskglm.objectives.margins import OneMargin
from daskglm.objectives.primal import Objective
from daskglm.solvers import SolverSpec, costs, get_solver, solver_names
from daskglm.solvers.constant import constant
from daskglm.solvers.dual_bound import with_dual_bound
from daskglm.solvers.selection import choose
from daskglm.system.blas import one_thread

# Features up to which BLAS has one thread under Newton's method too: the factorisation takes about
# 1 ms, and threads that spin after it slow the next pass (240 features: 0.31 s, quiet 0.24; 864:
# 0.26 and 0.28, on 2 cores, 2026-11-23).
ONE_THREAD_FEATURES = 500


@dataclass(frozen=True)
class Trained:
    """Coefficients (problems, d), intercepts (problems,), sorted classes and the report.

    `classes` is None for a regression. Of an ordinal fit intercepts are the thresholds. `record`
    says what was fitted.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray | None
    report: Report
    record: FitRecord


def train(
    X: Any,
    y: Any,
    settings: FitConfig,
    *,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    start: Any = None,
    client: Any = None,
) -> Trained:
    """Fit one problem, or one per class where there are more than two.

    Parameters
    ----------
    X, y, sample_weight, offset, exposure
        See `data.partitions`.
    start : tuple of (coef, intercept), optional
        Where to start: arrays that broadcast to (problems, d) and (problems,).
    client : distributed.Client, optional
        Where to run. Default: the current client for dask collections, this process for data in
        memory.

    Warns
    -----
    ConvergenceWarning
        Where a solve ended without meeting `tol`, with the precision reached.

    Raises
    ------
    ColumnsInDoubt
        Of settings `in_doubt`: columns may depend on others.
    """
    loss = settings.check(one_fit=True)
    saved, folder = checkpoints_of(settings, start)
    data = rows_of(X, y, sample_weight, loss, offset=offset, exposure=exposure)
    check_width(start, data)
    given, settings = settings, with_columns(settings, data)
    with loaded(data, settings, client) as on:
        solved: list[tuple[Solution, Report]] = []
        writer: CheckpointWriter | None = None
        for k, (problem, total) in enumerate(on.problems):
            objective = objective_of(on.engine, problem, total, loss, settings)
            if (joint := joint_fit(objective.loss)) is not None:
                settings = joint.settings(settings)
                if settings.in_doubt:
                    raise ColumnsInDoubt
            if k == 0 and (saved is not None or folder is not None):
                writer = _writer(objective, settings, saved, folder, len(on.problems))
            fresh = WarmStart(start_of(start, k, len(on.problems), objective, on.classes))
            begin = fresh if saved is None else _resumed(saved, k, fresh)
            solved.append(
                solve_one(objective, begin, settings, on.seconds, k, writer, columns=data.columns)
            )
            if settings.in_doubt:  # other classes have the same columns
                settings = replace(settings, in_doubt=False)
            if objective.only_side and not objective.loss.attains_infimum:
                warn_of_one_side(objective, problem)
    reports = [report for _, report in solved]
    report = reports[0] if len(reports) == 1 else combine(reports)
    if not report.converged:
        warn_unconverged(report, settings)
    record = record_of(given, on.engine.facts, dispersion=report.dispersion)
    if joint is not None:
        assert on.classes is not None
        found = joint.coefficients(objective, to_host(solved[0][0].point.w), on.classes)
        return Trained(*found, on.classes, report, record)
    d = on.engine.facts.n_features or 0
    W = np.array([to_host(solution.point.w) for solution, _ in solved])
    intercept = W[:, d] if settings.fit_intercept else np.zeros(len(W))
    return Trained(W[:, :d], intercept, on.classes, report, record)


def rows_of(
    X: Any,
    y: Any,
    sample_weight: Any,
    loss: Loss,
    *,
    offset: Any = None,
    exposure: Any = None,
    clusters: Any = None,
) -> Partitions:
    """Return the rows as partitions whose targets are checked against the loss's domain.

    Raises ValueError for an exposure where the link is not the logarithm.
    """
    if exposure is not None and (loss.link is None or loss.link.name != "log"):
        raise ValueError(
            f"exposure is given, but loss={loss.full_name!r} has no log link, by which an exposure "
            "multiplies the mean; give an offset of the margins, or weights"
        )
    domain = None
    if loss.family is not None:
        domain = replace(loss.family.domain, name=loss.full_name)
    return partitions(
        X,
        y,
        sample_weight,
        classify=loss.classifies,
        offset=offset,
        exposure=exposure,
        clusters=clusters,
        domain=domain,
    )


def objective_of(
    engine: Engine,
    problem: Problem,
    sides: tuple[float, ...],
    loss: Loss,
    settings: FitConfig,
    scale: np.ndarray | None = None,
) -> Objective:
    """Make the objective of one problem, whose positive and negative rows have these weights.

    Of a loss of all classes together these are the weights of all classes. `scale` is that of
    `penalised.scale_of`, if it is known.
    """
    loss = find(problem.loss.name) if loss.two_classes else loss
    if (joint := joint_fit(loss)) is not None:
        made: Objective = joint.objective(engine, problem, sides, loss, settings)
        return made
    positive, negative = sides
    # the mean target of a fold, by which links bound the intercept, is not known
    is_part = problem.fold is not None and loss.bends
    given: dict[str, Any] = {
        "C": settings.weight_of_losses(sum(sides)),
        "intercept_radius": math.inf
        if is_part
        else loss.intercept_radius_of(engine.facts, positive, negative),
        "sides": (positive, negative),
        "start": loss.start(engine.facts),
    }
    margins = OneMargin(engine.facts.n_features or 0, bool(settings.fit_intercept))
    return with_penalty(engine, problem, loss, settings, margins, scale=scale, **given)


# ---- checkpoints
@dataclass(frozen=True)
class WarmStart:
    """Where a solve starts: w; if it resumes another, its solver, the reason, and its state.

    The state are further arguments of the solver. Its "begin" is the point at w, if it is known.
    """

    w: np.ndarray
    state: Mapping[str, Any] = field(default_factory=dict)
    solver: str | None = None
    before: int = 0
    why: str = "that of the checkpoint"


def checkpoints_of(settings: FitConfig, start: Any) -> tuple[Saved | None, str | None]:
    """Read the checkpoint to resume from, and check the folder for others, before any data.

    Raises ValueError if the checkpoint is not of this fit's solver, or `start` is given too.
    """
    folder = None if settings.checkpoint is None else prepare(settings.checkpoint)
    if settings.resume is None:
        return None, folder
    if start is not None:
        raise ValueError("resume and warm_start both say where to start: give one of them")
    saved = load(settings.resume)
    solver = "newton" if saved.solver == BATCH else saved.solver
    if settings.solver not in ("auto", solver):
        raise ValueError(
            f"the checkpoint {saved.path} is of solver={solver!r}, this fit asks for "
            f"{settings.solver!r}; to "
            "start from its coefficients use warm_start"
        )
    return saved, folder


def _writer(
    objective: Objective,
    settings: FitConfig,
    saved: Saved | None,
    folder: str | None,
    count: int,
) -> CheckpointWriter | None:
    """Check that a checkpoint is of these data, and prepare to write others."""
    found = identity(objective, named_settings(objective, settings, C=float(settings.C)))
    if saved is not None:
        found.check(saved.identity, saved.path)
        if saved.problem >= count or saved.solver == BATCH:
            raise ValueError(
                f"the checkpoint {saved.path} is of problem {saved.problem + 1} of {count}: it "
                "is damaged"
            )
    return writer_to(folder, settings.checkpoint_every, found, saved)


def named_settings(objective: Objective, settings: FitConfig, **more: Any) -> dict[str, Any]:
    """Return the settings by which a checkpoint of one fit is told from those of others.

    `more` are values of JSON that do so, too.
    """
    loss = find(settings.loss)
    named: dict[str, Any] = {
        "loss": objective.problem.loss.name if loss.two_classes else settings.loss,
        **more,
        "fit_intercept": bool(settings.fit_intercept),
    }
    if not settings.penalty.is_plain:
        named["penalty"] = settings.penalty.digest
    # of two classes there is one set of coefficients
    if (joint := joint_fit(objective.loss)) is not None:
        named |= joint.saved(objective)
    return named


def _resumed(saved: Saved, k: int, fresh: WarmStart) -> WarmStart:
    if k < saved.problem:
        return WarmStart(saved.finished[k], solver=saved.solver)
    if k > saved.problem:
        return replace(fresh, solver=saved.solver)
    return WarmStart(saved.w, saved.state, saved.solver, saved.iteration)


# ---- one solve
def start_of(
    start: Any,
    k: int,
    problems: int,
    objective: AnyObjective,
    labels: np.ndarray | None = None,
) -> np.ndarray:
    """Return where problem k of several starts, from coefficients and intercepts of all.

    `labels` are those of all classes, where one problem has them together.
    """
    if (joint := joint_fit(objective.loss)) is not None:
        assert labels is not None
        return joint.start(start, objective, labels)
    at: np.ndarray = to_host(objective.origin)
    if start is None:
        return at
    coef = np.atleast_2d(start[0])
    intercept = np.atleast_1d(start[1])
    if len(coef) != problems or len(intercept) not in (1, problems):
        raise ValueError(
            f"warm_start has coefficients of shape {np.shape(start[0])} and intercepts of shape "
            f"{np.shape(start[1])}; "
            f"this fit has {f'{problems} problems, one for each class,' if problems > 1 else 'one'}"
            f" and {objective.n_features} features: it wants "
            f"({problems}, {objective.n_features}) and ({problems},)"
        )
    w = at.copy()
    w[: objective.n_features] = coef[k]
    if objective.fit_intercept:
        w[-1] = np.broadcast_to(intercept, problems)[k]
    return w


def solve_one(
    objective: Objective,
    begin: WarmStart,
    settings: FitConfig,
    loading: float,
    number: int,
    writer: CheckpointWriter | None,
    columns: Sequence[str] | None = None,
) -> tuple[Solution, Report]:
    """Solve one problem with the solver that is asked for, or chosen.

    `number` and `writer` are for checkpoints, `columns` are names of features, for warnings.
    """
    record, joint = Record(objective), joint_fit(objective.loss)
    check_offset(objective, settings)
    waited = objective.waited
    if begin.solver is None and objective.is_origin(objective.xp.asarray(begin.w)):
        start_inside(objective)
        if objective.inside is None:
            best = at_best_constant(objective, begin.w)
            begin = replace(begin, w=at_level_means(objective, best))
        else:
            begin = replace(begin, w=to_host(objective.inside))
    name, why = _solver_of(objective, begin, settings)
    if writer is not None:
        writer.begin(name, number, begin.before)
    solution = _solved(objective, begin, name, settings, record, writer)
    if may_be_at_an_end(objective, solution, settings):
        solution = from_inside(objective, solution, name, settings, record, solve_alone)
    elif not objective.loss.convex and solution.reason.converged:
        solution = _from_other_starts(objective, solution, name, settings, record)
    statistics: dict[str, float] = {}
    if joint is not None:
        solution = warn_of_separated_classes(objective, joint.settled(objective, solution), columns)
        statistics = joint.statistics(objective, solution.point)
    else:
        solution = settled(objective, solution, columns)
        if settings.average or objective.loss.bends:
            statistics = statistics_of(objective, solution.point)
    if statistics:
        solution = replace(solution, cost=record.spent())
    if writer is not None:
        writer.finished.append(to_host(solution.point.w))
    waited = objective.waited - waited
    return solution, report_of(
        objective,
        solution,
        (name, why),
        seconds_loading=loading,
        resumed=begin.before,
        **statistics,
        waiting=waited / max(objective.engine.capabilities.workers * solution.cost.seconds, 1e-9),
    )


def _solved(
    objective: Objective,
    begin: WarmStart,
    name: str,
    settings: FitConfig,
    record: Record,
    writer: CheckpointWriter | None = None,
) -> Solution:
    """Run a solver from where it begins until a point is good enough."""
    joint = joint_fit(objective.loss)
    w = objective.xp.asarray(begin.w)
    spec = get_solver(name)
    max_iter = spec.max_iter if settings.max_iter is None else int(settings.max_iter)
    zero = None
    # where points are proved, nobody asks how large the gradient is at zero
    if not (objective.is_origin(w) or ("begin" in begin.state and objective.bounds.proves)):
        zero = objective.at(objective.origin)
    # one forms those of working sets, and by blocks they are not so large
    if not (spec.rounds_corners and objective.bounds.any_penalty) and not objective.blocks:
        check_size(spec, objective.n_features)
    check_corners(objective)
    if spec.solves_dual and not objective.has_dual:
        how = asked(settings) if settings.solver == name else f"solver={name!r}"
        raise ValueError(
            f"{how} takes no offset of margins, and of penalties only those with the "
            "same positive L2 strength and the same L1 strength for all features; use "
            f"{'newton' if objective.penalty.is_smooth else 'proximal_newton'!r}"
        )
    if objective.only_side:
        iterates, max_iter = constant(objective), 1
    else:
        options = {**(settings.solver_options or {}), **_settings(spec, settings)}
        iterates = spec.run(objective, w, **options, **begin.state)
        if joint is not None:
            iterates = joint.iterates(objective, iterates)
        elif settings.stop == "gap" and not (
            spec.solves_dual or spec.rounds_corners or objective.bounds.any_penalty
        ):
            iterates = with_dual_bound(objective, iterates)
        if settings.in_doubt:
            hessians = spec.forms_hessian
            iterates = of_independent_columns(objective, w, iterates, with_hessian=hessians)
    with (
        progress_bar(settings.progress, settings.callback, float(settings.tol), name) as callback,
        _quiet_blas(objective.engine, spec),
    ):
        return solve(
            objective,
            iterates,
            StoppingRule(
                float(settings.tol), max_iter, settings.stop, by_default=settings.max_iter is None
            ),
            record=record,
            zero=zero,
            callback=callback,
            writer=writer,
        )


def _from_other_starts(
    objective: Objective, solution: Solution, name: str, settings: FitConfig, record: Record
) -> Solution:
    """Solve a problem that is not convex from other starts, and return the lowest end."""
    beside = convex_beside(objective.loss)
    if beside is None:
        return solution
    sides = objective.sides or (objective.total_weight, 0.0)
    problem = replace(objective.problem, loss=beside.ref)
    convex = objective_of(objective.engine, problem, sides, beside, settings)
    convex.inside = objective.inside
    found = OtherStarts(objective, convex, name, settings, solve_alone).lowest_end(solution)
    return replace(found, cost=record.spent())


def solve_alone(objective: Objective, w: np.ndarray, name: str, settings: FitConfig) -> Solution:
    """Solve from w by a solver, with a record of its own."""
    return _solved(objective, WarmStart(to_host(w)), name, settings, Record(objective))


def report_of(
    objective: AnyObjective,
    solution: Solution,
    how: tuple[str, str],
    /,
    **given: Any,
) -> Report:
    """Make the report of a solution by the solver that `how` names, and why.

    `given` overrides fields. See `Report` for the numbers.
    """
    engine = objective.engine
    stages = dict.fromkeys(record["solver"] or how[0] for record in solution.history)
    fields = {
        "solver": "+".join(stages),
        "why": how[1],
        "converged": solution.reason.converged,
        "reason": solution.reason.value,
        "objective": solution.point.value,
        "relative_gap": solution.relative_gap,
        "gradient_ratio": solution.gradient_ratio,
        "coefficient_error": solution.coefficient_error,
        "n_iter": len(solution.history) - 1,
        **vars(solution.cost),
        "n_rows": engine.facts.n_rows,
        "n_features": engine.facts.n_features or 0,
        "workers": engine.capabilities.workers,
        "device": engine.capabilities.device,
        "repairs": engine.repairs,
        "history": solution.history,
    }
    return Report(**(fields | given))


def _solver_of(objective: Objective, begin: WarmStart, settings: FitConfig) -> tuple[str, str]:
    """Return the solver to run, and the reason."""
    if objective.only_side:
        return (
            settings.solver if settings.solver in solver_names() else "newton",
            "a constant: one side has no weight",
        )
    if begin.solver is not None:
        return begin.solver, begin.why
    if settings.solver == "auto":
        return choose(objective, _tol(settings))
    if not objective.penalty.is_smooth and settings.solver in WITHIN_BOUNDS:
        name = WITHIN_BOUNDS[settings.solver]
        return name, f"{asked(settings)}, with features that are left out: {name}"
    return settings.solver, settings.why


def _tol(settings: FitConfig) -> float:
    """Return the wanted relative suboptimality; coefficients are known to its root."""
    if settings.stop == "gap":
        return float(settings.tol)
    return max(float(settings.tol) ** 2, costs.LEAST_TOL)


def _settings(spec: SolverSpec, settings: FitConfig) -> dict[str, Any]:
    """Return the settings of the fit that a solver takes as keywords."""
    found: dict[str, Any] = {}
    if "tol" in spec.settings:
        found["tol"] = _tol(settings)
    if "automatic" in spec.settings:
        found["automatic"] = settings.solver == "auto"
    if "random_state" in spec.settings:
        seed = settings.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        found["random_state"] = abs(int(seed))
    return found


def _quiet_blas(
    engine: Engine, spec: SolverSpec | None = None
) -> contextlib.AbstractContextManager[Any]:
    """Limit BLAS to one thread while our own threads work in this process.

    OpenBLAS takes all cores for the dot product of two long vectors and lets them spin for some 30
    ms afterwards, which halved the speed of epochs (0.065 s instead of 0.035 on 2 cores). Large
    Hessians are factorised by all threads.
    """
    large = (engine.facts.n_features or 0) > ONE_THREAD_FEATURES
    works_here = isinstance(engine, Local) or engine.capabilities.travelling > 0
    if (spec is not None and spec.forms_hessian and large) or not works_here:
        return contextlib.nullcontext()
    return one_thread()


def warn_unconverged(report: Report, settings: FitConfig) -> None:
    """Raise the ConvergenceWarning of a fit that ended before `tol`."""
    if report.reason in (Reason.NO_OPTIMUM.value, Reason.SEPARABLE.value):
        return  # `solve_one` has warned
    gap = report.relative_gap
    if settings.stop == "coefficients":
        reached = f"relative error of the coefficients at most {report.coefficient_error:.1e}"
    else:
        if not math.isnan(gap):
            reached = f"relative gap {gap:.1e}"
        else:
            reached = f"gradient ratio {report.gradient_ratio:.1e}"
    warn(
        f"{report.solver} stopped before tol={settings.tol:g}: {report.reason} (reached: {reached} "
        f"after {report.n_iter} iterations). Raise max_iter or tol, scale the columns of X, or "
        "give another solver.",
        ConvergenceWarning,
    )
