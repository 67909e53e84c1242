"""Dual coordinate ascent for many logistic problems at once on wide sparse rows.

All problems visit the rows in the same order, so that each stored value is read once for all of them. A constant
feature stands for the intercept's distance from where it was after the last round, as in `dual`. Problems whose changes
have become small are evaluated, and those proved good enough drop out.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from daskglm.joint import Columns, Joint
from daskglm.objective import tokens
from daskglm.report import Reason
from daskglm.solvers.together import Solved, nowhere

HOPEFUL = 1.0  # estimate of the bound, over tol, at which a problem is evaluated
AGAIN = 0.7  # of the decrease that is still missing, what must be made before it is evaluated again
BATCH = 8  # problems that are worth a pass, or all that are left
SLOW = 60  # rounds after which what is left is better left to solvers for one


def ascend(joint: Joint, columns: Columns, *, tol: float, max_iter: int, seed: int) -> Solved:
    """Solve problems to a proved relative gap of `tol`; those that take more than `SLOW` rounds end without progress.

    Cost: 1 joint pass and 1 round an epoch, 1 more for each evaluation.
    """
    facts, P = joint.engine.facts, len(columns)
    solved = nowhere(P, joint.size)
    mean = facts.squared_norms / max(facts.n_rows, 1)
    bias = (math.sqrt(mean) or 1.0) if joint.fit_intercept else 0.0
    V, base = np.zeros((P, joint.n_features + 1)), np.zeros(P)
    scale = columns.C * float(joint.weights.sum())  # of objectives
    hopeful = HOPEFUL * tol * 0.5 * scale
    active, solve = np.arange(P), next(tokens)
    for number in range(min(max_iter, SLOW)):
        request = joint.epoch(columns.take(active), V[active], base[active], active, P, bias, solve, number, seed)
        totals = joint.ask(request)
        if totals["lost"]:
            V[active] = joint.ask(replace(request, totals=True))["change"]
        else:
            V[active] += totals["change"]
        base += bias * V[:, -1]
        estimates = 0.5 * columns.C[active] ** 2 * (mean + bias * bias) * totals["squares"]
        ready = active[estimates <= hopeful[active]]
        solved.n_iter[active] = number + 1
        if len(ready) >= min(BATCH, len(active)):
            W = np.concatenate([V[ready, :-1], (base + bias * V[:, -1])[ready, None]], axis=1)[:, : joint.size]
            found = joint.evaluate(columns.take(ready), W, np.empty(0, int))
            gaps = joint.bounds(columns.take(ready), found)
            estimate = dict(zip(active.tolist(), estimates, strict=True))
            for k, p in enumerate(ready.tolist()):
                solved.take(p, found, k, float(gaps[k]), Reason.CONVERGED if gaps[k] <= tol else Reason.NO_PROGRESS)
                hopeful[p] = estimate[p] * min(AGAIN, tol / gaps[k] / AGAIN)
            active = np.setdiff1d(active, ready[gaps <= tol])
        if not len(active):
            break
    for p in active.tolist():  # where they are is a good place to go on from
        solved.found.W[p] = np.append(V[p, :-1], base[p] + bias * V[p, -1])[: joint.size]
    return solved
