"""From a schema and what the data have to a design."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from daskglm.core.arguments import shown
from daskglm.frames.choices import BASES
from daskglm.frames.columns import Level
from daskglm.frames.design import Design, Numbers
from daskglm.frames.learn import Levels, Seen, Spread
from daskglm.frames.schema import Schema
from daskglm.frames.terms import CUBIC, Basis, Factor, Indicator, Interaction, Term


def design_of(
    schema: Schema,
    found: Seen,
    *,
    penalised: Callable[[str], bool],
    intercept: bool,
    roles: Mapping[str, str],
) -> Design:
    """Return the design of a schema for data of which this was seen.

    Parameters
    ----------
    penalised : callable
        Whether the coefficients of a column have a penalty: all its levels have one then.
    intercept : bool
        Whether it has an intercept: without both, the first factor keeps all levels.

    Raises
    ------
    ValueError
        For names that are no column, levels that a base does not have, and missing values that are
        not to be taken.
    """
    _check_names(schema, found)
    terms: list[Term] = []
    numbers: list[str] = []
    fills: list[float] = []
    small = True
    # the largest one has all levels, and is the constant: its levels' equations are solved first
    absorbed = tuple(sorted(schema.absorb or (), key=lambda name: -_count(found.columns[name])))
    intercept = intercept and not absorbed
    order = [*absorbed, *(name for name in found.columns if name not in absorbed)]
    for name in order:
        column = found.columns[name]
        if name in (schema.splines or {}) or name in (schema.polynomials or {}):
            terms.append(_basis(schema, name, column))
        elif isinstance(column, Levels):
            first = not (intercept or any(term.kind == "factor" for term in terms))
            keep = first or (penalised(name) and name not in absorbed)
            terms.append(_factor(schema, name, column, keep=keep))
        else:
            how = schema.how_missing(name, factor=False)
            if how == "indicator" and column.missing:
                terms.append(Indicator(name))
            numbers.append(name)
            fills.append(_fill(column, how))
            small = small and column.small
    factors = {term.name: term for term in terms if isinstance(term, Factor)}
    for names in map(tuple, schema.interactions or ()):
        terms.append(_interaction(schema, names, factors, found))
    numeric = tuple(name for name in schema.numeric or () if name in found.columns)
    design = Design(
        tuple(found.columns),
        tuple(terms),
        Numbers(tuple(numbers), tuple(fills), small),
        numeric,
        dict(roles),
        absorbed=absorbed,
    )
    _refuse_twice(design.all_names)
    return design


def _refuse_twice(names: Sequence[str]) -> None:
    """Raise ValueError for names of coefficients that are not unique.

    Columns may be named like levels, and levels like what rows without one have.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"two coefficients would have the name {twice[0]!r}: rename the column or the level"
        )


def _count(column: Levels | Spread) -> int:
    return len(column.levels) if isinstance(column, Levels) else 0


def _check_names(schema: Schema, found: Seen) -> None:
    if unknown := sorted(schema.named - set(found.columns)):
        raise ValueError(
            f"the schema names {unknown[0]!r}, which is no feature of X; it has "
            f"{', '.join(map(repr, list(found.columns)[:20]))}"
        )


def _fill(column: Spread, how: str) -> float:
    return math.nan if how == "error" else column.total / column.rows


def _factor(schema: Schema, name: str, column: Levels, *, keep: bool) -> Factor:
    how = schema.how_missing(name, factor=True)
    has_missing = column.missing > 0 and how == "level"
    if not len(column.levels) and not has_missing:
        raise ValueError(f"column {name!r} has no value at all: leave it out")
    often = column.counts >= schema.min_count
    levels = tuple(level for level, kept in zip(column.levels, often, strict=True) if kept)
    rare = tuple(level for level, kept in zip(column.levels, often, strict=True) if not kept)
    counts = [int(count) for count in column.counts[often]]
    if rare:
        counts.append(int(column.counts[~often].sum()))
    if has_missing:
        counts.append(column.missing)
    given = schema.base
    if isinstance(given, Mapping):
        given = given.get(name)
        if given is not None and not (isinstance(given, str) and given in BASES):
            given = _level(given, name, levels)
    if given is None and not keep:
        given = "most_frequent" if name in (schema.absorb or ()) else "first"
    usual = 0
    if given == "most_frequent" and given not in levels:
        usual = int(np.argmax(counts))
    elif given is not None and given in levels:
        usual = levels.index(given)
    if given is None and levels and set(levels) <= {False, True} and isinstance(levels[0], bool):
        # one coefficient says all of a column of booleans
        usual, given = 0, None if levels == (True,) else "first"
    base = usual if given is not None else -1
    return Factor(name, levels, rare, has_missing, base, schema.unseen, usual)


def _level(given: Any, name: str, levels: tuple[Level, ...]) -> Level:
    """Return the level that is given, also by its text; ValueError where there is none."""
    for level in levels:
        if level == given or (isinstance(given, str) and str(level) == given):
            return level
    known = ", ".join(map(repr, levels[:8])) + (", ..." if len(levels) > 8 else "")
    raise ValueError(f"base={{{name!r}: {shown(given)}}}: {name!r} has the levels {known}")


def _basis(schema: Schema, name: str, column: Any) -> Basis:
    if not isinstance(column, Levels) or any(isinstance(v, (str, bool)) for v in column.levels):
        raise ValueError(f"column {name!r} has no numbers, which a spline or polynomial wants")
    values = np.array(column.levels, float)
    splines = schema.splines or {}
    columns = int(splines[name] if name in splines else schema.polynomials[name])
    if len(values) <= columns:
        raise ValueError(
            f"column {name!r} has {len(values)} different values, too few for {columns} "
            "coefficients"
        )
    share = column.counts / column.counts.sum()
    if name in splines:
        knots = _quantiles(values, share, columns + 2 - CUBIC)
        if len(np.unique(knots)) < len(knots):
            knots = values[np.linspace(0, len(values) - 1, columns + 2 - CUBIC).round().astype(int)]
        return Basis(name, "spline", columns, tuple(map(float, knots)), tuple(map(float, values)))
    mean = float(values @ share)
    scale = float(np.sqrt(share @ (values - mean) ** 2))
    return Basis(name, "power", columns, (mean, scale), tuple(map(float, values)))


def _quantiles(values: np.ndarray, share: np.ndarray, count: int) -> np.ndarray:
    """Return `count` values at equal steps of the share of rows, from the first to the last."""
    wanted = np.linspace(0.0, 1.0, count)
    at = np.searchsorted(np.cumsum(share), wanted - 1e-12)
    at = np.clip(at, 0, len(values) - 1)
    at[-1] = len(values) - 1
    return values[at]


def _interaction(
    schema: Schema, names: tuple[str, ...], factors: Mapping[str, Factor], found: Seen
) -> Interaction:
    if wrong := [name for name in names if name not in factors]:
        raise ValueError(
            f"interactions={shown(names)}: {wrong[0]!r} is not a factor; name it in categories if "
            "its numbers are levels"
        )
    of = tuple(factors[name] for name in names)
    combinations = set()
    for levels in found.combinations.get(names, ()):
        codes = tuple(
            factor.places.get(level, -1)
            if level is not None
            else len(factor.slots) - 1
            if factor.has_missing
            else -1
            for factor, level in zip(of, levels, strict=True)
        )
        if min(codes) >= 0:
            combinations.add(codes)
    return Interaction(of, tuple(sorted(combinations)), schema.unseen)
