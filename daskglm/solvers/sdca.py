"""Stochastic dual coordinate ascent: workers run local epochs, and their changes are added up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from daskglm.core.arguments import check_choice, check_flag, check_whole, shown
from daskglm.core.dual_span import EPOCHS_A_STEP, LONGEST, RISE
from daskglm.core.outcome import Reason
from daskglm.core.requests import DualSpan, SDCAConfig, Totals
from daskglm.duals import along
from daskglm.duals.dual import Ahead, Dual
from daskglm.objectives.primal import Objective
from daskglm.solvers import costs
from daskglm.solvers.conjugate_steps import ConjugateSteps
from daskglm.solvers.iterate import Iterate, Iterates
from daskglm.solvers.line_search import ROUNDING
from daskglm.solvers.spec import Check

# Factor of sigma' in the next round over the one that the last changes asked for. Chosen.
SIGMA_MARGIN = 1.1
# Least sigma' of several groups: at 1 their changes would no longer be compared. Chosen.
LEAST_SIGMA = 1.01
# Threads, and parts that rows are divided into, at most. More threads than cores take turns: 1,000
# of them took 1.6 s for 10 rounds of 200 rows, 4,000 took 5 (2026-11-26), and a million minutes.
MOST_THREADS = 1024
# Epochs of a round of a slow ascent on a loss with corners, in one group of threads: what a round
# takes beside its epochs is as much as one of those that pass over most rows. On six sets of text
# and tables 2 and 4 took 0.7 of the time of 1, 8 and 16 more epochs; with steps after each of two
# rounds of 2 hinges took 1.1 to 1.5 times the time of those with steps within one of 4, since
# bounds are looked at twice as often (2026-11-29).
SLOW_EPOCHS = 4
# What travels with a round, by what follows its epochs; see `_way`.
AHEAD: dict[str, Ahead] = {"search": along.first_line, "steps": DualSpan}
# Stands for values and gaps that overflow.
LARGEST_VALUE = float(np.finfo(float).max)
# In the place of curvatures of zero, and on the diagonal of those of a search.
LEAST_NUMBER, NEARLY_NOTHING = float(np.finfo(float).tiny), 1e-12 * np.eye(2)


def sdca(
    dual: Dual,
    *,
    tol: float = 1e-6,
    stop: str = "gap",
    aggregation: str = "auto",
    local_epochs: int | None = None,
    state: dict[str, Any] | None = None,
) -> Iterates:
    """Stochastic dual coordinate ascent with buckets, partitions, replicas, and CoCoA over workers.

    Parameters
    ----------
    dual : Dual
        The dual variables to work on, and how; see `config_of`.
    tol : float
        Relative gap (P - D) / D at which a point is certified. With `stop="model-change"`: the
        relative change of the coefficients over a round at which to stop (the rule of the Snap ML
        paper).
    aggregation : {"auto", "adaptive", "safe", "search"}
        How to add the changes of partitions. "safe": sigma' is their number (CoCoA+, Ma et al.
        2015). "adaptive": sigma' follows |sum of changes|^2 / sum of |change|^2 as measured, and a
        sum that overshoots is shortened so that the dual cannot fall. "search": sigma' = 1 among
        workers, then the best combination of the sum of changes and the previous step. "auto":
        "adaptive" until a round lowers the gap by less than half, then "search"; with an L1 part
        the rows of workers come to this process then, if they travel, and the ascent begins anew.
    local_epochs : int, optional
        Epochs of a round. Default: 1, and `SLOW_EPOCHS` of a slow ascent on a loss with corners and
        more features than a Hessian is formed for: see `_next_plan`.
    state : dict, optional
        State of a solve to resume, whose dual variables are those of `dual`.

    Notes
    -----
    Dual coordinate ascent after Shalev-Shwartz & Zhang 2013, with an L1 penalty after their work of
    2014; buckets, dynamic partitions and node replicas after Ioannou et al. 2019 (the Snap ML
    paper). Cost: a pass an epoch, 1 round, and for "search" a few rounds without a pass; 1 pass for
    each attempt to certify.
    """
    objective = dual.objective
    sigma = _Sigma(aggregation, *dual.shape())
    watch = _Watch(tol if stop == "gap" else -1.0)
    if state is None:
        point = dual.start_point()
    else:
        if state["sigma"] is not None:
            sigma.restore(**state["sigma"])
        point = dual.certified_point()

    def now() -> dict[str, Any]:
        return {"state": {**dual.state(), "sigma": sigma.state()}}

    yield Iterate(point, resume=now, save_rows=dual.save, by="sdca")
    workers, steps = objective.engine.capabilities.workers, ConjugateSteps()
    rests = dual.rests
    while True:
        if objective.engine.capabilities.workers != workers:
            workers = objective.engine.capabilities.workers
            sigma.among(*dual.shape())
        way = _way(dual, sigma)
        dual.plan = _next_plan(dual, sigma, way, local_epochs)
        totals = dual.round(sigma.outer, sigma.inner, AHEAD.get(way))
        if dual.has_lost() or dual.rests is not rests:
            watch.start_again()
        rests = dual.rests

        value, estimate = _estimates(dual, totals)
        share = sigma.after(totals)
        if dual.penalty.threshold and not sigma.search:
            share = along.share_that_rises(dual, share, totals)
        del totals  # it holds vectors as long as w

        if way == "steps":
            steps.take(dual, sigma.most[0])
        elif way == "search":
            dual.commit(*_search(dual, sigma.most[0]), keep=1)
        else:
            dual.commit(share)
        before = point.w if stop == "model-change" else None  # else the vector can be freed
        point = dual.point(value, estimate)
        if watch.worth_certifying(estimate, value):
            assert point.certify is not None
            point = point.certify()
            watch.learn(dual.met.primal - dual.met.dual)
        yield Iterate(point, resume=now, save_rows=dual.save, by="sdca")
        if aggregation == "auto" and watch.slow:
            sigma, watch = _quickened(dual, sigma, watch)

        if before is not None and np.linalg.norm(point.w - before) <= tol * np.linalg.norm(point.w):
            return Reason.SMALL_CHANGE
        if watch.idle >= 200:  # rounds without a lower gap. Chosen.
            return Reason.STALLED


def config_of(objective: Objective, options: Mapping[str, Any]) -> SDCAConfig:
    """Make the `SDCAConfig` of these options.

    Parameters
    ----------
    objective : Objective
    options : mapping
        Those of `OPTIONS`; what only `sdca` takes is ignored. `partitioning`: assign buckets of
        rows to partitions anew at each epoch ("dynamic"), or once ("static"); "wild": threads share
        one vector without locks (Algorithm 1 of the Snap ML paper), which can end at a wrong point;
        the report's gap shows that. `partitions`, `nodes`, `threads` and `bucket_size`: see
        `SDCAConfig`; per worker. `shrinking`: whether to skip rows whose dual variables stay at a
        bound; default: if the loss has corners, or its curvature jumps, as those of hinges, in one
        process. On a GPU it saves nothing.
    """
    names = {"bucket_size": "bucket", "local_epochs": "epochs", "shrinking": "shrink"}
    given = {names.get(name, name): value for name, value in options.items() if value is not None}
    loss, can = objective.loss, objective.engine.capabilities
    rests = loss.jumps or not loss.differentiable
    fields = {"shrink": rests and can.device == "cpu" and can.workers == 1, **given}
    known = SDCAConfig.__dataclass_fields__
    return SDCAConfig(**{name: value for name, value in fields.items() if name in known})


def _one_of(*known: str) -> Check:
    """Make the check of an option that is one of these words."""
    return lambda value, name: check_choice(value, name, known)


def _count(value: Any, name: str) -> None:
    """Raise ValueError unless a value is a whole number above 0, or None."""
    check_whole(value, name, 1, optional=True)


def _threads(value: Any, name: str) -> None:
    """Raise ValueError unless a value is a number of threads, or None."""
    _count(value, name)
    if value is not None and value > MOST_THREADS:
        raise ValueError(
            f"{name}={shown(value)} must be at most {MOST_THREADS:,}, or None: those of the "
            "worker; more threads than cores do not compute faster"
        )


def check_optional_flag(value: Any, name: str) -> None:
    """Raise ValueError unless a value is True, False or None."""
    check_flag(value, name, optional=True)


OPTIONS: dict[str, Check] = {
    "stop": _one_of("gap", "model-change"),
    "partitioning": _one_of("dynamic", "static", "wild"),
    "aggregation": _one_of("auto", "adaptive", "safe", "search"),
    **dict.fromkeys(("partitions", "nodes", "threads"), _threads),
    **dict.fromkeys(("bucket_size", "local_epochs"), _count),
    "shrinking": check_optional_flag,
}
"""Checks of the options that users may give, by name; see `sdca` and `config_of`."""


class _Sigma:
    """CoCoA's sigma' among groups of threads (`outer`), and partitions of a group (`inner`)."""

    def __init__(self, aggregation: str, groups: int, partitions: int) -> None:
        self.fixed = aggregation == "safe"
        self.search = False
        self.among(groups, partitions)
        if aggregation == "search":
            self.begin_search()

    def among(self, groups: int, partitions: int) -> None:
        """Set sigma' to what is safe for so many groups, and partitions of a group."""
        self.most = float(groups), float(partitions)
        self.outer = 1.0 if self.search else self.most[0]
        self.inner = self.most[1]

    def state(self) -> dict[str, Any]:
        """Return the arguments of `restore`."""
        return {"outer": self.outer, "inner": self.inner, "search": self.search}

    def restore(self, outer: float, inner: float, search: bool) -> None:
        """Resume from the state of another solve, perhaps among fewer groups, or more than one."""
        self.outer = min(max(outer, LEAST_SIGMA), self.most[0])
        self.inner = min(inner, self.most[1])
        if search:
            self.begin_search()

    def begin_search(self) -> None:
        """Search for the best multiple of each change from now on.

        That makes sigma' = 1 among groups safe.
        """
        self.search, self.outer = True, 1.0

    def after(self, totals: Totals) -> float:
        """Choose the part of a round's changes to take, and adapt sigma' to how they overlap.

        The part is all of them, unless they overlap more than foreseen. The dual is concave, so it
        cannot fall along the sum of changes up to outer * sum |change|^2 / |sum|^2.
        """
        share = 1.0
        if self.outer > 1.0:
            change = totals["change"]
            ratio = _ratio(float(change @ change), float(totals["squares"]))
            share = min(1.0, self.outer / ratio) if ratio > 0.0 else 1.0
            if not self.fixed:
                self.outer = min(max(SIGMA_MARGIN * ratio, LEAST_SIGMA), self.most[0])
        if not self.fixed:
            ratio = _ratio(*map(float, totals["inner"]))
            self.inner = min(max(SIGMA_MARGIN * ratio, 1.0), self.most[1])
        return share


