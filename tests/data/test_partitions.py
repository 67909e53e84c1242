"""What users hold: every kind of input gives the same fit, and bad input a clear error before or while loading."""

import logging

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import daskglm
from tests.conftest import make_problem

X, y = make_problem(500, 6)
COEF = daskglm.fit(X, y, tol=1e-12).coef_
FRAME = pd.DataFrame(X, columns=list("abcdef"))
UNEVEN = (1, 0, 120, 79, 200, 0, 100)


def lazy(unknown=False):
    array = da.from_array(X, chunks=(UNEVEN, 6))
    if unknown:
        array = array.map_blocks(lambda block: block, dtype=X.dtype)
        array._chunks = ((np.nan,) * len(UNEVEN), (6,))
    return array


def parts(values, cuts=(0, 3, 3, 250, 500)):
    return [dask.delayed(values[a:b]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


KINDS = {
    "numpy": lambda: (X, y),
    "fortran": lambda: (np.asfortranarray(X), y),
    "lists": lambda: (X.tolist(), y.tolist()),
    "csr": lambda: (sp.csr_matrix(X), y),
    "csr_array": lambda: (sp.csr_array(X), y),
    "csc": lambda: (sp.csc_matrix(X), y),
    "coo": lambda: (sp.coo_matrix(X), y),
    "pandas": lambda: (FRAME, pd.Series(y)),
    "pandas, y a column": lambda: (FRAME.assign(label=y), "label"),
    "pandas, nullable": lambda: (FRAME.astype("Float64"), y),
    "dask array": lambda: (lazy(), da.from_array(y, chunks=(UNEVEN,))),
    "dask array, y numpy": lambda: (lazy(), y),
    "dask array, y a column": lambda: (lazy(), da.from_array(y[:, None], chunks=77)),
    "dask array cut in columns": lambda: (da.from_array(X, chunks=(100, 4)), y),
    "dask array, other row chunks": lambda: (
        da.from_array(X, chunks=(100, 6)),
        da.from_array(y, chunks=77),
    ),
    "dask array, unknown lengths": lambda: (lazy(unknown=True), da.from_array(y, chunks=(UNEVEN,))),
    "dask array, unknown lengths, other chunks": lambda: (
        lazy(unknown=True),
        da.from_array(y[:, None], chunks=50),
    ),
    "dask array of CSR": lambda: (lazy().map_blocks(sp.csr_matrix, dtype=float), y),
    "dask frame": lambda: (
        dd.from_pandas(FRAME, npartitions=4),
        dd.from_pandas(pd.Series(y), npartitions=4),
    ),
    "dask frame, y a column": lambda: (
        dd.from_pandas(FRAME.assign(label=y), npartitions=4),
        "label",
    ),
    "dask frame, filtered": lambda: (
        dd.from_pandas(
            pd.concat([FRAME.assign(label=y), FRAME.assign(label=y) - 1e3]), npartitions=4
        ).query("a > -500"),
        "label",
    ),
    "delayed": lambda: (parts(X), parts(y)),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_input_gives_the_same_fit(kind):
    rows, labels = KINDS[kind]()
    model = daskglm.fit(rows, labels, tol=1e-12)
    np.testing.assert_allclose(model.coef_, COEF, rtol=1e-8, atol=1e-10)
    assert model.report_.n_rows == 500


@pytest.mark.parametrize(
    "labels", [(0, 1), (-1, 1), (False, True), ("no", "yes"), (3, 7), (1.0, 2.0), (10, 50)]
)
def test_labels_of_any_two_values(labels):
    named = np.where(y > 0, labels[1], labels[0])
    for values in (named, da.from_array(named, chunks=100)):
        rows = X if values is named else da.from_array(X, chunks=(100, 6))
        model = daskglm.fit(rows, values, tol=1e-12)
        np.testing.assert_allclose(model.coef_, COEF, rtol=1e-8)
        assert model.classes_.tolist() == list(labels)
        assert set(np.unique(np.asarray(model.predict(rows)))) <= set(labels)


def test_labels_that_are_sorted_or_missing_on_some_partitions():
    order = np.argsort(y, kind="stable")
    model = daskglm.fit(
        da.from_array(X[order], chunks=(50, 6)), da.from_array(y[order], chunks=50), tol=1e-12
    )
    np.testing.assert_allclose(model.coef_, COEF, rtol=1e-8)


def test_three_classes_on_partitions_that_lack_some():
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    order = np.argsort(labels)
    whole = daskglm.fit(X, labels, tol=1e-10)
    cut = daskglm.fit(
        da.from_array(X[order], chunks=(60, 6)), da.from_array(labels[order], chunks=60), tol=1e-10
    )
    np.testing.assert_allclose(whole.coef_, cut.coef_, rtol=1e-6, atol=1e-8)
    assert whole.score(X, labels) > 0.8


def test_sample_and_class_weights_scale_the_rows():
    weight = np.where(np.arange(500) % 3 == 0, 0.0, 2.0)
    kept = weight > 0
    whole = daskglm.fit(X, y, sample_weight=weight, tol=1e-12)
    np.testing.assert_allclose(
        whole.coef_, daskglm.fit(X[kept], y[kept], C=2.0, tol=1e-12).coef_, rtol=1e-8
    )
    frame = FRAME.assign(label=y, mass=weight)
    for rows in (frame, dd.from_pandas(frame, npartitions=3)):
        model = daskglm.fit(rows, "label", sample_weight="mass", tol=1e-12)
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8)
        assert list(model.feature_names_in_) == list("abcdef")
    by_class = daskglm.fit(X, y, class_weight={1.0: 3.0}, tol=1e-12)
    np.testing.assert_allclose(
        by_class.coef_,
        daskglm.fit(X, y, sample_weight=np.where(y > 0, 3.0, 1.0), tol=1e-12).coef_,
        rtol=1e-8,
    )
    from sklearn.linear_model import LogisticRegression

    theirs = LogisticRegression(class_weight="balanced", tol=1e-10, solver="newton-cholesky").fit(
        X, y
    )
    np.testing.assert_allclose(
        daskglm.fit(X, y, class_weight="balanced", tol=1e-12).coef_, theirs.coef_, rtol=1e-6
    )


def test_float32_stays_float32_and_integers_become_floats():
    from daskglm.data.blocks import Place, to_block

    assert to_block(X.astype(np.float32), y, place=Place(), classify=True).X.dtype == np.float32
    assert (
        to_block(np.ones((2, 2), np.int64), [0, 1], place=Place(), classify=True).X.dtype
        == np.float64
    )
    assert (
        to_block(np.ones((2, 2), bool), [0, 1], place=Place(), classify=True).X.dtype == np.float32
    )
    same = np.ascontiguousarray(X)
    assert to_block(same, y, place=Place(), classify=True).X is same
    huge = to_block(np.full((2, 2), 1e18, np.float32), [0, 1], place=Place(), classify=True)
    assert huge.X.dtype == np.float64


def test_users_arrays_are_not_changed():
    messy = sp.csr_matrix((np.ones(4), [3, 1, 1, 0], [0, 2, 4]), shape=(2, 4))
    before = messy.indices.copy()
    daskglm.fit(messy, [0, 1])
    np.testing.assert_array_equal(messy.indices, before)


# ---- errors
def spoilt(i, j, value, kind=np.asarray):
    bad = X.copy()
    bad[i, j] = value
    return kind(bad)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_not_finite_are_named_with_their_place(value, dtype):
    word = "NaN" if np.isnan(value) else "inf"
    with pytest.raises(ValueError, match=rf"{word}.*row 321, column 4"):
        daskglm.fit(spoilt(321, 4, value).astype(dtype), y)
    with pytest.raises(ValueError, match=rf"{word}.*row 321, column 4"):
        daskglm.fit(sp.csr_matrix(spoilt(321, 4, value).astype(dtype)), y)
    with pytest.raises(ValueError, match=rf"{word}.*partition 3, row 21, column 4"):
        daskglm.fit(da.from_array(spoilt(321, 4, value).astype(dtype), chunks=(100, 6)), y)
    frame = pd.DataFrame(spoilt(321, 4, value), columns=list("abcdef"))
    with pytest.raises(ValueError, match=rf"{word}.*row 321, column 'e'"):
        daskglm.fit(frame, y)
    with pytest.raises(ValueError, match=rf"{word}.*partition \d, row \d+, column 'e'"):
        daskglm.fit(dd.from_pandas(frame.assign(label=y), npartitions=3), "label")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_labels_targets_and_weights(value):
    bad = y.copy()
    bad[7] = value
    for loss in ("logistic", "squared_hinge", "squared"):
        with pytest.raises(ValueError, match=r"y contains (NaN|infinity).*row 7"):
            daskglm.fit(X, bad, loss=loss)
    with pytest.raises(ValueError, match="NaN|inf"):
        daskglm.fit(X, y, sample_weight=np.where(np.arange(500) == 3, value, 1.0))
    with pytest.raises(ValueError, match=r"row 3.*negative"):
        daskglm.fit(X, y, sample_weight=np.where(np.arange(500) == 3, -1.0, 1.0))
    with pytest.raises(ValueError, match="[wW]eights (are zero|must contain)"):
        daskglm.fit(X, y, sample_weight=np.zeros(500))
    with pytest.raises(ValueError, match="None"):
        daskglm.fit(X, np.where(np.arange(500) == 3, None, "a").astype(object))


def test_one_class_is_named():
    with pytest.raises(ValueError, match="one class, 1.0"):
        daskglm.fit(X, np.ones(500))
    with pytest.raises(ValueError, match="one class, 'spam'"):
        daskglm.fit(
            da.from_array(X, chunks=(100, 6)), da.from_array(np.full(500, "spam"), chunks=100)
        )
    with pytest.warns(ConvergenceWarning, match="alone has weight"):
        alone = daskglm.fit(
            X, y, sample_weight=(y > 0).astype(float)
        )  # a class without weight is fitted, as elsewhere
    assert (alone.predict(X) == 1.0).all()


def test_values_beyond_float64_squares_ask_for_rescaling():
    with pytest.raises(ValueError, match="rescale"):
        daskglm.fit(X * 1e200, y)


MISFITS = {
    "length": (lambda: (X, y[:-1]), "inconsistent numbers of samples"),
    "dask length": (lambda: (lazy(), y[:-1]), "inconsistent numbers of samples"),
    "dask lengths": (lambda: (lazy(), da.from_array(y[:-1], chunks=50)), "inconsistent"),
    "partitions": (
        lambda: (dd.from_pandas(FRAME, npartitions=4), dd.from_pandas(pd.Series(y), npartitions=3)),
        "4 partitions but y has 3",
    ),
    "unknown against numpy": (lambda: (lazy(unknown=True), y), "unknown chunk lengths"),
    "unknown against other cuts": (
        lambda: (lazy(unknown=True), da.from_array(y[:-1], chunks=100)),
        "inconsistent numbers of samples: X 500, y 499",
    ),
    "frame against numpy": (lambda: (dd.from_pandas(FRAME, npartitions=4), y), "name of a column"),
    "no such column": (
        lambda: (dd.from_pandas(FRAME, npartitions=4), "label"),
        "no column 'label'",
    ),
    "no such pandas column": (lambda: (FRAME, "label"), "no column 'label'"),
    "text that names rows": (
        lambda: (FRAME.assign(a=[f"row {i}" for i in range(len(FRAME))]), y),
        "column 'a' has .* levels in .* rows, such as 'row 0'",
    ),
    "dask text that is numbers": (
        lambda: (dd.from_pandas(FRAME.assign(a="1.5", label=y), npartitions=2), "label"),
        "column 'a' is text that reads as numbers, such as '1.5'",
    ),
    "one dimension": (lambda: (da.from_array(X[:, 0]), y), "1 dimension"),
    "delayed against array": (lambda: (parts(X), y), "list of delayed"),
    "delayed counts": (lambda: (parts(X), parts(y)[:-1]), "4 delayed blocks but y has 3"),
    "delayed rows": (
        lambda: (parts(X), parts(y, (0, 3, 4, 250, 500))),
        r"partition \d, X has \d+ rows but y has \d+",
    ),
    "no rows": (lambda: (X[:0], y[:0]), "no rows"),
    "no columns": (lambda: (X[:, :0], y), "0 feature"),
    "continuous labels": (lambda: (X, X[:, 0]), "Unknown label type"),
    "complex": (lambda: (X.astype(complex), y), "Complex data"),
    "delayed widths": (
        lambda: ([dask.delayed(X[:250]), dask.delayed(X[250:, :5])], parts(y, (0, 250, 500))),
        "columns",
    ),
}


@pytest.mark.parametrize("case", list(MISFITS))
def test_misfits_are_refused(case):
    build, message = MISFITS[case]
    with pytest.raises((ValueError, TypeError), match=message):
        daskglm.fit(*build())


def test_conversions_are_logged_once(caplog):
    with caplog.at_level(logging.INFO, "daskglm"):
        daskglm.fit(sp.csc_matrix(X), y)
        daskglm.fit(da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=77))
    text = caplog.text
    assert text.count("converted to CSR") == 1
    assert text.count("chunked along columns") == 1
    assert text.count("y is chunked differently") == 1


def test_constant_columns_and_one_row_of_each_class():
    flat = np.c_[X, np.ones(500), np.zeros(500), np.full(500, 7.0)]
    for solver in ("newton", "tron", "lbfgs"):
        penalised = daskglm.fit(flat, y, solver=solver, tol=1e-10)
        np.testing.assert_allclose(penalised.coef_[0, :6], COEF[0], rtol=1e-4, atol=1e-5)
        with pytest.warns(ConvergenceWarning, match="columns of X are linearly dependent"):
            free = daskglm.fit(flat, y, solver=solver, C=np.inf, tol=1e-8)
        without = daskglm.fit(X, y, C=np.inf, tol=1e-8)
        assert free.report_.objective == pytest.approx(without.report_.objective, rel=1e-8)
    assert daskglm.fit([[0.0], [1.0]], [0, 1]).report_.converged
