"""What a loss of K margins makes of a tile of them; its own function answers, chosen by its law.

A loss is a module with a function of each of these names, as `softmax` is, which says what they do.
Losses depend on differences of margins alone: then the rows of blocks of a row's Hessian sum to
zero, and `pair_curvature` of pairs of classes is all of it. A law is a named tuple whose class is
that of one loss.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from numba import types

from daskglm.kernels import softmax
from daskglm.kernels.chosen import Choice
from daskglm.losses.multinomial import Softmax
from daskglm.system.compiled import watch

_of_loss = Choice(softmax)

prepared = _of_loss("prepared")
losses = _of_loss("losses")
pair_curvature = _of_loss("pair_curvature")
direction_curvature = _of_loss("direction_curvature")
times_hessian = _of_loss("times_hessian")


def register(tile: ModuleType, law: type) -> None:
    """Have losses of one more kind swept: those whose `Loss.of_margins` makes such laws."""

    def takes(kind: Any) -> bool:
        return isinstance(kind, types.BaseNamedTuple) and kind.instance_class is law

    if not tile.__name__.startswith("daskglm."):
        watch(tile, takes)
    _of_loss.add(tile, takes)


register(softmax, Softmax)
