"""`import daskglm` takes no time: what it needs is imported when it is needed."""

import subprocess
import sys

import pytest

import daskglm

HEAVY = ["dask", "distributed", "numba", "pandas", "pyarrow", "scipy", "sklearn", "click", "tqdm"]


def imports(statement):
    """Microseconds of each module, with those it imports, that a statement imports in a new process."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = (line.removeprefix("import time:").split("|") for line in done.stderr.splitlines())
    return {parts[2].strip(): int(parts[1]) for parts in lines if parts[1].strip().isdigit()}


def test_importing_the_package_imports_nothing_heavy():
    found = imports("import daskglm")
    assert "daskglm" in found
    assert not [name for name in HEAVY if name in found]
    assert found["daskglm"] < 300_000  # as the whole of NumPy's at most, on a busy machine


def test_version_and_listing_import_nothing():
    found = imports("import daskglm; daskglm.__version__; dir(daskglm)")
    assert not [name for name in HEAVY if name in found]


COMMAND_LINE = """
import sys
import click
from click.testing import CliRunner
from daskglm.cli import main

def commands(group, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*path, name)
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))

def tried(*arguments, code):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, (arguments, done.output, done.exception)
    print(*arguments, "|", *sorted(set({heavy}) & set(sys.modules)))

for path in commands(main):
    tried(*path, "--help", code=0)
    tried(*path, "--nonsense", code=2)
for wrong in {wrong}:
    tried(*wrong.split(), code=2)
"""
WRONG = [
    *("fit", "predict m.json x.csv", "info", "cluster ssh", "cluster workers a:1"),
    *("fit x --loss poisson", "fit x --loss none", "fit x --solver none", "fit x --format none"),
    *("fit x --C -1", "fit x --alpha 1", "fit x --loss ordinal --no-intercept"),
    *("predict m.json x.csv --out p.txt", "predict m.json x.csv --out p.csv --proba --decision"),
]


def test_help_and_wrong_usage_import_nothing_heavy():
    """Five seconds otherwise, of commands that do nothing."""
    heavy = [name for name in HEAVY if name != "click"]
    code = COMMAND_LINE.replace("{heavy}", repr(heavy)).replace("{wrong}", repr(WRONG))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert not [line for line in lines if not line.endswith("|")]
    assert {"fit --help |", "info --help |", "cluster ssh --help |"} <= set(lines)


def test_every_public_name_is_there():
    assert sorted(daskglm._MODULES) == sorted(daskglm.__all__)
    for name in daskglm.__all__:
        assert getattr(daskglm, name).__module__ == f"daskglm.{daskglm._MODULES[name]}", name
        assert name in dir(daskglm)


def test_an_unknown_name_is_an_error_as_of_any_module():
    with pytest.raises(AttributeError, match="no attribute 'logistic'"):
        _ = daskglm.logistic
    with pytest.raises(ImportError, match="nothing"):
        exec("from daskglm import nothing")


@pytest.mark.slow
def test_what_workers_import_leaves_estimators_alone():
    """A worker needs kernels, not scikit-learn, of which the first import takes a second."""
    found = imports("import daskglm.engines.worker_session")
    assert not [
        name for name in ("sklearn", "pandas", "pyarrow", "scipy.optimize") if name in found
    ]


@pytest.mark.slow
def test_all_modules_are_imported_where_the_names_of_posix_are_not():
    """As on Windows; libraries are imported before, since theirs look at the system."""
    code = """
import ctypes, os, pkgutil, signal, sys
import click, dask.dataframe, distributed, numba, pandas, psutil, pyarrow.csv, sklearn.linear_model

def named(name, *args, library=ctypes.CDLL, **given):
    if name is None:
        raise TypeError("no library without a name")
    return library(name, *args, **given)

for module, names in (
    (os, "sched_getaffinity fork killpg getuid setsid sysconf nice getloadavg uname"),
    (signal, "SIGHUP SIGKILL SIGUSR1 SIGQUIT SIGALRM"),
):
    for name in names.split():
        delattr(module, name)
sys.modules |= dict.fromkeys(("fcntl", "resource", "termios", "pwd", "grp"))
ctypes.CDLL = named
import daskglm
for each in pkgutil.walk_packages(daskglm.__path__, "daskglm."):
    if ".cuda" not in each.name and not each.name.endswith("__main__"):
        __import__(each.name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
