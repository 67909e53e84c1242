"""Sums over curvatures at a point, for losses whose curvature changes at no bounded rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import RateSums, Totals
from daskglm.core.summation import MARGIN_ROUNDING, MOMENT
from daskglm.kernels.margins import curvatures, slopes
from daskglm.losses.table import law_of, loss_of
from daskglm.worker.asked import Asked
from daskglm.worker.pieces import Piece

# Rows whose vectors are computed at once: they stay in a second-level cache.
ROWS = 1 << 14
NAMES = ("slopes", "curvature", "moved", "changed", "rate")


def rate_sums(asked: Asked[RateSums]) -> Totals:
    """Answer a request from the margins that the caches hold at its point."""
    request, ref = asked.request, asked.problem.loss
    loss, law = loss_of(ref), law_of(ref)
    rate, link = loss.local_rate, loss.link
    assert rate is not None
    assert link is not None
    token = request.at[0]

    def add(cache: Any, run: slice) -> np.ndarray:
        y, weight, offset, z = (
            np.ascontiguousarray(to_host(values[run]), dtype=np.float64)
            for values in (cache.targets, cache.weight, cache.offset, cache.margins[token])
        )
        slope, curvature = np.empty(len(z)), np.empty(len(z))
        slopes(law, y, weight, offset, z, 0, len(z), slope)
        curvatures(law, y, weight, offset, z, 0, len(z), curvature)
        if len(offset):
            z = z + offset
        if len(weight):
            counted = weight > 0.0
            y, z, slope, curvature = (part[counted] for part in (y, z, slope, curvature))

        # errors of margins, and of slopes as differences: as if margins were off by more
        rates = rate(y, z)
        if link.is_bounded:
            room = link.room(z)
            error = request.margin_error + MARGIN_ROUNDING * room
            # without a rate the curvature is constant, however near an end the margin is
            faster = np.where(rates > 0.0, np.maximum(rates, 2.0 / room), 0.0)
            changed = np.where(room > 0.0, error * faster, np.inf)
        else:
            error = request.margin_error + MARGIN_ROUNDING * (1.0 + np.abs(z))
            changed = error * rates
        # no row is farther in the norm of the inverse Hessian than its own part of that allows
        own = 1.0 / np.sqrt(request.C * curvature)
        moved = np.where(curvature > 0.0, rates * np.minimum(request.reach, own), 0.0)
        parts = (
            np.abs(slope),
            curvature,
            curvature * error * error,
            changed**MOMENT,
            moved**MOMENT,
        )
        return np.array([float(part.sum()) for part in parts])

    def work(pieces: list[Piece]) -> Totals:
        sums = np.zeros(len(NAMES))
        with np.errstate(all="ignore"):
            for i, lo, hi in pieces:
                for first in range(lo, hi, ROWS):
                    sums += add(asked.caches[i], slice(first, min(first + ROWS, hi)))
        return dict(zip(NAMES, sums.tolist(), strict=True))

    return {**asked.each(work), "rows": 0}