def _ratio(joint: float, apart: float) -> float:
    """Divide |sum of changes|^2 by the sum of |change|^2; zero if there were no changes."""
    return joint / apart if apart > 0.0 else 0.0


class _Watch:
    """Decides by the estimated gaps when to compute a true one, and when progress has ended."""

    def __init__(self, tol: float) -> None:
        self.tol = tol
        self.factor = 1.0  # true gap after a round over the one that estimates foretold
        self.foretold = self.last = self.least = math.inf
        self.idle = self.count = 0
        self.slow = False

    def worth_certifying(self, estimate: float, value: float) -> bool:
        """Return whether the gap after this round may be below tol."""
        rate = min(estimate / self.last, 1.0) if 0.0 < self.last < math.inf else 0.5
        self.last = estimate
        self.count += 1
        # the rates of the first rounds tell little; a search pays at rates above a half. Chosen.
        self.slow = self.slow or (self.count >= 4 and rate > 0.5)
        self.idle = 0 if estimate < self.least else self.idle + 1
        self.least = min(self.least, estimate)

        # rows are met before and after changes, so estimates lag by about half a round
        self.foretold = math.sqrt(rate) * estimate
        gap = self.factor * self.foretold
        return gap <= max(self.tol, ROUNDING) * (value - gap)

    def start_again(self) -> None:
        """Discard the gaps met so far: rows have lost their dual variables, or have others."""
        self.foretold = self.last = self.least = math.inf
        self.idle = 0

    def learn(self, gap: float) -> None:
        """Compare a true gap with the one that was foretold."""
        if self.foretold > 0.0:
            self.factor = min(max(gap / self.foretold, 0.1), 1e3)


