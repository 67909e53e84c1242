"""From checked arguments to a solved problem: data to an engine, labels to problems, a solver to its solution."""

from __future__ import annotations

import contextlib
import functools
import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from dask.utils import parse_bytes
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from daskglm.checkpoints import Keeper, Saved, every, identity, load, prepare
from daskglm.driver import Callback, Solution, solve
from daskglm.engine import Engine, Local
from daskglm.engines import client_for, make_engine
from daskglm.inputs import partitions
from daskglm.kernels import to_host
from daskglm.losses import LOSSES, Loss
from daskglm.messages import Facts, Problem
from daskglm.objective import Objective
from daskglm.placing import Where
from daskglm.progress import progress_bar
from daskglm.report import Report, combine
from daskglm.solvers import MAX_ITER, SOLVERS, check_options
from daskglm.solvers.auto import choose

LARGEST_HESSIAN = 8 << 30  # bytes
DEVICES = (None, "cpu", "cuda")

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """How to fit, apart from the data; see `daskglm.fit` for the meaning of the fields."""

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
        if self.max_iter is not None and (not isinstance(self.max_iter, (int, np.integer)) or self.max_iter < 1):
            raise ValueError(f"max_iter={self.max_iter!r} must be a positive integer, or None")
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


@dataclass(frozen=True)
class Trained:
    """Coefficients (problems, d), intercepts (problems,), sorted classes (None: regression) and the report."""

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray | None
    report: Report


def train(
    X: Any, y: Any, settings: Settings, *, sample_weight: Any = None, start: Any = None, client: Any = None
) -> Trained:
    """Fit one problem, or one per class where there are more than two.

    Parameters
    ----------
    X, y, sample_weight
        See `inputs.partitions`.
    start : tuple of (coef, intercept), optional
        Where to start: arrays that broadcast to (problems, d) and (problems,).
    client : distributed.Client, optional
        Where to run. Default: the current client for dask collections, this process for data in memory.

    Warns
    -----
    ConvergenceWarning
        Where a solve ended without meeting `tol`, with the precision reached.
    """
    loss = settings.check()
    saved = _saved(settings, start)
    folder = None if settings.checkpoint is None else prepare(settings.checkpoint)
    data = partitions(X, y, sample_weight, classify=loss.classifies)
    began = time.perf_counter()
    with (
        client_for(data, client) as running,
        contextlib.closing(make_engine(data, running, settings.where(), read=settings.out_of_core)) as engine,
    ):
        loading = time.perf_counter() - began
        check_facts(engine.facts, loss)
        classes, problems = problems_of(engine.facts, loss, settings)
        solved: list[tuple[Solution, Report]] = []
        keeper: Keeper | None = None
        for k, (problem, total) in enumerate(problems):
            objective = _objective(engine, problem, total, loss, settings)
            if k == 0 and (saved is not None or folder is not None):
                keeper = _keeper(objective, settings, saved, folder)
            fresh = Begin(_start(start, k, len(problems), objective))
            begin = fresh if saved is None else _resumed(saved, k, fresh)
            solved.append(solve_one(objective, begin, settings, loading, k, keeper))
    reports = [report for _, report in solved]
    report = reports[0] if len(reports) == 1 else combine(reports)
    if not report.converged:
        _warn(report, settings)
    d = engine.facts.n_features or 0
    W = np.array([to_host(solution.point.w) for solution, _ in solved])
    intercept = W[:, d] if settings.fit_intercept else np.zeros(len(W))
    return Trained(W[:, :d], intercept, classes, report)


# ---------------------------------------------------------------------------- problems
def check_facts(facts: Facts, loss: Loss) -> None:
    """Raise ValueError for data that no model can be fitted to."""
    if facts.n_rows == 0:
        raise ValueError(
            f"X has no rows: Found array with 0 sample(s) (shape=(0, {facts.n_features})) while a minimum of 1 is "
            "required."
        )
    if not facts.n_features:
        raise ValueError(f"0 feature(s) (shape=({facts.n_rows}, 0)) while a minimum of 1 is required: X has no columns")
    if not facts.weight > 0:
        raise ValueError("all sample weights are zero: there is nothing to fit")
    if loss.classifies:
        kept = [label for label, _, weight in facts.classes if weight > 0]
        if len(kept) < 2:
            names = ", ".join(repr(getattr(label, "item", lambda label=label: label)()) for label in kept)
            raise ValueError(f"all rows with a positive weight have one class, {names}: a classifier needs two")


