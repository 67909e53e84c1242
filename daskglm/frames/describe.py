"""A design in words, a line for each column: what `print(model.schema_)` shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from daskglm.core.arguments import shown
from daskglm.frames.terms import Basis, Factor, Indicator, Interaction, Term

if TYPE_CHECKING:
    from daskglm.frames.design import Design

# Levels of a factor, and rare ones, that are shown; more are counted. Chosen.
LEVELS, RARE_LEVELS = 5, 3
# What rows whose level the fit has not seen are taken for.
UNSEEN = {
    "error": "an error",
    "reference": "taken for the base level (without one, the first)",
    "zero": "taken for none: no coefficient of the column",
}


def text_of(design: Design) -> str:
    """Return a design as lines of text: roles, then features, then what holds for all."""
    terms = {term.name: term for term in design.terms if isinstance(term, (Factor, Basis))}
    flagged = {term.name for term in design.terms if isinstance(term, Indicator)}
    fills = dict(zip(design.numbers.names, design.numbers.fills, strict=True))
    told = terms, fills, flagged, design.absorbed
    rows = [(name, _of_column(name, *told)) for name in design.columns]
    rows += [
        (term.name, _of_interaction(term)) for term in design.terms if isinstance(term, Interaction)
    ]
    count = int(design.reported.sum())
    parts = [f"{len(design.columns):,} columns, {count:,} coefficients", *_lined_up(rows)]
    if left_out := [(f.name, _few(f.left_out, LEVELS)) for f in design.of_absorbed if f.left_out]:
        parts += ["left out with their rows, which say nothing", *_lined_up(left_out)]
    if design.aliased:
        parts.append(f"left out, since they depend on others: {', '.join(design.aliased)}")
    if unseen := _unseen_of(design.terms):
        parts.append(f"levels that the fit has not seen: {UNSEEN[unseen]}")
    if design.roles:
        parts += ["beside the features", *_lined_up(design.roles.items())]
    return "\n".join(parts)


# ---- pieces
def _of_column(
    name: str,
    terms: Mapping[str, Factor | Basis],
    fills: Mapping[str, float],
    flagged: set[str],
    absorbed: tuple[str, ...],
) -> str:
    term = terms.get(name)
    if isinstance(term, Factor):
        return _of_factor(term) + ("; absorbed" if name in absorbed else "")
    if isinstance(term, Basis):
        kind = "cubic spline" if term.of == "spline" else "polynomial"
        return f"{kind}, {term.columns} coefficients ({len(term.values):,} values seen)"
    fill = fills[name]
    if math.isnan(fill):
        return "number"
    also = ", with a coefficient for them" if name in flagged else ""
    return f"number; missing: the mean, {fill:.6g}{also}"


def _of_factor(factor: Factor) -> str:
    base = shown(factor.slots[factor.base]) if factor.base >= 0 else "none"
    parts = [f"factor of {len(factor.slots):,} levels", f"base {base}", _few(factor.levels, LEVELS)]
    if factor.rare:
        parts.append(f"{len(factor.rare):,} rare ones as one ({_few(factor.rare, RARE_LEVELS)})")
    if factor.has_missing:
        parts.append("missing: a level")
    return "; ".join(part for part in parts if part)


def _of_interaction(term: Interaction) -> str:
    return f"{len(term.combinations):,} combinations, {len(term.names):,} with a coefficient"


def _few(levels: tuple[object, ...], most: int) -> str:
    more = [f"... {len(levels) - most:,} more"] if len(levels) > most else []
    return ", ".join([*map(shown, levels[:most]), *more])


def _unseen_of(terms: Iterable[Term]) -> str | None:
    """Return how levels are taken that the fit has not seen; None without levels."""
    ways = (term.unseen for term in terms if isinstance(term, (Factor, Interaction)))
    return next(ways, None)


def _lined_up(rows: Iterable[tuple[str, str]]) -> list[str]:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in rows]
