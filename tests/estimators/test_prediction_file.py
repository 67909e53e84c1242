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


def test_an_error_amid_the_rows_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old\n")

    def failing():
        yield X[:20], None
        raise ValueError("bad partition")

    with pytest.raises(ValueError, match="bad partition"):
        write_predictions(path, MODEL, failing(), "predict")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]
