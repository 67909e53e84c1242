"""Whom an objective asks: the rows of an engine, or a part of them, with a count of passes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.engine import Engine
from daskglm.core.requests import Problem, Request, Spread, Totals, with_vectors
from daskglm.core.view import ALL, Columns, Part, Soon, View

# Replies about X alone, of engines by view, scale and centre: problems of a path share them.
_spreads: WeakKeyDictionary[Engine, dict[Any, Totals]] = WeakKeyDictionary()


@dataclass
class Meter:
    """Passes over all rows, and seconds that were waited for data.

    `stored` are the values of the columns that the last request about some of them was about.
    """

    passes: float = 0.0
    waited: float = 0.0
    stored: int | None = None

    def absorb(self, other: Meter) -> None:
        """Count what another one has counted, which begins anew."""
        self.passes += other.passes
        self.waited += other.waited
        other.passes = other.waited = 0.0


@dataclass(frozen=True)
class Rows:
    """An engine's rows as a problem sees them.

    Parameters
    ----------
    engine : Engine
    problem : Problem
    view : View
        Which part of them; default: all.
    meter : Meter
        Parts of rows share that of the whole.
    moves : bool
        Whether vectors of requests are in host memory, and the rows are on a device.
    """

    engine: Engine
    problem: Problem
    view: View = ALL
    meter: Meter = field(default_factory=Meter)
    moves: bool = False

    def ask(self, request: Request) -> Totals:
        """Pass a request to the engine, counting passes."""
        if self.moves:
            request = with_vectors(request, self.engine.capabilities.xp.asarray)
        totals = self.engine.total(self.problem, request, self.view)
        self.meter.passes += totals["rows"] / max(self.engine.facts.n_rows, 1)
        self.meter.waited += totals.get("waited", 0.0)
        if "stored" in totals:
            self.meter.stored = int(totals["stored"])
        return {name: to_host(value) for name, value in totals.items()} if self.moves else totals

    def spread(self, request: Spread) -> Totals:
        """Pass a request that is about X alone to the engine, once for all problems of the rows."""
        known = _spreads.setdefault(self.engine, {})
        asked = self.view, request.scale, request.centre.tobytes()
        if asked not in known:
            known[asked] = self.ask(request)
        return known[asked]

    def with_problem(self, problem: Problem) -> Rows:
        """Return the same rows as another problem sees them."""
        return replace(self, problem=problem)

    def metered_apart(self) -> Rows:
        """Return the same rows with a count of their own, which goes on from this one."""
        return replace(self, meter=replace(self.meter))

    def on(self, part: Part, soon: tuple[Soon, ...] = ()) -> Rows:
        """Return a part of the rows; see `View`."""
        return replace(self, view=replace(self.view, part=part, soon=soon))

    def restricted(self, columns: np.ndarray, key: int) -> Rows:
        """Return the rows with some of their columns; see `View`."""
        return replace(self, view=replace(self.view, columns=Columns(key, columns)))
