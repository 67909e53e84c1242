"""The command line: `daskglm fit`, `daskglm predict`, `daskglm info`; `daskglm cluster` is in
`launch.commands`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskglm.estimators import datafiles
from daskglm.estimators.feature_names import SOLVER_NAMES
from daskglm.estimators.functional import ESTIMATORS
from daskglm.estimators.svm import LinearSVC
from daskglm.launch.commands import cluster as _cluster
from daskglm.solvers import SOLVERS

_HERE = "127.0.0.1:0"
NOT_CONVERGED = 3  # exit code: the model was saved, but its precision is not the one asked for

# local worker processes; more only wait for each other, and each takes some 150 MB
WORKERS_A_PROCESSOR = 16


def _version() -> str:
    import daskglm

    return daskglm.__version__


class _OneLineErrors(click.Group):
    """Errors of data, files and clusters end as one line and exit code 1; -v shows where they come
    from.
    """

    def invoke(self, context: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if context.obj:
                traceback.print_exc()
            click.echo(f"error: {_one_line(error)}", err=True)
            sys.exit(1)


@click.group(cls=_OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="daskglm")
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Log what happens (-vv: debug), and show tracebacks of errors.",
)
@click.pass_context
def main(context: click.Context, verbose: int) -> None:
    """Fit generalised linear models on Dask, predict with them, look at them; start clusters to fit
    on.

    Exit codes: 0 done, 1 bad data or files, 2 bad usage, 3 saved but not converged.
    """
    if verbose:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("daskglm").setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    context.obj = verbose


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if not text or isinstance(error, KeyError):
        text = f"{type(error).__name__}: {text}"
    return _visible(text)


def _visible(text: str) -> str:
    """Text for a terminal: control characters, which could be commands to it, are shown as
    escapes.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _not_blank(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value, which mostly is a variable of a script that was not set."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty.")
    return value


def _check_out(out: str, *inputs: str) -> None:
    """Before the work: whether a file can be put there, and is none of those that are read."""
    from daskglm.estimators.persistence import writable

    path = writable(out)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{out}: the folder does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{out}: files cannot be written to that folder")
    for given in inputs:
        if path.exists() and os.path.exists(given) and path.samefile(given):
            raise ValueError(f"{out} is a file that this command reads: give another --out")


