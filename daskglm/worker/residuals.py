"""Sums over residuals of a fit: Pearson's statistic, and the logarithm of the likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskglm.core.device import to_host
from daskglm.core.requests import ResidualSums, Totals
from daskglm.losses.table import loss_of
from daskglm.worker.asked import Asked
from daskglm.worker.pieces import Piece

# Rows whose residuals are computed at once: their vectors stay in a second-level cache.
ROWS = 1 << 14


def residual_sums(asked: Asked[ResidualSums]) -> Totals:
    """Answer a request from the margins that the caches hold at its point."""
    request, loss = asked.request, loss_of(asked.problem.loss)
    family, link = loss.family, loss.link
    assert family is not None
    assert link is not None

    def add(cache: Any, run: slice) -> tuple[float, float]:
        y: Any = to_host(cache.targets[run])
        weight, offset = (
            to_host(values[run]) if len(values) else None for values in (cache.weight, cache.offset)
        )
        s, mean, pearson = np.ones(len(y)) if weight is None else weight, y, 0.0
        if request.at is not None:
            z = to_host(cache.margins[request.at[0]][run])
            mean = link.mean(z if offset is None else z + offset)
            pearson = float((s * np.square(y - mean) / family.variance(mean, loss.p1)).sum())
        if request.dispersion is None or family.log_density is None:
            return pearson, np.nan
        if weight is not None and not (counted := s > 0.0).all():
            y, mean, s = y[counted], mean[counted], s[counted]
        if request.frequency:
            density = s * family.log_density(y, mean, 1.0, request.dispersion, loss.p1)
        else:
            density = family.log_density(y, mean, s, request.dispersion, loss.p1)
        return pearson, float(density.sum())

    def work(pieces: list[Piece]) -> Totals:
        pearson = likelihood = 0.0
        with np.errstate(all="ignore"):
            for i, lo, hi in pieces:
                for first in range(lo, hi, ROWS):
                    parts = add(asked.caches[i], slice(first, min(first + ROWS, hi)))
                    pearson += parts[0]
                    likelihood += parts[1]
        return {"pearson": pearson, "likelihood": likelihood}

    return {**asked.each(work), "rows": 0}
