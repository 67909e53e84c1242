"""Rows of X, y and weights belong together: columns of one frame, shuffles, partitions that differ, sources that change."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.core.facts import DataSummary
from daskglm.data.partitions import partitions
from daskglm.engines.placement import DataLost, check_same_rows
from tests.conftest import make_problem
from tests.covering import each_choice, first_by_default

X, y = make_problem(800, 5, seed=3)
NAMES = list("abcde")
WEIGHT = np.random.default_rng(0).uniform(0.5, 2.0, 800)
FRAME = pd.DataFrame(X, columns=NAMES).assign(label=y, mass=WEIGHT)
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # dask's, of pandas 3.1

COEF = daskglm.fit(X, y, sample_weight=WEIGHT, tol=1e-10).coef_


@pytest.fixture(params=["in process", "cluster"])
def place(request):
    """Whether a client is the current one."""
    if request.param == "cluster":
        request.getfixturevalue("client")
    return request.param


@pytest.fixture
def parquet(tmp_path):
    """Eight files, of which dask reads more together the fewer columns are asked for."""
    for i in range(8):
        FRAME[100 * i : 100 * i + 100].to_parquet(tmp_path / f"{i}.parquet")
    return dd.read_parquet(tmp_path)


def sources(parquet):
    frame = dd.from_pandas(FRAME, npartitions=8)
    by_label = FRAME.assign(by=FRAME["label"].astype(int) + 1)
    return {
        "parquet": parquet,
        "filtered": parquet[parquet["a"] > -1e9],
        "shuffle": frame.shuffle("a", npartitions=3),
        "shuffle of parquet": parquet.shuffle("a", npartitions=3),
        "set_index": parquet.set_index("a", drop=False),
        "set_index with ties": dd.from_pandas(by_label, npartitions=8).set_index(
            "by", npartitions=2
        ),
        "merge": parquet.merge(dd.from_pandas(FRAME[["a"]], npartitions=2), on="a"),
    }


@each_choice
@pytest.mark.parametrize(
    "name",
    first_by_default(
        [
            *("shuffle of parquet", "set_index with ties", "merge"),
            *("parquet", "filtered", "shuffle", "set_index"),
        ],
        3,
    ),
)
def test_columns_of_one_frame(place, parquet, name):
    frame = sources(parquet)[name]
    for label, mass in (
        (frame["label"], frame["mass"]),
        (frame[["label"]], "mass"),
        ("label", frame["mass"]),
    ):
        rows = frame[NAMES + [name for name in (label, mass) if isinstance(name, str)]]
        model = daskglm.fit(rows, label, sample_weight=mass, tol=1e-10)
        np.testing.assert_allclose(model.coef_, COEF, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_all_ways_to_fit_take_columns_of_one_frame(parquet):
    frame = dd.from_pandas(FRAME, npartitions=8).shuffle("a", npartitions=3)
    for source in (frame, parquet):
        path = daskglm.fit(
            source[NAMES], source["label"], sample_weight=source["mass"], C=[0.1, 1.0], tol=1e-10
        )
        np.testing.assert_allclose(path[1].coef_, COEF, rtol=1e-4, atol=1e-5)
        model = daskglm.LogisticRegressionCV(Cs=[0.1, 1.0], cv=2).fit(
            source[NAMES], source["label"]
        )
        assert model.score(FRAME[NAMES], y) > 0.8
    for source in (parquet, parquet[parquet["a"] > 0.0]):
        model = daskglm.fit(source[NAMES], source["label"], out_of_core=True)
        here = source.compute()
        np.testing.assert_allclose(
            model.coef_, daskglm.fit(here[NAMES], here["label"]).coef_, rtol=1e-2, atol=1e-3
        )


def test_arrays_of_one_frame_are_cut_alike(place, parquet):
    arrays = [parquet[name].to_dask_array() for name in (NAMES, "label", "mass")]
    assert len({array.npartitions for array in arrays}) > 1
    model = daskglm.fit(arrays[0], arrays[1], sample_weight=arrays[2], tol=1e-10)
    np.testing.assert_allclose(model.coef_, COEF, rtol=1e-4, atol=1e-5)
    mixed = daskglm.fit(
        arrays[0], parquet["label"], sample_weight=da.from_array(WEIGHT, chunks=77), tol=1e-10
    )
    np.testing.assert_allclose(mixed.coef_, COEF, rtol=1e-4, atol=1e-5)
    frame = daskglm.fit(parquet[NAMES], arrays[1], sample_weight=arrays[2], tol=1e-10)
    np.testing.assert_allclose(frame.coef_, COEF, rtol=1e-4, atol=1e-5)


def test_arrays_of_frames_that_are_shuffled_apart_are_refused(place):
    frame = dd.from_pandas(FRAME, npartitions=8).shuffle("a", npartitions=3)
    arrays = frame[NAMES].to_dask_array(), frame["label"].to_dask_array()
    with pytest.raises(ValueError, match="X and y come from shuffled dataframes"):
        daskglm.fit(*arrays)
    with pytest.raises(ValueError, match="X and y come from shuffled dataframes"):
        daskglm.fit(frame[NAMES], arrays[1])
    kept = frame.persist()
    model = daskglm.fit(
        kept[NAMES].to_dask_array(),
        kept["label"],
        sample_weight=kept["mass"].to_dask_array(),
        tol=1e-10,
    )
    np.testing.assert_allclose(model.coef_, COEF, rtol=1e-4, atol=1e-5)


def test_several_targets_that_are_shuffled_apart_are_refused():
    frame = dd.from_pandas(FRAME, npartitions=8).shuffle("a", npartitions=3)
    arrays = frame[NAMES].to_dask_array(), frame[["label", "mass"]].to_dask_array()
    with pytest.raises(ValueError, match="X and y come from shuffled dataframes"):
        daskglm.Ridge().fit(*arrays)


def test_a_source_is_read_once_for_x_and_y():
    calls = []

    def rows(i):
        calls.append(i)
        return np.c_[X, y][100 * i : 100 * i + 100]

    parts = [
        da.from_delayed(dask.delayed(rows, pure=False)(i), (100, 6), dtype=float) for i in range(8)
    ]
    both = da.concatenate(parts)
    model = daskglm.fit(both[:, :5], both[:, 5], tol=1e-10)
    np.testing.assert_allclose(
        model.coef_, daskglm.fit(X, y, tol=1e-10).coef_, rtol=1e-4, atol=1e-5
    )
    assert sorted(calls) == list(range(8))


def test_random_rows_of_one_frame_are_those_of_y():
    frame = dd.from_pandas(FRAME, npartitions=8)
    half = frame.map_partitions(lambda part: part.sample(frac=0.5), meta=FRAME)
    model = daskglm.fit(half[NAMES], half["label"])
    assert model.score(FRAME[NAMES], y) > 0.8


@pytest.mark.parametrize("index", ["shifted", "another order"])
def test_partitions_with_other_indexes_are_refused(place, index):
    frame = dd.from_pandas(FRAME, npartitions=4).clear_divisions()
    moved = FRAME.set_index(FRAME.index + 1) if index == "shifted" else FRAME
    other = dd.from_pandas(moved, npartitions=4).clear_divisions()
    if index == "another order":
        other = other.map_partitions(lambda part: part[::-1])
    for arguments in ({"y": other["label"]}, {"y": frame["label"], "sample_weight": other["mass"]}):
        name = "sample_weight" if len(arguments) > 1 else "y"
        with pytest.raises(
            ValueError,
            match=rf"the index of {name} is not that of X: partition \d, row 0 is \d+ in X",
        ):
            daskglm.fit(frame[NAMES], **arguments)


def test_shuffles_are_not_read_again_and_again(place):
    frame = dd.from_pandas(FRAME, npartitions=8).shuffle("a", npartitions=3)
    with pytest.raises(ValueError, match="out_of_core.*X comes from a shuffle"):
        daskglm.fit(frame[NAMES], frame["label"], out_of_core=True)


def test_rows_that_are_read_again_in_another_order_are_told():
    reads = []

    def unsteady(part):
        reads.append(1)
        return part.sample(frac=1.0)

    frame = dd.from_pandas(FRAME, npartitions=2).map_partitions(unsteady, meta=FRAME)
    for source in (
        (frame[NAMES], frame["label"]),
        ([p[NAMES] for p in frame.to_delayed()], [p["label"] for p in frame.to_delayed()]),
    ):
        with pytest.raises(ValueError, match="partition 0 has rows in another order"):
            daskglm.fit(*source, out_of_core=True)
    assert reads
    half = dd.from_pandas(FRAME, npartitions=2).map_partitions(
        lambda part: part.sample(frac=0.5), meta=FRAME
    )
    with pytest.raises(ValueError, match="partition 0 has other rows"):
        daskglm.fit(half[NAMES], half["label"], out_of_core=True)


def test_partitions_that_come_back_with_other_rows_are_told():
    blocks = partitions(
        *(dd.from_pandas(FRAME, npartitions=1)[name] for name in (NAMES, "label")), classify=True
    ).load()
    facts = blocks[0].facts
    assert facts.order
    turned = FRAME[::-1].reset_index(drop=True)
    back = partitions(
        *(dd.from_pandas(turned, npartitions=1)[name] for name in (NAMES, "label")), classify=True
    ).load()
    check_same_rows(facts, back[0].facts, ordered=False)
    with pytest.raises(DataLost, match="another order"):
        check_same_rows(facts, back[0].facts, ordered=True)
    with pytest.raises(DataLost, match="other rows"):
        check_same_rows(facts, DataSummary(n_rows=800), ordered=False)
