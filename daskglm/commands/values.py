"""Values that options of the command line may have."""

from __future__ import annotations

import click

from daskglm.commands.text import visible


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
    found: dict[str, float] = {}
    for given in values:
        name, equals, value = given.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            number = None
        if not name or not equals or number is None:
            raise click.BadParameter(f"{visible(given)!r} is not NAME=VALUE with a number.")
        if name in found:
            raise click.BadParameter(f"{visible(name)!r} is given twice.")
        found[name] = number
    return found or None