def takes_steps(dual: Dual) -> bool:
    """Return whether a slow ascent takes `conjugate_steps` in the place of a search.

    Dual variables with bounds stop a search at the first that any row meets. With a threshold the
    dual is no quadratic in the shared vector.
    """
    objective, loss = dual.objective, dual.objective.loss
    host = objective.engine.capabilities.device == "cpu" and dual.plan.partitioning != "wild"
    if loss.differentiable:
        bounded = loss.jumps and _is_wide(objective)
    else:
        few = objective.engine.facts.n_rows <= costs.FEW_ROWS * objective.n_features
        bounded = few or _is_wide(objective) or dual.rests
    return host and bounded and not dual.penalty.threshold


def _is_wide(objective: Objective) -> bool:
    """Return whether features are more than a Hessian is formed for.

    Of fewer Newton's method takes over where the ascent is slow.
    """
    return objective.n_features > costs.LARGEST_HESSIAN


def _way(dual: Dual, sigma: _Sigma) -> str:
    """Return what follows the epochs of the next round.

    "sum": the changes are added up; "search": see `_search`; "steps": see `ConjugateSteps`; "own
    steps": one group of threads takes these within the round, so that nothing else is done as
    often, and rows out of core are read once.
    """
    if not sigma.search:
        return "sum"
    if not takes_steps(dual):
        return "search"
    if sigma.most[0] == 1.0:
        return "own steps"
    # out of core each step would read all rows
    return "steps" if dual.objective.engine.capabilities.answers_samples else "search"


