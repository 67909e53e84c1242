"""The command line: `daskglm fit` and others, each in a module of `commands` or of `launch`."""

from __future__ import annotations

import functools
import importlib
import logging
import sys
import traceback
from typing import Any, NamedTuple

import click

import daskglm
from daskglm.commands.text import one_line


class _Lazy(NamedTuple):
    """A command that is imported when it is called: its module, name there, and short help."""

    module: str
    name: str
    help: str


COMMANDS = {
    "cluster": _Lazy(
        "daskglm.launch.commands",
        "cluster",
        "Start a cluster with one worker per NUMA node or per GPU.",
    ),
    "doctor": _Lazy(
        "daskglm.commands.doctor",
        "doctor",
        "Say what this machine and a cluster offer, and what to change.",
    ),
    "fit": _Lazy("daskglm.commands.fit", "fit", "Fit a model to TRAIN and save it."),
    "info": _Lazy(
        "daskglm.commands.info", "info", "Show what MODEL is, and the report of its fit."
    ),
    "predict": _Lazy(
        "daskglm.commands.predict",
        "predict",
        "Predict with MODEL for each row of DATA, and write one row for each.",
    ),
    "warm-up": _Lazy(
        "daskglm.commands.warm_up",
        "warm_up",
        "Compile all kernels for this machine, so that no fit waits for it.",
    ),
}


class _Commands(click.Group):
    """Commands that are imported when they are called, so that `--help` waits for none of them.

    Errors of data, files and clusters are shown as one line; -v adds the traceback.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> Any:
        """Return a command, or None where there is none of this name."""
        if name not in COMMANDS:
            return None
        found = COMMANDS[name]
        return getattr(importlib.import_module(found.module), found.name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.help) for name, each in COMMANDS.items()])

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


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(daskglm.__version__, prog_name="daskglm")
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
