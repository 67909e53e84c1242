"""Which solver suits a problem, and why: costs in passes over the rows, partly measured on a sample
of them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable
from typing import Any

from daskglm.core.requests import DualShape, Plan
from daskglm.objectives.primal import Objective
from daskglm.solvers.lbfgs import lbfgs
from daskglm.solvers.newton import sample_sizes

LARGEST_GRAM = 2000  # features
FEW_FEATURES = 1000  # up to which a Hessian is cheap beside reading rows anew, and on a device
# a factorisation costs as many passes as d^3 over so many times the stored values
SOLVE_FLOPS = 240.0
GRAM_FEATURES = 30.0  # a Gram of wide rows costs as many passes as a row has values over this
STEPS = 4.5  # of Newton's method without samples
FEW_PASSES = 10.0  # by Newton, that need no comparison,
SMALL_FLOPS = 1e8  # nor do so many operations for a step
# of dual ascent to 1e-6: so many and, times the curvature of a row over the penalty's, more
EPOCHS, HARDER = 8.5, 5.0
# passes that an epoch costs, and stored values of which a row takes the time besides
EPOCH, EPOCH_ROW = 1.5, 30.0
EPOCH_ROUNDS, SAMPLED_ROUNDS = 2.0, 15.0  # of an epoch, and of Newton's method with samples
# of a gradient, a stored value and thread
DENSE_SECONDS, SPARSE_SECONDS, NO_TIME = 0.25e-9, 2e-9, 1e-5
EASY_DUAL = 3.0  # curvature to which that holds
TRON_PASSES = 80.0
# of L-BFGS at most, which TRON takes over from: a trial could not speak against it;
POLISHED_PASSES = 140.0
DISTANT_PASSES = 50.0  # where trials take rounds, they are not worth it from so many on
TRIAL_SHARE = 1 / 32  # of the rows, but
LEAST_TRIAL, MOST_TRIAL = 2e5, 1e6  # at least and at most as many as hold so many values
TRIAL_ITERATIONS, WINDOW = 25, 5  # of L-BFGS at most, and over how many of them a rate is taken,
SLOWING = 1.7  # which falls: so many times what it foretells are left
EARLY, FIRST = 3, 8  # over so many a rate is taken in the first iterations, and stands
SURE = 0.85  # of the passes of the other solver: once fewer are foretold, the trial ends
TRIAL_SEED = 30
LEAST_VALUES = 4  # of a feature in the sample, below which vectors cost more than its rows
LEVEL = 3e-5  # relative decrease of the value per iteration at which a trial ends


def choose(
    objective: Objective,
    quiet: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext,
) -> tuple[str, str]:
    """Name of the solver that is expected to take fewest passes, and the reason in words.

    Newton's passes follow from the shape, those of dual ascent from the curvature of rows; L-BFGS
    is what is left, or tried on a sample of the rows beside them (in the context `quiet`), and TRON
    for so many features that vectors cost more than rows do. Cost: nothing, or less than 1 pass in
    up to some 30 rounds.
    """
    if not math.isfinite(objective.loss.smoothness):
        return "sdca", f"{objective.loss.name}: the primal is not smooth, its dual is"
    if not objective.engine.samples and objective.n_features <= FEW_FEATURES:
        return (
            "newton",
            f"{_shape(objective)}: fewest passes over rows that are read anew, or on a device",
        )
    newton = newton_passes(objective)
    if _is_small(objective):
        return "newton", _by_newton(objective, newton)
    wait = round_trip(objective)
    newton += wait * (SAMPLED_ROUNDS if sample_sizes(objective) else STEPS)
    if newton <= FEW_PASSES:
        return "newton", _by_newton(objective, newton)
    curvature = hardness(objective)
    shape = f"{_shape(objective)}, curvature of {curvature:.2g} penalties a row"
    shape += f", a round trip of {wait:.2g} passes" if wait else ""
    easy = curvature <= EASY_DUAL
    epoch = EPOCH + EPOCH_ROW / max(objective.engine.facts.per_row, 1.0) + EPOCH_ROUNDS * wait
    costs = {"newton": newton, "sdca": (EPOCHS + HARDER * curvature) * epoch if easy else math.inf}
    fraction, spent, one = _trial_share(objective), objective.passes, 1.0 + wait
    if not fraction:
        costs["tron"] = TRON_PASSES * one
    elif min(costs.values()) >= (DISTANT_PASSES if wait else POLISHED_PASSES) * one:
        return "lbfgs", f"{shape}: too much for dual ascent, and too many features for a Hessian"
    else:
        with quiet():
            tried = trial(objective, fraction, costs["sdca"] / one if easy else 0.0)
        costs["lbfgs"] = min(tried, POLISHED_PASSES) * one
    name = min(costs, key=costs.__getitem__)
    by_trial = f" (lbfgs by a trial of {objective.passes - spent:.1f})" if "lbfgs" in costs else ""
    known = ", ".join(
        f"{each} {cost:.0f}" for each, cost in sorted(costs.items()) if math.isfinite(cost)
    )
    return name, f"{shape}; expected passes: {known}{by_trial}"


def _by_newton(objective: Objective, passes: float) -> str:
    return f"{_shape(objective)}: about {passes:.0f} passes' work with the Hessian formed"


def round_trip(objective: Objective) -> float:
    """Passes that a round to workers costs besides its work, by the second of two that have none;
    else zero.
    """
    engine, facts = objective.engine, objective.engine.facts
    if engine.shares_memory or not engine.samples:
        return 0.0
    for _ in range(2):  # the first has workers prepare what later ones want
        began = time.perf_counter()
        shape = objective.ask(DualShape(Plan()))
    seconds = time.perf_counter() - began
    work = (
        facts.nonzeros
        * (SPARSE_SECONDS if facts.sparse else DENSE_SECONDS)
        / max(int(shape["partitions"]), 1)
    )
    return seconds / max(work, NO_TIME)


def _is_small(objective: Objective) -> bool:
    """Whether a Hessian and its factorisation take no time to speak of: then Newton's digits come
    for nothing.
    """
    facts, d = objective.engine.facts, objective.n_features
    return facts.per_row * facts.nonzeros + d**3 / 3 <= SMALL_FLOPS


def _shape(objective: Objective) -> str:
    facts = objective.engine.facts
    kind = f"sparse, {facts.per_row:.0f} stored a row" if facts.sparse else "dense"
    return f"{objective.n_features:,} features, {kind}"


def newton_passes(objective: Objective) -> float:
    """What Newton's method costs, in passes for a gradient."""
    facts, d = objective.engine.facts, objective.n_features
    if d > LARGEST_GRAM:
        return math.inf
    gram = facts.per_row / GRAM_FEATURES
    factor = d**3 / (SOLVE_FLOPS * max(facts.nonzeros, 1))
    if sample_sizes(objective):
        return 4.0 + 1.5 * gram + 7.0 * factor
    return STEPS * (1.0 + gram + factor)


