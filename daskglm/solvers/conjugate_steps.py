"""Steps of a slow dual ascent after the epochs of a round; see `core.dual_span`."""

from __future__ import annotations

from functools import partial

from daskglm.core.dual_span import KEPT_STEPS, MOST_ERRORS, RISE
from daskglm.duals import along
from daskglm.duals.dual import Dual


class ConjugateSteps:
    """The steps of one ascent, and the errors of those that are kept, as in `MOST_ERRORS`."""

    def __init__(self) -> None:
        self.errors: list[float] = []

    def take(self, dual: Dual, groups: float) -> None:
        """Commit the best step that is found, or the last round's change divided by its groups.

        Each group's change alone lifts the dual, which is concave, so their mean does.
        """
        span, share, error = along.span(dual), 1.0 / groups, 1.0
        if span is None:
            dual.commit(share)
            return
        if dual.steps or groups > 1.0:
            least = RISE * float(dual.v @ dual.v)
            errors = self.errors[: len(dual.steps)]
            error = span.climb(share, errors, least, partial(along.move, dual, share))
        forgets = error > MOST_ERRORS
        dual.commit(1.0, keep=0 if forgets else KEPT_STEPS, error=error)
        self.errors = [] if forgets else [error, *self.errors][:KEPT_STEPS]
