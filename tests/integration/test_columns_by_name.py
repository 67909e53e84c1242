"""Columns of dataframes are those of the fit by their names, at every face that takes rows of a fitted model."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import daskglm
from tests.covering import each_choice

RNG = np.random.default_rng(1)
NAMES = list("abc")
FRAME = pd.DataFrame(RNG.standard_normal((90, 3)), columns=NAMES)
TWO = (FRAME["a"] - 2.0 * FRAME["c"] + RNG.standard_normal(90) > 0).astype(int)
ALL = FRAME.assign(extra=9.0, y=TWO, note="text")
MODEL = daskglm.LogisticRegression(C=np.inf).fit(FRAME, TWO)
KNOWN = MODEL.inference(FRAME, TWO)
TURNED = ["y", "c", "note", "a", "extra", "b"]


def polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


CONTAINERS = {
    "pandas": lambda frame: frame,
    "dask": lambda frame: dd.from_pandas(frame, npartitions=3),
    "polars": polars,
    "pyarrow": pa.Table.from_pandas,
    "delayed": lambda frame: [dask.delayed(frame[:40]), dask.delayed(frame[40:])],
}
CALLS = {
    "predict": lambda rows: MODEL.predict(rows),
    "predict_proba": lambda rows: MODEL.predict_proba(rows),
    "decision_function": lambda rows: MODEL.decision_function(rows),
    "inference.predict": lambda rows: KNOWN.predict(rows),
}


def whole(values):
    return np.concatenate(dask.compute(*values)) if isinstance(values, list) else np.asarray(values)


@each_choice
@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize(
    ("kind", "columns"),
    [("pandas", list(ALL.columns))]
    + [(kind, columns) for kind in list(CONTAINERS)[1:] for columns in (list(ALL), TURNED)],
)
def test_predictions_take_columns_by_name(kind, columns, call):
    rows = CONTAINERS[kind](ALL[columns])
    np.testing.assert_allclose(whole(CALLS[call](rows)), whole(CALLS[call](FRAME)), rtol=1e-10)


@pytest.mark.parametrize("kind", ["pandas", "dask", "polars", "pyarrow"])
def test_score_and_inference_too(kind):
    rows = CONTAINERS[kind](ALL if kind == "pandas" else ALL[TURNED])
    assert MODEL.score(rows, "y") == MODEL.score(FRAME, TWO)
    np.testing.assert_allclose(MODEL.inference(rows, "y").bse, KNOWN.bse, rtol=1e-6)


@pytest.mark.parametrize("call", list(CALLS))
@pytest.mark.parametrize("kind", list(CONTAINERS))
def test_missing_columns_are_named(kind, call):
    rows = CONTAINERS[kind](ALL.drop(columns="b"))
    with pytest.raises(ValueError, match=r"now missing:\n- b|lacks 1 of the columns.*'b'"):
        dask.compute(CALLS[call](rows))


def test_pandas_in_another_order_is_refused_as_by_scikit_learn():
    for call in ("predict", "predict_proba", "decision_function"):
        for columns in (NAMES[::-1], TURNED):
            with pytest.raises(
                ValueError, match=r"same order as.*\n.*X\[model.feature_names_in_\]"
            ):
                CALLS[call](ALL[columns])
    np.testing.assert_array_equal(
        MODEL.predict(ALL[TURNED][MODEL.feature_names_in_]), MODEL.predict(FRAME)
    )
