"""Where solves start whose margins have to be inside a domain that no intercept alone reaches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.matrices import mirror_upper
from daskglm.core.requests import Evaluate, Problem
from daskglm.losses.links import Link
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective

# Shares of the half of the domain, or of the best constant's distance from its end, that margins
# are to be inside by. A smaller one is tried where a larger one leads nowhere. Chosen.
SHARES = (0.5, 0.1, 0.01, 0.001)
# How far margins may go where the domain has no end, in sizes of margins. Chosen.
REACH = 1e3
# Newton's steps for each share, and halvings of one: it is exact unless rows change sides. Chosen.
STEPS, HALVINGS = 20, 5


def start_inside(objective: Objective) -> None:
    """Let solves start at coefficients whose margins are inside the domain of the link.

    Without an intercept the first ones tried have margins that are nearest to the best constant, by
    least squares: where a column, or the columns of a factor together, are a constant they are that
    constant. With one, and offsets that spread as far as the domain, the margins nearest to the
    targets. From there the squared distances of margins from an interval within the domain are
    made less, until all are inside the domain. Nothing is done where an intercept is enough. Cost:
    2 passes, 1 with a Gram, and 2 for each further step.

    Raises
    ------
    ValueError
        Where no such coefficients are found.
    """
    loss, d, facts = objective.loss, objective.n_features, objective.engine.facts
    if loss.link is None or not loss.link.is_bounded or not d:
        return
    spread = facts.most_offset - facts.least_offset
    if objective.fit_intercept and spread < loss.link.high - loss.link.low:
        return
    # the last column of the Gram of least squares with an intercept are sums of columns
    problem = replace(objective.problem, loss=LOSSES["squared"].ref)
    _, gradient, gram = _sums(objective, problem, np.zeros(d + 1))
    if objective.fit_intercept:
        start = np.linalg.lstsq(gram, -gradient, rcond=None)[0]
    else:
        start = loss.start(facts) * np.linalg.lstsq(gram[:d, :d], gram[:d, d], rcond=None)[0]
    for w in _nearer(objective, start):
        objective.inside = objective.xp.asarray(w)
        if math.isfinite(objective.at(objective.origin).value):
            return
    if objective.fit_intercept:
        raise ValueError(
            f"loss={loss.full_name!r} wants margins {loss.link.inside}, offsets go from "
            f"{facts.least_offset:.6g} to {facts.most_offset:.6g}, and no coefficients were found "
            "for which all margins are inside. Take another link, or smaller offsets"
        )
    raise ValueError(
        f"loss={loss.full_name!r} wants margins {loss.link.inside}, and without an intercept "
        "no coefficients were found for which all are: none makes the columns of X nearly "
        "a constant. Fit an intercept, or take another link"
    )


def _sums(
    objective: Objective, problem: Problem, w: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return value, gradient and Hessian of another loss, without a penalty. Cost: 1 pass."""
    asked = Evaluate(objective.xp.asarray(w), objective.new_token(), gram=True, keep=False)
    sums = objective.rows.with_problem(problem).ask(asked)
    gram = to_host(sums["gram"])
    mirror_upper(gram)
    return float(sums["value"]), to_host(sums["gradient"]), gram


def _nearer(objective: Objective, start: np.ndarray) -> Iterator[np.ndarray]:
    """Yield coefficients whose margins are nearer and nearer to the domain, from `start` on.

    The distances are squared epsilon-insensitive losses, and the steps Newton's.
    """
    yield start
    assert objective.loss.link is not None
    middle, half, unit = _interval(objective.loss.link, objective)
    w, loss = start, LOSSES["squared_epsilon_insensitive"]
    for share in SHARES:
        ref = replace(loss, p1=half - share * unit).ref
        problem = replace(objective.problem, loss=ref, target=middle)
        value, gradient, hessian = _sums(objective, problem, w)
        for _ in range(STEPS):
            step = _least_squares(hessian, -gradient)
            for halving in range(HALVINGS):
                there = w + 0.5**halving * step
                found = _sums(objective, problem, there)
                if found[0] < value:
                    break
            else:
                break
            w, (value, gradient, hessian) = there, found
            yield w


def _interval(link: Link, objective: Objective) -> tuple[float, float, float]:
    """Return the middle of the domain, its half, and the unit of distances from its ends.

    A domain without an end has one far from where margins may be.
    """
    if math.isfinite(link.low) and math.isfinite(link.high):
        half = 0.5 * (link.high - link.low)
        return link.low + half, half, half
    facts = objective.engine.facts
    unit = abs(float(link.room(objective.loss.start(facts)))) or 1.0
    half = REACH * (unit + facts.largest_offset)
    return (link.low + half if math.isfinite(link.low) else link.high - half), half, unit


def _least_squares(gram: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the shortest solution in units of columns, whose sizes may be unlike."""
    size = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    size = np.where(size > 0.0, size, 1.0)
    found = np.linalg.lstsq(gram / np.outer(size, size), gradient / size, rcond=None)[0]
    solution: np.ndarray = found / size
    return solution
