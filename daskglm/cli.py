"""The command line: `daskglm fit`, `predict` and `info`; `daskglm cluster` is in `launch.commands`.

Each command is a function whose docstring is what `--help` shows.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskglm.estimators import datafiles
from daskglm.estimators.command_options import (
    beside_rows,
    each_once,
    not_blank,
    of_penalty,
    of_tables,
    one_line,
    roles_in,
    schema_in,
    visible,
)
from daskglm.estimators.families import FamilyRegressor, GeneralizedLinearRegressor
from daskglm.estimators.functional import ESTIMATORS, MULTI_CLASS
from daskglm.estimators.logistic import LogisticRegression
from daskglm.estimators.parameters import SOLVER_NAMES
from daskglm.estimators.svm import LinearSVC
from daskglm.estimators.tables import design_of_model
from daskglm.frames.design import UnseenLevelWarning
from daskglm.launch.commands import cluster as _cluster
from daskglm.launch.machine import MAX_PER_PROCESSOR
from daskglm.losses.table import find
from daskglm.solvers import solver_names

# Exit code: the model was saved, but it is less precise than --tol asks for.
NOT_CONVERGED = 3

# Exit code: `doctor` has found something to change.
TO_CHANGE = 4

# Options of `fit` that are parameters of the penalty.
PENALTY_OPTIONS = (
    *("l1_ratio", "penalty_factor", "lower_bounds", "upper_bounds"),
    *("positive", "standardize"),
)

# Columns that are named, and warnings of `predict` that are shown, at most.
SHOWN = 8

# Names in what is shown line up: this is the longest one of a report.
WIDTH = len("gradient ratio")

# Dask would serve HTTP pages of scheduler and workers on all addresses.
_LOOPBACK = "127.0.0.1:0"


def _version() -> str:
    import daskglm

    return daskglm.__version__


class _OneLineErrors(click.Group):
    """A group that shows errors of data, files and clusters as one line; -v adds the traceback."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command; exit with 1 after an error."""
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if context.obj:
                traceback.print_exc()
            click.echo(f"error: {one_line(error)}", err=True)
            sys.exit(1)


@click.group(cls=_OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="daskglm")
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Log progress (-vv: debug), and show tracebacks of errors.",
)
@click.pass_context
def main(context: click.Context, verbose: int) -> None:
    """Fit generalised linear models with Dask, predict with them, and start clusters to fit on.

    Exit codes: 0 done, 1 bad data or files, 2 wrong usage, 3 model saved but not converged, 4
    something to change (doctor).
    """
    if verbose:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logger = logging.getLogger("daskglm")
        # a program that calls the command (a test, a notebook) keeps its own level
        context.call_on_close(functools.partial(logger.setLevel, logger.level))
        logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    context.obj = verbose


def _show(lines: list[str]) -> None:
    click.echo("\n".join(map(visible, lines)))


def _of_scheduler(what: str) -> Callable[[Any], Any]:
    """Add the options that name a scheduler, which is for `what`, and the certificates for it."""

    def add(command: Any) -> Any:
        certificates = click.option(
            "--tls-dir",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Folder with the certificates of that cluster.",
        )
        scheduler = click.option(
            "--scheduler",
            metavar="ADDRESS",
            envvar="DASK_SCHEDULER_ADDRESS",
            callback=not_blank,
            help=what,
        )
        return scheduler(certificates(command))

    return add