def problems_of(
    facts: Facts, loss: Loss, settings: Settings
) -> tuple[np.ndarray | None, list[tuple[Problem, tuple[float, float]]]]:
    """The classes, and each problem with the total weight of its positive and negative rows."""
    if not loss.classifies:
        return None, [(Problem(loss.code), (facts.weight, 0.0))]
    try:
        ordered = sorted(facts.classes, key=lambda entry: entry[0])
    except TypeError as error:
        raise ValueError(f"labels of different kinds cannot be ordered: {error}") from error
    factors = _class_factors(ordered, settings.class_weight)
    weights = {label: weight * factors.get(label, 1.0) for label, _, weight in ordered}
    total = sum(weights.values())
    positives = [ordered[1][0]] if len(ordered) == 2 else [label for label, _, _ in ordered]
    problems = [
        (Problem(loss.code, label, tuple(factors.items())), (weights[label], total - weights[label]))
        for label in positives
    ]
    for problem, (positive, negative) in problems:
        if not (positive > 0 and negative > 0):
            raise ValueError(f"class {problem.positive!r} against the rest leaves one side without weight")
    return np.array([label for label, _, _ in ordered]), problems


def _class_factors(ordered: list[tuple[Any, int, float]], class_weight: Any) -> dict[Any, float]:
    if class_weight is None:
        return {}
    if class_weight == "balanced":
        total = sum(weight for _, _, weight in ordered)
        return {label: total / (len(ordered) * weight) for label, _, weight in ordered if weight > 0}
    labels = {label for label, _, _ in ordered}
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ValueError(f"class_weight names {unknown}, which y does not have; it has {sorted(labels)}")
    return {label: float(weight) for label, weight in class_weight.items()}


def _objective(
    engine: Engine, problem: Problem, total: tuple[float, float], loss: Loss, settings: Settings
) -> Objective:
    span = loss.intercept_span(*total, engine.facts.largest_target)
    return Objective(
        engine, problem, loss, C=float(settings.C), fit_intercept=settings.fit_intercept, span=span, weight=sum(total)
    )


# ---------------------------------------------------------------------------- checkpoints
@dataclass(frozen=True)
class Begin:
    """Where a solve begins: w, and for one that goes on from a checkpoint what its solver wants besides."""

    w: np.ndarray
    state: Mapping[str, Any] = field(default_factory=dict)
    solver: str | None = None
    before: int = 0


def _saved(settings: Settings, start: Any) -> Saved | None:
    """The checkpoint to go on from, before anything else is read."""
    if settings.resume is None:
        return None
    if start is not None:
        raise ValueError("resume and warm_start both say where to start: give one of them")
    saved = load(settings.resume)
    if settings.solver not in ("auto", saved.solver):
        raise ValueError(
            f"the checkpoint {saved.path} is of solver={saved.solver!r}, this fit asks for {settings.solver!r}; to "
            "start from its coefficients use warm_start"
        )
    return saved


def _keeper(objective: Objective, settings: Settings, saved: Saved | None, folder: str | None) -> Keeper | None:
    """Check that a checkpoint is of these data, and prepare to write others."""
    named = {"loss": settings.loss, "C": float(settings.C), "fit_intercept": bool(settings.fit_intercept)}
    found = identity(objective, named)
    if saved is not None:
        found.check(saved.identity, saved.path)
    return None if folder is None else Keeper(folder, every(settings.checkpoint_every), found)


def _resumed(saved: Saved, k: int, fresh: Begin) -> Begin:
    if k < saved.problem:
        return Begin(saved.finished[k], solver=saved.solver)
    if k > saved.problem:
        return replace(fresh, solver=saved.solver)
    return Begin(saved.w, saved.state, saved.solver, saved.iteration)


# ---------------------------------------------------------------------------- one solve
def _start(start: Any, k: int, problems: int, objective: Objective) -> np.ndarray:
    w = np.zeros(objective.size)
    if start is None:
        return w
    coef, intercept = start
    coef = np.asarray(coef, dtype=np.float64).reshape(-1, objective.n_features) if np.size(coef) else None
    if coef is None or len(coef) != problems or not np.isfinite(coef).all():
        raise ValueError(
            f"warm_start has coefficients of shape {np.shape(start[0])}; this fit wants ({problems}, "
            f"{objective.n_features}) finite numbers"
        )
    w[: objective.n_features] = coef[k]
    if objective.fit_intercept:
        w[-1] = float(np.broadcast_to(np.asarray(intercept, dtype=np.float64), (problems,))[k])
    return w


