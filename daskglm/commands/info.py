"""`daskglm info`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from daskglm.commands.text import WIDTH, show
from daskglm.commands.values import not_blank
from daskglm.estimators import model_file
from daskglm.fitting import schema


@click.command()
@click.argument("model", type=click.Path(), callback=not_blank)
def info(model: str) -> None:
    """Show what MODEL is, and the report of its fit."""
    path = Path(model)
    content = model_file.read(path)
    if model_file.RECORD not in content:  # a file of version 1, of which the estimator tells
        from daskglm.estimators.persistence import load

        record = load(path).record_
        content[model_file.RECORD] = {"loss": record.loss, "C": record.C}
    with model_file.damage_told(path):
        lines = _lines_of(content, path)
    show(lines)


def _lines_of(content: dict[str, Any], path: Path) -> list[str]:
    """Return what is shown of a file, each field of which is checked.

    No estimator is made of it, which would check the parameters of another fit and all of the
    record: to import scikit-learn alone takes a second.
    """
    schema.params({**content["params"], "schema": None})
    classes = model_file.labels_of(content)
    shapes = model_file.shapes_of(content, classes)
    d = shapes[0][-1]
    columns = model_file.table_of(content, d)
    coef, intercept = model_file.coefficients(content, path, shapes)
    if columns.design is not None:
        coef = coef[..., columns.design.reported]
    rows = [("estimator", content["estimator"])]
    if classes is not None:
        rows.append(("classes", ", ".join(map(str, classes.tolist()))))
    named = " (named)" if columns.named else ""
    ordered = content["estimator"] == model_file.ORDERED
    rows += [
        ("features", f"{columns.features(d):,}{named}"),
        ("coefficients", f"{coef.size:,}, {np.count_nonzero(coef):,} of them not zero"),
        (
            "thresholds" if ordered else "intercept",
            ", ".join(f"{value:.6g}" for value in np.atleast_1d(intercept)),
        ),
        *_strength(content),
    ]
    lines = [f"{name:<{WIDTH}}  {text}" for name, text in rows]
    if columns.design is not None:
        lines += ["", *str(columns.design).splitlines(), ""]
    else:
        lines += [f"{role:<{WIDTH}}  {name}" for role, name in columns.roles.items()]
    return [*lines, *repr(schema.report(content["report"])).splitlines()]


def _strength(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the strength of the penalty, and the loss of a family."""
    record = content[model_file.RECORD]
    C = schema.number(schema.special(record["C"]), "C", 0.0, finite=False)
    if content["estimator"] not in model_file.OF_FAMILIES:
        return [("C", f"{C:g}")]
    alpha = 1.0 / C if C else math.inf
    return [("loss", schema.text(record["loss"], "loss")), ("alpha", f"{alpha:g}")]
