"""Where solves start whose margins have to be inside a domain that no intercept alone reaches."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.matrices import mirror_upper
from daskglm.core.requests import Evaluate
from daskglm.losses.table import LOSSES
from daskglm.objectives.primal import Objective


def start_inside(objective: Objective) -> None:
    """Let solves start at coefficients whose margins are inside the domain of the link.

    Without an intercept these are the ones whose margins are nearest to the best constant, by least
    squares: where a column, or the columns of a factor together, are a constant they are that
    constant. With one, and offsets that spread as far as the domain, the margins nearest to the
    targets. Nothing is done where an intercept is enough. Cost: 2 passes, 1 with a Gram.

    Raises
    ------
    ValueError
        Where those margins are not all inside.
    """
    loss, d, facts = objective.loss, objective.n_features, objective.engine.facts
    if loss.link is None or not loss.link.is_bounded or not d:
        return
    spread = facts.most_offset - facts.least_offset
    if objective.fit_intercept and spread < loss.link.high - loss.link.low:
        return
    # the last column of the Gram of least squares with an intercept are sums of columns
    problem = replace(objective.problem, loss=LOSSES["squared"].ref)
    asked = Evaluate(objective.xp.zeros(d + 1), objective.new_token(), gram=True, keep=False)
    sums = objective.rows.with_problem(problem).ask(asked)
    gram, gradient = to_host(sums["gram"]), to_host(sums["gradient"])
    mirror_upper(gram)
    if objective.fit_intercept:
        start = np.linalg.lstsq(gram, -gradient, rcond=None)[0]
    else:
        start = loss.start(facts) * np.linalg.lstsq(gram[:d, :d], gram[:d, d], rcond=None)[0]
    objective.inside = objective.xp.asarray(start)
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
