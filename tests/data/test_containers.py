"""Containers of other libraries and columns that hold numbers as objects: fitted, predicted and scored as NumPy is."""

import contextlib
import decimal

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn.linear_model
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskglm
from tests.conftest import make_problem

X, y = make_problem(300, 4, seed=7, sparse=True)
X = X.toarray()
NAMES = list("abcd")
FRAME = pd.DataFrame(X, columns=NAMES)
COEF = daskglm.fit(X, y, tol=1e-10).coef_
CUTS = [slice(0, 100), slice(100, 300)]


def chunks(convert):
    return da.from_array(X, chunks=(100, 4)).map_blocks(convert, dtype=float)


def polars():
    library = pytest.importorskip("polars")
    return library.DataFrame(X, schema=NAMES), library.Series("y", y)


def polars_label():
    library = pytest.importorskip("polars")
    return library.DataFrame(X, schema=NAMES).with_columns(library.Series("y", y)), "y"


def arrow():
    return pa.Table.from_pandas(FRAME), pa.chunked_array([y])


def xarray(lazy):
    library = pytest.importorskip("xarray")
    found = library.DataArray(X, dims=("row", "column")), library.DataArray(y, dims="row")
    return tuple(part.chunk({"row": 100}) for part in found) if lazy else found


def sparse(kind, lazy):
    library = pytest.importorskip("sparse")
    convert = getattr(library, kind)
    convert = convert if kind == "DOK" else convert.from_numpy
    return (chunks(convert), da.from_array(y, chunks=100)) if lazy else (convert(X), y)


def columns(dtype):
    frame = FRAME.astype({"b": "float64"})
    kinds = {
        "object": lambda s: s.astype(object),
        "decimal": lambda s: s.map(decimal.Decimal),
        "string": lambda s: s.map(repr),
        "arrow decimal": lambda s: s.astype(pd.ArrowDtype(pa.decimal128(30, 20))),
    }
    return frame.assign(b=kinds[dtype](frame["b"]), d=kinds[dtype](frame["d"]))


COLUMNS = ["object", "decimal", "string", "arrow decimal"]
# Those whose numbers are text: dask makes it of objects.
OF_TEXT = ["string columns", *(f"dask frame of {dtype} columns" for dtype in COLUMNS[:3])]
KINDS = {
    "polars": polars,
    "polars, y a column": polars_label,
    "pyarrow": arrow,
    "xarray": lambda: xarray(False),
    "xarray of dask": lambda: xarray(True),
    **{f"sparse {kind}": lambda kind=kind: sparse(kind, False) for kind in ("COO", "GCXS", "DOK")},
    **{
        f"dask array of {kind}": lambda kind=kind: sparse(kind, True)
        for kind in ("COO", "GCXS", "DOK")
    },
    "delayed": lambda: tuple([dask.delayed(part[cut]) for cut in CUTS] for part in (X, y)),
    "delayed frames": lambda: tuple(
        [dask.delayed(part[cut]) for cut in CUTS] for part in (FRAME, pd.Series(y))
    ),
    **{f"{dtype} columns": lambda dtype=dtype: (columns(dtype), y) for dtype in COLUMNS},
    **{
        f"dask frame of {dtype} columns": lambda dtype=dtype: (
            dd.from_pandas(columns(dtype), npartitions=3),
            dd.from_pandas(pd.DataFrame({"y": y}), npartitions=3),
        )
        for dtype in COLUMNS
    },
    "array of objects": lambda: (X.astype(object), y),
}