def solve_one(
    objective: Objective, begin: Begin, settings: Settings, loading: float, number: int, keeper: Keeper | None
) -> tuple[Solution, Report]:
    """Solve one problem with the solver that is asked for, or suits it; `number` and `keeper` are for checkpoints."""
    name, why = settings.solver, "asked for"
    if name == "auto":
        with _quiet_blas(name, objective.engine):
            name, why = choose(objective)
    if begin.solver is not None:
        name, why = begin.solver, "that of the checkpoint"
    w = objective.xp.asarray(begin.w)
    max_iter = MAX_ITER[name] if settings.max_iter is None else int(settings.max_iter)
    at_zero = float(np.linalg.norm(objective.at(np.zeros_like(w)).gradient)) if bool(w.any()) else None
    _check_size(name, objective.n_features)
    waited = objective.waited
    points = SOLVERS[name](objective, w, **_options(name, settings), **begin.state)
    if keeper is not None:
        keeper.begin(name, number, begin.before)
    with (
        progress_bar(settings.progress, settings.callback, float(settings.tol), name) as callback,
        _quiet_blas(name, objective.engine),
    ):
        solution = solve(
            objective,
            points,
            tol=float(settings.tol),
            max_iter=max_iter,
            start_gradient_norm=at_zero,
            callback=callback,
            keeper=keeper,
        )
    if keeper is not None:
        keeper.finished.append(to_host(solution.point.w))
    engine = objective.engine
    stages = dict.fromkeys(record["solver"] or name for record in solution.history)
    report = Report(
        solver="+".join(stages),
        why=why,
        converged=solution.reason.converged,
        reason=solution.reason.value,
        objective=solution.point.value,
        relative_gap=solution.relative_gap,
        gradient_ratio=solution.gradient_ratio,
        n_iter=len(solution.history) - 1,
        passes=solution.passes,
        rounds=solution.rounds,
        bytes_reduced=solution.bytes_reduced,
        seconds=solution.seconds,
        seconds_loading=loading,
        n_rows=engine.facts.n_rows,
        n_features=objective.n_features,
        workers=engine.workers,
        device=engine.device,
        repairs=engine.repairs,
        resumed=begin.before,
        waiting=(objective.waited - waited) / max(engine.workers * solution.seconds, 1e-9),
        history=solution.history,
    )
    return solution, report


def _options(name: str, settings: Settings) -> dict[str, Any]:
    options = dict(settings.solver_options or {})
    if name == "newton":
        return {**options, "tol": float(settings.tol)}
    if name != "sdca":
        return options
    seed = settings.random_state
    if not isinstance(seed, (int, np.integer)):
        seed = int(check_random_state(seed).randint(2**31 - 1))
    return {**options, "tol": float(settings.tol), "random_state": abs(int(seed))}


def _quiet_blas(name: str, engine: Engine) -> contextlib.AbstractContextManager[Any]:
    """One BLAS thread while our own threads work in this process.

    OpenBLAS takes all cores for the dot product of two long vectors and lets them spin for some 30 ms afterwards,
    which halved the speed of epochs (0.065 s instead of 0.035 on 2 cores). Newton's factorisation may have them.
    """
    if name == "newton" or not isinstance(engine, Local):
        return contextlib.nullcontext()
    return _blas().limit(limits=1, user_api="blas")


@functools.cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _check_size(name: str, d: int) -> None:
    if name == "newton" and 8 * d * d > LARGEST_HESSIAN:
        raise ValueError(
            f"solver='newton' would form a Hessian of {d:,} x {d:,} numbers, {8 * d * d / 2**30:.1f} GiB for every "
            "thread; use solver='tron', or 'auto'"
        )


def _warn(report: Report, settings: Settings) -> None:
    gap = report.relative_gap
    reached = f"relative gap {gap:.1e}" if not math.isnan(gap) else f"gradient ratio {report.gradient_ratio:.1e}"
    warnings.warn(
        f"{report.solver} stopped before tol={settings.tol:g}: {report.reason} (reached: {reached} after "
        f"{report.n_iter} iterations). Raise max_iter or tol, scale the columns of X, or give another solver.",
        ConvergenceWarning,
        stacklevel=4,
    )
