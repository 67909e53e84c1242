"""`daskglm info`."""

from __future__ import annotations

import click
import numpy as np

from daskglm.commands.options import not_blank
from daskglm.commands.shared import WIDTH, show
from daskglm.estimators.families import FamilyRegressor
from daskglm.estimators.persistence import load
from daskglm.estimators.tables import design_of_model


@click.command()
@click.argument("model", type=click.Path(), callback=not_blank)
def info(model: str) -> None:
    """Show what MODEL is, and the report of its fit."""
    fitted = load(model)
    coef = fitted.coef_
    rows = [("estimator", type(fitted).__name__)]
    if hasattr(fitted, "classes_"):
        rows.append(("classes", ", ".join(map(str, fitted.classes_.tolist()))))
    named = " (named)" if hasattr(fitted, "feature_names_in_") else ""
    rows += [
        ("features", f"{fitted.n_features_in_:,}{named}"),
        ("coefficients", f"{coef.size:,}, {np.count_nonzero(coef):,} of them not zero"),
        ("intercept", ", ".join(f"{value:.6g}" for value in np.atleast_1d(fitted.intercept_))),
    ]
    if isinstance(fitted, FamilyRegressor):
        alpha = 1.0 / fitted.record_.C
        rows += [("loss", fitted.record_.loss), ("alpha", f"{alpha:g}")]
    else:
        rows.append(("C", f"{fitted.record_.C:g}"))
    lines = [f"{name:<{WIDTH}}  {text}" for name, text in rows]
    if (design := design_of_model(fitted)) is not None:
        lines += ["", *str(design).splitlines(), ""]
    else:
        lines += [f"{role:<{WIDTH}}  {name}" for role, name in fitted.roles_.items()]
    show([*lines, *repr(fitted.report_).splitlines()])
