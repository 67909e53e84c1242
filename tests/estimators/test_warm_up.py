"""After `daskglm warm-up` no fit waits for a compiler."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from daskglm.cli import main
from daskglm.estimators import warm_up

# Prints the names of the kernels that fits of other sizes and options compile.
FITS = """
import warnings
import dask.array as da
import numpy as np
import scipy.sparse as sp
from numba.core import event
from daskglm import *
from daskglm.system.compiled import SourcesCache

warnings.simplefilter("ignore")
with event.install_recorder("numba:compile") as recorder:
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        D = rng.normal(size=(700, 90)).astype(dtype)
        S = sp.random(700, 3000, 0.01, format="csr", dtype=dtype, random_state=0)
        for X in (D, np.asfortranarray(D), D[:, :3], S, S.toarray()[:, :250]):
            w = rng.normal(size=X.shape[1])
            z = X @ w
            two = (z > 0).astype(int)
            three = np.digitize(z, np.quantile(z, [0.3, 0.7]))
            weight = rng.random(700)
            for solver in ("auto", "newton", "tron", "lbfgs", "sdca"):
                for loss in ("hinge", "squared_hinge"):
                    if loss == "squared_hinge" or solver in ("auto", "sdca"):
                        LinearSVC(loss=loss, solver=solver).fit(X, two, sample_weight=weight)
                LogisticRegression(solver=solver).fit(X, two)
                Ridge(solver=solver).fit(X, z)
            model = LogisticRegression(class_weight="balanced").fit(X, three)
            model.predict_proba(X)
            few = LogisticRegression(C=np.inf).fit(X[:, :2], weight > 0.5)
            few.inference(X[:, :2], weight > 0.5, covariance="HC1")
            few.inference(X[:, :2], weight > 0.5, covariance="cluster", clusters=three)
            leveraged = few.inference(X[:, :2], weight > 0.5, covariance="HC3")
            leveraged.leverage(X[:, :2], weight > 0.5)
            few.residuals(X[:, :2], weight > 0.5, weight, kind="deviance")
            numbers = Ridge(alpha=0).fit(X[:, :2], weight)
            numbers.residuals(X[:, :2], weight, weight, kind="deviance")
            numbers.inference(X[:, :2], weight, covariance="HC2").leverage(X[:, :2], weight)
            fit(X, two, C=[0.1, 1.0, 10.0])
            fit(X, z, loss="squared", C=[0.1, 1.0])
            LogisticRegressionCV(Cs=3, cv=3).fit(X, two)
            ElasticNet(alpha=0.1).fit(X, z)
            GeneralizedLinearRegressorCV(alphas=2, cv=3).fit(X, z)
        fit(da.from_array(D, chunks=(100, 90)), da.from_array((D[:, 0] > 0) * 1, chunks=100))
kernels = [event.data["dispatcher"] for _, event in recorder.buffer]
print(sorted({each.py_func.__qualname__ for each in kernels if type(each._cache) is SourcesCache}))
"""


@pytest.mark.slow
def test_nothing_is_compiled_after_it(tmp_path):
    done = CliRunner().invoke(main, ["warm-up"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "kernels are compiled" in done.output
    fits = subprocess.run([sys.executable, "-c", FITS], capture_output=True, text=True)
    assert fits.returncode == 0, fits.stderr
    assert fits.stdout.strip() == "[]"
    assert "compiling" not in fits.stderr


def test_every_storage_dtype_and_fit_is_reached():
    tasks = warm_up.tasks()
    assert len(tasks) == len(set(tasks)) == 4 * len(warm_up.FITS) + len(warm_up.OF_CODES)
    assert {(task.storage, task.dtype) for task in tasks[:4]} == {
        ("dense", "float32"),
        ("dense", "float64"),
        ("csr", "float32"),
        ("csr", "float64"),
    }


@pytest.mark.slow
def test_an_error_in_a_process_is_shown(monkeypatch):
    monkeypatch.setattr(warm_up, "tasks", lambda: [warm_up.Task("dense", "float32", "nothing")])
    for processes in (1, 2):
        with pytest.raises(KeyError, match="nothing"):
            list(warm_up.run_all(processes))
