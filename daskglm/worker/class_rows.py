"""What a block caches for a loss of all classes: the class of each row, and margins by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.data.blocks import Block
from daskglm.kernels.records import NOTHING, read_only
from daskglm.worker.margins import Margins

# Points whose margins a block keeps: the two ends of a line search.
KEPT = 2
NO_OFFSETS = np.empty((0, 0))


@dataclass
class ClassRows:
    """The rows of a block with their classes.

    Parameters
    ----------
    classes : tuple
        In the order of margins or thresholds.
    outputs : tuple of int
        (K,) for K margins a row, () for one.
    codes : (n,) array
        The class of each row, where the rows are.
    weights : (K,) array
        Total weights of the classes, which barriers between thresholds want; else empty.
    offset : (K, n) array
        Added to K margins a row; (0, 0): nothing is.
    """

    classes: tuple[Any, ...]
    outputs: tuple[int, ...]
    codes: Any
    weights: np.ndarray
    offset: Any
    xp: Any = np
    margins: Margins = field(default_factory=lambda: Margins(KEPT))

    def reserve(self, token: int, needed: Sequence[int | None] = ()) -> Any:
        """Return room for the margins (*outputs, n) of a point; see `Margins`."""
        shape = *self.outputs, len(self.codes)
        return self.margins.reserve(token, needed, lambda: self.xp.empty(shape))

    @classmethod
    def of(
        cls, cache: Any, block: Block, classes: tuple[Any, ...], outputs: tuple[int, ...] = ()
    ) -> ClassRows:
        """Return that of a block's cache, made anew if it is for others."""
        known: ClassRows | None = cache.of_classes
        if known is not None and (known.classes, known.outputs) == (classes, outputs):
            return known
        # labels that are not among the classes have no weight: any class will do
        codes, weights, xp = codes_among(block, classes), NOTHING, cache.backend.xp
        if not outputs:
            weight = to_host(cache.weight) if len(cache.weight) else None
            weights = np.bincount(codes, weight, len(classes)).astype(np.float64)
            # kernels of thresholds take vectors of requests, which are read-only, in their place
            codes = read_only(codes)
        each = outputs and cache.offsets.ndim == 2
        offset = xp.ascontiguousarray(cache.offsets.T) if each else NO_OFFSETS
        found = cache.of_classes = cls(classes, outputs, xp.asarray(codes), weights, offset, xp)
        return found


def codes_among(block: Block, classes: tuple[Any, ...], other: int = 0) -> np.ndarray:
    """Return the place of each row's label among the classes, (n,) int32; `other` of others."""
    assert block.labels is not None
    places = {label: k for k, label in enumerate(classes)}
    table = np.array([places.get(label, other) for label in block.labels], np.int32)
    codes: np.ndarray = table[block.y]
    return codes
