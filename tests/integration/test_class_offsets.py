"""Offsets of several classes: a number is added to the margin of each class."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskglm
from daskglm import LogisticRegression, LogisticRegressionCV
from daskglm.core.requests import Evaluate, EvaluateAlong, HessianVector, Problem
from daskglm.data.blocks import Place, to_block
from daskglm.losses.table import find
from daskglm.worker.device_placement import DeviceConfig
from daskglm.worker.shard import Shard
from tests.kernels.softmax_case import draw, sums

N, D, K = 300, 4, 3
RNG = np.random.default_rng(2)
X = RNG.standard_normal((N, D))
A, C = RNG.standard_normal((K, D)), np.array([0.3, -0.2, 0.1])
Y = np.array(list("abc"))[(X @ A.T + RNG.gumbel(size=(N, K))).argmax(axis=1)]
OFFSET = RNG.standard_normal((N, K))


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "tron", "gd"])
def test_what_an_offset_has_of_the_features_coefficients_lack(solver):
    """Without a penalty, an offset X A' + c moves coefficients by A and intercepts by c."""
    moved = A - A.mean(axis=0)
    given = {"C": np.inf, "solver": solver, "tol": 1e-9, "max_iter": 5000}
    plain = LogisticRegression(**given).fit(X, Y)
    other = LogisticRegression(**given).fit(X, Y, offset=X @ A.T + C)
    assert other.report_.objective == pytest.approx(plain.report_.objective, rel=1e-8)
    np.testing.assert_allclose(other.coef_ + moved, plain.coef_, atol=2e-3)
    np.testing.assert_allclose(other.intercept_ + C - C.mean(), plain.intercept_, atol=2e-3)
    proba = other.predict_proba(X, offset=X @ A.T + C)
    np.testing.assert_allclose(proba, plain.predict_proba(X), atol=1e-3)
    assert other.score(X, Y, offset=X @ A.T + C) == pytest.approx(plain.score(X, Y), abs=0.01)


def test_inference_is_that_without_the_offset():
    given = {"C": np.inf, "tol": 1e-12}
    plain = LogisticRegression(**given).fit(X, Y).inference(X, Y)
    offset = X @ A.T + C
    other = LogisticRegression(**given).fit(X, Y, offset=offset).inference(X, Y, offset=offset)
    np.testing.assert_allclose(other.bse, plain.bse, rtol=1e-5)
    assert other.llf == pytest.approx(plain.llf, rel=1e-10)


def containers(kind, client):
    """Rows, labels and offsets in a container, and something to fit with."""
    names = list("pqrs")
    if kind == "array":
        return X, Y, OFFSET
    if kind == "csr":
        return sp.csr_matrix(X), Y, OFFSET.tolist()
    if kind == "pandas":
        return pd.DataFrame(X, columns=names), pd.Series(Y), pd.DataFrame(OFFSET)
    if kind == "dask array":
        rows = da.from_array(X, chunks=(70, 2)), da.from_array(Y, chunks=70)
        return *rows, da.from_array(OFFSET, chunks=(110, 1))
    if kind == "dask and numpy":
        return da.from_array(X, chunks=(70, -1)), da.from_array(Y, chunks=70), OFFSET
    frames = pd.DataFrame(X, columns=names), pd.Series(Y), pd.DataFrame(OFFSET, columns=list("abc"))
    return tuple(dd.from_pandas(each, npartitions=3) for each in frames)


KINDS = ["array", "csr", "pandas", "dask array", "dask and numpy", "dask frames"]


@pytest.mark.parametrize("kind", KINDS)
def test_containers_of_offsets(client, kind):
    rows, y, offset = containers(kind, client)
    wanted = LogisticRegression(tol=1e-10).fit(X, Y, offset=OFFSET)
    found = LogisticRegression(tol=1e-10).fit(rows, y, offset=offset)
    assert found.report_.relative_gap <= 1e-10
    assert found.report_.objective == pytest.approx(wanted.report_.objective, rel=1e-9)
    proba = found.predict_proba(rows, offset=offset)
    proba = proba.compute() if hasattr(proba, "compute") else proba
    np.testing.assert_allclose(proba, wanted.predict_proba(X, offset=OFFSET), atol=1e-4)
    assert found.score(rows, y, offset=offset) == wanted.score(X, Y, offset=OFFSET)