# ---- commands
@main.command()
@click.argument("train", callback=not_blank)
@click.option(
    "--loss",
    type=click.Choice(list(ESTIMATORS)),
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
    type=click.Choice(["auto", *solver_names(), *SOLVER_NAMES]),
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
    type=click.Choice(datafiles.FORMATS),
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
@_of_scheduler("Fit on the cluster of this scheduler.")
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
    from daskglm.estimators.persistence import save

    _check_fit_options(loss, class_weight, options)
    datafiles.check_out(out, train)
    names = ("solver", "tol", "max_iter", "progress", "device", "device_memory_limit")
    params = {name: options[name] for name in names} | {"fit_intercept": not no_intercept}
    model = _model_of(loss, class_weight, options, params)
    model._settings().check()

    kind = _format(train, options["kind"])
    beside = roles_in(options, kind)
    every = options["checkpoint_every"]
    with (
        _client(options["scheduler"], options["workers"], options["tls_dir"]),
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

    _show([*repr(model.report_).splitlines(), f"{'saved in':<{WIDTH}}  {out}"])
    for warning in caught:
        click.echo(f"warning: {one_line(warning.message)}", err=True)  # type: ignore[arg-type]
    if not model.report_.converged:
        sys.exit(NOT_CONVERGED)


def _model_of(
    loss: str, class_weight: str | None, options: dict[str, Any], params: dict[str, Any]
) -> Any:
    """Make the estimator of a loss, or of a family where one is given."""
    params |= {name: options[name] for name in PENALTY_OPTIONS} | {"schema": schema_in(options)}
    if loss == "ordinal":
        if not params.pop("fit_intercept"):
            raise click.UsageError("--no-intercept has no meaning for --loss ordinal.")
        params["link"] = "logit" if options["link"] == "auto" else options["link"]
    if options["family"]:
        alpha = 1.0 if options["alpha"] is None else options["alpha"]
        return GeneralizedLinearRegressor(
            options["family"], link=options["link"], alpha=alpha, **params
        )
    params["C"] = options["C"]
    if class_weight:
        params["class_weight"] = class_weight
    if issubclass(ESTIMATORS[loss], LinearSVC):
        params["loss"] = loss
    if issubclass(ESTIMATORS[loss], LogisticRegression):
        params["multi_class"] = MULTI_CLASS[loss]
    return ESTIMATORS[loss](**params)


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
    if class_weight and not find(loss).classifies:
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


@main.command()
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
    type=click.Choice(datafiles.FORMATS),
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
    from daskglm.estimators.persistence import load
    from daskglm.estimators.prediction_file import FORMATS, write_predictions
    from daskglm.estimators.rows_to_predict import rows_of

    if proba and decision:
        raise click.UsageError("give --proba or --decision, not both.")
    datafiles.check_out(out, model, data)
    if Path(out).suffix.lower() not in FORMATS:
        raise click.UsageError(
            f"--out: {visible(out)!r} does not say the format: let it end in {', '.join(FORMATS)}."
        )
    fitted = load(model)
    method = "predict_proba" if proba else "decision_function" if decision else "predict"
    if proba and not hasattr(fitted, method):
        raise click.UsageError(f"--proba: a {type(fitted).__name__} has no probabilities.")
    if decision and not hasattr(fitted, method):
        raise click.UsageError(
            f"--decision: a {type(fitted).__name__} predicts numbers without --decision."
        )

    kind = _format(data, options["kind"])
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


@main.command()
@click.argument("model", type=click.Path(), callback=not_blank)
def info(model: str) -> None:
    """Show what MODEL is, and the report of its fit."""
    from daskglm.estimators.persistence import load

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
    _show([*lines, *repr(fitted.report_).splitlines()])


@main.command("warm-up")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Processes that compile. Default: one a processor, four at most.",
)
def warm_up(processes: int | None) -> None:
    """Compile all kernels for this machine, so that no fit waits for it.

    Run it where images are built, and after an installation from sources: wheels contain compiled
    kernels. What is on disk already is not compiled again.
    """
    from daskglm.system.warmed import Record

    if Record().holds():
        click.echo("kernels are compiled")
        return
    from daskglm.estimators.warm_up import run_all, tasks

    many = processes or min(4, os.cpu_count() or 1)
    start = time.perf_counter()
    done = run_all(many)
    with click.progressbar(done, length=len(tasks()), label="compiling kernels") as bar:
        for _ in bar:
            pass
    click.echo(f"kernels are compiled ({time.perf_counter() - start:.0f} s)")


@main.command()
@_of_scheduler("Look at the cluster of this scheduler too.")
def doctor(scheduler: str | None, tls_dir: Path | None) -> None:
    """Say what this machine and a cluster offer, and what to change.

    Looks at processors, memory, GPU, versions and compiled kernels, and measures passes over rows
    for a second; with --scheduler at a cluster and its workers too. Exits with 4 if something
    should be changed.
    """
    from daskglm.estimators import doctor as look

    with _client(scheduler, None, tls_dir) as client:
        parts = {
            "machine": look.machine(),
            "versions": look.versions(),
            "kernels": look.kernels(),
            "cluster": look.cluster(client) if client else (),
            "speed": look.benchmark(),
        }
        changes = 0
        for title, findings in parts.items():
            for k, finding in enumerate(findings):
                if k == 0:
                    click.secho(title, bold=True)
                click.echo(f"  {finding.name}: {visible(finding.text)}")
                if finding.change:
                    changes += 1
                    click.secho(f"    change: {visible(finding.change)}", fg="yellow")
    click.echo(f"{changes} thing(s) to change" if changes else "nothing to change")
    if changes:
        sys.exit(TO_CHANGE)


main.add_command(_cluster)


# ---- where to run
@contextlib.contextmanager
def _client(scheduler: str | None, workers: int | None, tls_dir: Path | None) -> Iterator[Any]:
    """Make a client of a scheduler or of local workers the default; without both fit in process.

    Gives the client, or None.
    """
    if scheduler:
        import dask

        from daskglm.launch import tls

        with dask.config.set(tls.settings(tls_dir)), _connected(scheduler) as client:
            yield client
    elif workers:
        from distributed import Client, LocalCluster

        quiet = not click.get_current_context().find_root().obj
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                # None would serve pages on all addresses
                dashboard_address=_LOOPBACK,
                worker_dashboard_address=_LOOPBACK,
                # workers would write tracebacks of errors that are shown here as one line
                silence_logs=logging.CRITICAL if quiet else logging.WARNING,
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
    else:
        yield None


def _connected(scheduler: str) -> Any:
    """Return a client of a scheduler; ConnectionError where none answers."""
    import dask
    from distributed import Client

    began = time.monotonic()
    try:
        return Client(scheduler)
    except OSError as error:  # timeouts are among them, mostly without a word
        raise ConnectionError(
            f"no scheduler answers at {scheduler} (tried for {time.monotonic() - began:.3g} s; "
            f"distributed.comm.timeouts.connect is "
            f"{dask.config.get('distributed.comm.timeouts.connect')}): is it running there, and "
            "is this the address that it printed?" + (f" {error}" if str(error) else "")
        ) from error


def _format(path: str, asked: str) -> str:
    kind = datafiles.format_of(path, asked)
    if kind is None:
        raise click.UsageError(
            f"cannot tell the format of {visible(path)!r} from its name: give --format."
        )
    return kind
