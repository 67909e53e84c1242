"""The command line with families: `--family`, `--offset` and `--exposure`."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

import daskglm
from daskglm.estimators.persistence import load
from tests.glm import NAMES, sample
from tests.test_cli import read, run, small_threads  # noqa: F401

X, y, _, OFFSET = sample()
EXPOSURE = np.random.default_rng(5).uniform(0.5, 3.0, len(y))
FRAME = pd.DataFrame(X, columns=NAMES).assign(o=OFFSET, y=y, e=EXPOSURE)
FAMILY = ("--family", "poisson", "--alpha", 0.1, "--tol", 1e-12, "--no-progress")


@pytest.fixture(params=["csv", "parquet"])
def data(request, tmp_path):
    path = tmp_path / f"data.{request.param}"
    if request.param == "csv":
        FRAME.to_csv(path, index=False)
    else:
        FRAME.to_parquet(path)
    return path


def test_fit_predict_and_info_with_offset_and_exposure(data, tmp_path):
    model, out = tmp_path / "model.json", tmp_path / "out.csv"
    beside = ("--offset", "o", "--exposure", "e")
    done = run("fit", data, *FAMILY, "--label", "y", *beside, "--out", model)
    assert "null deviance" in done.output
    wanted = daskglm.PoissonRegressor(alpha=0.1, tol=1e-12)
    wanted.fit(FRAME[NAMES], y, offset=OFFSET, exposure=EXPOSURE)
    found = load(model)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-6)
    assert found.feature_names_in_.tolist() == NAMES

    done = run("predict", model, data, "--label", "y", *beside, "--out", out)
    header, rows = read(out)
    assert header == ["prediction"]
    means = wanted.predict(FRAME[NAMES], OFFSET, EXPOSURE)
    np.testing.assert_allclose([float(row[0]) for row in rows], means, rtol=1e-6)
    score = wanted.score(FRAME[NAMES], y, offset=OFFSET, exposure=EXPOSURE)
    assert f"D2 {score:.6g} (300 rows)" in done.output
    about = run("info", model).output
    assert "poisson" in about
    assert "alpha" in about


def test_the_label_is_the_last_column_that_is_not_named(tmp_path):
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    run(
        *("fit", tmp_path / "data.csv", *FAMILY, "--offset", "o", "--exposure", "e"),
        *("--dtype", "float32", "--out", tmp_path / "m.json"),
    )
    assert load(tmp_path / "m.json").feature_names_in_.tolist() == NAMES


def test_estimated_parameters_and_links(tmp_path):
    rows, target, _, _ = sample("tweedie(1.5)")
    frame = pd.DataFrame(rows, columns=NAMES).assign(y=target)
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "m.json"
    run("fit", tmp_path / "data.csv", "--family", "tweedie(estimate)", "--out", out)
    assert 1.2 < load(out).power_ < 1.8
    run("fit", tmp_path / "data.csv", "--family", "poisson", "--link", "sqrt", "--out", out)
    assert load(out).link == "sqrt"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--family", "poisson", "--C", "2"), "--C has no meaning with --family"),
        (("--family", "poisson", "--loss", "squared"), "--loss has no meaning with --family"),
        (("--family", "poisson", "--class-weight", "balanced"), "--class-weight has no meaning"),
        (("--alpha", "1"), "--alpha needs --family"),
        (("--link", "log"), "--link needs --family"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(options, message, tmp_path):
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", *options, "--out", tmp_path / "m.json", code=2)
    assert message in done.output


def test_what_the_data_do_not_have_is_named(tmp_path):
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    dump_svmlight_file(X, y, str(tmp_path / "data.svm"))
    out = ("--out", tmp_path / "m.json")
    wrong = (
        ("data.csv", ("--offset", "missing"), 1, "no column 'missing'"),
        ("data.svm", ("--offset", "o"), 2, "--offset names a column, of CSV or Parquet data"),
        ("data.csv", ("--family", "poissson"), 1, "family='poissson'"),
        ("data.csv", ("--alpha", "-1"), 1, "alpha=-1.0"),
        ("data.csv", ("--link", "cube"), 1, "link of family"),
    )
    for name, options, code, message in wrong:
        done = run("fit", tmp_path / name, "--family", "poisson", *options, *out, code=code)
        assert message in done.output, options
    run("fit", tmp_path / "data.csv", *FAMILY, "--offset", "o", "--exposure", "e", *out)
    # the columns of the fit are used again
    predict = ("predict", tmp_path / "m.json", tmp_path / "data.csv", "--label", "y")
    done = run(*predict, "--out", tmp_path / "p.csv")
    named = run(*predict, "--offset", "o", "--exposure", "e", "--out", tmp_path / "q.csv")
    assert done.output == named.output
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "q.csv").read_text()
    FRAME.drop(columns="o").to_csv(tmp_path / "data.csv", index=False)
    done = run(*predict, "--out", tmp_path / "p.csv")
    assert "no score: the model was fitted with an offset, which is not given" in done.output


def test_penalties_are_parameters_of_the_model(tmp_path):
    FRAME.assign(**{"x=1": 0.5 * FRAME[NAMES[0]]}).to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "m.json"
    given = (
        *("--l1-ratio", "0.5", "--standardize"),
        *("--penalty-factor", f"{NAMES[1]}=0", "--penalty-factor", "x=1=2.5"),
        *("--lower-bounds", f"{NAMES[0]}=-inf", "--upper-bounds", f"{NAMES[0]}=1e1"),
    )
    beside = ("--offset", "o", "--exposure", "e", "--label", "y")
    run("fit", tmp_path / "data.csv", *FAMILY, *given, *beside, "--out", out)
    model = load(out)
    assert (model.l1_ratio, model.standardize, model.positive) == (0.5, True, False)
    assert model.penalty_factor == {NAMES[1]: 0.0, "x=1": 2.5}
    assert model.lower_bounds == {NAMES[0]: -np.inf}
    assert model.upper_bounds == {NAMES[0]: 10.0}

    run("fit", tmp_path / "data.csv", "--loss", "squared", "--positive", "--out", out)
    assert load(out).positive is True
    assert load(out).penalty_factor is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--penalty-factor", "a"), "'a' is not NAME=VALUE with a number"),
        (("--penalty-factor", "=1"), "'=1' is not NAME=VALUE"),
        (("--lower-bounds", "a=low"), "'a=low' is not NAME=VALUE"),
        (("--upper-bounds", "a=1", "--upper-bounds", "a=2"), "'a' is given twice"),
        (("--l1-ratio", "1.5"), "1.5 is not in the range"),
        (("--penalty-factor", "a=1", "--format", "svmlight"), "--penalty-factor names a column"),
    ],
)
def test_wrong_penalties_are_wrong_usage(options, message, tmp_path):
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", *options, "--out", tmp_path / "m.json", code=2)
    assert message in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--penalty-factor", "a=-1"), "penalty_factor: 'a' has -1.0; give a number not below 0"),
        (("--lower-bounds", "a=2", "--upper-bounds", "a=1"), "lower_bounds has 2 for feature 'a'"),
        (("--positive", "--lower-bounds", "a=2"), "positive=True and lower_bounds="),
        (("--l1-ratio", "1", "--solver", "tron"), "solver='tron' takes no L1 penalty"),
    ],
)
def test_wrong_values_of_penalties_are_errors(options, message, tmp_path):
    FRAME.to_csv(tmp_path / "data.csv", index=False)
    done = run("fit", tmp_path / "data.csv", *options, "--out", tmp_path / "m.json", code=1)
    assert message in done.output