# ---- commands
@main.command()
@click.argument("train", callback=_not_blank)
@click.option("--loss", type=click.Choice(list(ESTIMATORS)), default="logistic", show_default=True)
@click.option(
    "--C",
    "C",
    type=float,
    default=1.0,
    show_default=True,
    help="Weight of the losses; inf: no penalty.",
)
@click.option("--solver", type=click.Choice(["auto", *SOLVERS, *SOLVER_NAMES]), default="auto")
@click.option(
    "--tol", type=float, default=1e-6, show_default=True, help="Relative suboptimality to reach."
)
@click.option("--max-iter", type=click.IntRange(min=1), help="Iterations at most.")
@click.option("--no-intercept", is_flag=True, help="Fit no intercept.")
@click.option(
    "--class-weight",
    type=click.Choice(["balanced"]),
    help="Weigh classes inversely to their frequency.",
)
@click.option(
    "--label",
    callback=_not_blank,
    help="Column with the target, for CSV and Parquet; default: the last one.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(datafiles.FORMATS),
    default="auto",
    help="Default: by extension.",
)
@click.option(
    "--n-features",
    type=click.IntRange(min=1),
    help="Columns of svmlight data; default: found by a pass.",
)
@click.option(
    "--zero-based/--one-based",
    default=None,
    help="Indices of svmlight data; default: found by a pass.",
)
@click.option(
    "--dtype", type=click.Choice(["float32", "float64"]), default="float64", show_default=True
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    envvar="DASK_SCHEDULER_ADDRESS",
    callback=_not_blank,
    help="Run on its cluster.",
)
@click.option(
    "--tls-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Of that cluster.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Run on this many local worker processes."
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Default: where the rows are.")
@click.option(
    "--device-memory-limit", metavar="BYTES", help="That a fit may take on a GPU, such as 8GB."
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    callback=_not_blank,
    help="Keep the state of the solve there, to go on from.",
)
@click.option(
    "--checkpoint-every",
    metavar="N|TIME",
    default="60s",
    show_default=True,
    help="Iterations or time.",
)
@click.option("--resume", metavar="FOLDER", callback=_not_blank, help="A checkpoint to go on from.")
@click.option(
    "--out-of-core",
    is_flag=True,
    help="Read the data at every pass, instead of keeping them in memory.",
)
@click.option("--progress/--no-progress", default=None, help="Default: on long fits in a terminal.")
@click.option(
    "--out",
    required=True,
    type=click.Path(),
    callback=_not_blank,
    help="File to save the model to.",
)
def fit(
    train: str, loss: str, out: str, no_intercept: bool, class_weight: str | None, **options: Any
) -> None:
    """Fit a model to TRAIN (svmlight, CSV or Parquet; a file, glob or folder) and save it."""
    from daskglm.estimators.persistence import save

    if options["scheduler"] and options["workers"]:
        raise click.UsageError("--scheduler and --workers exclude each other.")
    if options["tls_dir"] and not options["scheduler"]:
        raise click.UsageError("--tls-dir is for --scheduler.")
    if class_weight and loss == "squared":
        raise click.UsageError("--class-weight has no meaning for --loss squared.")
    for name, good in (("C", options["C"] > 0), ("tol", options["tol"] >= 0)):
        if not good:
            raise click.BadParameter(f"{options[name]} is out of range.", param_hint=f"--{name}")
    most = WORKERS_A_PROCESSOR * (os.cpu_count() or 1)
    if (options["workers"] or 0) > most:
        raise click.BadParameter(
            f"{options['workers']} are more than {most}, 16 a processor.", param_hint="--workers"
        )
    _check_out(out, train)
    params = {
        name: options[name]
        for name in ("C", "solver", "tol", "max_iter", "progress", "device", "device_memory_limit")
    }
    if class_weight:
        params["class_weight"] = class_weight
    if issubclass(ESTIMATORS[loss], LinearSVC):
        params["loss"] = loss
    model = ESTIMATORS[loss](fit_intercept=not no_intercept, **params)
    kind = _format(train, options["kind"])
    with (
        _client(options["scheduler"], options["workers"], options["tls_dir"]),
        warnings.catch_warnings(record=True) as caught,
        datafiles.explained(train, kind),
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        if kind == "svmlight":
            from daskglm.data.svmlight import read_svmlight

            base = datafiles.base(options["zero_based"])
            X, y = read_svmlight(
                train, n_features=options["n_features"], dtype=options["dtype"], zero_based=base
            )
        else:
            X = datafiles.read_frame(train, kind)
            y = options["label"] or X.columns[-1]
            X = datafiles.as_dtype(X, y, options["dtype"])
        every = options["checkpoint_every"]
        kept = {
            "checkpoint": options["checkpoint"],
            "checkpoint_every": int(every) if every.isdecimal() else every,
        }
        model._fit(X, y, None, resume=options["resume"], out_of_core=options["out_of_core"], **kept)
    save(model, out)
    click.echo("\n".join(map(_visible, repr(model.report_).splitlines())))
    for warning in caught:
        click.echo(f"warning: {_one_line(warning.message)}", err=True)  # type: ignore[arg-type]
    if not model.report_.converged:
        sys.exit(NOT_CONVERGED)


@main.command()
@click.argument("model", type=click.Path(), callback=_not_blank)
@click.argument("data", callback=_not_blank)
@click.option(
    "--out", required=True, type=click.Path(), callback=_not_blank, help="CSV file to write."
)
@click.option(
    "--proba", is_flag=True, help="Write probabilities of the classes (logistic regression)."
)
@click.option("--decision", is_flag=True, help="Write decision values.")
@click.option(
    "--label", callback=_not_blank, help="Column with the target, to score against; no feature."
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(datafiles.FORMATS),
    default="auto",
    help="Default: by extension.",
)
@click.option(
    "--zero-based/--one-based",
    default=None,
    help="Indices of svmlight data; default: found by a pass.",
)
def predict(model: str, data: str, out: str, proba: bool, decision: bool, **options: Any) -> None:
    """Predict with MODEL for each row of DATA, one line a row, holding one partition at a time."""
    from daskglm.estimators.persistence import load

    if proba and decision:
        raise click.UsageError("--proba and --decision exclude each other.")
    _check_out(out, model, data)
    fitted = load(model)
    if proba and not hasattr(fitted, "predict_proba"):
        raise click.UsageError(f"--proba: a {type(fitted).__name__} has no probabilities.")
    if decision and not hasattr(fitted, "decision_function"):
        raise click.UsageError(
            f"--decision: a {type(fitted).__name__} predicts numbers without --decision."
        )
    score = _Score(fitted)
    header, values = _wanted(fitted, proba, decision)
    kind = _format(data, options["kind"])
    parts = datafiles.parts(data, kind, fitted, options["label"], options["zero_based"])
    with _written(Path(out)) as file:
        _write_csv(file, [header])
        for X, y in parts:
            if not X.shape[0]:
                continue
            wanted = values(X)
            _write_csv(file, wanted)
            if y is not None:
                score.add(y, fitted.predict(X) if proba or decision else wanted)
    if text := score.text():
        click.echo(text, err=True)


@main.command()
@click.argument("model", type=click.Path(), callback=_not_blank)
def info(model: str) -> None:
    """Show what MODEL is and how its fit went."""
    from daskglm.estimators.persistence import load

    fitted = load(model)
    coef = fitted.coef_
    rows = [("estimator", type(fitted).__name__)]
    if hasattr(fitted, "classes_"):
        rows.append(("classes", ", ".join(map(str, fitted.classes_.tolist()))))
    rows += [
        (
            "features",
            f"{fitted.n_features_in_:,}"
            + (" (named)" if hasattr(fitted, "feature_names_in_") else ""),
        ),
        ("coefficients", f"{coef.size:,}, {np.count_nonzero(coef):,} of them not zero"),
        ("intercept", ", ".join(f"{value:.6g}" for value in np.atleast_1d(fitted.intercept_))),
        ("C", f"{fitted._settings().C:g}"),
    ]
    width = len("gradient ratio")  # the longest name in the report, so that both parts line up
    click.echo("\n".join(f"{name:<{width}}  {_visible(text)}" for name, text in rows))
    click.echo(repr(fitted.report_))


main.add_command(_cluster)


# ---- where to run
@contextlib.contextmanager
def _client(scheduler: str | None, workers: int | None, tls_dir: Path | None) -> Iterator[None]:
    if scheduler:
        import dask
        from distributed import Client

        from daskglm.launch import tls

        with dask.config.set(tls.settings(tls_dir)), Client(scheduler):
            yield
    elif workers:
        from distributed import Client, LocalCluster

        quiet = not click.get_current_context().find_root().obj
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                # of None servers for all networks are made, though nothing but numbers is on them
                dashboard_address=_HERE,
                worker_dashboard_address=_HERE,
                # workers would write a traceback of what ends here as one line
                silence_logs=logging.CRITICAL if quiet else logging.WARNING,
            ) as cluster,
            Client(cluster),
        ):
            yield
    else:
        yield


