"""`daskglm.fit` as a user meets it: reports, warnings, callbacks, predictions in kind, pickles."""

import logging
import pickle
import subprocess
import sys

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


def test_report_has_what_users_ask_for_and_prints_as_a_table():
    report = MODEL.report_
    assert report.converged
    assert report.solver == "newton"
    assert report.relative_gap <= 1e-6
    assert report.n_iter == len(report.history) - 1
    assert report.passes >= report.n_iter
    assert report.rounds >= report.passes
    assert report.seconds > 0
    frame = pd.DataFrame(report.history)
    assert {
        "objective",
        "gradient_norm",
        "step",
        "passes",
        "rounds",
        "bytes",
        "seconds",
        "relative_gap",
    } <= {*frame}
    assert (np.diff(frame["objective"]) <= 0).all()
    assert (np.diff(frame["passes"]) > 0).all()
    text = repr(report)
    assert len(text.splitlines()) <= 12
    for word in ("newton", "converged", "relative gap", "passes", "rounds", "400 rows"):
        assert word in text


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


def test_progress_is_silent_unless_asked(capsys):
    daskglm.fit(X, y)
    assert capsys.readouterr() == ("", "")
    daskglm.fit(X, y, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "newton" in err


def test_auto_picks_by_expected_passes_and_says_why():
    assert daskglm.fit(X, y).report_.solver == "newton"
    wide = sp.random(200, 5000, 0.01, format="csr", random_state=0)
    report = daskglm.fit(wide, np.arange(200) % 2).report_
    assert report.solver == "tron"
    assert "5,000 features" in report.why
    assert "expected passes: tron" in report.why
    assert daskglm.fit(wide, np.arange(200) % 2, C=0.1).report_.solver == "sdca"
    rng = np.random.default_rng(0)
    long = rng.standard_normal((3000, 2200)) * np.linspace(0.1, 1, 2200)
    long /= np.linalg.norm(long, axis=1, keepdims=True)
    labels = np.sign(long @ rng.standard_normal(2200) + 0.01)
    assert daskglm.fit(long, labels, C=1.0).report_.solver == "lbfgs"
    skewed = long * (1 + 100 * (np.arange(2200) % 50 == 0))
    report = daskglm.fit(skewed / 40, labels, C=1e4, tol=1e-3).report_
    assert report.solver == "lbfgs"
    assert "too many features for a Hessian" in report.why
    tried = daskglm.fit(long, labels, C=1.0).report_
    assert "lbfgs by a trial of" in tried.why
    assert tried.passes > daskglm.fit(long, labels, C=1.0, solver="lbfgs").report_.passes, (
        "the trial counts"
    )
    assert daskglm.fit(
        wide[:, :30], np.arange(200) % 2, loss="hinge", C=0.1
    ).report_.solver.startswith("sdca")
    blocks = da.from_array(long[:, :120], chunks=(1000, -1)), da.from_array(labels, chunks=1000)
    assert daskglm.fit(*blocks, out_of_core=True).report_.solver == "newton", (
        "each pass reads the rows anew"
    )


# ---- predictions in kind
KINDS = {
    "numpy": (X, np.ndarray, np.ndarray),
    "float32": (X.astype(np.float32), np.ndarray, np.ndarray),
    "csr": (sp.csr_matrix(X), np.ndarray, np.ndarray),
    "pandas": (pd.DataFrame(X), np.ndarray, np.ndarray),
    "dask array": (da.from_array(X, chunks=(90, 3)), da.Array, da.Array),
    "dask array of csr": (
        da.from_array(X, chunks=(90, 5)).map_blocks(sp.csr_matrix),
        da.Array,
        da.Array,
    ),
    "dask frame": (
        dd.from_pandas(pd.DataFrame(X, index=np.arange(400) * 2), npartitions=3),
        dd.Series,
        dd.DataFrame,
    ),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_come_in_the_kind_of_x(kind, classes):
    rows, vector, matrix = KINDS[kind]
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [0.0] if classes == 2 else [-0.5, 0.5])]
    model = daskglm.LogisticRegression().fit(X, labels)
    decision, labels_back, proba = (
        model.decision_function(rows),
        model.predict(rows),
        model.predict_proba(rows),
    )
    assert isinstance(labels_back, vector)
    assert isinstance(proba, matrix)
    rtol = 1e-5 if kind == "float32" else 1e-9
    np.testing.assert_allclose(
        np.asarray(decision), model.decision_function(X), rtol=rtol, atol=1e-5
    )
    np.testing.assert_array_equal(np.asarray(labels_back), model.predict(X))
    np.testing.assert_allclose(np.asarray(proba), model.predict_proba(X), rtol=rtol, atol=1e-6)
    if vector is da.Array:
        assert labels_back.chunks == ((90, 90, 90, 90, 40),)
        assert proba.chunks == ((90, 90, 90, 90, 40), (classes,))
        assert proba._meta.shape == (0, 0) or proba._meta.ndim == 2
        assert labels_back.dtype == model.classes_.dtype
    if vector is dd.Series:
        assert (labels_back.compute().index == np.arange(400) * 2).all()
        assert list(proba.columns) == list(model.classes_)


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


def test_lazy_predictions_refuse_what_they_cannot_mean():
    with pytest.raises(ValueError, match="X has 4 features, but LogisticRegression is expecting 5"):
        MODEL.predict(da.from_array(X[:, :4], chunks=(90, 4)))
    named = daskglm.fit(pd.DataFrame(X, columns=list("abcde")), y)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(dd.from_pandas(pd.DataFrame(X, columns=list("edcba")), npartitions=2))
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        MODEL.predict(da.from_array(bad, chunks=(90, 5))).compute()


def test_predictions_keep_unknown_chunks_and_empty_partitions():
    rows = da.from_array(X, chunks=((0, 150, 0, 250), 5))
    rows._chunks = ((np.nan,) * 4, (5,))
    np.testing.assert_array_equal(MODEL.predict(rows).compute(), MODEL.predict(X))


def test_pickled_models_predict_without_a_cluster():
    again = pickle.loads(pickle.dumps(MODEL))
    np.testing.assert_array_equal(again.predict(X), MODEL.predict(X))
    assert repr(again.report_) == repr(MODEL.report_)


def test_data_in_memory_start_no_scheduler_and_import_no_distributed():
    code = (
        "import sys, numpy, threading, daskglm; m = daskglm.fit(numpy.eye(4), [0, 1, 0, "
        "1]);print('distributed' in sys.modules, 'cupy' in sys.modules, m.report_.converged)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]


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