def test_folds_are_scored_with_their_offsets():
    given = {"Cs": [0.1, 1.0], "cv": 3, "tol": 1e-9}
    with_offset = LogisticRegressionCV(**given).fit(X, Y, offset=OFFSET)
    fold = next(iter(with_offset.scores_.values()))
    # the same folds, fitted and scored by hand
    from sklearn.model_selection import StratifiedKFold

    for k, (train, test) in enumerate(StratifiedKFold(3).split(X, Y)):
        model = LogisticRegression(C=1.0, tol=1e-9).fit(X[train], Y[train], offset=OFFSET[train])
        assert fold[k, 1] == pytest.approx(model.score(X[test], Y[test], offset=OFFSET[test]))


@pytest.mark.parametrize(
    ("given", "offset", "said"),
    [
        ({}, OFFSET[:, 0], r"offset has 1 column\(s\), but .* shape \(n, 3\), with columns for"),
        ({}, OFFSET[:, :2], r"offset has 2 column\(s\), but .* shape \(n, 3\)"),
        ({"multi_class": "ovr"}, OFFSET, r"offset has 3 columns, but one number is added"),
        ({}, OFFSET[:10], "inconsistent numbers of samples"),
        ({}, np.where(OFFSET > 2.5, np.nan, OFFSET), "offset contains NaN"),
    ],
)
def test_offsets_that_do_not_fit_are_refused(given, offset, said):
    with pytest.raises(ValueError, match=said):
        LogisticRegression(**given).fit(X, Y, offset=offset)


def test_other_refusals():
    with pytest.raises(ValueError, match="offset has 3 columns, but one number"):
        daskglm.fit(X, X[:, 0], loss="squared", offset=OFFSET)
    with pytest.raises(ValueError, match="class 'c' has no weight, but a column of the offset"):
        LogisticRegression().fit(X, Y, sample_weight=(Y != "c") * 1.0, offset=OFFSET)
    model = LogisticRegression().fit(X, Y, offset=OFFSET)
    with pytest.raises(
        ValueError, match="offset should be one column, or one for each of the 3 classes, not 2"
    ):
        model.predict(X, offset=OFFSET[:, :2])
    named = pd.DataFrame(OFFSET, columns=list("cab"))
    for refused in (
        lambda: LogisticRegression().fit(X, Y, offset=named),
        lambda: model.predict(X, named),
    ):
        with pytest.raises(
            ValueError, match=r"offset are \['c', 'a', 'b'\]: give them in the order"
        ):
            refused()
    other = LogisticRegression().fit(X, Y, offset=named.rename(columns={"c": "z"}))
    np.testing.assert_array_equal(other.coef_, model.coef_)
    first, second = (
        to_block(X, Y, offset=each, place=Place(), classify=True).facts
        for each in (OFFSET, OFFSET[:, 0])
    )
    with pytest.raises(ValueError, match="offset has 1 column.* in some partitions, 3 in others"):
        first.merge(second)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("d", [7, 600])
def test_sums_on_a_device_are_those_of_the_host(cupy, kind, d):
    rows, codes, weight, W, V = draw(321, d, kind=kind)
    offset = np.random.default_rng(3).standard_normal((321, 4))
    problem = Problem(find("multinomial").ref, classes=(0, 1, 2, 3))
    block = to_block(rows, codes, weight, offset, place=Place(), classify=True)
    host, device = (Shard([block], 1), Shard([block], 1, where=DeviceConfig("cuda", None)))
    asked = [
        Evaluate(W, 1, gram=d < 100),
        HessianVector(V, (1, W)),
        HessianVector(V, (2, W)),  # margins that are not cached
        EvaluateAlong(((1, W),), np.ones((1, 1)), np.zeros((1, 4))),
    ]
    dense = rows.toarray() if sp.issparse(rows) else rows
    z = np.column_stack([dense, np.ones(321)]) @ W.T + offset
    value = weight @ (np.log(np.exp(z).sum(axis=1)) - z[np.arange(321), codes])
    for request in asked:
        wanted, found = host.answer(problem, request), device.answer(problem, request)
        for name in wanted.keys() - {"rows"}:
            scale = np.abs(wanted[name]).max()
            of = np.triu if name == "grams" else np.asarray
            np.testing.assert_allclose(
                of(found[name]), of(wanted[name]), rtol=1e-9, atol=1e-10 * scale
            )
        if "value" in wanted:
            assert wanted["value"] == pytest.approx(value, rel=1e-12)
    assert host.answer(problem, asked[-1])["values"][0] == pytest.approx(value, rel=1e-12)
    plain = sums(rows, codes, weight, W, V)["value"]
    assert abs(value - plain) > 1.0
