"""The dual along what the last round changed: a search, a step of several directions, a share."""

from __future__ import annotations

import numpy as np

from daskglm.core.dual_span import LONGEST, Span, pull, rise
from daskglm.core.requests import DualLine, DualMove, DualSpan, DualStateRef, Totals
from daskglm.duals.dual import Dual
from daskglm.objectives.primal import SAME_VALUE

# What a search asks for first: none, half and all of the last round's change, and none of the step
# before.
FIRST_STEPS = np.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
# Halvings of a change, to 1e-9 of it, after which rounding is all that is left. Chosen.
MOST_HALVINGS = 30


def first_line(state: DualStateRef, kept: int) -> DualLine:
    """Return what a search asks for first, which travels with a round."""
    return DualLine(state, FIRST_STEPS)


def line(dual: Dual, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Evaluate minus the dual, with derivatives, at steps (c1, c2) as `Dual.commit` takes them.

    It is infinite outside of the dual's domain. Steps are at most `LONGEST`. Cost: 0 passes, 1
    round.
    """
    if not dual.steps and coefficients[:, 1].any():
        coefficients = coefficients * np.array([1.0, 0.0])
    state = dual.ref()
    if coefficients is FIRST_STEPS and dual.ahead is not None:
        totals = dual.noted(dual.ahead())
    else:
        totals = dual.ask(DualLine(state, coefficients))

    # the request may have shown that the previous step is lost
    C, xp, pulled = dual.C, dual.objective.xp, pull(state)
    directions = dual.change, dual.steps[0] if dual.steps else xp.zeros(len(dual.v))
    if dual.plane is None or dual.lost:
        dual.plane = dual.penalty.plane(dual.v, directions, LONGEST, xp)
    conjugates, inner, curvature = dual.plane(coefficients)
    last = np.array([float(direction[-1]) for direction in directions])
    values = C * totals["values"] + conjugates
    values += pulled * (float(dual.v[-1]) + coefficients @ last)
    slopes = C * totals["slopes"] + inner + pulled * last
    return values, slopes, C * totals["hessians"] + curvature


def span(dual: Dual) -> Span | None:
    """Return the dual in the span of the last round's change and the kept steps.

    None where rows have lost that round. Without a threshold. Cost: 0 passes, 1 round, or none
    where a `DualSpan` travelled with the round.
    """
    directions = [dual.change, *dual.steps]
    asked = dual.ahead or (lambda: dual.ask(DualSpan(dual.ref(), len(dual.steps))))
    totals, dual.ahead = dual.noted(asked()), None
    return None if dual.lost else Span.of(dual.ref(), dual.v, directions, totals)


def move(dual: Dual, share: float, multiples: np.ndarray) -> float:
    """Take a point of the span, projected on the domain, in the place of the round's change.

    Returns at least how much higher the dual is there than at `share` of that change. Cost: passes
    by the rows that are outside, 1 round.
    """
    state = dual.ref()
    moved = dual.ask(DualMove(state, multiples))
    dual.change = moved["change"]
    return rise(state, dual.v, dual.swept, share, moved)


def share_that_rises(dual: Dual, share: float, totals: Totals) -> float:
    """Halve a share of the last round's change until the dual cannot fall along it.

    Sums of changes are measured as if |v|^2 was in the dual. With a threshold replicas may see less
    of the curvature than their sum meets, as where no single one leaves the threshold. The
    conjugates of losses are convex, so a share of their change bounds that at a share. Cost:
    nothing.
    """
    before, after = (dual.C * float(totals[name]) for name in ("before", "after"))
    gain = before - after - pull(dual.ref()) * float(dual.change[-1])
    start = dual.penalty.conjugate(dual.v)
    slack = SAME_VALUE * (abs(before) + start)  # may be rounding
    for _ in range(MOST_HALVINGS):
        risen = dual.penalty.conjugate(dual.v + share * dual.change) - start
        if risen <= share * gain + slack:
            break
        share *= 0.5
    return share
