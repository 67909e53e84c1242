"""Designs and schemas as JSON, for files of models that may come from anybody: every field is
checked, and nothing is evaluated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from daskglm.core.arguments import shown
from daskglm.frames.choices import MOST_COLUMNS, UNSEEN
from daskglm.frames.design import Design, Numbers
from daskglm.frames.roles import ROLES
from daskglm.frames.terms import BASES_OF, CUBIC, Basis, Factor, Indicator, Interaction, Term


# ---- schemas
def schema_to_json(given: Any) -> dict[str, Any] | None:
    """Return the parameters of a schema that differ from their defaults; None: there is none."""
    if given is None:
        return None
    from daskglm.frames.schema import Schema, schema_of  # which imports scikit-learn

    usual = Schema().get_params(deep=False)
    params = schema_of(given).get_params(deep=False)
    return {name: _listed(value) for name, value in params.items() if value != usual[name]}


def schema_from_json(saved: Any) -> dict[str, Any] | None:
    """Return the parameters of a schema; raises ValueError for what no schema has."""
    if saved is None:
        return None
    if not isinstance(saved, dict):
        raise ValueError(f"the schema is {shown(saved)}")
    from daskglm.frames.schema import schema_of  # which imports scikit-learn

    try:
        schema_of(saved)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return saved


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _listed(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_listed(each) for each in value]
    return value.item() if hasattr(value, "item") else value


# ---- designs
def design_to_json(design: Design) -> dict[str, Any]:
    """Return a design as JSON."""
    numbers = design.numbers
    return {
        "columns": list(design.columns),
        "numeric": list(design.numeric),
        "roles": dict(design.roles),
        "aliased": list(design.aliased),
        "absorbed": list(design.absorbed),
        "numbers": {
            "names": list(numbers.names),
            "fills": [None if math.isnan(fill) else fill for fill in numbers.fills],
            "small": numbers.small,
        },
        "terms": [_term_to_json(term) for term in design.terms],
    }


def _term_to_json(term: Term) -> dict[str, Any]:
    if isinstance(term, Factor):
        fields: dict[str, Any] = {
            "name": term.name,
            "levels": list(term.levels),
            "rare": list(term.rare),
            "has_missing": term.has_missing,
            "base": term.base,
            "unseen": term.unseen,
            "usual": term.usual,
            "left_out": list(term.left_out),
        }
    elif isinstance(term, Basis):
        fields = {
            "name": term.name,
            "of": term.of,
            "columns": term.columns,
            "numbers": list(term.numbers),
            "values": list(term.values),
        }
    elif isinstance(term, Indicator):
        fields = {"name": term.name}
    else:
        fields = {
            "factors": [factor.name for factor in term.factors],
            "combinations": [list(codes) for codes in term.combinations],
            "unseen": term.unseen,
        }
    return {"kind": term.kind, **fields}


def design_from_json(saved: Any) -> Design:
    """Return the design that `design_to_json` wrote; raises ValueError for anything else."""
    names = ("columns", "numeric", "roles", "aliased", "absorbed", "numbers", "terms")
    fields = _fields(saved, names, "the design")
    columns = _texts(fields["columns"], "columns")
    if len(set(columns)) < len(columns):
        raise ValueError(f"a column is there twice: {shown(columns)}")
    roles = fields["roles"]
    if not isinstance(roles, dict) or set(roles) - set(ROLES):
        raise ValueError(f"the roles are {shown(roles)}")
    terms: list[Term] = []
    factors: dict[str, Factor] = {}
    for each in _list(fields["terms"], "terms"):
        kind = each.get("kind") if isinstance(each, dict) else None
        if kind not in _TERMS:
            raise ValueError(f"{shown(each)} is no term of a design")
        terms.append(_TERMS[kind](each, factors))
        if isinstance(term := terms[-1], Factor):
            factors[term.name] = term
    of_numbers = _numbers(fields["numbers"])
    design = Design(
        columns,
        tuple(terms),
        of_numbers,
        _texts(fields["numeric"], "numeric"),
        {role: _text(name, "a role") for role, name in roles.items()},
        _texts(fields["aliased"], "aliased"),
        _texts(fields["absorbed"], "absorbed"),
    )
    used = {*design.factors, *of_numbers.names}
    if set(columns) != used or not {*design.numeric} <= set(columns):
        raise ValueError(f"columns {shown(columns)} and terms of {shown(sorted(used))}")
    if not set(design.absorbed) <= set(factors):
        raise ValueError(f"absorbed are {shown(design.absorbed)}, of {shown(list(factors))}")
    every = set(design.all_names)
    if len(every) < len(design.all_names) or not set(design.aliased) <= every:
        raise ValueError(f"coefficients {shown(design.all_names)}, of which {design.aliased}")
    return design


# ---- terms
def _factor(saved: dict[str, Any], factors: Mapping[str, Factor]) -> Factor:
    names = ("name", "levels", "rare", "has_missing", "base", "unseen", "usual", "left_out")
    fields = _fields(saved, ("kind", *names), "a factor")
    levels = tuple(_level(level) for level in _list(fields["levels"], "levels"))
    rare = tuple(_level(level) for level in _list(fields["rare"], "rare"))
    left_out = tuple(
        None if level is None else _level(level) for level in _list(fields["left_out"], "left_out")
    )
    every = levels + rare + left_out
    if len(set(every)) < len(every):
        raise ValueError(f"a level is there twice: {shown(every)}")
    if not isinstance(fields["has_missing"], bool):
        raise ValueError(f"has_missing is {shown(fields['has_missing'])}")
    slots = len(levels) + bool(rare) + fields["has_missing"]
    base = _whole(fields["base"], "base", -1, slots - 1)
    usual = _whole(fields["usual"], "usual", 0, max(slots - 1, 0))
    unseen = _unseen(fields["unseen"])
    name = _text(fields["name"], "a column")
    return Factor(name, levels, rare, fields["has_missing"], base, unseen, usual, left_out)


def _basis(saved: dict[str, Any], factors: Mapping[str, Factor]) -> Basis:
    fields = _fields(saved, ("kind", "name", "of", "columns", "numbers", "values"), "a basis")
    if fields["of"] not in BASES_OF:
        raise ValueError(f"a basis of {shown(fields['of'])}")
    columns = _whole(fields["columns"], "columns", 1, MOST_COLUMNS)
    numbers = _floats(fields["numbers"], "numbers of a basis")
    values = _floats(fields["values"], "values of a basis")
    right = len(numbers) == 2 and numbers[1] > 0.0
    if fields["of"] == "spline":
        rising = all(a < b for a, b in itertools.pairwise(numbers))
        right = len(numbers) == columns + 2 - CUBIC and len(numbers) >= 2 and rising
    if not right:
        raise ValueError(f"a basis has the numbers {shown(numbers)}")
    return Basis(_text(fields["name"], "a column"), fields["of"], columns, numbers, values)


def _indicator(saved: dict[str, Any], factors: Mapping[str, Factor]) -> Indicator:
    return Indicator(_text(_fields(saved, ("kind", "name"), "an indicator")["name"], "a column"))


def _interaction(saved: dict[str, Any], factors: Mapping[str, Factor]) -> Interaction:
    fields = _fields(saved, ("kind", "factors", "combinations", "unseen"), "an interaction")
    names = _texts(fields["factors"], "factors")
    if len(names) < 2 or set(names) - set(factors):
        raise ValueError(f"an interaction of {shown(names)}")
    of = tuple(factors[name] for name in names)
    combinations = []
    for codes in _list(fields["combinations"], "combinations"):
        if not isinstance(codes, list) or len(codes) != len(of):
            raise ValueError(f"a combination of {shown(codes)}")
        ends = zip(codes, of, strict=True)
        combinations.append(tuple(_whole(k, "a code", 0, len(f.slots) - 1) for k, f in ends))
    if sorted(set(combinations)) != combinations:
        raise ValueError(f"combinations {shown(combinations)} are not in order, each once")
    return Interaction(of, tuple(combinations), _unseen(fields["unseen"]))


_TERMS: dict[str, Callable[[dict[str, Any], Mapping[str, Factor]], Term]] = {
    Factor.kind: _factor,
    Basis.kind: _basis,
    Indicator.kind: _indicator,
    Interaction.kind: _interaction,
}


def _numbers(saved: Any) -> Numbers:
    fields = _fields(saved, ("names", "fills", "small"), "numbers")
    names, given = _texts(fields["names"], "names"), _list(fields["fills"], "fills")
    fills = tuple(math.nan if fill is None else _float(fill, "a fill") for fill in given)
    if len(fills) != len(names) or not isinstance(fields["small"], bool):
        raise ValueError(f"{len(names)} numbers with {len(fills)} fills")
    return Numbers(names, fills, fields["small"])


# ---- kinds
def _fields(saved: Any, names: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(saved, dict) or set(saved) != set(names):
        raise ValueError(f"{what} has other fields than {', '.join(names)}")
    return saved


def _list(saved: Any, what: str) -> list[Any]:
    if not isinstance(saved, list):
        raise ValueError(f"{what} is {shown(saved)}, no list")
    return saved


def _text(saved: Any, what: str) -> str:
    if not isinstance(saved, str):
        raise ValueError(f"{what} is {shown(saved)}, no text")
    return saved


def _texts(saved: Any, what: str) -> tuple[str, ...]:
    return tuple(_text(each, what) for each in _list(saved, what))


def _level(saved: Any) -> Any:
    if isinstance(saved, (str, bool, int)):
        return saved
    return _float(saved, "a level")


def _float(saved: Any, what: str) -> float:
    if type(saved) not in (int, float) or not math.isfinite(saved):
        raise ValueError(f"{what} is {shown(saved)}, no finite number")
    return float(saved)


def _floats(saved: Any, what: str) -> tuple[float, ...]:
    return tuple(_float(each, what) for each in _list(saved, what))


def _whole(saved: Any, what: str, least: int, most: int) -> int:
    if type(saved) is not int or not least <= saved <= most:
        raise ValueError(f"{what} is {shown(saved)}, not from {least} to {most}")
    return saved


def _unseen(saved: Any) -> str:
    if saved not in UNSEEN:
        raise ValueError(f"unseen is {shown(saved)}")
    return str(saved)