def _trial_share(objective: Objective) -> float:
    """Share of the rows that a trial takes; 0 where a sample says little, or cannot be had."""
    nonzeros = max(objective.engine.facts.nonzeros, 1)
    fraction = min(max(min(TRIAL_SHARE, MOST_TRIAL / nonzeros), LEAST_TRIAL / nonzeros), 1.0)
    tells = objective.engine.samples and fraction * nonzeros >= LEAST_VALUES * objective.size
    return fraction if tells else 0.0


def trial(objective: Objective, fraction: float, other: float = 0.0) -> float:
    """Iterations that L-BFGS takes on a sample of the rows; infinite where they get no slower.

    After `TRIAL_ITERATIONS`, or once clearly fewer are foretold than what another solver takes, the
    rest follows from the rate at which the value has fallen. Of ill-conditioned problems that
    foretells too few.
    """
    points = lbfgs(objective.sample(fraction, TRIAL_SEED), objective.xp.zeros(objective.size))
    values: list[float] = []
    for point in itertools.islice(points, TRIAL_ITERATIONS + 1):
        values.append(point.value)
        if len(values) > 2 and values[-3] - values[-1] <= 2.0 * LEVEL * abs(values[-1]):
            return len(values)
        if (foretold := _foretold(values)) <= SURE * other:
            return foretold
    if len(values) <= TRIAL_ITERATIONS:  # no lower value was to be found
        return len(values)
    return _foretold(values)


def _foretold(values: list[float]) -> float:
    window, slowing = (EARLY, 1.0) if len(values) <= FIRST else (WINDOW, SLOWING)
    if len(values) <= 2 * window:
        return math.inf
    before, last = values[-1 - 2 * window] - values[-1 - window], values[-1 - window] - values[-1]
    if not 0.0 < last < before:
        return math.inf
    left = math.log(last / (window * LEVEL * abs(values[-1]))) / math.log(before / last)
    return len(values) + slowing * window * max(left, 0.0)


def hardness(objective: Objective) -> float:
    """Curvature that a mean row's loss gives along the row, over that of the penalty, times the
    workers.
    """
    if not objective.penalty:
        return math.inf
    facts, engine = objective.engine.facts, objective.engine
    mean = facts.squared_norms / max(facts.n_rows, 1)
    return objective.loss.smoothness * objective.scale * mean * engine.workers