def together(predicted):
    if isinstance(predicted, list):
        assert all(hasattr(part, "dask") for part in predicted)
        return np.concatenate(dask.compute(*predicted))
    return np.asarray(predicted)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_container_is_fitted_predicted_and_scored(kind):
    rows, labels = KINDS[kind]()
    model = daskglm.LogisticRegression(tol=1e-10)
    if kind in OF_TEXT:
        with pytest.raises(ValueError, match="column 'b' is text that reads as numbers"):
            model.fit(rows, labels)
        model.set_params(schema={"numeric": ["b", "d"]})
    model.fit(rows, labels)
    np.testing.assert_allclose(model.coef_, COEF, rtol=1e-5, atol=1e-6)
    plain = daskglm.LogisticRegression(tol=1e-10).fit(X, y)
    assert model.score(rows, labels) == pytest.approx(plain.score(X, y))
    rows = rows if not isinstance(labels, str) else rows.drop(labels)
    np.testing.assert_array_equal(together(model.predict(rows)), plain.predict(X))
    np.testing.assert_allclose(
        together(model.predict_proba(rows)), plain.predict_proba(X), rtol=1e-4
    )
    np.testing.assert_allclose(
        together(model.predict_log_proba(rows)), plain.predict_log_proba(X), rtol=1e-4, atol=1e-6
    )


LEVELS = np.resize([3, 1, 2], len(y))
LEVELLED = FRAME.assign(b=pd.Categorical(LEVELS))


def polars_levels(kind):
    library = pytest.importorskip("polars")
    words = library.Series("b", LEVELS.astype(str))
    dtype = library.Categorical if kind == "Categorical" else library.Enum(["1", "2", "3"])
    return library.DataFrame(X, schema=NAMES).with_columns(words.cast(dtype))


CATEGORIES = {
    "numbers": lambda: LEVELLED,
    "text": lambda: FRAME.assign(b=pd.Categorical(LEVELS.astype(str))),
    "ordered": lambda: FRAME.assign(b=pd.Categorical(LEVELS, ordered=True)),
    "of yes and no": lambda: FRAME.assign(b=pd.Categorical(LEVELS > 1)),
    "dask": lambda: dd.from_pandas(LEVELLED, npartitions=3),
    "dask, unknown": lambda: dd.from_pandas(FRAME, npartitions=3).astype({"b": "category"}),
    "polars Categorical": lambda: polars_levels("Categorical"),
    "polars Enum": lambda: polars_levels("Enum"),
    "pyarrow dictionary": lambda: pa.Table.from_pandas(LEVELLED),
    "delayed": lambda: [dask.delayed(LEVELLED[cut]) for cut in CUTS],
}
MODEL = daskglm.LogisticRegression().fit(FRAME, y)


# Delayed blocks have no dtypes before they are read, and that of floats nearly a level a row.
NO_LEVELS = ("delayed", "dask, unknown")


