"""Requests of objectives whose vectors are in host memory, for rows that are on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, RateSums, Request

To = Callable[[Any], Any]


def moved(request: Request, to: To) -> Request:
    """Return the request with its vectors where the rows are."""
    vectors = VECTORS.get(type(request))
    return request if vectors is None else replace(request, **vectors(request, to))


def _points(given: Sequence[tuple[int, Any]], to: To) -> tuple[tuple[int, Any], ...]:
    return tuple((token, to(w)) for token, w in given)


# Fields of a request that are vectors, moved.
VECTORS: dict[type, Callable[[Any, To], dict[str, Any]]] = {
    Evaluate: lambda asked, to: {"w": to(asked.w)},
    HessianVector: lambda asked, to: {"v": to(asked.v), "at": _points([asked.at], to)[0]},
    EvaluateAlong: lambda asked, to: {"points": _points(asked.points, to)},
    RateSums: lambda asked, to: {"at": _points([asked.at], to)[0]},
}
