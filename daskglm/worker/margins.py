"""Margins of evaluated points, which blocks keep by token, and make again where they lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from daskglm.core.requests import Totals
from daskglm.worker.asked import Each
from daskglm.worker.pieces import Piece

# Writes the margins of rows lo to hi of block i into its room for a point: called with i, lo, hi
# and the room.
Fill = Callable[[int, int, int, Any], None]


class Margins(dict[int, Any]):
    """The margins of a block at some points, by token: at `kept` of them, or all that are needed.

    Parameters
    ----------
    kept : int
    """

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.kept = kept

    def reserve(self, token: int, needed: Sequence[int | None], room: Callable[[], Any]) -> Any:
        """Return where the margins of a point go; the oldest point that is not `needed` goes."""
        if token not in self:
            spare = next((t for t in self if t not in needed), None)
            full = spare is not None and len(self) >= self.kept
            self[token] = self.pop(spare) if full and spare is not None else room()
        return self[token]


class Keeper(Protocol):
    """What keeps the margins of one block."""

    margins: Margins

    def reserve(self, token: int, needed: Sequence[int | None] = ()) -> Any:
        """Return where the margins of a point go."""


def update(
    points: Sequence[tuple[int, Any]],
    keepers: Sequence[Keeper],
    filled: Callable[[Any], Fill],
    each: Each,
) -> int:
    """Make the margins of points that blocks lack; return the number of rows read for it.

    Parameters
    ----------
    points : sequence of (int, array)
        Tokens and coefficients.
    keepers : sequence of Keeper
        Of each block.
    filled : callable
        Returns what fills in margins at coefficients.
    each : Each
    """
    read, needed = 0, [token for token, _ in points]
    for token, at in points:
        missing = {i for i, keeper in enumerate(keepers) if token not in keeper.margins}
        if not missing:
            continue
        rooms = {i: keepers[i].reserve(token, needed) for i in missing}
        fill = filled(at)

        def work(pieces: list[Piece], rooms: dict[int, Any] = rooms, fill: Fill = fill) -> Totals:
            for i, lo, hi in pieces:
                if i in rooms:
                    fill(i, lo, hi, rooms[i])
            return {}

        each(work)
        read += sum(rooms[i].shape[-1] for i in missing)
    return read
