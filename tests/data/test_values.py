"""Values that are no real numbers are refused by name and place; what can be rounded is rounded."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.data.values import as_float
from tests.conftest import make_problem

X, y = make_problem(300, 4)
MODEL = daskglm.fit(X, y)
MASK = np.zeros(X.shape, bool)
MASK[217, 2] = True


def chunks(values):
    return da.from_array(values, chunks=(100, *values.shape[1:]), asarray=False)


@pytest.mark.parametrize("lazy", [False, True])
def test_masked_values_are_refused(lazy):
    give = chunks if lazy else (lambda values: values)
    place = r"partition 2, row 17" if lazy else "row 217"
    rows = np.ma.masked_array(X, MASK)
    column = np.ma.masked_array(y, MASK[:, 2])
    with pytest.raises(ValueError, match=rf"X has 1 masked values, the first at {place}"):
        daskglm.fit(give(rows), give(y))
    with pytest.raises(ValueError, match=rf"y has 1 masked values, the first at {place}"):
        daskglm.fit(give(X), give(column))
    with pytest.raises(
        ValueError, match=rf"sample_weight has 1 masked values, the first at {place}"
    ):
        daskglm.fit(
            give(X), give(y), sample_weight=give(np.ma.masked_array(np.ones(300), MASK[:, 2]))
        )
    with pytest.raises(ValueError, match=rf"X has 1 masked values, the first at {place}"):
        np.asarray(MODEL.predict(give(rows)))
    with pytest.raises(ValueError, match="y has 1 masked values"):
        daskglm.fit(give(X), column)
    if not lazy:
        with pytest.raises(ValueError, match="y has 1 masked values"):
            daskglm.LogisticRegressionCV(Cs=2, cv=2).fit(X, column)
        with pytest.raises(ValueError, match="X has 1 masked values"):
            daskglm.fit(rows, y, C=[0.1, 1.0])


@pytest.mark.parametrize("lazy", [False, True])
def test_masks_without_masked_values_pass(lazy):
    give = chunks if lazy else (lambda values: values)
    rows, labels = (np.ma.masked_array(values, np.zeros(values.shape, bool)) for values in (X, y))
    model = daskglm.fit(give(rows), give(labels), sample_weight=give(np.ma.ones(300)))
    np.testing.assert_allclose(model.coef_, MODEL.coef_, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(model.predict(give(rows))), model.predict(X))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[D]"])
def test_dates_are_refused(lazy, dtype):
    give = chunks if lazy else (lambda values: values)
    dates = np.round(100 * X).astype(np.int64).astype(dtype)
    dates[7, 0] = "NaT"
    with pytest.raises(ValueError, match=r"X has dtype .*not numbers here"):
        daskglm.fit(give(dates), give(y))
    with pytest.raises(ValueError, match=r"y has dtype .*not numbers here"):
        daskglm.fit(give(X), give(dates[:, 0]), loss="squared")
    with pytest.raises(ValueError, match=r"sample_weight has dtype .*not numbers here"):
        daskglm.fit(give(X), give(y), sample_weight=give(dates[:, 0]))
    with pytest.raises(ValueError, match=r"X has dtype .*not numbers here"):
        np.asarray(MODEL.predict(give(dates)))


def test_dates_of_a_frame_are_refused_by_column():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = daskglm.fit(frame, y)
    frame["c"] = pd.Timestamp("2026-01-01")
    with pytest.raises(ValueError, match="column 'c'"):
        daskglm.fit(frame, y)
    with pytest.raises(ValueError, match="column 'c'"):
        model.predict(frame)
    with pytest.raises(ValueError, match="column 'c'"):
        model.predict(dd.from_pandas(frame, npartitions=2)).compute()


def test_complex_rows_are_refused_in_predict_as_in_fit():
    for rows in (X + 1j, chunks(X + 1j)):
        with pytest.raises(ValueError, match="Complex data not supported"):
            np.asarray(MODEL.predict(rows))
        with pytest.raises(ValueError, match="Complex data not supported"):
            daskglm.fit(rows, y)


@pytest.mark.parametrize("lazy", [False, True])
def test_halves_extended_precision_and_large_integers_are_rounded_to_floats(lazy):
    give = chunks if lazy else (lambda values: values)
    for dtype in (np.float16, np.longdouble):
        rows = X.astype(dtype)
        exact = daskglm.fit(rows.astype(np.float64), y, tol=1e-10)
        model = daskglm.fit(give(rows), give(y), tol=1e-10)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-4, atol=1e-6)
        scores = np.asarray(exact.decision_function(give(rows)))
        np.testing.assert_allclose(
            scores, exact.decision_function(rows.astype(np.float64)), rtol=1e-6, atol=1e-6
        )
    large = np.full((300, 1), 2**60 + 1, np.uint64)
    large[::2] = 2**53 + 1
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # next to such values an optimum near zero cannot be proved
        model = daskglm.fit(give(large), give(large[:, 0]), loss="squared", fit_intercept=False)
    np.testing.assert_allclose(
        np.asarray(model.predict(give(large))), large[:, 0].astype(float), rtol=1e-6
    )


def test_extended_precision_beyond_float64_is_refused():
    rows = X.astype(np.longdouble)
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long doubles are doubles here")
    rows[3, 1] = np.longdouble("1e4000")
    with pytest.raises(ValueError, match="infinity.*row 3, column 1"):
        daskglm.fit(rows, y)


def test_objects_that_are_no_numbers_are_refused():
    rows = X.astype(object)
    np.testing.assert_allclose(daskglm.fit(rows, y).coef_, MODEL.coef_, rtol=1e-6)
    rows[5, 1] = None
    for given in (rows, chunks(rows)):
        with pytest.raises(ValueError, match="NaN: .*row 5, column 1"):
            daskglm.fit(given, y)
        with pytest.raises(ValueError, match="NaN"):
            np.asarray(MODEL.predict(given))
    rows[5, 1] = "many"
    for given in (rows, chunks(rows)):
        with pytest.raises(ValueError, match="could not convert string to float: .*'many'"):
            daskglm.fit(given, y)
        with pytest.raises(ValueError, match="could not convert string to float: .*'many'"):
            np.asarray(MODEL.predict(given))


def test_one_number_as_sample_weight_stands_for_all_rows():
    weighted = daskglm.fit(X, y, sample_weight=3.0, tol=1e-10)
    np.testing.assert_allclose(weighted.coef_, daskglm.fit(X, y, C=3.0, tol=1e-10).coef_, rtol=1e-6)


@pytest.mark.parametrize("kind", ["?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "i8", "u8", "f8"])
def test_numbers_become_the_smallest_floats_that_hold_them(kind):
    largest = 1.0 if kind == "?" else np.finfo(kind).max if kind[0] == "f" else 2**53
    value = min(largest, 1 if kind == "?" else np.iinfo(kind).max if kind[0] in "iu" else largest)
    given = np.array([value], kind)
    found = as_float(given, "X")
    assert found.dtype == (
        np.float32 if kind in ("?", "i1", "u1", "i2", "u2", "f2") else np.float64
    )
    assert found[0] == given[0]