@pytest.mark.parametrize("kind", [kind for kind in CATEGORIES if kind not in NO_LEVELS])
def test_categories_are_levels_whatever_they_are_made_of(kind):
    rows, labels = CATEGORIES[kind](), y
    if hasattr(rows, "map_partitions"):
        labels = dd.from_pandas(pd.Series(y), npartitions=3)
    model = daskglm.LogisticRegression(tol=1e-10).fit(rows, labels)
    levels = ["True"] if kind == "of yes and no" else ["1", "2", "3"]
    assert model.feature_names_out_.tolist() == [*(f"b[{k}]" for k in levels), "a", "c", "d"]
    ones = np.stack([(k == LEVELS) * 1.0 for k in (1, 2, 3)], axis=1)
    if kind == "of yes and no":
        ones = (LEVELS > 1)[:, None] * 1.0
    coded = np.column_stack([ones, X[:, [0, 2, 3]]])
    plain = daskglm.LogisticRegression(tol=1e-10).fit(coded, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(together(model.predict(rows)), plain.predict(coded))


def test_a_category_of_numbers_with_a_level_for_each_row_is_refused():
    rows = dd.from_pandas(FRAME.assign(b=pd.Categorical(range(300))), npartitions=3)
    labels = dd.from_pandas(pd.Series(y), npartitions=3)
    with pytest.raises(ValueError, match="column 'b' has 300 levels in 300 rows.*name it in categ"):
        daskglm.LogisticRegression().fit(rows, labels)


# Of a model that was fitted to numbers; a fit tells dtypes before it loads, but of delayed blocks.
@pytest.mark.parametrize(
    ("kind", "method"),
    [("delayed", "fit"), *((kind, name) for kind in CATEGORIES for name in ("predict", "score"))],
)
def test_categories_are_not_taken_for_numbers(kind, method):
    rows, labels = CATEGORIES[kind](), y
    if kind == "delayed":
        labels = [dask.delayed(y[cut]) for cut in CUTS]
    elif hasattr(rows, "map_partitions"):
        labels = dd.from_pandas(pd.Series(y), npartitions=3)
    call = {
        "fit": lambda: daskglm.LogisticRegression().fit(rows, labels),
        "predict": lambda: dask.compute(MODEL.predict(rows)),
        "score": lambda: MODEL.score(rows, labels),
    }[method]
    with (
        pytest.warns(UserWarning, match="valid feature names")
        if (kind, method) == ("delayed", "score")
        else contextlib.nullcontext(),
        pytest.raises(ValueError, match="column 'b' has dtype category.*Encode it before fit"),
    ):
        call()


TEXTS = {
    "U": lambda: X.astype(str),
    "S": lambda: X.astype("S"),
    "objects": lambda: X.astype(str).astype(object),
    "one text among numbers": lambda: np.where(np.arange(4) == 2, X.astype(str), X.astype(object)),
    "lists": lambda: X.astype(str).tolist(),
    "StringDType": lambda: X.astype(np.dtypes.StringDType()),
    "chunks": lambda: da.from_array(X.astype(str), chunks=(100, 4)),
    "delayed": lambda: [dask.delayed(X[cut].astype(str)) for cut in CUTS],
}


@pytest.mark.parametrize("kind", list(TEXTS))
def test_text_that_looks_like_numbers_is_text(kind):
    rows, labels = TEXTS[kind](), y
    if kind == "delayed":
        labels = [dask.delayed(y[cut]) for cut in CUTS]
    model = daskglm.LogisticRegression().fit(X, y)
    said = "X has values that are not numbers.*row 0, column [02] is the text '.*astype"
    for call in (
        lambda: daskglm.LogisticRegression().fit(rows, labels),
        lambda: dask.compute(model.predict(rows)),
        lambda: model.score(rows, labels),
    ):
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.parametrize("name", ["y", "sample_weight", "offset"])
@pytest.mark.parametrize("kind", [str, object, "series", "chunks"])
def test_text_beside_the_rows_is_text(name, kind):
    words = np.arange(1, 301).astype(str)
    words = pd.Series(words) if kind == "series" else words
    words = words.astype(object) if kind is object else words
    rows = da.from_array(X, chunks=(100, 4)) if kind == "chunks" else X
    words = da.from_array(words, chunks=100) if kind == "chunks" else words
    targets = da.from_array(y, chunks=100) if kind == "chunks" else y
    with pytest.raises(ValueError, match=rf"{name} has values that are not numbers.*text '\d*1'"):
        daskglm.Ridge().fit(rows, **{"y": targets, name: words})


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "xarray", "sparse GCXS"])
def test_ridge_takes_them_too(kind):
    rows, targets = KINDS[kind]()
    model = daskglm.Ridge(tol=1e-12).fit(rows, targets)
    np.testing.assert_allclose(
        model.coef_, daskglm.Ridge(tol=1e-12).fit(X, y).coef_, rtol=1e-5, atol=1e-7
    )
    assert model.score(rows, targets) == pytest.approx(
        daskglm.Ridge(tol=1e-12).fit(X, y).score(X, y)
    )


def test_a_pipeline_in_polars_keeps_the_names():
    rows, labels = polars()
    pipe = make_pipeline(StandardScaler(), daskglm.LogisticRegression()).set_output(
        transform="polars"
    )
    pipe.fit(rows, labels)
    assert list(pipe[-1].feature_names_in_) == NAMES
    assert pipe.predict(rows).shape == (300,)
    with pytest.raises(TypeError, match="LazyFrame.*collect"):
        daskglm.LogisticRegression().fit(rows.lazy(), labels)


