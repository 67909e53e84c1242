"""Predictions are written partition by partition; the file appears when it is complete."""

import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.estimators.prediction_file import Part, write_predictions
from tests.conftest import make_problem

X, y = make_problem(60, 3)
LABELS = np.where(y > 0, "yes", "no")
MODEL = daskglm.LogisticRegression().fit(X, LABELS)


def parts(targets=True):
    for low, high in ((0, 20), (20, 20), (20, 60)):
        yield Part(X[low:high], LABELS[low:high] if targets else None)


def test_predictions_and_score(tmp_path):
    score = write_predictions(tmp_path / "out.csv", MODEL, parts(), "predict")
    found = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_array_equal(found["prediction"], MODEL.predict(X))
    assert f"{MODEL.score(X, LABELS):.4g}"[:5] in score


@pytest.mark.parametrize(
    ("method", "columns"),
    [("predict_proba", ["no", "yes"]), ("decision_function", ["decision"])],
)
def test_values_of_classes(tmp_path, method, columns):
    assert write_predictions(tmp_path / "out.csv", MODEL, parts(targets=False), method) == ""
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found.columns) == columns
    np.testing.assert_allclose(found.to_numpy().squeeze(), getattr(MODEL, method)(X), rtol=1e-12)


@pytest.mark.parametrize("ending", ["parquet", "PQ", "pq"])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_parquet_where_the_name_says_so(tmp_path, method, ending):
    for end in ("csv", ending):
        write_predictions(tmp_path / f"out.{end}", MODEL, parts(), method)
    found = pd.read_parquet(tmp_path / f"out.{ending}")
    pd.testing.assert_frame_equal(found, pd.read_csv(tmp_path / "out.csv"), check_dtype=False)
    np.testing.assert_array_equal(found.to_numpy().squeeze(), getattr(MODEL, method)(X))
    assert len(list(tmp_path.iterdir())) == 2


def test_parquet_of_no_rows_has_the_columns(tmp_path):
    write_predictions(tmp_path / "out.parquet", MODEL, iter(()), "predict_proba")
    assert list(pd.read_parquet(tmp_path / "out.parquet").columns) == ["no", "yes"]


@pytest.mark.parametrize("name", ["out", "out.txt", "out.xlsx", "out.csv.gz", "out.json", ".csv"])
def test_names_of_no_format_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"path=.*end in .csv, .parquet, .pq"):
        write_predictions(tmp_path / name, MODEL, parts(), "predict")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["offset", "exposure"])
def test_no_score_without_the_exposure_of_the_fit(tmp_path, name):
    frame, counts = pd.DataFrame(X, columns=list("abc")), np.arange(60) % 5
    frame[name] = np.linspace(0.5, 2.0, 60)
    model = daskglm.PoissonRegressor().fit(frame, counts, **{name: name})
    rows = frame.drop(columns=name)
    without = write_predictions(tmp_path / "a.csv", model, [Part(rows, counts)], "predict")
    assert without == f"no score: the model was fitted with an {name}, which is not given"
    beside = {name: name}
    score = write_predictions(tmp_path / "b.csv", model, [Part(frame, counts)], "predict", beside)
    assert score == f"D2 {model.score(frame, counts, **beside):.6g} (60 rows)"
    assert (tmp_path / "a.csv").read_text() != (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_error_amid_the_rows_leaves_the_old_file(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    path.write_text("old\n")

    def failing():
        yield Part(X[:20])
        raise ValueError("bad partition")

    with pytest.raises(ValueError, match="bad partition"):
        write_predictions(path, MODEL, failing(), "predict")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_identifiers_come_first_with_their_types(tmp_path):
    ids = pd.DataFrame({"n": np.arange(60) + 7, "t": [f"0{i}" for i in range(60)]})

    def given():
        for part in (slice(0, 20), slice(20, 60)):
            yield Part(X[part], ids=ids[part].reset_index(drop=True))

    for end in ("csv", "parquet"):
        out = tmp_path / f"out.{end}"
        assert write_predictions(out, MODEL, given(), "predict", ids=ids[:0]) == ""
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found.columns) == ["n", "t", "prediction"]
    assert found["n"].dtype == np.int64
    pd.testing.assert_frame_equal(found[["n", "t"]], ids)
    as_text = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert as_text["t"].tolist() == ids["t"].tolist()
    assert as_text["prediction"].tolist() == found["prediction"].tolist()

    out = tmp_path / "empty.parquet"
    write_predictions(out, MODEL, iter(()), "predict", ids=ids[:0])
    empty = pd.read_parquet(out)
    assert list(empty.columns) == ["n", "t", "prediction"]
    assert empty["n"].dtype == np.int64


def test_identifiers_that_cannot_be_written_are_refused(tmp_path):
    ids = pd.DataFrame({"prediction": np.arange(60)})
    with pytest.raises(ValueError, match="'prediction' is an identifier, and the name"):
        write_predictions(tmp_path / "out.csv", MODEL, iter(()), "predict", ids=ids)

    def changing():
        for k in ([1, 2], [1.5, 2.5]):
            yield Part(X[:2], ids=pd.DataFrame({"k": k}), where="b.parquet: ")

    with pytest.raises(ValueError, match=r"b.parquet: columns change their type: 'k' from int64"):
        write_predictions(tmp_path / "o.pq", MODEL, changing(), "predict", ids=ids[:0][[]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["LogisticRegression", "Ridge"])
def test_scores_are_weighted(name, tmp_path):
    frame, targets = pd.DataFrame(X, columns=list("abc")), LABELS if name[0] == "L" else y
    model = getattr(daskglm, name)().fit(frame, targets)
    weights = np.arange(60) % 4
    rows = frame.assign(w=weights)
    given = [Part(rows[k : k + 20], targets[k : k + 20]) for k in (0, 20, 40)]
    beside = {"sample_weight": "w"}
    score = write_predictions(tmp_path / "out.csv", model, given, "predict", beside)
    wanted = model.score(frame, targets, weights)
    assert f"{wanted:.6g} (60 rows, weighted by w)" in score
    rows["w"] = -1.0
    with pytest.raises(ValueError, match="sample_weight is negative"):
        write_predictions(tmp_path / "out.csv", model, [Part(rows, targets)], "predict", beside)
