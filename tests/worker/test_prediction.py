"""Predictions in the container of X."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskglm
from tests.conftest import make_problem

X, y = make_problem(400, 5)
MODEL = daskglm.fit(X, y)

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


def test_lazy_predictions_refuse_what_they_cannot_mean():
    with pytest.raises(ValueError, match="X has 4 features, but LogisticRegression is expecting 5"):
        MODEL.predict(da.from_array(X[:, :4], chunks=(90, 4)))
    named = daskglm.fit(pd.DataFrame(X, columns=list("abcde")), y)
    with pytest.raises(ValueError, match="'z'|e"):
        named.predict(dd.from_pandas(pd.DataFrame(X, columns=list("zdcba")), npartitions=2))
    bad = X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        MODEL.predict(da.from_array(bad, chunks=(90, 5))).compute()


def test_predictions_keep_unknown_chunks_and_empty_partitions():
    rows = da.from_array(X, chunks=((0, 150, 0, 250), 5))
    rows._chunks = ((np.nan,) * 4, (5,))
    np.testing.assert_array_equal(MODEL.predict(rows).compute(), MODEL.predict(X))
