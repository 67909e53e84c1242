"""Values that options of the command line may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from daskglm.commands.text import visible

T = TypeVar("T")


def not_blank(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse a blank value, which mostly comes from an unset variable of a script."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty.")
    return value


def once(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the value of an option that is given once at most; None where it is not given."""
    each_once(context, parameter, values)
    if len(values) > 1:
        given = ", ".join(map(repr, values))
        raise click.BadParameter(f"it is given {len(values)} times: {visible(given)}.")
    return values[0] if values else None


def each_once(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse blank and repeated values."""
    for k, value in enumerate(values):
        not_blank(context, parameter, value)
        if value in values[:k]:
            raise click.BadParameter(f"{visible(repr(value))} is given twice.")
    return values


def by_name(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, float] | None:
    """Return numbers of features, given as NAME=VALUE, by name; None where none are given."""
    return _by_name(values, float, "VALUE with a number")


def wholes_by_name(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, int] | None:
    """Return whole numbers of columns, given as NAME=N, by name; None where none are given."""
    return _by_name(values, int, "N with a whole number")


def one_or_by_name(choices: tuple[str, ...], what: str, *, several: bool = False) -> Any:
    """Return a callback for a choice for all columns, or NAME=`what` of one, by name.

    `several` choices may be given, whose callback returns a tuple of them; else it returns one.
    """

    def checked(
        context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
    ) -> tuple[str, ...] | str | dict[str, str] | None:
        each_once(context, parameter, values)
        if not set(values) <= set(choices):
            return _by_name(values, str, f"{what}, nor one of {', '.join(choices)}")
        return values if several else once(context, parameter, values)

    return checked


def together(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Return names that are given as NAME,NAME."""
    found = tuple(tuple(given.split(",")) for given in each_once(context, parameter, values))
    for given in found:
        if len(given) < 2 or not all(given):
            raise click.BadParameter(f"{visible(','.join(given))!r} is not NAME,NAME.")
    return found


def _by_name(
    values: tuple[str, ...], convert: Callable[[str], T], form: str
) -> dict[str, T] | None:
    found: dict[str, T] = {}
    for given in values:
        name, equals, text = given.rpartition("=")
        try:
            value = convert(text)
        except ValueError:
            equals = ""
        if not name or not equals or not text:
            raise click.BadParameter(f"{visible(given)!r} is not NAME={form}.")
        if name in found:
            raise click.BadParameter(f"{visible(name)!r} is given twice.")
        found[name] = value
    return found or None
