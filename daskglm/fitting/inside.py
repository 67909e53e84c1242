"""Where solves start whose margins have to be inside a domain, and that have no intercept."""

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

    These are the ones whose margins are nearest to the best constant, by least squares: where a
    column, or the columns of a factor together, are a constant they are that constant. Nothing is
    done for losses that take all margins, and with an intercept. Cost: 2 passes, 1 with a Gram.

    Raises
    ------
    ValueError
        Where those margins are not all inside.
    """
    loss, d = objective.loss, objective.n_features
    if loss.link is None or not loss.link.is_bounded or objective.fit_intercept or not d:
        return
    # the last column of the Gram of least squares with an intercept are sums of columns
    problem = replace(objective.problem, loss=LOSSES["squared"].ref)
    asked = Evaluate(objective.xp.zeros(d + 1), objective.new_token(), gram=True, keep=False)
    gram = to_host(objective.engine.total(problem, asked)["gram"])
    objective.passes += 1.0
    mirror_upper(gram)
    nearest = np.linalg.lstsq(gram[:d, :d], gram[:d, d], rcond=None)[0]
    objective.inside = objective.xp.asarray(loss.start(objective.engine.facts) * nearest)
    if not math.isfinite(objective.at(objective.origin).value):
        raise ValueError(
            f"loss={loss.full_name!r} wants margins {loss.link.inside}, and without an intercept "
            "no coefficients were found for which all are: none makes the columns of X nearly "
            "a constant. Fit an intercept, or take another link"
        )