def _next_plan(dual: Dual, sigma: _Sigma, way: str, local_epochs: int | None) -> SDCAConfig:
    """Return how the next round is to go: a slow ascent has more epochs."""
    objective, alone = dual.objective, sigma.search and sigma.most[0] == 1.0
    slow = not objective.loss.differentiable and local_epochs is None
    slow = slow and (_is_wide(objective) or takes_steps(dual))
    epochs = dual.plan.epochs
    if slow and way == "steps":
        epochs = EPOCHS_A_STEP
    elif slow and alone:
        epochs = SLOW_EPOCHS
    plan, steps = dual.plan, way == "own steps"
    same = (plan.steps, plan.epochs) == (steps, epochs)
    return plan if same else replace(plan, steps=steps, epochs=epochs)


def _estimates(dual: Dual, totals: Totals) -> tuple[float, float]:
    """Return the objective and the gap by the margins that epochs met. Cost: nothing."""
    C = dual.objective.C
    value = dual.penalty.value(dual.penalty.coefficients(dual.v)[:-1]) + C * float(totals["loss"])
    # exponential losses overflow at the margins of an ascent that is astray
    return min(value, LARGEST_VALUE), min(max(C * float(totals["gap"]), 0.0), LARGEST_VALUE)


def _quickened(dual: Dual, sigma: _Sigma, watch: _Watch) -> tuple[_Sigma, _Watch]:
    """Have the rows of a slow ascent come to this process, or begin to search; return how to go on.

    Groups of rows that pass on the sum of their dual variables to each other hardly change v, but
    each takes the curvature of the direction that all rows share for that of the exchange, and
    moves by little: on news20's elastic net two groups were still at 2e-6 after 60 rounds, one at
    3e-7 after 18, whatever sigma' and however short their epochs (2026-11-28). Without an L1 part
    Newton's method or TRON takes over instead.
    """
    objective = dual.objective
    apart = objective.engine.capabilities.workers > 1
    alone = (dual.penalty.threshold and objective.loss.differentiable) or takes_steps(dual)
    if apart and alone and dual.come_near():
        return _Sigma("auto", *dual.shape()), _Watch(watch.tol)
    if not sigma.search:
        sigma.begin_search()
    return sigma, watch


def _search(dual: Dual, groups: float) -> tuple[float, float]:
    """Find the multiples of the last change and of the previous step that maximise the dual.

    This is damped Newton in two numbers, each at most `LONGEST`. Where rounding hides the dual
    along the change it is the change divided by its groups, each of which alone lifts the dual.
    """
    change = dual.change
    if float(change @ change) <= RISE * float(dual.v @ dual.v):
        return 1.0 / groups, 0.0
    damping = np.array([1.0, 0.5, 0.2, 0.05, 0.01])
    steps = along.FIRST_STEPS
    values, slopes, hessians = along.line(dual, steps)
    best = int(np.argmin(values))
    start = float(values[0])
    at = steps[best]
    value = float(values[best])
    slope, hessian = slopes[best], hessians[best]

    for _ in range(12):
        # scaled, since the change may be far smaller than the previous step
        scale = np.sqrt(np.maximum(np.diag(hessian), LEAST_NUMBER))
        system = hessian / np.outer(scale, scale) + NEARLY_NOTHING
        direction = -np.linalg.lstsq(system, slope / scale, rcond=1e-12)[0] / scale
        steps = np.clip(at + np.outer(damping, direction), -LONGEST, LONGEST)
        values, slopes, hessians = along.line(dual, steps)  # of all damping factors in one round
        best = int(np.argmin(values))
        gain = value - float(values[best])
        if not gain > 0.0:
            break
        at, value = steps[best], float(values[best])
        slope, hessian = slopes[best], hessians[best]
        if gain <= 1e-3 * (start - value):
            break
    return float(at[0]), float(at[1])
