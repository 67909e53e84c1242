"""Problems and engines that many tests share."""

import importlib
import importlib.util
import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from daskglm.core import sample_requests
from tests import seeds
from tests.covering import spare
from tests.losses.formulas import FAMILIES, reference, targets

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
# What processes of workers are forked with.
IMPORTED = ("distributed.nanny", "distributed.worker", "dask.dataframe", "daskglm.engines.cluster")
LOG_COSH = Path(__file__).parent / "extending" / "log_cosh.py"


# Where each generator at the top of a module stood when tests were collected.
_AT_FIRST = {}


def pytest_collection_finish(session):
    """Take note of the generators that tests of a module share."""
    for module in {item.module for item in session.items if hasattr(item, "module")}:
        for value in vars(module).values():
            if isinstance(value, np.random.Generator):
                _AT_FIRST[id(value)] = value, value.bit_generator.state


def pytest_runtest_setup(item):
    """Let tests draw the same numbers in any order."""
    for value in vars(getattr(item, "module", None) or item).values():
        if id(value) in _AT_FIRST:
            value.bit_generator.state = _AT_FIRST[id(value)][1]


def pytest_report_header():
    """Tell how to draw the same problems again."""
    return f"random problems: DASKGLM_SEED={seeds.BASE}"


@pytest.hookimpl(tryfirst=True)  # before those that `-m` asks for are chosen
def pytest_collection_modifyitems(items):
    """Leave combinations to the night that tests of each choice by itself do without."""
    spare(items)


@pytest.fixture(scope="session", autouse=True)
def _forked_workers():
    """Let workers of local clusters be forked from a process that has imported the package.

    Interpreters that import it anew for each worker took two thirds of the time of all tests with
    clusters. The demo and the command line start theirs that way.
    """
    import dask
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload([*IMPORTED])
        yield


@pytest.fixture(autouse=True)
def _same_draws():
    """Let estimators without a `random_state` draw the same numbers in every run of a test."""
    np.random.seed(0)


@pytest.fixture(autouse=True)
def _rows_stay(request, monkeypatch):
    """Keep rows on their workers, but in tests that ask for `rows_come`: else small ones leave."""
    if "rows_come" not in request.fixturenames:
        monkeypatch.setattr(sample_requests, "pays", lambda *args: False)


@pytest.fixture
def rows_come():
    """Let all rows come to the client once they pay, as they do for users."""


@pytest.fixture(scope="session")
def real_set():
    """Load a real data set by name; skips where the folder of data sets is not beside the project."""
    loader = Path(os.environ.get("DASKGLM_DATA", SHARED)) / "load_real.py"
    if not loader.exists():
        pytest.skip("the folder of real data sets (../shared/data, or DASKGLM_DATA) is not here")
    spec = importlib.util.spec_from_file_location("load_real", loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    known = {}

    def load(name):
        if name not in known:
            known[name] = module.load(name)[:2]
        return known[name]

    return load


@pytest.fixture(scope="module")
def log_cosh():
    """A loss from outside of the package.

    The module by the name that workers know it by; not on the path, which workers would inherit. Its name
    is free again after the tests of a file.
    """
    from daskglm.losses.table import LOSSES

    spec = importlib.util.spec_from_file_location("log_cosh", LOG_COSH)
    module = sys.modules["log_cosh"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["log_cosh"], LOSSES["log_cosh"]


def listen_to_sigint():
    """For `preexec_fn`: the children of a job in the background ignore SIGINT unless they are told otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def _cluster():
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


@pytest.fixture
def client(_cluster):
    """A client of a cluster of two worker processes; it is the current one within the test."""
    from distributed import Client

    with Client(_cluster) as client:
        yield client


REGRESSIONS = (
    "squared",
    "huber",
    "quantile",
    "epsilon_insensitive",
    "squared_epsilon_insensitive",
)


def make_problem(n=600, d=7, *, loss="logistic", seed=0, sparse=False, dtype=np.float64):
    """Rows with columns of different scales and targets from a noisy linear model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.logspace(0, -1, d)
    if sparse:
        X *= rng.random((n, d)) < 0.3
    z = X @ rng.standard_normal(d) * 2 + 0.5
    if loss in FAMILIES:
        y = targets(loss, z, rng)
    elif loss.partition("(")[0] in REGRESSIONS:
        y = z + rng.standard_normal(n)
    else:
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    X = X.astype(dtype)
    return (sp.csr_matrix(X) if sparse else X), y


def objective(X, y, coef, intercept, C, loss, weight=None):
    """The objective in float64 by NumPy, not by the package."""
    coef = np.ravel(np.asarray(coef, float))
    z = np.asarray(X.astype(np.float64) @ coef).ravel() + float(np.ravel(intercept)[0])
    s = np.ones(len(y)) if weight is None else weight
    losses = {
        "logistic": lambda: np.logaddexp(0, -y * z),
        "squared_hinge": lambda: np.maximum(0, 1 - y * z) ** 2,
        "hinge": lambda: np.maximum(0, 1 - y * z),
        "smoothed_hinge": lambda: 0.5 * (np.clip(1 - y * z, 0, 1) ** 2) + np.maximum(0, -y * z),
        "squared": lambda: 0.5 * (z - y) ** 2,
        # of the parameters' defaults
        "huber": lambda: np.where(
            np.abs(z - y) <= 1.35, 0.5 * (z - y) ** 2, 1.35 * (np.abs(z - y) - 0.675)
        ),
        "quantile": lambda: 0.5 * np.abs(z - y),
        "epsilon_insensitive": lambda: np.maximum(np.abs(z - y) - 0.1, 0),
        "squared_epsilon_insensitive": lambda: np.maximum(np.abs(z - y) - 0.1, 0) ** 2,
    }.get(loss, lambda: reference(loss, y, z)[0])()
    return 0.5 * coef @ coef + C * (s @ losses)


TWIN = Path(__file__).resolve().parent / "twin"
DEVICE_MODULES = ("cupy", "cupyx", "daskglm.kernels.cuda")


def _take_device_modules():
    """Take what is imported of CuPy, and what was made with it, out of the way."""
    import daskglm.kernels

    daskglm.kernels.__dict__.pop("cuda", None)
    return {
        name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(DEVICE_MODULES)
    }


def _stand_in():
    """The stand-in for CuPy: device code runs, its CUDA kernels too, compiled by the C++ compiler of this machine."""
    if not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")):
        pytest.skip("no C++ compiler to compile the CUDA kernels for the CPU with")
    sys.path.insert(0, str(TWIN))
    return importlib.import_module("cupy")


def _real_gpu():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: nothing runs on a GPU here")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"no GPU here ({error})")
    return cupy


@pytest.fixture(params=["twin", pytest.param("device", marks=pytest.mark.gpu)], scope="module")
def cupy(request):
    """CuPy: its stand-in on the CPU, and the real one on a GPU (mark `gpu`)."""
    before = _take_device_modules()
    real = {name: module for name, module in before.items() if name.startswith("cupy")}
    try:
        if request.param == "device":  # the real one cannot be imported twice in a process
            sys.modules.update(real)
        yield _stand_in() if request.param == "twin" else _real_gpu()
    finally:
        sys.path[:] = [path for path in sys.path if path != str(TWIN)]
        taken = _take_device_modules()
        sys.modules.update(real or (taken if request.param == "device" else {}))
        for name in [name for name in sys.modules if name.startswith("daskglm.kernels.cuda")]:
            del sys.modules[name]
