"""`score` takes and refuses what `fit` does, for every kind of data, in process and on a cluster."""

import asyncio

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, r2_score

import daskglm
from tests.conftest import make_problem
from tests.covering import each_choice

X, LABELS = make_problem(400, 4, seed=5)
NUMBERS = X @ [1.0, -2.0, 0.5, 3.0] + 1e3 + np.random.default_rng(1).standard_normal(400)
WEIGHT = np.random.default_rng(0).uniform(0.1, 2.0, 400)
NAMES = list("abcd")
MODELS = {
    "logistic": (daskglm.LogisticRegression(), LABELS),
    "svm": (daskglm.LinearSVC(), np.where(LABELS > 0, "yes", "no")),
    "three": (daskglm.LogisticRegression(), np.digitize(X[:, 0], [-0.5, 0.5])),
    "ridge": (daskglm.Ridge(), NUMBERS),
}


@pytest.fixture(params=["in process", "cluster"])
def place(request):
    """Whether a client is the current one."""
    if request.param == "cluster":
        request.getfixturevalue("client")
    return request.param


def containers(y):
    frame = pd.DataFrame(X, columns=NAMES).assign(y=y, w=WEIGHT)
    lazy = dd.from_pandas(frame, npartitions=4)
    rows = da.from_array(X, chunks=(100, 2))
    unknown = lazy[NAMES].to_dask_array()
    column, mass = da.from_array(y[:, None], chunks=77), da.from_array(WEIGHT[:, None], chunks=50)
    cuts = [slice(0, 100), slice(100, 400)]
    return {
        "arrays": (X, y, WEIGHT),
        "lists": (X.tolist(), y.tolist(), WEIGHT.tolist()),
        "sparse": (sp.csc_matrix(X), y, WEIGHT),
        "frame": (frame[NAMES], frame["y"], frame["w"]),
        "names of columns": (frame, "y", "w"),
        "dask array": (rows, column, mass),
        "dask array, others in memory": (rows, frame["y"], WEIGHT),
        "dask array of unknown lengths": (unknown, lazy["y"], mass[:, 0].rechunk(100)),
        "dask array of CSR": (
            da.from_array(X, chunks=(100, 4)).map_blocks(sp.csr_matrix, dtype=float),
            y,
            WEIGHT,
        ),
        "dask frame": (lazy[NAMES], lazy["y"], lazy["w"]),
        "dask frame, names of columns": (lazy, "y", "w"),
        "dask frame, frames of one column": (lazy[NAMES], lazy[["y"]], lazy[["w"]]),
        "delayed": tuple([dask.delayed(values[cut]) for cut in cuts] for values in (X, y, WEIGHT)),
        "shuffled": tuple(lazy.shuffle("a", npartitions=3)[name] for name in (NAMES, "y", "w")),
    }


@each_choice
@pytest.mark.parametrize("name", list(MODELS))
def test_every_container_scores_alike(place, name):
    model, y = MODELS[name]
    plain = model.fit(X, y).score(X, y)
    exact = r2_score if name == "ridge" else accuracy_score
    assert plain == pytest.approx(exact(y, model.predict(X)), rel=1e-12)
    wanted = exact(y, model.predict(X), sample_weight=WEIGHT)
    named = daskglm.LinearSVC() if name == "svm" else type(model)()
    named.fit(pd.DataFrame(X, columns=NAMES), y)
    given = containers(y)
    if place == "cluster":  # what differs there is how partitions come together
        given = {
            kind: given[kind]
            for kind in ("arrays", "dask array", "dask frame", "delayed", "shuffled")
        }
    for kind, (rows, values, weight) in given.items():
        judge = named if "frame" in kind or "names" in kind or kind == "shuffled" else model
        assert judge.score(rows, values, sample_weight=weight) == pytest.approx(wanted, rel=1e-9), (
            kind
        )
        rows = rows.drop(columns="w") if isinstance(weight, str) else rows
        assert judge.score(rows, values) == pytest.approx(plain, rel=1e-9), kind


def spoilt(values, value):
    bad = values.astype(float)
    bad[7] = value
    return bad


