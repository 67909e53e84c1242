"""Predictions are written partition by partition; the file appears when it is complete."""

import numpy as np
import pandas as pd
import pytest

import daskglm
from daskglm.estimators.prediction_file import write_predictions
from tests.conftest import make_problem

X, y = make_problem(60, 3)
LABELS = np.where(y > 0, "yes", "no")
MODEL = daskglm.LogisticRegression().fit(X, LABELS)


def parts(targets=True):
    for low, high in ((0, 20), (20, 20), (20, 60)):
        yield X[low:high], LABELS[low:high] if targets else None


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
    without = write_predictions(tmp_path / "a.csv", model, [(frame, counts)], "predict")
    assert without == f"no score: the model was fitted with an {name}, which is not given"
    beside = {name: name}
    score = write_predictions(tmp_path / "b.csv", model, [(frame, counts)], "predict", beside)
    assert score == f"D2 {model.score(frame, counts, **beside):.6g} (60 rows)"
    assert (tmp_path / "a.csv").read_text() != (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_error_amid_the_rows_leaves_the_old_file(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    path.write_text("old\n")

    def failing():
        yield X[:20], None
        raise ValueError("bad partition")

    with pytest.raises(ValueError, match="bad partition"):
        write_predictions(path, MODEL, failing(), "predict")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]
