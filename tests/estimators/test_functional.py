"""`daskglm.fit` as a user meets it: reports, warnings, callbacks, predictions in kind, pickles."""

import logging
import pickle
import subprocess
import sys
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.conftest import make_problem

X, y = make_problem(400, 5)
MODEL = daskglm.fit(X, y)


def test_running_out_of_iterations_warns_with_the_precision_reached():
    with pytest.warns(ConvergenceWarning, match=r"max_iter iterations.*relative gap \d"):
        model = daskglm.fit(X, y, solver="lbfgs", max_iter=2)
    assert not model.report_.converged
    assert model.report_.n_iter == 2
    with pytest.warns(ConvergenceWarning, match="floating point"):
        daskglm.fit(X, y, tol=0)


def test_callback_sees_every_iteration_and_may_stop_or_raise():
    seen = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        daskglm.fit(
            X, y, callback=lambda record: seen.append(record["objective"]) or len(seen) == 3
        )
    assert len(seen) == 3

    def fail(record):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        daskglm.fit(X, y, callback=fail)


def test_auto_picks_by_expected_passes_and_says_why():
    assert daskglm.fit(X, y).report_.solver == "newton"
    wide = sp.random(200, 5000, 0.01, format="csr", random_state=0)
    report = daskglm.fit(wide, np.arange(200) % 2).report_
    assert report.solver == "sdca"
    assert "5,000 features" in report.why
    assert "expected passes: sdca" in report.why
    weak = daskglm.fit(wide, np.arange(200) % 2, C=1000.0).report_
    assert weak.solver == "sdca", "rows are nearly orthogonal, whatever the penalty"
    assert daskglm.fit(wide, np.arange(200) % 2, loss="hinge").report_.solver.startswith("sdca")
    rng = np.random.default_rng(0)
    long = rng.standard_normal((3000, 2200)) * np.linspace(0.1, 1, 2200)
    long /= np.linalg.norm(long, axis=1, keepdims=True)
    labels = np.sign(long @ rng.standard_normal(2200) + 0.01)
    assert daskglm.fit(long, labels, C=1.0).report_.solver == "sdca"
    skewed = long * (1 + 100 * (np.arange(2200) % 50 == 0))
    report = daskglm.fit(skewed / 40, labels, C=1e4, tol=1e-3).report_
    assert report.solver == "tron"
    assert "sdca" in report.why
    assert daskglm.fit(
        wide[:, :30], np.arange(200) % 2, loss="hinge", C=0.1
    ).report_.solver.startswith("sdca")
    blocks = da.from_array(long[:, :120], chunks=(1000, -1)), da.from_array(labels, chunks=1000)
    assert daskglm.fit(*blocks, out_of_core=True).report_.solver == "newton", (
        "each pass reads the rows anew"
    )


# ---- predictions in kind


def test_scores_of_lazy_data_are_numbers():
    rows, labels, weight = (
        da.from_array(X, chunks=(90, 5)),
        da.from_array(y, chunks=90),
        np.arange(400.0),
    )
    assert MODEL.score(rows, labels) == pytest.approx(MODEL.score(X, y))
    assert MODEL.score(rows, labels, da.from_array(weight, chunks=90)) == pytest.approx(
        MODEL.score(X, y, weight)
    )
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    assert MODEL.score(frame, dd.from_pandas(pd.Series(y), npartitions=3)) == pytest.approx(
        MODEL.score(X, y)
    )
    target = X @ np.ones(5) + np.sin(np.arange(400))
    ridge = daskglm.Ridge().fit(X, target)
    assert ridge.score(rows, da.from_array(target, chunks=90)) == pytest.approx(
        ridge.score(X, target)
    )


def test_pickled_models_predict_without_a_cluster():
    again = pickle.loads(pickle.dumps(MODEL))
    np.testing.assert_array_equal(again.predict(X), MODEL.predict(X))
    assert repr(again.report_) == repr(MODEL.report_)


# What a fit of an array in memory does without: clusters, files, tables, dual ascent, and what numba
# compiles with, which is a second of its start.
NOT_IMPORTED = [
    *("cupy", "dask", "distributed", "fsspec", "sklearn.preprocessing", "rich"),
    *("daskglm.losses.conjugates", "daskglm.kernels.coordinate_ascent"),
    *("numba.np.arrayobj", "numba.cpython.unicode", "sparse"),
]


@pytest.mark.slow
def test_data_in_memory_start_no_scheduler_and_import_little():
    code = (
        "import sys, numpy, daskglm; m = daskglm.LogisticRegression().fit(numpy.eye(4), [0, 1, 0, 1])\n"
        f"print([name for name in {NOT_IMPORTED} if name in sys.modules], m.report_.converged)"
    )
    run = partial(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    run(check=True)  # kernels are on disk then
    assert run(check=True).stdout == "[] True\n"


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 400), max_size=9),
    st.sampled_from(["logistic", "squared_hinge", "squared"]),
    st.booleans(),
)
def test_results_do_not_depend_on_the_chunks(cuts, loss, sparse):
    rows, target = make_problem(400, 5, loss=loss, sparse=sparse)
    chunks = tuple(int(c) for c in np.diff([0, *sorted(cuts), 400]))
    lazy = da.from_array(np.asarray(rows.todense()) if sparse else rows, chunks=(chunks, 5))
    lazy = lazy.map_blocks(sp.csr_matrix) if sparse else lazy
    whole, cut = (
        daskglm.fit(rows, target, loss=loss, tol=1e-12),
        daskglm.fit(lazy, target, loss=loss, tol=1e-12),
    )
    np.testing.assert_allclose(cut.coef_, whole.coef_, rtol=1e-10, atol=1e-12)
    assert cut.report_.objective == pytest.approx(whole.report_.objective, rel=1e-12)


def test_logging_not_printing(caplog, capsys):
    with caplog.at_level(logging.DEBUG, "daskglm"):
        daskglm.fit(sp.csc_matrix(X), y)
    assert capsys.readouterr().out == ""
    assert caplog.records
