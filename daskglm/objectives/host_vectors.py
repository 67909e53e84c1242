"""Requests of objectives whose vectors are in host memory, for rows that are on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from daskglm.core.requests import (
    Evaluate,
    EvaluateAlong,
    HessianVector,
    RateSums,
    Request,
)


def moved(request: Request, to: Callable[[Any], Any]) -> Request:
    """Return the request with its vectors where the rows are."""

    def points(given: Sequence[tuple[int, Any]]) -> tuple[tuple[int, Any], ...]:
        return tuple((token, to(w)) for token, w in given)

    if isinstance(request, Evaluate):
        return replace(request, w=to(request.w))
    if isinstance(request, HessianVector):
        return replace(request, v=to(request.v), at=points([request.at])[0])
    if isinstance(request, EvaluateAlong):
        return replace(request, points=points(request.points))
    if isinstance(request, RateSums):
        return replace(request, at=points([request.at])[0])
    return request
