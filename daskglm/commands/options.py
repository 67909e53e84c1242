"""Options of the command line that are about columns."""

from __future__ import annotations

from typing import Any

import click

from daskglm.commands.text import one_line
from daskglm.commands.values import (
    by_name,
    each_once,
    once,
    one_or_by_name,
    together,
    wholes_by_name,
)
from daskglm.frames.choices import ALIASED, BASES, ERROR, OF_FACTORS, OF_NUMBERS, UNSEEN

# Columns that options name: with a role beside the features, and others.
ROLES = ("offset", "exposure", "sample_weight")
OF_COLUMNS = ("label", "drop", "ids", "penalty_factor", "lower_bounds", "upper_bounds")

# Options of `fit` that are parameters of the schema; the first two name columns.
OF_SCHEMA = (
    *("absorb", "categories", "numeric", "missing", "unseen", "min_count", "base"),
    *("splines", "polynomials", "interactions", "aliased"),
)


# ---- options
def beside_rows(command: Any) -> Any:
    """Add the options that name columns beside the features."""
    for names, what in (
        (("--sample-weight",), "Column with weights of rows"),
        (("--exposure",), "Column with positive factors of the means, for a log link"),
        (("--offset",), "Column with numbers that are added to the margins"),
        (("--target", "--label", "label"), "Column with the target"),
    ):
        command = click.option(
            *names,
            metavar="COLUMN",
            multiple=True,
            callback=once,
            help=f"{what}, in CSV and Parquet.",
        )(command)
    return command


def of_tables(command: Any) -> Any:
    """Add the options that say how columns become coefficients."""
    for name, choices, what in (
        ("aliased", ALIASED, "What is done without a penalty with columns that depend on others; "
         "default: drop"),
        ("unseen", UNSEEN, "What a level is taken for at predict that the fit has not seen; "
         "default: error"),
    ):  # fmt: skip
        choice = click.Choice(choices)
        command = click.option(f"--{name}", type=choice, help=f"{what}.")(command)
    command = click.option(
        "--min-count", type=click.IntRange(min=1), help="Levels of fewer rows share a coefficient."
    )(command)
    ways = (ERROR, *OF_FACTORS, *OF_NUMBERS)
    for name, form, callback, what in (
        ("interactions", "NAME,NAME", together, "Factors whose combinations have coefficients"),
        ("polynomials", "NAME=N", wholes_by_name, "Powers up to N of a column of numbers"),
        ("splines", "NAME=N", wholes_by_name, "Spline of N coefficients of a column of numbers"),
        ("base", f"{'|'.join(BASES)}|NAME=LEVEL", one_or_by_name(BASES, "LEVEL"),
         "Level of each factor, or of one, that has no coefficient; default: none, or without a "
         "penalty the first"),
        ("missing", f"{'|'.join(ways)}|NAME=WAY", one_or_by_name(ways, "WAY", several=True),
         "What is done with missing values, of one column or all: level gives those of a factor a "
         "coefficient, mean fills numbers, indicator fills them and has a coefficient, too; "
         "default: error"),
        ("drop", "COLUMN", each_once, "Column that is not used"),
        ("numeric", "COLUMN", each_once, "Column that is numbers whatever its type"),
        ("absorb", "COLUMN", each_once,
         "Column of levels whose effects have no penalty and are not reported"),
        ("categories", "COLUMN", each_once, "Column that is levels although it has numbers"),
    ):  # fmt: skip
        command = click.option(
            f"--{name}",
            metavar=form,
            multiple=True,
            callback=callback,
            help=f"{what}; may be repeated.",
        )(command)
    return command


def of_penalty(command: Any) -> Any:
    """Add the options that shape the penalty, and bounds of coefficients."""
    for name, what in (
        ("upper-bounds", "Upper bound of a feature's coefficient"),
        ("lower-bounds", "Lower bound of a feature's coefficient"),
        ("penalty-factor", "Factor of the penalty of a feature, 0: not penalised"),
    ):
        command = click.option(
            f"--{name}",
            metavar="NAME=VALUE",
            multiple=True,
            callback=by_name,
            help=f"{what}, in CSV and Parquet; may be repeated.",
        )(command)
    for name, what in (
        ("standardize", "Penalise coefficients of columns scaled to standard deviation 1."),
        ("positive", "Allow no coefficient below 0."),
    ):
        command = click.option(f"--{name}", is_flag=True, help=what)(command)
    return click.option(
        "--l1-ratio",
        type=click.FloatRange(0.0, 1.0),
        default=0.0,
        show_default=True,
        help="Share of the L1 penalty, from 0 (L2) to 1.",
    )(command)


# ---- what they say
def roles_in(options: dict[str, Any], kind: str) -> dict[str, str]:
    """Return the columns beside the features by role; raise for options that svmlight lacks."""
    for name in (*ROLES, *OF_COLUMNS, *OF_SCHEMA):
        if options.get(name) and kind == "svmlight":
            what = "is for columns" if name in OF_SCHEMA[2:] else "names a column"
            flag = {"label": "target", "ids": "id"}.get(name, name).replace("_", "-")
            raise click.UsageError(f"--{flag} {what}, of CSV or Parquet data.")
    return {name: options[name] for name in ROLES if options[name]}


def schema_in(options: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is said of columns as a schema; a usage error if it contradicts itself."""
    from daskglm.frames.schema import schema_of  # which imports scikit-learn

    given = {name: options[name] for name in OF_SCHEMA if options[name]}
    given = {name: list(v) if isinstance(v, tuple) else v for name, v in given.items()}
    try:
        schema_of(given)
    except (TypeError, ValueError) as error:
        raise click.UsageError(one_line(error)) from error
    return given or None
