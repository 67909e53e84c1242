"""`daskglm fit` on two workers, killed by SIGKILL while it has a checkpoint, and resumed by another command."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from daskglm.estimators.persistence import load
from tests.conftest import make_problem

LONGEST = 1000.0  # seconds: on a busy machine workers take minutes to start, and kernels to compile
pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * LONGEST)]
HERE = Path(__file__).resolve().parents[2]
X, y = make_problem(4000, 6)
# The command, which says when its n-th state is written and then waits to be killed.
HALTING = """
import sys, time
from pathlib import Path
from daskglm.cli import main
from daskglm.fitting.checkpoint import CheckpointWriter

def halting(number):
    left, write = [number], CheckpointWriter._write

    def written(self, *given):
        write(self, *given)
        left[0] -= 1
        if left[0] == 0:
            Path(self.path).with_suffix(".written").touch()
            time.sleep(3600)

    return written

if __name__ == "__main__":  # workers run this file too
    CheckpointWriter._write = halting(int(sys.argv.pop(1)))
    main()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Rows in four files: two partitions for each worker."""
    folder = tmp_path_factory.mktemp("rows")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["kind"] = np.where(y > 0, "yes", "no")
    for k in range(4):
        frame[k::4].to_csv(folder / f"{k}.csv", index=False)
    return folder / "*.csv"


@contextlib.contextmanager
def command(how, data, out, solver, *more):
    """Run `daskglm fit`, as `how` starts it, in a session of its own; gives the process and what it says."""
    fit = ("fit", data, "--workers", 2, "--solver", solver, "--tol", 1e-10)
    said = out.with_suffix(".txt")
    with open(said, "wb") as file:  # a pipe that nobody reads would fill up
        process = subprocess.Popen(
            [sys.executable, *map(str, (*how, *fit, "--out", out, *more))],
            env={**os.environ, "PYTHONPATH": str(HERE)},
            cwd=HERE,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process, said
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def fitted(data, out, solver, *more):
    with command(("-m", "daskglm"), data, out, solver, *more) as (process, said):
        assert process.wait(LONGEST) == 0, said.read_text()
    return load(out)


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """Make fits that nothing interrupts, one for each solver."""
    kept = {}

    def of(solver):
        if solver not in kept:
            kept[solver] = fitted(data, tmp_path_factory.mktemp("whole") / "m", solver)
        return kept[solver]

    return of


@pytest.mark.parametrize(
    ("states", "every", "kill"),
    [(1, "60s", os.killpg), (3, "1", os.kill)],
    ids=["at the first state, all at once", "at the third, the client alone"],
)
@pytest.mark.parametrize(("solver", "same"), [("lbfgs", 1e-6), ("sdca", 1e-3)])
def test_a_killed_command_is_resumed_to_the_same_model(
    solver, same, states, every, kill, data, whole, tmp_path
):
    """The first state is there at the first iterate, whatever time is between two; sdca's variables are files of workers."""
    (tmp_path / "halting.py").write_text(HALTING)
    folder, out = tmp_path / "c", tmp_path / "m"
    keep = ("--checkpoint", folder, "--checkpoint-every", every)
    how = (tmp_path / "halting.py", states)
    with command(how, data, out, solver, *keep) as (process, said):
        deadline = time.monotonic() + LONGEST
        while not folder.with_suffix(".written").exists():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(0.05)
        workers = psutil.Process(process.pid).children(recursive=True)
        kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not psutil.wait_procs(workers, LONGEST)[1], "workers end with their client"
    assert len(workers) >= 2
    assert not out.exists()

    model = fitted(data, out, solver, *keep, "--resume", folder)
    assert model.report_.converged
    assert model.report_.workers == 2
    assert model.report_.resumed == states - 1
    np.testing.assert_allclose(model.coef_, whole(solver).coef_, atol=same)
    np.testing.assert_allclose(model.intercept_, whole(solver).intercept_, atol=same)