BAD = {
    "NaN targets": (lambda y: {"y": spoilt(y, np.nan)}, "y contains NaN"),
    "infinite targets": (lambda y: {"y": spoilt(y, np.inf)}, "y contains infinity"),
    "NaN weights": (
        lambda y: {"sample_weight": spoilt(WEIGHT, np.nan)},
        "sample_weight contains NaN",
    ),
    "negative weights": (
        lambda y: {"sample_weight": spoilt(WEIGHT, -1.0)},
        "sample_weight is negative",
    ),
    "no weight": (
        lambda y: {"sample_weight": np.zeros(400)},
        "all sample weights are zero|must contain at least one non-zero",
    ),
    "lengths": (lambda y: {"y": y[:-1]}, "inconsistent numbers of samples"),
    "lengths of weights": (
        lambda y: {"sample_weight": WEIGHT[:-1]},
        "inconsistent numbers|sample_weight.shape",
    ),
    "two columns": (lambda y: {"y": np.c_[y, y]}, "1d array"),
    "a name without columns": (lambda y: {"y": "label"}, "y='label' would name a column"),
    "no targets": (lambda y: {"y": None}, "requires y to be passed"),
    "fewer features": (lambda y: {"X": X[:, :3]}, "X has 3 features"),
    "NaN rows": (lambda y: {"X": np.where(X[5, 2] == X, np.nan, X)}, "X contains NaN.*column 2"),
    "no rows": (lambda y: {"X": X[:0], "y": y[:0]}, "no rows|0 sample"),
}


@each_choice
@pytest.mark.parametrize("case", list(BAD))
@pytest.mark.parametrize("name", ["logistic", "ridge"])
def test_what_fit_refuses_is_refused(name, case):
    model, y = MODELS[name]
    model.fit(X, y)
    change, message = BAD[case]
    given = {"X": X, "y": y, **change(y)}
    lazy = {
        key: da.from_array(value, chunks=(100, *value.shape[1:]))
        if isinstance(value, np.ndarray)
        else value
        for key, value in given.items()
    }
    for data in (given, lazy):
        with pytest.raises(
            (ValueError, TypeError),
            match=message.replace("sample_weight contains NaN", "(?i)sample.weight.*contains NaN"),
        ):
            model.score(**data)


def test_strings_against_numbers_are_refused_and_new_labels_are_wrong():
    model = daskglm.LogisticRegression().fit(X, LABELS)
    words = np.where(LABELS > 0, "1.0", "-1.0")
    for rows, y in (
        (X, words),
        (da.from_array(X, chunks=(100, 4)), da.from_array(words, chunks=100)),
    ):
        with pytest.raises(ValueError, match=r"label '-?1.0'.*labels such as -1.0"):
            model.score(rows, y)
    other = np.where(np.arange(400) < 100, 7.0, LABELS)
    assert model.score(X, other) == accuracy_score(other, model.predict(X))
    assert model.score(X[:3], LABELS[:3].astype(int)) == accuracy_score(
        LABELS[:3], model.predict(X[:3])
    )


def test_names_of_features_are_checked():
    frame = pd.DataFrame(X, columns=NAMES).assign(y=LABELS)
    model = daskglm.LogisticRegression().fit(frame, "y")
    for data in (frame, dd.from_pandas(frame, npartitions=2)):
        with pytest.raises(ValueError, match="feature names"):
            model.score(data.rename(columns={"b": "z"}), "y")
        with pytest.raises(ValueError, match="no column 'label'"):
            model.score(data, "label")


def test_constant_targets_single_rows_and_several_targets():
    model = daskglm.Ridge().fit(X, NUMBERS)
    assert model.score(X, np.full(400, 3.0)) == r2_score(np.full(400, 3.0), model.predict(X)) == 0.0
    with pytest.warns(UndefinedMetricWarning):
        assert np.isnan(model.score(X[:1], NUMBERS[:1]))
    Y = np.c_[NUMBERS, -NUMBERS, X[:, 0]]
    several = daskglm.Ridge().fit(X, Y)
    wanted = r2_score(Y, several.predict(X))
    assert several.score(X, Y) == pytest.approx(wanted)
    assert several.score(
        da.from_array(X, chunks=(100, 4)), da.from_array(Y, chunks=(100, 2))
    ) == pytest.approx(wanted)
    with pytest.raises(ValueError, match="fitted to 3 targets"):
        several.score(X, NUMBERS)


def test_partitions_are_scored_where_they_are_and_asynchronous_clients_get_an_awaitable(_cluster):
    from distributed import Client

    model = daskglm.LogisticRegression().fit(X, LABELS)

    async def score():
        async with Client(_cluster.scheduler_address, asynchronous=True):
            return await model.score(
                da.from_array(X, chunks=(100, 4)), da.from_array(LABELS, chunks=100)
            )

    assert asyncio.run(score()) == model.score(X, LABELS)


def test_cross_validated_models_score_by_accuracy(place):
    model = daskglm.LogisticRegressionCV(Cs=[0.1, 1.0], cv=2).fit(X, LABELS)
    wanted = accuracy_score(LABELS, model.predict(X))
    assert model.score(X, LABELS) == pytest.approx(wanted)
    assert model.score(da.from_array(X, chunks=(100, 4)), LABELS[:, None]) == pytest.approx(wanted)
