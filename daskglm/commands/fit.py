"""`daskglm fit`."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import click

from daskglm.commands.options import (
    beside_rows,
    of_penalty,
    of_tables,
    roles_in,
    schema_in,
)
from daskglm.commands.shared import check_out, client_of, format_of, of_scheduler
from daskglm.commands.text import WIDTH, one_line, show
from daskglm.commands.values import not_blank
from daskglm.core.choices import FAMILIES, SOLVERS
from daskglm.estimators.choices import DATA_FORMATS, ESTIMATORS, SOLVER_NAMES
from daskglm.launch.machine import MAX_PER_PROCESSOR

# Exit code: the model was saved, but it is less precise than --tol asks for.
NOT_CONVERGED = 3

# Options that are parameters of the penalty.
PENALTY_OPTIONS = (
    *("l1_ratio", "penalty_factor", "lower_bounds", "upper_bounds"),
    *("positive", "standardize"),
)


class _LossChoice(click.Choice[str]):
    """Names of losses; those of families are an option of their own."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with what to give instead."""
        if str(value).partition("(")[0] in set(FAMILIES) - set(ESTIMATORS):
            self.fail(f"{value!r} is a family: give --family {value}.", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("train", callback=not_blank)
@click.option(
    "--loss",
    type=_LossChoice(list(ESTIMATORS)),
    default="logistic",
    show_default=True,
    help="Loss of the model.",
)
@click.option(
    "--C",
    "C",
    type=float,
    default=1.0,
    show_default=True,
    help="Inverse strength of the penalty; inf: no penalty.",
)
@click.option(
    "--family",
    callback=not_blank,
    help="Instead of --loss: a family, such as poisson, gamma or 'tweedie(1.5)'.",
)
@click.option("--link", default="auto", help="Link of the family, or of ordinal; auto: its first.")
@click.option("--alpha", type=float, help="Strength of the penalty of a family; default: 1.")
@of_penalty
@beside_rows
@of_tables
@click.option(
    "--solver",
    type=click.Choice(["auto", *SOLVERS, *SOLVER_NAMES]),
    default="auto",
    help="auto: chosen by the data.",
)
@click.option(
    "--tol", type=float, default=1e-6, show_default=True, help="Relative suboptimality to reach."
)
@click.option("--max-iter", type=click.IntRange(min=1), help="Maximal number of iterations.")
@click.option("--no-intercept", is_flag=True, help="Fit no intercept.")
@click.option(
    "--class-weight",
    type=click.Choice(["balanced"]),
    help="balanced: weight classes inversely to their frequency.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(DATA_FORMATS),
    default="auto",
    help="Format of the data; default: by the extension.",
)
@click.option(
    "--n-features",
    type=click.IntRange(min=1),
    help="Number of features of svmlight data; default: found by reading all rows.",
)
@click.option(
    "--zero-based/--one-based",
    default=None,
    help="First index of svmlight data; default: found by reading all rows.",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float64",
    show_default=True,
    help="Type of the features in memory.",
)
@of_scheduler("Fit on the cluster of this scheduler.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Fit on this number of local worker processes."
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    help="Device to compute on; default: the one that holds the rows.",
)
@click.option(
    "--device-memory-limit",
    metavar="BYTES",
    help="Memory that the fit may take on each GPU, such as 8GB.",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    callback=not_blank,
    help="Folder to save the state of the fit in, for --resume.",
)
@click.option(
    "--checkpoint-every",
    metavar="N|TIME",
    default="60s",
    show_default=True,
    help="Iterations, or time, between two checkpoints.",
)
@click.option(
    "--resume",
    metavar="FOLDER",
    callback=not_blank,
    help="Folder of a checkpoint to resume the fit from.",
)
@click.option(
    "--out-of-core",
    is_flag=True,
    help="Read the data from disk at every pass, instead of keeping them in memory.",
)
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show a progress bar; default: for long fits in a terminal.",
)
@click.option(
    "--out",
    default="model.json",
    show_default=True,
    type=click.Path(),
    callback=not_blank,
    help="File to save the model in.",
)
def fit(
    train: str, loss: str, out: str, no_intercept: bool, class_weight: str | None, **options: Any
) -> None:
    """Fit a model to TRAIN and save it.

    TRAIN is a file, a glob or a folder in svmlight, CSV or Parquet format. Columns of text,
    categories and booleans are factors, with a coefficient for each level. The target is the last
    column that is not named otherwise.
    """
    _check_fit_options(loss, class_weight, options)
    check_out(out, train)

    from sklearn.exceptions import ConvergenceWarning

    from daskglm.estimators import datafiles
    from daskglm.estimators.persistence import save

    names = ("solver", "tol", "max_iter", "progress", "device", "device_memory_limit")
    params = {name: options[name] for name in names} | {"fit_intercept": not no_intercept}
    model = _model_of(loss, class_weight, options, params)
    model._settings().check()

    kind = format_of(train, options["kind"])
    beside = roles_in(options, kind)
    every = options["checkpoint_every"]
    with (
        client_of(options["scheduler"], options["workers"], options["tls_dir"]),
        warnings.catch_warnings(record=True) as caught,
        datafiles.explained(train, kind),
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        X, y = datafiles.read_training(
            train,
            kind,
            label=options["label"],
            dtype=options["dtype"],
            n_features=options["n_features"],
            zero_based=options["zero_based"],
            beside=tuple(beside.values()),
            dropped=options["drop"],
            text=options["categories"],
            numbers=options["numeric"],
        )
        with datafiles.placed(train, kind, *datafiles.facts_of(X)):
            model._fit(
                X,
                y,
                **{"sample_weight": None, **beside},
                resume=options["resume"],
                out_of_core=options["out_of_core"],
                checkpoint=options["checkpoint"],
                checkpoint_every=int(every) if every.isdecimal() else every,
            )
    save(model, out)

    show([*repr(model.report_).splitlines(), f"{'saved in':<{WIDTH}}  {out}"])
    for warning in caught:
        click.echo(f"warning: {one_line(warning.message)}", err=True)  # type: ignore[arg-type]
    if not model.report_.converged:
        sys.exit(NOT_CONVERGED)


def _model_of(
    loss: str, class_weight: str | None, options: dict[str, Any], params: dict[str, Any]
) -> Any:
    """Make the estimator of a loss, or of a family where one is given."""
    from daskglm.estimators import functional
    from daskglm.estimators.families import GeneralizedLinearRegressor
    from daskglm.estimators.logistic import LogisticRegression
    from daskglm.estimators.svm import LinearSVC

    params |= {name: options[name] for name in PENALTY_OPTIONS} | {"schema": schema_in(options)}
    if loss == "ordinal":
        del params["fit_intercept"]
        params["link"] = "logit" if options["link"] == "auto" else options["link"]
    if options["family"]:
        alpha = 1.0 if options["alpha"] is None else options["alpha"]
        return GeneralizedLinearRegressor(
            options["family"], link=options["link"], alpha=alpha, **params
        )
    params["C"] = options["C"]
    if class_weight:
        params["class_weight"] = class_weight
    estimator = functional.ESTIMATORS[loss]
    if issubclass(estimator, LinearSVC):
        params["loss"] = loss
    if issubclass(estimator, LogisticRegression):
        params["multi_class"] = functional.MULTI_CLASS[loss]
    return estimator(**params)


def _check_fit_options(loss: str, class_weight: str | None, options: dict[str, Any]) -> None:
    """Raise a usage error if options of `fit` are out of range or contradict each other."""
    if options["scheduler"] and options["workers"]:
        raise click.UsageError("give --scheduler or --workers, not both.")
    if options["tls_dir"] and not options["scheduler"]:
        raise click.UsageError("--tls-dir needs --scheduler.")
    context = click.get_current_context()
    given = [
        name
        for name in ("loss", "C", "class_weight", "link", "alpha")
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    of_loss = ("loss", "C", "class_weight")
    # ordinal is the only loss with links
    of_family = ("alpha",) if loss == "ordinal" else ("link", "alpha")
    for name in of_loss if options["family"] else of_family:
        if name in given:
            how = "has no meaning with" if options["family"] else "needs"
            raise click.UsageError(f"--{name.replace('_', '-')} {how} --family.")
    if loss == "ordinal" and context.params["no_intercept"]:
        raise click.UsageError("--no-intercept has no meaning for --loss ordinal.")
    if class_weight:
        from daskglm.losses.table import find  # which imports numba

        if not find(loss).classifies:
            raise click.UsageError(f"--class-weight has no meaning for --loss {loss}.")
    for name, good in (("C", options["C"] > 0), ("tol", options["tol"] >= 0)):
        if not good:
            raise click.BadParameter(f"{options[name]} is out of range.", param_hint=f"--{name}")
    most = MAX_PER_PROCESSOR * (os.cpu_count() or 1)
    if (options["workers"] or 0) > most:
        raise click.BadParameter(
            f"{options['workers']} are more than {most}, {MAX_PER_PROCESSOR} a processor.",
            param_hint="--workers",
        )