@pytest.mark.slow
def test_futures_are_fitted_and_predicted(client):
    rows, labels = (
        [client.submit(lambda part: part, part[cut]) for cut in CUTS] for part in (X, y)
    )
    model = daskglm.LogisticRegression(tol=1e-10).fit(rows, labels)
    np.testing.assert_allclose(model.coef_, COEF, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(together(model.predict(rows)), model.predict(X))
    assert model.score(rows, labels) == pytest.approx(model.score(X, y))
    with pytest.raises(
        ValueError, match="partition 0, X has 3 features, but the model is expecting 4"
    ):
        dask.compute(*model.predict([dask.delayed(X[:, :3])]))


@pytest.mark.parametrize("value", [None, pd.NA, "x", {}, pd.Timestamp("2026-01-01")])
def test_what_is_no_number_is_named_with_its_row_and_column(value):
    spoilt = FRAME.astype({"c": object})
    spoilt["c"] = [value if i == 21 else each for i, each in enumerate(spoilt["c"])]
    word = (
        "X contains NaN" if value is None or value is pd.NA else "X has values that are not numbers"
    )
    with dask.config.set({"dataframe.convert-string": False}):
        lazy = dd.from_pandas(spoilt, npartitions=1), dd.from_pandas(pd.Series(y), npartitions=1)
    for rows, labels, place in ((spoilt, y, "row 21"), (*lazy, "partition 0, row 21")):
        with (
            dask.config.set({"dataframe.convert-string": False}),
            pytest.raises((ValueError, TypeError)) as caught,
        ):
            daskglm.fit(rows, labels)
        message = str(caught.value)
        assert message.startswith(word)
        assert f"{place}, column 'c'" in message
        assert value is None or "missing" not in message or value is pd.NA


def test_names_of_columns_that_are_ambiguous_are_refused():
    twice = FRAME.rename(columns={"d": "a"})
    with pytest.raises(ValueError, match="more than one column of the name 'a'"):
        daskglm.fit(twice, y)
    mixed = FRAME.rename(columns={"d": 0})
    with pytest.raises(TypeError, match=r"\['int', 'str'\] as feature name / column name types"):
        daskglm.LogisticRegression().fit(mixed, y)
    assert not hasattr(daskglm.LogisticRegression().fit(pd.DataFrame(X), y), "feature_names_in_")


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_are_refused_as_by_scikit_learn():
    for call in (lambda m: daskglm.fit(m, y), daskglm.LogisticRegression().fit(X, y).predict):
        with pytest.raises(TypeError, match="np.matrix is not supported"):
            call(np.asmatrix(X))


@pytest.mark.parametrize("dtype", ["object", "str", "category", "U"])
def test_classes_have_the_dtype_that_scikit_learn_gives_them(dtype, tmp_path):
    words = np.where(y > 0, "yes", "no")
    labels = words if dtype == "U" else pd.Series(words).astype(dtype)
    model = daskglm.LogisticRegression().fit(X, labels)
    theirs = sklearn.linear_model.LogisticRegression().fit(X, labels)
    assert model.classes_.dtype == theirs.classes_.dtype
    assert model.predict(X).dtype == theirs.predict(X).dtype
    daskglm.save(model, tmp_path / "model.json")
    assert daskglm.load(tmp_path / "model.json").classes_.tolist() == ["no", "yes"]
    if dtype != "U":
        lazy = dd.from_pandas(FRAME.assign(y=labels), npartitions=3)
        assert daskglm.LogisticRegression().fit(lazy, "y").classes_.dtype == object


def test_sparse_matrices_are_not_changed():
    rows = sp.csr_matrix(X)
    before = rows.copy()
    daskglm.fit(rows, y)
    assert (rows != before).nnz == 0