def _format(path: str, asked: str) -> str:
    kind = datafiles.format_of(path, asked)
    if kind is None:
        raise click.UsageError(
            f"cannot tell the format of {_visible(path)!r} from its name: give --format."
        )
    return kind


# ---- writing
def _wanted(model: Any, proba: bool, decision: bool) -> tuple[list[str], Callable[[Any], Any]]:
    """Header, and what to write for rows."""
    classes = (
        [str(label) for label in model.classes_.tolist()] if hasattr(model, "classes_") else []
    )
    if proba:
        return classes, model.predict_proba
    if decision:
        return (["decision"] if len(classes) == 2 else classes), model.decision_function
    return ["prediction"], model.predict


def _write_csv(file: Any, values: Any) -> None:
    import pandas as pd

    pd.DataFrame(values if isinstance(values, list) else np.asarray(values)).to_csv(
        file, index=False, header=False
    )


@contextlib.contextmanager
def _written(path: Path) -> Iterator[Any]:
    """A text file that appears under its name only when all of it is there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8", newline="") as file:
            yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class _Score:
    """Accuracy or R2, summed partition by partition."""

    def __init__(self, model: Any) -> None:
        self.classifies = hasattr(model, "classes_")
        self.rows, self.right, self.missed, self.mean, self.spread = 0, 0, 0.0, 0.0, 0.0

    def add(self, y: np.ndarray, predicted: np.ndarray) -> None:
        n = self.rows + len(y)
        if self.classifies:
            self.right += int(np.sum(np.asarray(y == predicted)))
        else:
            y = np.asarray(y, dtype=np.float64)
            self.missed += float(np.sum((y - predicted) ** 2))
            # Chan's update of mean and squared deviations: no cancellation where the mean is large
            mean = float(y.mean())
            shift = mean - self.mean
            self.spread += float(np.sum((y - mean) ** 2)) + shift**2 * self.rows * len(y) / n
            self.mean += shift * len(y) / n
        self.rows = n

    def text(self) -> str:
        if not self.rows:
            return ""
        if self.classifies:
            return f"accuracy {self.right / self.rows:.6g} ({self.right:,} of {self.rows:,} rows)"
        if not self.spread:
            return f"R2 is not defined: all {self.rows:,} targets are equal"
        return f"R2 {1 - self.missed / self.spread:.6g} ({self.rows:,} rows)"
