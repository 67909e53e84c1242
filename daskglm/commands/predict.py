"""`daskglm predict`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from daskglm.commands.options import beside_rows, roles_in
from daskglm.commands.shared import check_out, format_of
from daskglm.commands.text import one_line, visible
from daskglm.commands.values import each_once, not_blank
from daskglm.estimators.choices import DATA_FORMATS, PREDICTION_FORMATS

# Columns that are named, and warnings that are shown, at most.
SHOWN = 8


@click.command()
@click.argument("model", type=click.Path(), callback=not_blank)
@click.argument("data", callback=not_blank)
@click.option(
    "--out",
    required=True,
    type=click.Path(),
    callback=not_blank,
    help="File to write: .csv, .parquet or .pq.",
)
@click.option(
    "--proba", is_flag=True, help="Write the probability of each class (logistic regression)."
)
@click.option("--decision", is_flag=True, help="Write values of the decision function.")
@beside_rows
@click.option(
    "--id",
    "ids",
    metavar="COLUMN",
    multiple=True,
    callback=each_once,
    help="Column that is written beside the predictions, in CSV and Parquet; may be repeated.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(DATA_FORMATS),
    default="auto",
    help="Format of the data; default: by the extension.",
)
@click.option(
    "--zero-based/--one-based",
    default=None,
    help="First index of svmlight data; default: found by reading all rows.",
)
def predict(model: str, data: str, out: str, proba: bool, decision: bool, **options: Any) -> None:
    """Predict with MODEL for each row of DATA, and write one row for each, as CSV or Parquet.

    One partition at a time is in memory. Columns are found by name. With a target predictions are
    scored. Offset, exposure and weights are the columns of the fit, unless others are named.
    """
    if proba and decision:
        raise click.UsageError("give --proba or --decision, not both.")
    check_out(out, model, data)
    if Path(out).suffix.lower() not in PREDICTION_FORMATS:
        raise click.UsageError(
            f"--out: {visible(out)!r} does not say the format: let it end in "
            f"{', '.join(PREDICTION_FORMATS)}."
        )

    from daskglm.estimators.families import FamilyRegressor
    from daskglm.estimators.persistence import load
    from daskglm.estimators.prediction_file import write_predictions
    from daskglm.estimators.rows_to_predict import rows_of
    from daskglm.frames.design import UnseenLevelWarning

    fitted = load(model)
    method = "predict_proba" if proba else "decision_function" if decision else "predict"
    if proba and not hasattr(fitted, method):
        raise click.UsageError(f"--proba: a {type(fitted).__name__} has no probabilities.")
    if decision and not hasattr(fitted, method):
        raise click.UsageError(
            f"--decision: a {type(fitted).__name__} predicts numbers without --decision."
        )

    kind = format_of(data, options["kind"])
    beside = roles_in(options, kind)
    if "exposure" in beside and not isinstance(fitted, FamilyRegressor):
        raise click.UsageError(f"--exposure: a {type(fitted).__name__} has no log link.")
    rows = rows_of(
        *(data, kind, fitted, options["label"], options["zero_based"], beside, options["ids"])
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnseenLevelWarning)
        score = write_predictions(Path(out), fitted, rows.parts, method, rows.beside, rows.ids)
    for warning in caught[:SHOWN]:
        click.echo(f"warning: {one_line(warning.message)}", err=True)  # type: ignore[arg-type]
    if len(caught) > SHOWN:
        click.echo(f"warning: {len(caught) - SHOWN:,} more of them", err=True)
    if score:
        click.echo(score, err=True)
    if rows.unused:
        more = f" and {len(rows.unused) - SHOWN:,} more" if len(rows.unused) > SHOWN else ""
        names = ", ".join(map(repr, rows.unused[:SHOWN]))
        click.echo(visible(f"columns that are not used: {names}{more}"), err=True)
