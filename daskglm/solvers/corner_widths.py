"""How wide the rounded corners of the next proximal step are: levels k of a width of 10 ** -k.

Narrower corners are longer steps, which solvers take longer for. A rule has a `level`, and learns
from each step by `after` and `lost`.
"""

from __future__ import annotations

import math

# Levels of widths that are tried: 1, 0.1, ... 1e-6.
LEVELS = 7
# Least change of a level, after Newton's method was lost in corners that were too narrow. Chosen.
LEAST_STRIDE = 0.25
# Iterations of a step up to which it was easy, and from which it was hard. Chosen.
EASY, HARD = 4, 9
# From one level to the next where rates choose, and steps after which a rate is known no more.
# Chosen.
STRIDE, LATELY = 0.5, 8
# Share of the gap above which a step gained next to nothing. Chosen.
LITTLE = 0.9


class ByIterations:
    """Narrower corners while Newton's method needs few iterations: where each costs about a pass.

    Parameters
    ----------
    level : float
        Of the first step.
    """

    def __init__(self, level: float) -> None:
        self.level = level
        self.narrowest: float = LEVELS - 1
        self.stride = 1.0  # levels from one width to the next

    def after(self, before: float, gap: float, steps: int, passes: float) -> None:
        """Learn what a step has done to the gap, and its iterations and passes."""
        if gap >= before:  # slopes in a narrower corner magnify the rounding of margins more
            self.narrowest = max(self.level - 1, 0)
        elif steps <= EASY:
            self.level, self.narrowest = self.level + self.stride, self.narrowest + self.stride
        if steps >= HARD:
            self.level -= 1
        self.level = max(min(self.level, self.narrowest, LEVELS - 1), 0)

    def lost(self) -> None:
        """Learn that a step was lost."""
        self.level = self.narrowest = max(self.level - self.stride, 0.0)
        self.stride = max(0.5 * self.stride, LEAST_STRIDE)


class ByRates:
    """The width at which the gap falls most for each pass, of those tried lately and their next.

    Where steps with an L1 part keep thousands of coefficients, a narrower corner can take ten times
    the products of a wide one, in no more iterations. Rates change on the way, and what was tried
    long ago is tried anew.

    Parameters
    ----------
    level : float
        Of the first step.
    """

    def __init__(self, level: float) -> None:
        self.first, self.place, self.count = level, 0, 0
        self.rates: dict[int, tuple[float, int]] = {}

    @property
    def level(self) -> float:
        """The level of the next step."""
        return self._level(self.place)

    def _level(self, place: int) -> float:
        return min(max(self.first + STRIDE * place, 0.0), LEVELS - 1.0)

    def after(self, before: float, gap: float, steps: int, passes: float) -> None:
        """Learn what a step has done to the gap, and its iterations and passes."""
        tiny, here = 1e-300, self.place
        rate = math.log(max(before, tiny) / max(gap, tiny)) / max(passes, 1.0)
        known = self._learn(rate)
        easy = steps < HARD
        # a step that was nearly done when it began is no reason for a wider corner
        if easy and gap > LITTLE * before and known.get(here + 1, math.inf) > 0.0:
            self._move(1)
            return
        best = max((at for at in (here - 1, here, here + 1) if at in known), key=known.__getitem__)
        if best != here:
            self.place = best
        elif easy and here + 1 not in known:
            self._move(1)
        elif here - 1 not in known:
            self._move(-1)

    def lost(self) -> None:
        """Learn that a step was lost."""
        self._learn(0.0)
        self._move(-1)

    def _learn(self, rate: float) -> dict[int, float]:
        """Take a step's rate; return those that are known, of steps not long ago."""
        self.count += 1
        self.rates[self.place] = rate, self.count
        return {at: r for at, (r, when) in self.rates.items() if self.count - when <= LATELY}

    def _move(self, by: int) -> None:
        """Take the next width on one side, if there is one."""
        if self._level(self.place + by) != self.level:
            self.place += by


Widths = ByIterations | ByRates
